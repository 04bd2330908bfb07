#include "trainer/text/corpus.h"

#include "base/atomic_file.h"
#include "base/err.h"
#include "base/memory.h"
#include "base/sha256.h"
#include "trainer/text/corpus_index.h"
#include "trainer/text/pieces.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

enum { WRITE_CHUNK = 1 << 15 };

typedef struct CacheHeader {
    char magic[8];
    uint64_t width, n_train, n_val, train_bytes, val_bytes;
    char key[64], pad[16];
} CacheHeader;
_Static_assert(sizeof(CacheHeader) == 128, "the ids start at byte 128");
static const char cache_magic[8] = "noisedT1";

static CacheHeader header_for(const Texts *texts, const Tokenizer *tok, const char *tokenizer_hash, int separator) {
    CacheHeader h = {.width = tokenizer_vocab_size(tok) <= NARROW_VOCAB ? 2 : 4};
    char hex[65];
    Sha256 hash;
    sha256_init(&hash);
    sha256_add(&hash, texts->hash, strlen(texts->hash));
    sha256_add(&hash, tokenizer_hash, strlen(tokenizer_hash));
    sha256_add(&hash, &separator, sizeof separator);
    sha256_hex(&hash, hex);
    memcpy(h.magic, cache_magic, sizeof h.magic);
    memcpy(h.key, hex, sizeof h.key);
    for (int i = 0; i < texts->n_train; i++) h.train_bytes += texts->train[i].n;
    for (int i = 0; i < texts->n_val; i++) h.val_bytes += texts->val[i].n;
    return h;
}

/* ---- writing ---- */

static int write_ids(AtomicFile *f, const TokenList *list, int width, Err *err) {
    if (list->failed) return err_set(err, "no memory for the token ids");
    unsigned char *chunk = xmalloc(WRITE_CHUNK * sizeof(uint32_t));
    int rc = 0;
    for (size_t i = 0; i < list->n && rc == 0;) {
        size_t n = MIN(list->n - i, (size_t)WRITE_CHUNK);
        for (size_t k = 0; k < n; k++)
            for (int b = 0; b < width; b++)
                chunk[k * (size_t)width + (size_t)b] = (unsigned char)(list->ids[i + k] >> 8 * b);
        rc = atomic_write(f, chunk, n * (size_t)width, err);
        i += n;
    }
    free(chunk);
    return rc;
}

static int write_texts(AtomicFile *f, const BpeText *texts, int n, const Tokenizer *tok, int width, int separator,
                       uint64_t *count, Err *err) {
    for (int i = 0; i < n; i++) {
        TokenList list = {0};
        int rc = text_encode(tok, texts[i].data, texts[i].n, &list, err);
        if (rc == 0 && i + 1 < n && separator >= 0) token_list_push(&list, separator);
        if (rc == 0) rc = write_ids(f, &list, width, err);
        *count += list.n;
        token_list_free(&list);
        if (rc) return -1;
    }
    return 0;
}

/* The counts are known last, so the header is written twice. */
static int write_cache(AtomicFile *f, CacheHeader *h, const Texts *texts, const Tokenizer *tok, int separator,
                       Err *err) {
    int width = (int)h->width;
    if (atomic_write(f, h, sizeof *h, err)) return -1;
    if (write_texts(f, texts->train, texts->n_train, tok, width, separator, &h->n_train, err)) return -1;
    if (write_texts(f, texts->val, texts->n_val, tok, width, separator, &h->n_val, err)) return -1;
    return atomic_write_at(f, 0, h, sizeof *h, err);
}

static int build_cache(const char *path, CacheHeader h, const Texts *texts, const Tokenizer *tok, int separator,
                       Err *err) {
    AtomicFile f;
    if (atomic_open(&f, path, err)) return -1;
    if (write_cache(&f, &h, texts, tok, separator, err)) {
        atomic_abandon(&f);
        return -1;
    }
    return atomic_commit(&f, err);
}

/* ---- reading ---- */

static bool ids_below(const TokenSpan *s, int limit) {
    for (size_t i = 0; i < s->n; i++)
        if (token_at(s, i) < 0 || token_at(s, i) >= limit) return false;
    return true;
}

/* True when the mapping is the cache that `want` describes; sets the spans. */
static bool map_matches(Corpus *c, const CacheHeader *want, int vocab) {
    CacheHeader h;
    size_t ids, bytes;
    if (c->map_bytes < sizeof h) return false;
    memcpy(&h, c->map, sizeof h);
    if (memcmp(h.magic, want->magic, sizeof h.magic) || memcmp(h.key, want->key, sizeof h.key)) return false;
    if (h.width != want->width || h.train_bytes != want->train_bytes || h.val_bytes != want->val_bytes) return false;
    if (!size_add(h.n_train, h.n_val, &ids) || !size_mul(ids, h.width, &bytes)) return false;
    if (bytes != c->map_bytes - sizeof h) return false;
    const unsigned char *first = (const unsigned char *)c->map + sizeof h;
    c->train = (TokenSpan){.ids = first, .width = (int)h.width, .n = h.n_train};
    c->val = (TokenSpan){.ids = first + h.n_train * h.width, .width = (int)h.width, .n = h.n_val};
    c->train_bytes = h.train_bytes;
    c->val_bytes = h.val_bytes;
    return ids_below(&c->train, vocab) && ids_below(&c->val, vocab);
}

/* 1 mapped and right, 0 absent or stale, -1 error. */
static int open_cache(Corpus *c, const char *path, const CacheHeader *want, int vocab, Err *err) {
    struct stat st;
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0) return errno == ENOENT ? 0 : err_set(err, "%s: %s", path, strerror(errno));
    if (fstat(fd, &st) < 0 || !S_ISREG(st.st_mode) || st.st_size == 0) {
        close(fd);
        return 0;
    }
    c->map_bytes = (size_t)st.st_size;
    c->map = mmap(NULL, c->map_bytes, PROT_READ, MAP_PRIVATE, fd, 0);
    if (c->map == MAP_FAILED) {
        c->map = NULL;
        err_set(err, "%s: %s", path, strerror(errno));
        close(fd);
        return -1;
    }
    c->guards = xcalloc(1, sizeof *c->guards);
    if (map_guard_open(c->guards, c->map, c->map_bytes, fd, err)) return -1;
    c->n_guards = 1;
    if (map_matches(c, want, vocab)) return 1;
    corpus_close(c);
    return 0;
}

int corpus_open(Corpus *c, const char *path, const Texts *texts, const Tokenizer *tok, const char *tokenizer_hash,
                int separator, Err *err) {
    CacheHeader want = header_for(texts, tok, tokenizer_hash, separator);
    int vocab = tokenizer_vocab_size(tok);
    *c = (Corpus){0};
    snprintf(c->path, sizeof c->path, "%s", path);
    int rc = open_cache(c, path, &want, vocab, err);
    if (rc) return rc < 0 ? -1 : 0;
    if (build_cache(path, want, texts, tok, separator, err)) return -1;
    rc = open_cache(c, path, &want, vocab, err);
    if (rc == 0) return err_set(err, "%s: changed while it was being opened", path);
    c->rebuilt = true;
    return rc < 0 ? -1 : 0;
}

bool corpus_intact(const Corpus *c) {
    int64_t changed;
    for (int i = 0; i < c->n_guards; i++)
        if (map_guard_look(&c->guards[i], &changed) == MAP_DAMAGED) return false;
    return true;
}

void corpus_close(Corpus *c) {
    for (int i = 0; i < c->n_guards; i++) map_guard_close(&c->guards[i]);
    if (c->map) munmap(c->map, c->map_bytes);
    free(c->guards);
    c->guards = NULL;
    c->n_guards = 0;
    c->map = NULL;
}

/* What is checked is what was copied: the file may change between the two. */
int span_read(const TokenSpan *s, size_t first, int n, int vocab, int *tokens, int *targets, Err *err) {
    unsigned most = 0;
    for (int i = 0; i < n; i++) {
        tokens[i] = token_at(s, first + (size_t)i);
        targets[i] = token_at(s, first + (size_t)i + 1);
        most = MAX(most, MAX((unsigned)tokens[i], (unsigned)targets[i]));
    }
    if (most < (unsigned)vocab) return 0;
    return err_set(err, "there is a token %u between the ids %zu and %zu, vocab_size is %d", most, first,
                   first + (size_t)n, vocab);
}
