#include "weights/shards.h"

#include "base/files.h"
#include "base/err.h"
#include "base/json/json.h"
#include "base/json/json_reader.h"
#include "base/memory.h"
#include "base/text.h"

#include <stdlib.h>
#include <string.h>

enum { INDEX_MAX = 16 << 20, INDEX_DEPTH = 8, INDEX_VALUES = SAFE_TENSORS_MAX + 1024 };

static const char single_name[] = "model.safetensors", index_name[] = "model.safetensors.index.json";

/* ---- the index ---- */

/* Its files must lie in the folder itself: what a foreign index names is opened. */
static int check_file_name(const cJSON *item, Err *err) {
    if (!cJSON_IsString(item)) return err_set(err, "weight_map: the file of %.255s is no string", item->string);
    const char *name = item->valuestring;
    size_t n = strlen(name), plain = strcspn(name, "/");
    for (const char *p = name; *p; p++) plain = (unsigned char)*p < ' ' || *p == 0x7f ? 0 : plain;
    if (n && n == plain && n < 256 && name[0] != '.') return 0;
    return err_set(err, "weight_map: %.255s is in \"%.80s\", which is no plain file name", item->string, name);
}

static int by_key(const void *a, const void *b) {
    return strcmp((*(const cJSON *const *)a)->string, (*(const cJSON *const *)b)->string);
}

static int read_file_names(Shards *s, const char *dir, const cJSON *map, Err *err) {
    int n = cJSON_GetArraySize(map);
    const char **names = xmalloc((size_t)n * sizeof *names);
    n = 0;
    for (const cJSON *item = map->child; item; item = item->next) names[n++] = item->valuestring;
    qsort(names, (size_t)n, sizeof *names, text_order);
    int kept = 0, rc = 0;
    for (int i = 0; i < n; i++)
        if (kept == 0 || strcmp(names[kept - 1], names[i])) names[kept++] = names[i];
    if (kept == 0 || kept > SHARDS_MAX)
        rc = err_set(err, "weight_map names %d files, must be 1 to %d", kept, SHARDS_MAX);
    s->names = xcalloc((size_t)kept, sizeof *s->names);
    for (int i = 0; i < kept && rc == 0; i++) {
        char path[PATH_BYTES];
        rc = path_join(path, dir, names[i], err);
        if (rc == 0) s->names[s->n_files++] = xstrdup(path);
    }
    free(names);
    return rc;
}

static const char *file_name(const Shards *s, int i) { return strrchr(s->names[i], '/') + 1; }

/* Both lists are sorted by tensor: walked side by side, they must be the same. */
static int compare_index(const Shards *s, const cJSON *const *entries, int n, Err *err) {
    for (int i = 0, k = 0; i < n || k < s->n; i++, k++) {
        const SafeTensor *t = &s->tensors[k];
        int order = i == n ? 1 : k == s->n ? -1 : strcmp(entries[i]->string, t->name);
        if (order < 0) return err_set(err, "weight_map: %s is not in %s", entries[i]->string, entries[i]->valuestring);
        if (order > 0) return err_set(err, "weight_map: %s of %s is missing", t->name, file_name(s, t->shard));
        if (strcmp(entries[i]->valuestring, file_name(s, t->shard)))
            return err_set(err, "weight_map: %s is in %s, not in %s", t->name, file_name(s, t->shard),
                           entries[i]->valuestring);
    }
    return 0;
}

static int check_index(const Shards *s, const cJSON *map, Err *err) {
    int n = 0;
    const cJSON **entries = xmalloc(((size_t)cJSON_GetArraySize(map) + 1) * sizeof *entries);
    for (const cJSON *item = map->child; item; item = item->next) entries[n++] = item;
    qsort(entries, (size_t)n, sizeof *entries, by_key);
    int rc = compare_index(s, entries, n, err);
    free(entries);
    return rc;
}

/* The tree of the index; *map is its weight_map, checked. */
static cJSON *read_index(const char *path, const cJSON **map, Err *err) {
    Err why;
    cJSON *root = json_load(path, INDEX_MAX, INDEX_DEPTH, INDEX_VALUES, err);
    if (!root) return NULL;
    *map = json_field(root, "weight_map");
    int rc = cJSON_IsObject(*map) ? 0 : err_set(&why, "weight_map is missing");
    for (const cJSON *item = rc ? NULL : (*map)->child; item && rc == 0; item = item->next)
        rc = check_file_name(item, &why);
    if (rc == 0) return root;
    cJSON_Delete(root);
    return err_set(err, "%s: %s", path, why.msg), NULL;
}

/* ---- the files ---- */

int shards_sort(Shards *s, Err *err) {
    qsort(s->tensors, (size_t)s->n, sizeof *s->tensors, safe_tensor_by_name);
    for (int i = 1; i < s->n; i++) {
        const SafeTensor *a = &s->tensors[i - 1], *b = &s->tensors[i];
        if (strcmp(a->name, b->name)) continue;
        const char *x = safe_file_name(a), *y = safe_file_name(b);
        if (strcmp(x, y)) return err_set(err, "%s and %s are the same tensor", x, y);
        return err_set(err, "%s is there twice: in %s and in %s", x, file_name(s, MIN(a->shard, b->shard)),
                       file_name(s, MAX(a->shard, b->shard)));
    }
    return 0;
}

void *shards_alloc(Shards *s, size_t n) {
    s->owned = xrealloc(s->owned, ((size_t)s->n_owned + 1) * sizeof *s->owned);
    return s->owned[s->n_owned++] = xmalloc(n);
}

void shards_drop(Shards *s, const SafeTensor *t) {
    s->dropped = xrealloc(s->dropped, ((size_t)s->n_dropped + 1) * sizeof *s->dropped);
    s->dropped[s->n_dropped++] = safe_file_name(t);
}

static int open_files(Shards *s, bool copy, Err *err) {
    s->files = xcalloc((size_t)s->n_files, sizeof *s->files);
    for (int i = 0; i < s->n_files; i++) {
        if ((copy ? safe_open_copy : safe_open)(&s->files[i], s->names[i], err)) return -1;
        s->n += s->files[i].n;
    }
    s->tensors = xcalloc((size_t)s->n, sizeof *s->tensors);
    SafeTensor *to = s->tensors;
    for (int i = 0; i < s->n_files; i++)
        for (int k = 0; k < s->files[i].n; k++) {
            *to = s->files[i].tensors[k];
            to++->shard = i;
        }
    return shards_sort(s, err);
}

static int open_indexed(Shards *s, const char *dir, const char *path, bool copy, Err *err) {
    Err why;
    const cJSON *map;
    cJSON *root = read_index(path, &map, err);
    if (!root) return -1;
    int rc = read_file_names(s, dir, map, &why) || open_files(s, copy, &why) || check_index(s, map, &why) ? -1 : 0;
    cJSON_Delete(root);
    return rc ? err_set(err, "%s: %s", path, why.msg) : 0;
}

static int open_folder(Shards *s, const char *dir, bool copy, Err *err) {
    char single[PATH_BYTES], index[PATH_BYTES];
    if (path_join(single, dir, single_name, err) || path_join(index, dir, index_name, err)) return -1;
    bool has_single = file_is_there(single), has_index = file_is_there(index);
    if (has_single && has_index) return err_set(err, "%s: both %s and %s are there", dir, single_name, index_name);
    if (has_index) return open_indexed(s, dir, index, copy, err);
    s->names = xcalloc(1, sizeof *s->names);
    s->names[s->n_files++] = xstrdup(single);
    return open_files(s, copy, err);
}

int shards_open(Shards *s, const char *dir, bool copy, Err *err) {
    *s = (Shards){0};
    if (open_folder(s, dir, copy, err) == 0) return 0;
    shards_close(s);
    return -1;
}

void shards_close(Shards *s) {
    for (int i = 0; i < s->n_files; i++) {
        if (s->files) safe_close(&s->files[i]);
        free(s->names[i]);
    }
    for (int i = 0; i < s->n_owned; i++) free(s->owned[i]);
    free(s->owned);
    free(s->dropped);
    free(s->files);
    free(s->names);
    free(s->tensors);
    *s = (Shards){0};
}

const SafeTensor *shards_find(const Shards *s, const char *name) {
    SafeTensor key = {.name = (char *)name};
    return s->n ? bsearch(&key, s->tensors, (size_t)s->n, sizeof *s->tensors, safe_tensor_by_name) : NULL;
}

/* ---- digests ---- */

void shards_hash(const Shards *s, Sha256 *h) {
    for (int i = 0; i < s->n_files; i++) {
        const SafeFile *f = &s->files[i];
        char digest[SHA256_HEX];
        sha256_add(h, f->map, safe_header_bytes(f));
        if (f->metadata_sha256) continue;
        proof_hex(f->proof, digest);
        sha256_add(h, digest, strlen(digest));
    }
}

bool shards_intact(const Shards *s) {
    for (int i = 0; i < s->n_files; i++)
        if (!safe_intact(&s->files[i])) return false;
    return true;
}

int shards_check_intact(const Shards *s, Err *err) {
    for (int i = 0; i < s->n_files; i++)
        if (!safe_intact(&s->files[i])) return err_set(err, "%s was changed while it was read", s->names[i]);
    return 0;
}
