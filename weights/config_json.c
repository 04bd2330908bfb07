#include "weights/config_json.h"

#include "base/files.h"
#include "base/err.h"
#include "base/json/json_reader.h"
#include "model/kind.h"
#include "model/config_check.h"
#include "model/network.h"
#include "weights/config_task.h"
#include "weights/import/gpt2.h"
#include "weights/import/llama.h"
#include "weights/import/mistral.h"
#include "weights/import/qwen.h"

#include <stdlib.h>
#include <string.h>

enum { FILE_MAX = 1 << 20, DEPTH_MAX = 16, VALUES_MAX = 1 << 16, KINDS_MAX = 32 };

static const char *const sas_activations[] = {"none", "relu"}, *const sas_ropes[] = {"pre", "post"};

static const AttentionKind *take_kind(JsonReader *r) {
    const char *names[KINDS_MAX];
    int n = 0;
    while (attention_kinds[n]) {
        BUG_ON(n == KINDS_MAX);
        names[n] = attention_kinds[n]->name;
        n++;
    }
    return attention_kinds[json_take_name(r, "kind", names, n, JSON_REQUIRED)];
}

/* An id or null for none, absent as `absent`. */
static int take_token(JsonReader *r, const char *key, int absent) {
    const cJSON *item = cJSON_GetObjectItemCaseSensitive(r->object, key);
    if (!cJSON_IsNull(item)) return json_take_int(r, key, absent);
    cJSON_Delete(json_take(r, key));
    return -1;
}

/* The same, or a list whose first is the one that separates documents. */
static void take_ends(Config *c, JsonReader *r, int absent) {
    const char *key = "eos_token_id";
    cJSON *list = cJSON_GetObjectItemCaseSensitive(r->object, key);
    if (!cJSON_IsArray(list)) {
        c->eos_token_id = take_token(r, key, absent);
        return;
    }
    list = json_take(r, key);
    if (!list) return; /* an earlier failure */
    int n = cJSON_GetArraySize(list), i = 0;
    if (n < 1 || n > END_IDS_MAX) json_reader_fail(r, "%s is a list of %d ids, must be 1 to %d", key, n, END_IDS_MAX);
    for (const cJSON *v = list->child; v && !r->failed; v = v->next, i++) {
        int64_t id = -1;
        if (!json_integer(v, 0, INT_MAX, &id)) json_reader_fail(r, "%s: element %d is no token id", key, i);
        if (i == 0)
            c->eos_token_id = (int)id;
        else
            c->more_ends[c->n_more_ends++] = (int)id;
    }
    cJSON_Delete(list);
}

/* The keys that a noised and a llama file share. */
static void read_sizes(Config *c, JsonReader *r) {
    c->vocab_size = json_take_int(r, "vocab_size", c->task == TASK_IMAGE_CLASSIFICATION ? 0 : JSON_REQUIRED);
    c->hidden_size = json_take_int(r, "hidden_size", JSON_REQUIRED);
    c->n_layers = json_take_int(r, "num_hidden_layers", JSON_REQUIRED);
    c->n_heads = json_take_positive(r, "num_attention_heads", JSON_REQUIRED);
    c->n_kv_heads = json_take_int(r, "num_key_value_heads", c->n_heads);
    bool divides = c->hidden_size % c->n_heads == 0;
    c->head_dim = json_take_int(r, "head_dim", divides ? c->hidden_size / c->n_heads : JSON_REQUIRED);
    c->max_positions = json_take_int(r, "max_position_embeddings", JSON_REQUIRED);
}

/* Those of a network without attention. */
static void read_few(Config *c, JsonReader *r) {
    c->vocab_size = json_take_int(r, "vocab_size", JSON_REQUIRED);
    c->hidden_size = json_take_int(r, "hidden_size", JSON_REQUIRED);
    c->n_layers = json_take_int(r, "num_hidden_layers", JSON_REQUIRED);
    c->max_positions = json_take_int(r, "max_position_embeddings", JSON_REQUIRED);
    c->bos_token_id = c->eos_token_id = -1;
    c->causal = false;
    json_take_string(r, "torch_dtype", c->torch_dtype, sizeof c->torch_dtype, "float32");
}

/* false, true, "attention" or "qkv". */
static BiasPlaces take_bias(JsonReader *r) {
    const cJSON *v = cJSON_GetObjectItemCaseSensitive(r->object, "bias");
    if (cJSON_IsString(v))
        return (BiasPlaces)(BIAS_ATTENTION + json_take_name(r, "bias", bias_names + BIAS_ATTENTION, 2, JSON_REQUIRED));
    return json_take_bool(r, "bias", false) ? BIAS_ALL : BIAS_NONE;
}

static void read_top(Config *c, JsonReader *r) {
    c->norm = (NormKind)json_take_name(r, "norm", norm_names, COUNTOF(norm_names), JSON_REQUIRED);
    c->norm_eps = (float)json_take_number(r, "norm_eps", 1e-5);
    c->position = (PositionKind)json_take_name(r, "position", position_names, COUNTOF(position_names), JSON_REQUIRED);
    c->rope_theta = (float)json_take_number(r, "rope_theta", 10000);
    rope_scaling_read(c, r, "rope_scaling", "rope_scaling.");
    c->bias = take_bias(r);
    c->qk_norm = json_take_bool(r, "qk_norm", false);
    c->sliding_window = json_take_positive(r, "sliding_window", 0);
    c->causal = json_take_bool(r, "causal", true);
    c->tie_embeddings = json_take_bool(r, "tie_word_embeddings", true);
    c->bos_token_id = take_token(r, "bos_token_id", -1);
    take_ends(c, r, -1);
    json_take_string(r, "torch_dtype", c->torch_dtype, sizeof c->torch_dtype, "float32");
}

static void read_mlp(Config *c, JsonReader *r) {
    JsonReader m;
    if (!json_reader_enter(r, &m, "mlp", "mlp.")) {
        json_reader_fail(r, "mlp is missing");
        return;
    }
    c->mlp.activation =
        (Activation)json_take_name(&m, "activation", activation_names, COUNTOF(activation_names), JSON_REQUIRED);
    c->mlp.gated = json_take_bool(&m, "gated", false);
    c->mlp.width = json_take_int(&m, "intermediate_size", JSON_REQUIRED);
    json_reader_leave(r, &m);
}

static void read_attention(Config *c, JsonReader *r) {
    JsonReader a;
    if (!json_reader_enter(r, &a, "attention", "attention.")) {
        json_reader_fail(r, "attention is missing");
        return;
    }
    const AttentionKind *kind = c->attention.kind = take_kind(&a);
    for (int i = 0; i < ATTENTION_VALUES && kind->keys[i]; i++)
        c->attention.values[i] = json_take_int(&a, kind->keys[i], JSON_REQUIRED);
    json_reader_leave(r, &a);
}

static void read_noise(Config *c, JsonReader *r) {
    JsonReader z;
    if (!json_reader_enter(r, &z, "noise", "noise.")) return;
    c->noise.scope = NOISE_LAYER + json_take_name(&z, "scope", scope_names + NOISE_LAYER, 2, JSON_REQUIRED);
    c->noise.density =
        (NoiseDensity)json_take_name(&z, "density", density_names, COUNTOF(density_names), DENSITY_GAUSSIAN);
    c->noise.span = (NoiseSpan)json_take_name(&z, "span", span_names, COUNTOF(span_names), SPAN_PAIR);
    c->noise.components = json_take_positive(&z, "components", c->noise.density == DENSITY_MIXTURE ? JSON_REQUIRED : 0);
    bool conditioned = json_take_bool(&z, "conditioned", false);
    c->noise.condition_dim = json_take_positive(&z, "condition_dim", conditioned ? JSON_REQUIRED : 0);
    if (!conditioned && c->noise.condition_dim)
        json_reader_fail(&z, "noise.condition_dim is %d, but noise.conditioned is not true", c->noise.condition_dim);
    json_reader_leave(r, &z);
}

static void read_sas(Config *c, JsonReader *r) {
    JsonReader s;
    if (!json_reader_enter(r, &s, "sas", "sas.")) return;
    c->sas.heads = json_take_positive(&s, "heads", JSON_REQUIRED);
    c->sas.head_dim = json_take_positive(&s, "head_dim", JSON_REQUIRED);
    c->sas.kernel = json_take_int(&s, "kernel", JSON_REQUIRED);
    c->sas.relu = json_take_name(&s, "activation", sas_activations, COUNTOF(sas_activations), 1);
    c->sas.rope_post = json_take_name(&s, "rope", sas_ropes, COUNTOF(sas_ropes), 0);
    json_reader_leave(r, &s);
}

static void read_noble(Config *c, JsonReader *r) {
    JsonReader b;
    if (!json_reader_enter(r, &b, "noble", "noble.")) return;
    c->noble.rank = json_take_positive(&b, "rank", JSON_REQUIRED);
    c->noble.activation = (NobleActivation)json_take_name(&b, "activation", noble_activation_names,
                                                          COUNTOF(noble_activation_names), NOBLE_COSNET);
    c->noble.layers = json_take_positive(&b, "layers", 2);
    c->noble.recipe = (NobleRecipe)json_take_name(&b, "recipe", recipe_names, COUNTOF(recipe_names), RECIPE_PAPER);
    json_reader_leave(r, &b);
}

static void read_noised(Config *c, JsonReader *r) {
    read_top(c, r);
    read_mlp(c, r);
    read_attention(c, r);
    read_noise(c, r);
    read_sas(c, r);
    read_noble(c, r);
}

/* The keys that all of Hugging Face's files share; the defaults of the tokens are the model type's. */
static void read_foreign(Config *c, JsonReader *r) {
    c->bos_token_id = take_token(r, "bos_token_id", c->bos_token_id);
    take_ends(c, r, c->eos_token_id);
    /* transformers 5 renamed the key. */
    const char *dtype = cJSON_GetObjectItemCaseSensitive(r->object, "dtype") ? "dtype" : "torch_dtype";
    json_take_string(r, dtype, c->torch_dtype, sizeof c->torch_dtype, "float32");
}

/* One line for each model_type; the first is ours. */
static const struct {
    const char *name;
    void (*read)(Config *c, JsonReader *r);
    bool sizes; /* under our own keys */
} architectures[] = {{"noised", read_noised, true},          {"llama", llama_config_read, true},
                     {"mistral", mistral_config_read, true}, {"qwen2", qwen2_config_read, true},
                     {"qwen3", qwen3_config_read, true},     {"gpt2", gpt2_config_read, false}};

static int read_config(Config *c, cJSON *root, Err *err) {
    const char *names[COUNTOF(architectures)];
    *c = (Config){.causal = true};
    if (!cJSON_IsObject(root)) return err_set(err, "no JSON object");
    for (size_t i = 0; i < COUNTOF(architectures); i++) names[i] = architectures[i].name;
    JsonReader r = {.object = root, .path = "", .err = err};
    bool named = cJSON_IsString(cJSON_GetObjectItemCaseSensitive(root, "model_type"));
    int type = json_take_name(&r, "model_type", names, COUNTOF(names), JSON_REQUIRED);
    if (r.failed && named) {
        Err why = *err;
        return err_set(err, "%.300s: other networks cannot be read, and no conversion makes them one of these",
                       why.msg);
    }
    r.foreign = type > 0;
    if (!r.foreign) config_task_read(c, &r);
    bool few = c->network && !c->network->attends;
    if (few) read_few(c, &r);
    if (!few && architectures[type].sizes) read_sizes(c, &r);
    if (!few) architectures[type].read(c, &r);
    if (r.foreign) read_foreign(c, &r);
    json_reader_end(&r);
    return r.failed ? -1 : config_check(c, err);
}

int config_json_parse(Config *c, const char *text, size_t n, Err *err) {
    cJSON *root = json_parse(text, n, DEPTH_MAX, VALUES_MAX, err);
    if (!root) return -1;
    int rc = read_config(c, root, err);
    cJSON_Delete(root);
    return rc;
}

int config_json_load(Config *c, const char *path, Err *err) {
    Err why;
    size_t n;
    char *text = file_read(path, FILE_MAX, &n, err);
    if (!text) return -1;
    int rc = config_json_parse(c, text, n, &why);
    free(text);
    return rc ? err_set(err, "%s: %s", path, why.msg) : 0;
}

int config_json_unused(const char *path, Buffer *names, Err *err) {
    Err why;
    Config c;
    const cJSON *item;
    cJSON *root = json_load(path, FILE_MAX, DEPTH_MAX, VALUES_MAX, err);
    if (!root) return -1;
    int rc = read_config(&c, root, &why) ? err_set(err, "%s: %s", path, why.msg) : 0;
    cJSON_ArrayForEach(item, root) if (!rc) buffer_print(names, "%s%s", names->n ? ", " : "", item->string);
    cJSON_Delete(root);
    return rc;
}

/* The shortest decimal that reads back as the same float. */
static void print_float(FILE *f, const char *key, float v) {
    char text[32];
    for (int digits = 1; digits <= 9; digits++) {
        snprintf(text, sizeof text, "%.*g", digits, (double)v);
        if (strtof(text, NULL) == v) break;
    }
    fprintf(f, "  \"%s\": %s,\n", key, text);
}

static void print_token(FILE *f, const char *key, int id) {
    if (id >= 0) fprintf(f, "  \"%s\": %d,\n", key, id);
}

static void print_ends(FILE *f, const Config *c) {
    if (c->n_more_ends == 0) {
        print_token(f, "eos_token_id", c->eos_token_id);
        return;
    }
    fprintf(f, "  \"eos_token_id\": [%d", c->eos_token_id);
    for (int i = 0; i < c->n_more_ends; i++) fprintf(f, ", %d", c->more_ends[i]);
    fprintf(f, "],\n");
}

static const char *boolean(bool b) { return b ? "true" : "false"; }

static void print_rope_scaling(FILE *f, const Config *c) {
    if (c->rope_scaling.kind == ROPE_DEFAULT) return;
    fprintf(f, "  \"rope_scaling\": {\n");
    if (c->rope_scaling.kind == ROPE_LLAMA3) {
        print_float(f, "low_freq_factor", c->rope_scaling.low_freq_factor);
        print_float(f, "high_freq_factor", c->rope_scaling.high_freq_factor);
        fprintf(f, "  \"original_max_position_embeddings\": %d,\n", c->rope_scaling.original_positions);
    }
    print_float(f, "factor", c->rope_scaling.factor);
    fprintf(f, "  \"rope_type\": \"%s\"},\n", rope_scaling_names[c->rope_scaling.kind]);
}

static void print_switches(FILE *f, const Config *c) {
    const AttentionKind *kind = c->attention.kind;
    fprintf(f, "  \"attention\": {\"kind\": \"%s\"", kind->name);
    for (int i = 0; i < ATTENTION_VALUES && kind->keys[i]; i++)
        fprintf(f, ", \"%s\": %d", kind->keys[i], c->attention.values[i]);
    fprintf(f, "},\n");
    if (c->noise.scope != NOISE_NONE) {
        fprintf(f, "  \"noise\": {\"scope\": \"%s\", \"density\": \"%s\"", scope_names[c->noise.scope],
                density_names[c->noise.density]);
        if (c->noise.span != SPAN_PAIR) fprintf(f, ", \"span\": \"%s\"", span_names[c->noise.span]);
        if (c->noise.components) fprintf(f, ", \"components\": %d", c->noise.components);
        if (c->noise.condition_dim)
            fprintf(f, ", \"conditioned\": true, \"condition_dim\": %d", c->noise.condition_dim);
        fprintf(f, "},\n");
    }
    if (c->sas.heads)
        fprintf(f,
                "  \"sas\": {\"heads\": %d, \"head_dim\": %d, \"kernel\": %d, \"activation\": \"%s\", "
                "\"rope\": \"%s\"},\n",
                c->sas.heads, c->sas.head_dim, c->sas.kernel, sas_activations[c->sas.relu],
                sas_ropes[c->sas.rope_post]);
    if (c->noble.rank)
        fprintf(f, "  \"noble\": {\"rank\": %d, \"activation\": \"%s\", \"layers\": %d%s},\n", c->noble.rank,
                noble_activation_names[c->noble.activation], c->noble.layers,
                c->noble.recipe == RECIPE_REPOSITORY ? ", \"recipe\": \"repository\"" : "");
}

static void print_blocks(FILE *f, const Config *c) {
    fprintf(f, "  \"num_attention_heads\": %d,\n  \"num_key_value_heads\": %d,\n", c->n_heads, c->n_kv_heads);
    fprintf(f, "  \"head_dim\": %d,\n  \"norm\": \"%s\",\n", c->head_dim, norm_names[c->norm]);
    print_float(f, "norm_eps", c->norm_eps);
    fprintf(f, "  \"position\": \"%s\",\n", position_names[c->position]);
    print_float(f, "rope_theta", c->rope_theta);
    print_rope_scaling(f, c);
    fprintf(f, c->bias > BIAS_ALL ? "  \"bias\": \"%s\",\n" : "  \"bias\": %s,\n",
            c->bias > BIAS_ALL ? bias_names[c->bias] : boolean(c->bias == BIAS_ALL));
    if (c->qk_norm) fprintf(f, "  \"qk_norm\": true,\n");
    if (c->sliding_window) fprintf(f, "  \"sliding_window\": %d,\n", c->sliding_window);
    fprintf(f, "  \"tie_word_embeddings\": %s,\n", boolean(c->tie_embeddings));
    if (!c->causal) fprintf(f, "  \"causal\": false,\n");
    fprintf(f, "  \"mlp\": {\"activation\": \"%s\", \"gated\": %s, \"intermediate_size\": %d},\n",
            activation_names[c->mlp.activation], boolean(c->mlp.gated), c->mlp.width);
    print_switches(f, c);
}

char *config_json_print(const Config *c) {
    char *text = NULL;
    size_t n;
    FILE *f = open_memstream(&text, &n);
    BUG_ON(!f);
    fprintf(f, "{\n  \"model_type\": \"noised\",\n");
    config_task_print(f, c);
    if (c->dropout > 0) print_float(f, "dropout", c->dropout);
    if (c->vocab_size) fprintf(f, "  \"vocab_size\": %d,\n", c->vocab_size);
    fprintf(f, "  \"hidden_size\": %d,\n", c->hidden_size);
    fprintf(f, "  \"num_hidden_layers\": %d,\n  \"max_position_embeddings\": %d,\n", c->n_layers, c->max_positions);
    if (c->attention.kind) print_blocks(f, c);
    print_token(f, "bos_token_id", c->bos_token_id);
    print_ends(f, c);
    fprintf(f, "  \"torch_dtype\": \"%s\"\n}\n", c->torch_dtype);
    BUG_ON(fclose(f));
    return text;
}
