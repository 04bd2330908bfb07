#include "trainer/text/corpus_map.h"

#include "base/atomic_file.h"
#include "base/json/json_reader.h"
#include "base/json_write.h"
#include "base/memory.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#define CHECKED "checked.json"
enum { CHECKED_MAX = 1 << 26, CHECKED_VALUES = 1 << 20 };

/* A file as checked.json knows it. */
typedef struct Seen {
    char text[64];
} Seen;

static Seen see(const struct stat *st) {
    Seen s;
    snprintf(s.text, sizeof s.text, "%llu %lld.%09ld", (unsigned long long)st->st_ino, (long long)st->st_ctim.tv_sec,
             st->st_ctim.tv_nsec);
    return s;
}

typedef struct Shard {
    char path[PATH_BYTES];
    const char *want; /* its sha256 */
    void *data;
    size_t bytes;
    Seen seen;
    bool known; /* it had its sha256 when it was seen like this */
    char sum[SHA256_HEX];
} Shard;

static const char *name_of(const Shard *s) { return strrchr(s->path, '/') + 1; }

/* ---- mapping ---- */

static int map_shard(Shard *s, MapGuard *guard, Err *err) {
    struct stat st;
    int fd = open(s->path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0) return err_set(err, "%s: %s", s->path, strerror(errno));
    int rc = fstat(fd, &st) < 0 ? err_set(err, "%s: %s", s->path, strerror(errno)) : 0;
    if (rc == 0 && (!S_ISREG(st.st_mode) || (size_t)st.st_size != s->bytes))
        rc = err_set(err, "%s: %lld bytes, the index says %zu", s->path, (long long)st.st_size, s->bytes);
    if (rc == 0 && mmap(s->data, s->bytes, PROT_READ, MAP_PRIVATE | MAP_FIXED, fd, 0) == MAP_FAILED)
        rc = err_set(err, "%s: %s", s->path, strerror(errno));
    if (rc) return close(fd), -1;
    madvise(s->data, s->bytes, MADV_RANDOM);
    s->seen = see(&st);
    return map_guard_open(guard, s->data, s->bytes, fd, err);
}

/* Room for both rows, each from a page on. */
static int map_all(Corpus *c, const CorpusIndex *x, Shard *shards, int n, Err *err) {
    size_t places = 0;
    for (int i = 0; i < n; i++) places += x->shard_bytes;
    c->map_bytes = MAX(places, x->shard_bytes);
    c->map = mmap(NULL, c->map_bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (c->map == MAP_FAILED) {
        c->map = NULL;
        return err_set(err, "%s: no addresses for %zu bytes of ids: %s", c->path, c->map_bytes, strerror(errno));
    }
    if (files_affordable(n) < n)
        return err_set(err, "%s: %d shards are more files than this process may open (ulimit -n)", c->path, n);
    c->guards = xcalloc((size_t)n + 1, sizeof *c->guards);
    for (int i = 0; i < n; i++) {
        shards[i].data = (char *)c->map + (size_t)i * x->shard_bytes;
        if (map_shard(&shards[i], &c->guards[c->n_guards], err)) return -1;
        c->n_guards++;
    }
    return 0;
}

static TokenSpan row_span(const Corpus *c, const CorpusIndex *x, CorpusRowKind row) {
    size_t first = row ? (size_t)corpus_shards(x, ROW_TRAIN) * x->shard_bytes : 0;
    return (TokenSpan){
        .ids = (const unsigned char *)c->map + first, .width = corpus_width(x), .n = (size_t)x->rows[row].ids};
}

/* ---- what they are ---- */

/* What cannot be read is as if nothing were known. */
static void recall(const char *dir, Shard *shards, int n) {
    char path[PATH_BYTES];
    cJSON *known = path_join(path, dir, CHECKED, NULL) ? NULL : json_load(path, CHECKED_MAX, 2, CHECKED_VALUES, NULL);
    const cJSON *next = known ? known->child : NULL;
    for (int i = 0; i < n && next; i++) {
        if (strcmp(next->string, name_of(&shards[i]))) continue;
        shards[i].known = json_is_text(next, shards[i].seen.text);
        next = next->next;
    }
    cJSON_Delete(known);
}

static int remember(const char *dir, const Shard *shards, int n, Err *err) {
    char path[PATH_BYTES];
    Buffer b = {.layout = JSON_SPACED};
    json_open(&b, NULL, '{');
    for (int i = 0; i < n; i++) json_put_text(&b, name_of(&shards[i]), shards[i].seen.text);
    json_close(&b, '}');
    buffer_text(&b, "\n");
    int rc = b.failed || path_join(path, dir, CHECKED, err) ? -1 : file_write(path, b.data, b.n, err);
    buffer_free(&b);
    return rc;
}

static void hash_shard(Shard *s) {
    Sha256 hash;
    madvise(s->data, s->bytes, MADV_SEQUENTIAL);
    sha256_init(&hash);
    sha256_add(&hash, s->data, s->bytes);
    sha256_hex(&hash, s->sum);
    madvise(s->data, s->bytes, MADV_RANDOM);
}

static int check_sums(const Corpus *c, Shard *shards, int n, Err *err) {
    int unknown = 0;
    Err why;
    recall(c->path, shards, n);
    for (int i = 0; i < n; i++) unknown += !shards[i].known;
    if (!unknown) return 0;
    printf("%s: looking at %d of %d shards, because they are new here or have changed\n", c->path, unknown, n);
    fflush(stdout);
#pragma omp parallel for schedule(dynamic)
    for (int i = 0; i < n; i++)
        if (!shards[i].known) hash_shard(&shards[i]);
    for (int i = 0; i < n; i++)
        if (!shards[i].known && strcmp(shards[i].sum, shards[i].want))
            return err_set(err, "%s: its sha256 is %s, the index says %s", shards[i].path, shards[i].sum,
                           shards[i].want);
    if (remember(c->path, shards, n, &why)) printf("they are looked at again at every start: %s\n", why.msg);
    return 0;
}

/* ---- all ---- */

/* All of both rows; the caller's to free. */
static Shard *list_shards(const char *dir, const CorpusIndex *x, int *n, Err *err) {
    int train = corpus_shards(x, ROW_TRAIN);
    *n = train + corpus_shards(x, ROW_HELD_OUT);
    Shard *shards = xcalloc((size_t)*n + 1, sizeof *shards);
    for (int i = 0; i < *n; i++) {
        CorpusRowKind row = i < train ? ROW_TRAIN : ROW_HELD_OUT;
        int k = row ? i - train : i;
        shards[i].bytes = corpus_shard_bytes(x, row, k);
        shards[i].want = x->rows[row].sums[k];
        if (corpus_shard_path(shards[i].path, dir, row, k, err)) return free(shards), NULL;
    }
    return shards;
}

int corpus_map(Corpus *c, const char *dir, const CorpusIndex *x, Err *err) {
    int n;
    *c = (Corpus){0};
    snprintf(c->path, sizeof c->path, "%s", dir);
    Shard *shards = list_shards(dir, x, &n, err);
    int rc = !shards || map_all(c, x, shards, n, err) || check_sums(c, shards, n, err) ? -1 : 0;
    free(shards);
    if (rc) return -1;
    c->train = row_span(c, x, ROW_TRAIN);
    c->val = row_span(c, x, ROW_HELD_OUT);
    c->train_bytes = (size_t)x->rows[ROW_TRAIN].bytes;
    c->val_bytes = (size_t)x->rows[ROW_HELD_OUT].bytes;
    return 0;
}

int corpus_checked(const char *dir, const CorpusIndex *x, Err *err) {
    int n, rc = 0;
    Shard *shards = list_shards(dir, x, &n, err);
    for (int i = 0; shards && i < n && rc == 0; i++) {
        struct stat st;
        rc = stat(shards[i].path, &st) ? err_set(err, "%s: %s", shards[i].path, strerror(errno)) : 0;
        if (rc == 0) shards[i].seen = see(&st);
    }
    rc = !shards || rc || remember(dir, shards, n, err) ? -1 : 0;
    free(shards);
    return rc;
}
