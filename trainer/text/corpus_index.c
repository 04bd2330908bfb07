#include "trainer/text/corpus_index.h"

#include "base/atomic_file.h"
#include "base/json/json_reader.h"
#include "base/json_write.h"
#include "base/memory.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define FORMAT "noised corpus 1"
#define INDEX "index.json"
enum { INDEX_MAX = 1 << 26, INDEX_DEPTH = 8, INDEX_VALUES = 1 << 21, SHARDS_MAX = 99999 };
const char *const corpus_row_names[CORPUS_ROWS] = {"train", "held_out"};

static size_t row_bytes(const CorpusIndex *x, CorpusRowKind row) {
    return (size_t)x->rows[row].ids * (size_t)corpus_width(x);
}

int corpus_shards(const CorpusIndex *x, CorpusRowKind row) {
    return (int)((row_bytes(x, row) + x->shard_bytes - 1) / x->shard_bytes);
}

size_t corpus_shard_bytes(const CorpusIndex *x, CorpusRowKind row, int shard) {
    return MIN(row_bytes(x, row) - (size_t)shard * x->shard_bytes, x->shard_bytes);
}

int corpus_shard_path(char path[PATH_BYTES], const char *dir, CorpusRowKind row, int shard, Err *err) {
    char name[32];
    snprintf(name, sizeof name, "%s-%05d.ids", corpus_row_names[row], shard);
    return path_join(path, dir, name, err);
}

bool corpus_is(const char *path) {
    char index[PATH_BYTES];
    return path_join(index, path, INDEX, NULL) == 0 && access(index, F_OK) == 0;
}

const char *corpus_item(const char *item, char dir[PATH_BYTES]) {
    const char *colon = strrchr(item, ':');
    snprintf(dir, PATH_BYTES, "%s", item);
    if (!colon || colon == item || !colon[1] || colon[1 + strspn(colon + 1, "0123456789")] || access(item, F_OK) == 0)
        return NULL;
    dir[colon - item] = 0;
    return colon + 1;
}

void corpus_index_free(CorpusIndex *x) {
    for (int r = 0; r < CORPUS_ROWS; r++) free(x->rows[r].sums);
    for (int i = 0; i < x->n_sources; i++) free(x->sources[i].path);
    free(x->sources);
    free(x->field);
    free(x->val);
    *x = (CorpusIndex){0};
}

void corpus_index_sha256(const CorpusIndex *x, char hex[SHA256_HEX]) {
    Sha256 hash;
    int64_t numbers[] = {x->vocab_size, x->separator, (int64_t)x->shard_bytes};
    sha256_init(&hash);
    sha256_add(&hash, x->tokenizer, strlen(x->tokenizer));
    sha256_add(&hash, numbers, sizeof numbers);
    for (int r = 0; r < CORPUS_ROWS; r++) {
        sha256_add(&hash, &x->rows[r].ids, sizeof x->rows[r].ids);
        for (int i = 0; i < x->rows[r].n_sums; i++) sha256_add(&hash, x->rows[r].sums[i], SHA256_HEX - 1);
    }
    sha256_hex(&hash, hex);
}

/* ---- writing ---- */

static void put_row(Buffer *b, const char *name, const CorpusRow *row) {
    json_open(b, name, '{');
    json_put_uint(b, "ids", row->ids);
    json_put_uint(b, "bytes", row->bytes);
    json_open(b, "sha256", '[');
    for (int i = 0; i < row->n_sums; i++) json_put_text(b, NULL, row->sums[i]);
    json_close(b, ']');
    json_close(b, '}');
}

static void put_unfinished(Buffer *b, const CorpusIndex *x) {
    char modified[32];
    json_open(b, "unfinished", '{');
    json_put_text(b, "field", x->field);
    json_put_text(b, "val", x->val);
    json_open(b, "sources", '[');
    for (int i = 0; i < x->n_sources; i++) {
        snprintf(modified, sizeof modified, "%lld", (long long)x->sources[i].modified);
        json_open(b, NULL, '{');
        json_put_text(b, "path", x->sources[i].path);
        json_put_int(b, "bytes", x->sources[i].bytes);
        json_put_text(b, "modified", modified); /* a double does not hold it */
        json_close(b, '}');
    }
    json_close(b, ']');
    json_put_int(b, "source", x->source);
    json_put_int(b, "byte", x->at.byte);
    json_put_int(b, "line", x->at.line);
    json_close(b, '}');
}

int corpus_index_save(const CorpusIndex *x, const char *dir, Err *err) {
    char path[PATH_BYTES];
    Buffer b = {.layout = JSON_SPACED};
    if (path_join(path, dir, INDEX, err)) return -1;
    json_open(&b, NULL, '{');
    json_put_text(&b, "format", FORMAT);
    json_put_text(&b, "tokenizer_sha256", x->tokenizer);
    json_put_int(&b, "vocab_size", x->vocab_size);
    json_put_int(&b, "separator", x->separator);
    json_put_uint(&b, "shard_bytes", x->shard_bytes);
    for (int r = 0; r < CORPUS_ROWS; r++) put_row(&b, corpus_row_names[r], &x->rows[r]);
    if (x->unfinished) put_unfinished(&b, x);
    json_close(&b, '}');
    buffer_text(&b, "\n");
    int rc = b.failed ? err_set(err, "%s: no memory to write it", path) : file_write(path, b.data, b.n, err);
    buffer_free(&b);
    return rc;
}

/* ---- reading ---- */

static int64_t take_count(JsonReader *r, const char *key, int64_t low, int64_t high) {
    const cJSON *item = json_take(r, key);
    int64_t n = low;
    if (!r->failed && !json_integer(item, low, high, &n))
        json_reader_fail(r, "%s%s%s is %s, it must be an integer from %lld to %lld", r->path, *r->path ? "." : "", key,
                         show_json(item).text, (long long)low, (long long)high);
    return n;
}

static bool is_sum(const cJSON *item) {
    return cJSON_IsString(item) && strlen(item->valuestring) == SHA256_HEX - 1 &&
           strspn(item->valuestring, "0123456789abcdef") == SHA256_HEX - 1;
}

static void read_sums(JsonReader *r, CorpusRow *row) {
    const cJSON *list = json_take(r, "sha256"), *item;
    if (r->failed) return;
    if (!cJSON_IsArray(list)) {
        json_reader_fail(r, "%s.sha256 is %s, it must be a list", r->path, show_json(list).text);
        return;
    }
    row->sums = xcalloc((size_t)cJSON_GetArraySize(list) + 1, sizeof *row->sums);
    cJSON_ArrayForEach(item, list) {
        if (!is_sum(item)) {
            json_reader_fail(r, "%s.sha256 holds %s, which is none", r->path, show_json(item).text);
            return;
        }
        memcpy(row->sums[row->n_sums++], item->valuestring, SHA256_HEX);
    }
}

static void read_row(JsonReader *root, CorpusIndex *x, CorpusRowKind kind) {
    JsonReader r;
    CorpusRow *row = &x->rows[kind];
    if (root->failed) return;
    if (!json_reader_enter(root, &r, corpus_row_names[kind])) {
        if (!root->failed) json_reader_fail(root, "%s is missing", corpus_row_names[kind]);
        return;
    }
    row->ids = (uint64_t)take_count(&r, "ids", 0, SHARDS_MAX * (int64_t)x->shard_bytes / corpus_width(x));
    row->bytes = (uint64_t)take_count(&r, "bytes", 0, JSON_INTEGER_MAX);
    read_sums(&r, row);
    int shards = corpus_shards(x, kind), whole = (int)(row_bytes(x, kind) / x->shard_bytes);
    if (!r.failed && row->n_sums != (x->unfinished ? whole : shards))
        json_reader_fail(&r, "%s.sha256 has %d entries, but %llu ids of %d bytes fill %d shards%s", r.path, row->n_sums,
                         (unsigned long long)row->ids, corpus_width(x), x->unfinished ? whole : shards,
                         x->unfinished ? " wholly" : "");
    json_reader_leave(root, &r);
}

static char *take_text(JsonReader *r, const char *key, bool required) {
    const cJSON *item = json_take(r, key);
    if (r->failed || (!required && json_is_null(item))) return NULL;
    if (cJSON_IsString(item)) return xstrdup(item->valuestring);
    json_reader_fail(r, "%s.%s is %s, it must be a text", r->path, key, show_json(item).text);
    return NULL;
}

static void read_source(JsonReader *r, const cJSON *item, CorpusSource *s) {
    const cJSON *path = json_field(item, "path"), *bytes = json_field(item, "bytes"),
                *modified = json_field(item, "modified");
    if (!cJSON_IsString(path) || !cJSON_IsString(modified) || !json_integer(bytes, 0, JSON_INTEGER_MAX, &s->bytes)) {
        json_reader_fail(r, "unfinished.sources: path, bytes and modified are %s, %s and %s", show_json(path).text,
                         show_json(bytes).text, show_json(modified).text);
        return;
    }
    s->path = xstrdup(path->valuestring);
    s->modified = strtoll(modified->valuestring, NULL, 10);
}

static void read_unfinished(JsonReader *r, CorpusIndex *x) {
    const cJSON *list, *item;
    x->field = take_text(r, "field", true);
    x->val = take_text(r, "val", false);
    list = json_take(r, "sources");
    if (!r->failed && (!cJSON_IsArray(list) || !cJSON_GetArraySize(list)))
        json_reader_fail(r, "unfinished.sources is %s, it must be a list of files", show_json(list).text);
    if (r->failed) return;
    x->sources = xcalloc((size_t)cJSON_GetArraySize(list), sizeof *x->sources);
    cJSON_ArrayForEach(item, list) if (!r->failed) read_source(r, item, &x->sources[x->n_sources++]);
    x->source = (int)take_count(r, "source", 0, x->n_sources);
    x->at.byte = take_count(r, "byte", 0, JSON_INTEGER_MAX);
    x->at.line = take_count(r, "line", 1, JSON_INTEGER_MAX);
}

static int read_index(CorpusIndex *x, const cJSON *root, Err *err) {
    JsonReader r = {.object = root, .path = "", .err = err}, sub;
    char format[64];
    if (!cJSON_IsObject(root)) return err_set(err, "it is no object");
    json_take_string(&r, "format", format, sizeof format, "");
    if (!r.failed && strcmp(format, FORMAT)) json_reader_fail(&r, "format is \"%s\", not \"" FORMAT "\"", format);
    const cJSON *sum = json_take(&r, "tokenizer_sha256");
    if (!r.failed && !is_sum(sum)) json_reader_fail(&r, "tokenizer_sha256 is %s, which is none", show_json(sum).text);
    if (!r.failed) memcpy(x->tokenizer, sum->valuestring, SHA256_HEX);
    x->vocab_size = (int)take_count(&r, "vocab_size", 1, INT_MAX);
    x->separator = (int)take_count(&r, "separator", -1, x->vocab_size - 1);
    x->shard_bytes = (size_t)take_count(&r, "shard_bytes", SHARD_UNIT, 1 << 30);
    if (x->shard_bytes % SHARD_UNIT)
        json_reader_fail(&r, "shard_bytes is %zu, it must be a multiple of %d", x->shard_bytes, SHARD_UNIT);
    x->unfinished = !json_is_null(json_field(root, "unfinished"));
    for (int row = 0; row < CORPUS_ROWS; row++) read_row(&r, x, (CorpusRowKind)row);
    if (!r.failed && json_reader_enter(&r, &sub, "unfinished")) {
        read_unfinished(&sub, x);
        json_reader_leave(&r, &sub);
    }
    json_reader_end(&r);
    return r.failed ? -1 : 0;
}

int corpus_index_load(CorpusIndex *x, const char *dir, Err *err) {
    char path[PATH_BYTES];
    Err why;
    *x = (CorpusIndex){0};
    if (path_join(path, dir, INDEX, err)) return -1;
    cJSON *root = json_load(path, INDEX_MAX, INDEX_DEPTH, INDEX_VALUES, err);
    if (!root) return -1;
    int rc = read_index(x, root, &why);
    cJSON_Delete(root);
    if (rc == 0) return 0;
    corpus_index_free(x);
    return err_set(err, "%s: %s", path, why.msg);
}
