#include "weights/import/llama.h"

#include "base/err.h"
#include "model/attention/kind.h"

/* "rope_type" ("type" in older files) must be "default" where it stands. */
static void check_rope_type(JsonReader *r, const char *key, const char *path, float *theta) {
    static const char *const types[] = {"default"};
    JsonReader rope;
    if (!json_reader_enter(r, &rope, key, path)) return;
    json_take_name(&rope, "rope_type", types, COUNTOF(types), 0);
    json_take_name(&rope, "type", types, COUNTOF(types), 0);
    *theta = (float)json_take_number(&rope, "rope_theta", *theta);
    json_reader_leave(r, &rope);
}

static void read_rope(Config *c, JsonReader *r) {
    c->position = POSITION_ROPE;
    c->rope_theta = (float)json_take_number(r, "rope_theta", 10000);
    check_rope_type(r, "rope_scaling", "rope_scaling.", &c->rope_theta);
    check_rope_type(r, "rope_parameters", "rope_parameters.", &c->rope_theta);
    double part = json_take_number(r, "partial_rotary_factor", 1);
    if (part != 1) json_reader_fail(r, "partial_rotary_factor is %g, must be 1", part);
}

static void read_bias(Config *c, JsonReader *r) {
    bool mlp = json_take_bool(r, "mlp_bias", false);
    c->bias = json_take_bool(r, "attention_bias", false);
    if (c->bias != mlp)
        json_reader_fail(r, "attention_bias is %s, but mlp_bias is %s: they must be equal", c->bias ? "true" : "false",
                         mlp ? "true" : "false");
}

void llama_config_read(Config *c, JsonReader *r) {
    static const char *const activations[] = {"silu"};
    c->mlp.width = json_take_int(r, "intermediate_size", JSON_REQUIRED);
    c->mlp.gated = true;
    json_take_name(r, "hidden_act", activations, COUNTOF(activations), 0);
    c->mlp.activation = ACT_SILU;
    c->norm = NORM_RMS;
    c->norm_eps = (float)json_take_number(r, "rms_norm_eps", 1e-6);
    read_rope(c, r);
    read_bias(c, r);
    c->tie_embeddings = json_take_bool(r, "tie_word_embeddings", false);
    c->attention.kind = attention_kind_find("gqa");
    c->bos_token_id = 1;
    c->eos_token_id = 2;
}
