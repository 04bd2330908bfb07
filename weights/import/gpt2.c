#include "weights/import/gpt2.h"

#include "base/err.h"
#include "base/memory.h"
#include "base/text.h"
#include "model/kind.h"

#include <stdlib.h>
#include <string.h>

/* ---- config.json ---- */

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

void gpt2_config_read(Config *c, JsonReader *r) {
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
    c->bias = BIAS_ALL;
    c->tie_embeddings = json_take_bool(r, "tie_word_embeddings", true);
    c->attention.kind = attention_kind_find("mha");
    check_standard(r);
    c->bos_token_id = c->eos_token_id = c->vocab_size > END_OF_TEXT ? END_OF_TEXT : -1;
}

/* ---- tensors ---- */

enum { NAME_BYTES = 320, PARTS_MAX = 3 };

typedef struct Rule {
    const char *theirs, *ours[PARTS_MAX];
    bool in_layer, is_conv1d;
} Rule;

static const Rule rules[] = {
    {.theirs = "wte", .ours = {"embed_tokens"}},
    {.theirs = "wpe", .ours = {"embed_positions"}},
    {.theirs = "ln_f", .ours = {"norm"}},
    {.theirs = "ln_1", .ours = {"input_layernorm"}, .in_layer = true},
    {.theirs = "ln_2", .ours = {"post_attention_layernorm"}, .in_layer = true},
    {.theirs = "attn.c_attn",
     .ours = {"self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj"},
     .in_layer = true,
     .is_conv1d = true},
    {.theirs = "attn.c_proj", .ours = {"self_attn.o_proj"}, .in_layer = true, .is_conv1d = true},
    {.theirs = "mlp.c_fc", .ours = {"mlp.up_proj"}, .in_layer = true, .is_conv1d = true},
    {.theirs = "mlp.c_proj", .ours = {"mlp.down_proj"}, .in_layer = true, .is_conv1d = true},
};

/* A name taken apart: "h.3.mlp.c_fc.weight" is layer "3", module "mlp.c_fc" and leaf "weight". */
typedef struct Name {
    const char *layer, *module, *leaf;
    int layer_length, module_length; /* layer_length 0: in no layer */
} Name;

static Name take_apart(const char *name, const char *prefix) {
    Name n = {.module = name};
    if (text_begins(name, prefix)) n.module += strlen(prefix);
    size_t digits = strncmp(n.module, "h.", 2) ? 0 : strspn(n.module + 2, "0123456789");
    if (digits && n.module[2 + digits] == '.') {
        n.layer = n.module + 2;
        n.layer_length = (int)digits;
        n.module = n.layer + digits + 1;
    }
    const char *dot = strrchr(n.module, '.');
    n.leaf = dot ? dot + 1 : "";
    n.module_length = dot ? (int)(dot - n.module) : 0;
    return n;
}

static bool module_is(const Name *n, const char *module) {
    return (size_t)n->module_length == strlen(module) && !strncmp(n->module, module, strlen(module));
}

static const Rule *find_rule(const Name *n) {
    if (strcmp(n->leaf, "weight") && strcmp(n->leaf, "bias")) return NULL;
    for (size_t i = 0; i < COUNTOF(rules); i++)
        if (rules[i].in_layer == (n->layer_length > 0) && module_is(n, rules[i].theirs)) return &rules[i];
    return NULL;
}

static bool is_causal_mask(const Name *n) {
    return n->layer_length && module_is(n, "attn") && (!strcmp(n->leaf, "bias") || !strcmp(n->leaf, "masked_bias"));
}

static char *our_name(Shards *s, const Name *n, const char *module) {
    char text[NAME_BYTES];
    if (n->layer_length)
        snprintf(text, sizeof text, "model.layers.%.*s.%s.%s", n->layer_length, n->layer, module, n->leaf);
    else
        snprintf(text, sizeof text, "model.%s.%s", module, n->leaf);
    char *name = shards_alloc(s, strlen(text) + 1);
    strcpy(name, text);
    return name;
}

/* [in, out] -> [out, in] */
static void transpose(Shards *s, SafeTensor *t) {
    size_t in = (size_t)t->dims[0], out = (size_t)t->dims[1], size = dtype_size(t->dtype);
    const unsigned char *from = t->data;
    unsigned char *to = shards_alloc(s, t->bytes);
    for (size_t o = 0; o < out; o++)
        for (size_t i = 0; i < in; i++) memcpy(to + (o * in + i) * size, from + (i * out + o) * size, size);
    t->data = to;
    t->dims[0] = (int)out;
    t->dims[1] = (int)in;
}

/* Writes what becomes of t behind out; returns how many tensors that are, or -1. */
static int translate(Shards *s, const SafeTensor *t, const char *prefix, SafeTensor *out, Err *err) {
    Name n = take_apart(t->name, prefix);
    const Rule *rule = find_rule(&n);
    out[0] = *t;
    if (!rule && is_causal_mask(&n)) return shards_drop(s, t), 0;
    if (!rule) return 1;
    int parts = 0;
    while (parts < PARTS_MAX && rule->ours[parts]) parts++;
    if (rule->is_conv1d) {
        int dims = strcmp(n.leaf, "weight") ? 1 : 2;
        if (t->n_dims != dims || t->dims[dims - 1] % parts)
            return err_set(err, "%s has %d dimensions, the last %d; must be %d, the last a multiple of %d", t->name,
                           t->n_dims, t->n_dims ? t->dims[t->n_dims - 1] : 1, dims, parts);
        if (dims == 2) transpose(s, &out[0]);
        out[0].dims[0] /= parts;
        out[0].bytes /= (size_t)parts;
        out[0].transposed = dims == 2;
        out[0].part_of = parts;
    }
    out[0].theirs = t->name;
    for (int k = parts - 1; k >= 0; k--) {
        out[k] = out[0];
        out[k].name = our_name(s, &n, rule->ours[k]);
        out[k].data = (const unsigned char *)out[0].data + (size_t)k * out[0].bytes;
    }
    return parts;
}

int gpt2_translate(Shards *s, Err *err) {
    const char *prefix = "transformer.";
    if (!shards_find(s, "transformer.wte.weight")) {
        if (!shards_find(s, "wte.weight")) return 0;
        prefix = "";
    }
    s->gpt2 = prefix;
    SafeTensor *out = xcalloc(PARTS_MAX * (size_t)s->n, sizeof *out);
    int n = 0;
    for (int i = 0; i < s->n; i++) {
        int added = translate(s, &s->tensors[i], prefix, out + n, err);
        if (added < 0) {
            free(out);
            return -1;
        }
        n += added;
    }
    free(s->tensors);
    s->tensors = out;
    s->n = n;
    return shards_sort(s, err);
}

/* Behind "self_attn.q_proj" of "self_attn.q_proj.weight"; NULL when text begins with another module. */
static const char *behind(const char *text, const char *module) {
    size_t n = strlen(module);
    return !strncmp(text, module, n) && text[n] == '.' ? text + n : NULL;
}

bool gpt2_name(const Shards *s, const char *ours, char *out, size_t n_out) {
    static const char top[] = "model.", layers[] = "layers.";
    snprintf(out, n_out, "%s", ours);
    if (!s->gpt2 || !text_begins(ours, top)) return true;
    const char *rest = ours + strlen(top), *layer = NULL, *leaf;
    int digits = 0;
    if (text_begins(rest, layers)) {
        layer = rest + strlen(layers);
        digits = (int)strcspn(layer, ".");
        rest = layer + digits + (layer[digits] == '.');
    }
    for (size_t i = 0; i < COUNTOF(rules); i++)
        for (int k = 0; k < PARTS_MAX && rules[i].ours[k]; k++) {
            if (rules[i].in_layer != (layer != NULL) || !(leaf = behind(rest, rules[i].ours[k]))) continue;
            snprintf(out, n_out, "%s%s%.*s%s%s%s", s->gpt2, layer ? "h." : "", digits, layer ? layer : "",
                     layer ? "." : "", rules[i].theirs, leaf);
            return k == 0;
        }
    return true;
}
