#include "weights/config_json.h"

#include "base/files.h"
#include "base/err.h"
#include "base/json/json_reader.h"
#include "model/kind.h"
#include "model/config_check.h"
#include "model/encoder_decoder.h"
#include "model/network.h"
#include "model/shape.h"
#include "weights/import/gpt2.h"
#include "weights/import/llama.h"

#include <stdlib.h>
#include <string.h>

enum { FILE_MAX = 1 << 20, DEPTH_MAX = 16, VALUES_MAX = 1 << 16, KINDS_MAX = 32 };

/* ---- what a network is for and what it reads; the defaults are a language model's ---- */

/* A key that only some tasks have. */
static bool belongs(JsonReader *r, const char *key, const Config *c, bool has) {
    bool there = json_field(r->object, key) != NULL;
    if (there && !has) json_reader_fail(r, "%s is given, but task is %s", key, task_names[c->task]);
    return has;
}

/* {"0": name, "1": name, ...}, in any order. */
static void read_labels(Labels *labels, const Config *c, JsonReader *r) {
    JsonReader l;
    char key[16];
    if (!json_reader_enter(r, &l, "id2label")) {
        json_reader_fail(r, "id2label is missing, but task is %s", task_names[c->task]);
        return;
    }
    for (int n = cJSON_GetArraySize(l.object); labels->n < n && !l.failed; labels->n++) {
        char *name = labels->names + labels->used;
        snprintf(key, sizeof key, "%d", labels->n);
        if (!json_field(l.object, key)) json_reader_fail(&l, "id2label has %d names, but none for %s", n, key);
        if (labels->used == LABELS_BYTES) {
            json_reader_fail(&l, "id2label.%s: the names have more than %d bytes", key, LABELS_BYTES);
            break;
        }
        json_take_string(&l, key, name, LABELS_BYTES - labels->used, "");
        if (!*name) json_reader_fail(&l, "id2label.%s is empty", key);
        if (labels_find(labels, name) >= 0)
            json_reader_fail(&l, "id2label.%s is %.80s, which has an id before", key, name);
        labels->used += strlen(name) + 1;
    }
    json_reader_leave(r, &l);
}

static void read_image_size(Config *c, JsonReader *r) {
    const cJSON *size = json_take(r, "image_size");
    int64_t pixels[2] = {0};
    bool good = cJSON_GetArraySize(size) == 2;
    if (!size) return;
    for (int i = 0; i < 2 && good; i++) good = json_integer(cJSON_GetArrayItem(size, i), 1, INT_MAX, &pixels[i]);
    if (!good) json_reader_fail(r, "input.image_size must be [height, width] in pixels");
    c->input.height = (int)pixels[0];
    c->input.width = (int)pixels[1];
}

static void read_input(Config *c, JsonReader *r) {
    JsonReader i;
    if (!json_reader_enter(r, &i, "input")) return;
    c->input.kind = (InputKind)json_take_name(&i, "kind", input_names, COUNTOF(input_names), JSON_REQUIRED);
    if (c->input.kind == INPUT_VECTORS) {
        c->input.size = json_take_positive(&i, "size", JSON_REQUIRED);
        json_reader_leave(r, &i);
        return;
    }
    read_image_size(c, &i);
    if (c->input.kind == INPUT_PATCHES) {
        if (!c->input.height) json_reader_fail(&i, "input.image_size is missing");
        c->input.channels = json_take_positive(&i, "channels", 1);
        c->input.patch = json_take_positive(&i, "patch_size", JSON_REQUIRED);
    }
    json_reader_leave(r, &i);
}

static void read_block(Config *c, JsonReader *r) {
    JsonReader b;
    if (!json_reader_enter(r, &b, "block")) return;
    c->block.norm = (BlockNorm)json_take_name(&b, "norm", block_norm_names, COUNTOF(block_norm_names), BLOCK_PRE);
    c->block.no_residual = !json_take_bool(&b, "residual", true);
    json_reader_leave(r, &b);
}

static void read_network(Config *c, JsonReader *r) {
    const char *names[1 + NETWORKS_MAX] = {"transformer"};
    int n = 1;
    for (; networks[n - 1]; n++) names[n] = networks[n - 1]->name;
    int found = json_take_name(r, "network", names, n, 0);
    c->network = found > 0 ? networks[found - 1] : NULL;
    if (c->network == &encoder_decoder_network)
        c->decoder_layers = json_take_positive(r, "num_decoder_layers", JSON_REQUIRED);
}

static void read_task(Config *c, Labels *labels, JsonReader *r) {
    read_network(c, r);
    c->task = (TaskKind)json_take_name(r, "task", task_names, COUNTOF(task_names), TASK_TEXT_GENERATION);
    if (belongs(r, "id2label", c, config_classifies(c))) read_labels(labels, c, r);
    c->n_labels = labels->n;
    if (belongs(r, "pool", c, config_pools(c))) {
        Pool usual = c->task == TASK_IMAGE_CLASSIFICATION ? POOL_FIRST : POOL_LAST;
        c->pool = (Pool)json_take_name(r, "pool", pool_names, COUNTOF(pool_names), (int)usual);
    }
    if (belongs(r, "mask_token_id", c, c->task == TASK_FILL_MASK))
        c->mask_token_id = json_take_int(r, "mask_token_id", JSON_REQUIRED);
    read_input(c, r);
    read_block(c, r);
    c->dropout = (float)json_take_number(r, "dropout", 0);
}

/* ---- what its layers are ---- */

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
    const cJSON *item = json_field(r->object, key);
    if (!cJSON_IsNull(item)) return json_take_int(r, key, absent);
    json_take(r, key);
    return -1;
}

/* The same, or a list whose first is the one that separates documents. */
static void take_ends(Config *c, JsonReader *r, int absent) {
    const char *key = "eos_token_id";
    const cJSON *list = json_field(r->object, key);
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
    const cJSON *v = json_field(r->object, "bias");
    if (cJSON_IsString(v))
        return (BiasPlaces)(BIAS_ATTENTION + json_take_name(r, "bias", bias_names + BIAS_ATTENTION, 2, JSON_REQUIRED));
    return json_take_bool(r, "bias", false) ? BIAS_ALL : BIAS_NONE;
}

static void read_top(Config *c, JsonReader *r) {
    c->norm = (NormKind)json_take_name(r, "norm", norm_names, COUNTOF(norm_names), JSON_REQUIRED);
    c->norm_eps = (float)json_take_number(r, "norm_eps", 1e-5);
    c->position = (PositionKind)json_take_name(r, "position", position_names, COUNTOF(position_names), JSON_REQUIRED);
    c->rope_theta = (float)json_take_number(r, "rope_theta", 10000);
    rope_scaling_read(c, r, "rope_scaling");
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
    if (!json_reader_enter(r, &m, "mlp")) {
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
    if (!json_reader_enter(r, &a, "attention")) {
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
    if (!json_reader_enter(r, &z, "noise")) return;
    c->noise.scope = NOISE_LAYER + json_take_name(&z, "scope", scope_names + NOISE_LAYER, 2, JSON_REQUIRED);
    c->noise.density =
        (NoiseDensity)json_take_name(&z, "density", density_names, COUNTOF(density_names), DENSITY_GAUSSIAN);
    c->noise.span = (NoiseSpan)json_take_name(&z, "span", span_names, COUNTOF(span_names), SPAN_PAIR);
    c->noise.site = (NoiseSite)json_take_name(&z, "site", site_names, COUNTOF(site_names), SITE_QUERY);
    c->noise.components = json_take_positive(&z, "components", c->noise.density == DENSITY_MIXTURE ? JSON_REQUIRED : 0);
    bool conditioned = json_take_bool(&z, "conditioned", false);
    c->noise.condition_dim = json_take_positive(&z, "condition_dim", conditioned ? JSON_REQUIRED : 0);
    if (!conditioned && c->noise.condition_dim)
        json_reader_fail(&z, "noise.condition_dim is %d, but noise.conditioned is not true", c->noise.condition_dim);
    json_reader_leave(r, &z);
}

static void read_sas(Config *c, JsonReader *r) {
    JsonReader s;
    if (!json_reader_enter(r, &s, "sas")) return;
    c->sas.heads = json_take_positive(&s, "heads", JSON_REQUIRED);
    c->sas.head_dim = json_take_positive(&s, "head_dim", JSON_REQUIRED);
    c->sas.kernel = json_take_int(&s, "kernel", JSON_REQUIRED);
    c->sas.relu = json_take_name(&s, "activation", sas_activation_names, COUNTOF(sas_activation_names), 1);
    c->sas.rope_post = json_take_name(&s, "rope", sas_rope_names, COUNTOF(sas_rope_names), 0);
    json_reader_leave(r, &s);
}

static void read_noble(Config *c, JsonReader *r) {
    JsonReader b;
    if (!json_reader_enter(r, &b, "noble")) return;
    c->noble.rank = json_take_int(&b, "rank", JSON_REQUIRED);
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

/* The keys that all of Hugging Face's files share; the defaults of the tokens are the model type's. Models that embed
 * texts by looking both ways say so by is_causal. */
static void read_foreign(Config *c, JsonReader *r) {
    c->causal = json_take_bool(r, "is_causal", true);
    c->bos_token_id = take_token(r, "bos_token_id", c->bos_token_id);
    take_ends(c, r, c->eos_token_id);
    /* transformers 5 renamed the key. */
    const char *dtype = json_field(r->object, "dtype") ? "dtype" : "torch_dtype";
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

static int read_config(Config *c, Labels *labels, cJSON *root, Err *err) {
    const char *names[COUNTOF(architectures)];
    *c = (Config){.causal = true};
    labels->n = 0;
    labels->used = 0;
    if (!cJSON_IsObject(root)) return err_set(err, "no JSON object");
    for (size_t i = 0; i < COUNTOF(architectures); i++) names[i] = architectures[i].name;
    JsonReader r = {.object = root, .path = "", .err = err};
    bool named = cJSON_IsString(json_field(root, "model_type"));
    int type = json_take_name(&r, "model_type", names, COUNTOF(names), JSON_REQUIRED);
    if (r.failed && named) {
        Err why = *err;
        return err_set(err, "%.300s: other networks cannot be read, and no conversion makes them one of these",
                       why.msg);
    }
    r.foreign = type > 0;
    if (!r.foreign) read_task(c, labels, &r);
    bool few = c->network && !c->network->attends;
    if (few) read_few(c, &r);
    if (!few && architectures[type].sizes) read_sizes(c, &r);
    if (!few) architectures[type].read(c, &r);
    if (r.foreign) read_foreign(c, &r);
    json_reader_end(&r);
    return r.failed ? -1 : config_check(c, err);
}

int config_json_parse(Config *c, Labels *labels, const char *text, size_t n, Err *err) {
    cJSON *root = json_parse(text, n, DEPTH_MAX, VALUES_MAX, err);
    if (!root) return -1;
    Labels unwanted;
    int rc = read_config(c, labels ? labels : &unwanted, root, err);
    cJSON_Delete(root);
    return rc;
}

int config_json_load(Config *c, Labels *labels, const char *path, Err *err) {
    Err why;
    size_t n;
    char *text = file_read(path, FILE_MAX, &n, err);
    if (!text) return -1;
    int rc = config_json_parse(c, labels, text, n, &why);
    free(text);
    return rc ? err_set(err, "%s: %s", path, why.msg) : 0;
}

int config_json_unused(const char *path, Buffer *names, Err *err) {
    Err why;
    Config c;
    Labels labels;
    const cJSON *item;
    cJSON *root = json_load(path, FILE_MAX, DEPTH_MAX, VALUES_MAX, err);
    if (!root) return -1;
    int rc = read_config(&c, &labels, root, &why) ? err_set(err, "%s: %s", path, why.msg) : 0;
    cJSON_ArrayForEach(item, root) if (rc == 0 && !json_is_taken(item))
        buffer_print(names, "%s%s", names->n ? ", " : "", item->string);
    cJSON_Delete(root);
    return rc;
}
