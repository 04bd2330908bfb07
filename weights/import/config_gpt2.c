#include "weights/import/config_gpt2.h"

#include "base/err.h"
#include "model/attention/kind.h"

/* Keys of other networks than ours, which `wanted` alone makes the same. */
static void check_standard(JsonReader *r) {
    static const struct {
        const char *key;
        bool wanted;
    } keys[] = {{"scale_attn_weights", true},
                {"scale_attn_by_inverse_layer_idx", false},
                {"reorder_and_upcast_attn", false},
                {"add_cross_attention", false}};
    for (size_t i = 0; i < COUNTOF(keys); i++)
        if (json_take_bool(r, keys[i].key, keys[i].wanted) != keys[i].wanted)
            json_reader_fail(r, "%s is %s, must be %s", keys[i].key, keys[i].wanted ? "false" : "true",
                             keys[i].wanted ? "true" : "false");
}

/* Three of transformers' names are one function. */
static Activation take_activation(JsonReader *r) {
    static const char *const names[] = {"gelu_new", "gelu_pytorch_tanh", "gelu", "silu", "relu"};
    static const Activation same[] = {ACT_GELU_TANH, ACT_GELU_TANH, ACT_GELU, ACT_SILU, ACT_RELU};
    return same[json_take_name(r, "activation_function", names, COUNTOF(names), 0)];
}

void config_gpt2_read(Config *c, JsonReader *r) {
    enum { END_OF_TEXT = 50256 };
    c->vocab_size = json_take_int(r, "vocab_size", JSON_REQUIRED);
    c->hidden_size = json_take_positive(r, "n_embd", JSON_REQUIRED);
    c->n_layers = json_take_int(r, "n_layer", JSON_REQUIRED);
    c->n_heads = c->n_kv_heads = json_take_positive(r, "n_head", JSON_REQUIRED);
    c->max_positions = json_take_int(r, "n_positions", JSON_REQUIRED);
    c->head_dim = c->hidden_size / c->n_heads;
    if (c->hidden_size % c->n_heads)
        json_reader_fail(r, "n_embd %d is not a multiple of n_head %d", c->hidden_size, c->n_heads);
    c->mlp.width = json_take_positive(r, "n_inner", 0);
    if (c->mlp.width == 0 && c->hidden_size <= INT_MAX / 4) c->mlp.width = 4 * c->hidden_size;
    c->mlp.activation = take_activation(r);
    c->norm = NORM_LAYER;
    c->norm_eps = (float)json_take_number(r, "layer_norm_epsilon", 1e-5);
    c->position = POSITION_LEARNED;
    c->rope_theta = 10000;
    c->bias = true;
    c->tie_embeddings = json_take_bool(r, "tie_word_embeddings", true);
    c->attention.kind = attention_kind_find("mha");
    check_standard(r);
    c->bos_token_id = c->eos_token_id = c->vocab_size > END_OF_TEXT ? END_OF_TEXT : -1;
}
