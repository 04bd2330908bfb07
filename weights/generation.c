#include "weights/generation.h"

#include "base/files.h"
#include "base/json/json.h"
#include "base/json/json_reader.h"
#include "base/utf8.h"
#include "model/shape.h"

#include <stdlib.h>
#include <string.h>

enum { FILE_MAX = 1 << 20, DEPTH_MAX = 64, VALUES_MAX = 1 << 16 };

const GenerationKey generation_keys[GENERATION_VALUES] = {
    {"temperature", 0, 2, 1, false}, {"top_k", -1, INT32_MAX, 0, true}, {"top_p", 0, 1, 1, false},
    {"min_p", 0, 1, 0, false},       {"typical_p", 0.01, 1, 1, false},  {"repetition_penalty", 0.01, 100, 1, false},
};

static int read_value(double *value, const GenerationKey *key, const cJSON *item, Err *err) {
    int64_t integer = 0;
    if (json_is_null(item)) return 0;
    bool fits = cJSON_IsNumber(item) && item->valuedouble >= key->low && item->valuedouble <= key->high;
    if (!fits || (key->whole && !json_integer(item, (int64_t)key->low, (int64_t)key->high, &integer)))
        return err_set(err, "%s is %s, must be %s from %g to %g", key->name, show_json(item).text,
                       key->whole ? "an integer" : "a number", key->low, key->high);
    *value = item->valuedouble;
    return 0;
}

static int read_values(Generation *g, const cJSON *root, Err *err) {
    JsonReader r = {.object = root, .path = "", .foreign = true, .err = err};
    for (int i = 0; i < GENERATION_VALUES; i++)
        if (read_value(&g->values[i], &generation_keys[i], json_field(root, generation_keys[i].name), err)) return -1;
    if (!json_take_bool(&r, "do_sample", true)) g->values[GENERATION_TEMPERATURE] = 0;
    if (r.failed) return -1;
    if (g->values[GENERATION_TEMPERATURE] > 0 && g->values[GENERATION_TEMPERATURE] < 0.001)
        return err_set(err, "temperature is %g, must be 0 or at least 0.001", g->values[GENERATION_TEMPERATURE]);
    return 0;
}

static int add_end(Config *c, const cJSON *item, Err *err) {
    int64_t id;
    if (!json_integer(item, 0, c->vocab_size - 1, &id))
        return err_set(err, "eos_token_id names %s, must be a token id from 0 to %d", show_json(item).text,
                       c->vocab_size - 1);
    if (config_ends(c, (int)id)) return 0;
    if (c->eos_token_id < 0) {
        c->eos_token_id = (int)id;
        return 0;
    }
    if (c->n_more_ends + 1 == END_IDS_MAX)
        return err_set(err, "eos_token_id: with those of config.json more than %d ids", END_IDS_MAX);
    c->more_ends[c->n_more_ends++] = (int)id;
    return 0;
}

static int add_ends(Config *c, const cJSON *ends, Err *err) {
    const cJSON *item;
    if (json_is_null(ends)) return 0;
    if (!cJSON_IsArray(ends)) return add_end(c, ends, err);
    cJSON_ArrayForEach(item, ends) if (add_end(c, item, err)) return -1;
    return 0;
}

static bool is_used(const char *name) {
    for (int i = 0; i < GENERATION_VALUES; i++)
        if (!strcmp(name, generation_keys[i].name)) return true;
    return !strcmp(name, "do_sample") || !strcmp(name, "eos_token_id");
}

static void note_unused(Generation *g, const cJSON *root) {
    const cJSON *item;
    size_t n = 0;
    cJSON_ArrayForEach(item, root) {
        if (is_used(item->string) || json_is_null(item) || n >= sizeof g->unused) continue;
        n += (size_t)snprintf(g->unused + n, sizeof g->unused - n, "%s%.60s", n ? ", " : "", item->string);
    }
    text_make_printable(g->unused);
}

static int read_file(Generation *g, Config *c, const char *text, size_t n, Err *err) {
    cJSON *root = json_parse(text, n, DEPTH_MAX, VALUES_MAX, err);
    if (!root) return -1;
    int rc = cJSON_IsObject(root) ? 0 : err_set(err, "no JSON object");
    if (rc == 0) rc = read_values(g, root, err) || add_ends(c, json_field(root, "eos_token_id"), err) ? -1 : 0;
    if (rc == 0) note_unused(g, root);
    cJSON_Delete(root);
    return rc;
}

int generation_open(Generation *g, Config *c, Sha256 *hash, const char *dir, Err *err) {
    char path[PATH_BYTES];
    size_t n;
    Err why;
    *g = (Generation){0};
    for (int i = 0; i < GENERATION_VALUES; i++) g->values[i] = generation_keys[i].fallback;
    if (path_join(path, dir, GENERATION_FILE, err)) return -1;
    if (!config_generates(c) || !file_is_there(path)) return 0;
    char *text = file_read(path, FILE_MAX, &n, err);
    if (!text) return -1;
    g->there = true;
    sha256_add(hash, text, n);
    int rc = read_file(g, c, text, n, &why);
    free(text);
    return rc ? err_set(err, "%s: %s", path, why.msg) : 0;
}

void generation_print(const Generation *g, Buffer *b) {
    size_t before = b->n;
    for (int i = 0; i < GENERATION_VALUES; i++)
        if (g->values[i] != generation_keys[i].fallback)
            buffer_print(b, "%s%s %g", b->n > before ? ", " : "", generation_keys[i].name, g->values[i]);
}
