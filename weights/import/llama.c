#include "weights/import/llama.h"

#include "base/err.h"
#include "base/json/json_reader.h"
#include "model/kind.h"

#include <math.h>

static void check_whole(JsonReader *r) {
    double part = json_take_number(r, "partial_rotary_factor", 1);
    if (part != 1) json_reader_fail(r, "partial_rotary_factor is %g, must be 1", part);
}

/* "rope_type" is "type" in older files. A theta inside is transformers 5's place for it. */
void rope_scaling_read(Config *c, JsonReader *r, const char *key) {
    JsonReader rope;
    if (!json_reader_enter(r, &rope, key)) return;
    const char *type = !json_is_null(json_field(rope.object, "rope_type")) || !r->foreign ? "rope_type" : "type";
    c->rope_scaling.kind = (RopeScaling)json_take_name(&rope, type, rope_scaling_names, COUNTOF(rope_scaling_names),
                                                       r->foreign ? ROPE_DEFAULT : JSON_REQUIRED);
    if (c->rope_scaling.kind != ROPE_DEFAULT) c->rope_scaling.factor = (float)json_take_number(&rope, "factor", NAN);
    if (c->rope_scaling.kind == ROPE_LLAMA3) {
        c->rope_scaling.low_freq_factor = (float)json_take_number(&rope, "low_freq_factor", NAN);
        c->rope_scaling.high_freq_factor = (float)json_take_number(&rope, "high_freq_factor", NAN);
        c->rope_scaling.original_positions = json_take_int(&rope, "original_max_position_embeddings", JSON_REQUIRED);
    }
    if (r->foreign) {
        check_whole(&rope);
        c->rope_theta = (float)json_take_number(&rope, "rope_theta", (double)c->rope_theta);
    }
    json_reader_leave(r, &rope);
}

static void read_rope(Config *c, JsonReader *r) {
    c->position = POSITION_ROPE;
    c->rope_theta = (float)json_take_number(r, "rope_theta", 10000);
    rope_scaling_read(c, r, "rope_scaling");
    rope_scaling_read(c, r, "rope_parameters");
    check_whole(r);
}

/* What all have but for biases and windows: gqa, rope, rmsnorm, a gated mlp with silu. */
static void read_common(Config *c, JsonReader *r) {
    static const char *const activations[] = {"silu"};
    c->mlp.width = json_take_int(r, "intermediate_size", JSON_REQUIRED);
    c->mlp.gated = true;
    json_take_name(r, "hidden_act", activations, COUNTOF(activations), 0);
    c->mlp.activation = ACT_SILU;
    c->norm = NORM_RMS;
    c->norm_eps = (float)json_take_number(r, "rms_norm_eps", 1e-6);
    read_rope(c, r);
    c->tie_embeddings = json_take_bool(r, "tie_word_embeddings", false);
    c->attention.kind = attention_kind_find("gqa");
    c->bos_token_id = 1;
    c->eos_token_id = 2;
}

void llama_config_read(Config *c, JsonReader *r) {
    read_common(c, r);
    bool attention = json_take_bool(r, "attention_bias", false), mlp = json_take_bool(r, "mlp_bias", false);
    if (mlp && !attention)
        json_reader_fail(r, "mlp_bias is true, but attention_bias is false: only both, none or attention_bias alone");
    c->bias = mlp ? BIAS_ALL : attention ? BIAS_ATTENTION : BIAS_NONE;
}

void mistral_config_read(Config *c, JsonReader *r) {
    read_common(c, r);
    bool none = cJSON_IsNull(json_field(r->object, "sliding_window"));
    c->sliding_window = none ? 0 : json_take_positive(r, "sliding_window", 4096);
}

/* Layers from max_window_layers on have the window, if use_sliding_window says so at all. */
static void read_window(Config *c, JsonReader *r) {
    bool null = cJSON_IsNull(json_field(r->object, "sliding_window"));
    int window = null ? 0 : json_take_positive(r, "sliding_window", 4096);
    int full = json_take_int(r, "max_window_layers", 28);
    const cJSON *types = json_take(r, "layer_types"), *type; /* of every layer; goes before max_window_layers */
    int with = 0, n = cJSON_GetArraySize(types);
    cJSON_ArrayForEach(type, types) {
        bool windowed = json_is_text(type, "sliding_attention");
        if (!windowed && !json_is_text(type, "full_attention"))
            json_reader_fail(r, "layer_types holds %s, must be full_attention or sliding_attention",
                             show_json(type).text);
        with += windowed;
    }
    if (types) full = n - with;
    if (types && n != c->n_layers) json_reader_fail(r, "layer_types has %d elements for %d layers", n, c->n_layers);
    if (!json_take_bool(r, "use_sliding_window", false) || full >= c->n_layers) return;
    if (full > 0 && types)
        json_reader_fail(r, "layer_types has the window on %d of %d layers, only none or all are supported", with, n);
    if (full > 0 && !types)
        json_reader_fail(r, "max_window_layers is %d of %d layers, only none or all with the window are supported",
                         full, c->n_layers);
    c->sliding_window = window;
}

void qwen2_config_read(Config *c, JsonReader *r) {
    read_common(c, r);
    c->bias = BIAS_QKV;
    read_window(c, r);
}

void qwen3_config_read(Config *c, JsonReader *r) {
    read_common(c, r);
    c->bias = json_take_bool(r, "attention_bias", false) ? BIAS_ATTENTION : BIAS_NONE;
    c->qk_norm = true;
    read_window(c, r);
}
