#include "server/form/vocabulary.h"

#include "base/memory.h"
#include "server/form/walk.h"

#include <stdlib.h>
#include <string.h>

/* The bytes of a token that is text; NULL for others. */
static const char *text_of(const Tokenizer *t, int id, size_t *n) {
    const char *piece = tokenizer_is_special(t, id) ? NULL : tokenizer_piece(t, id, n);
    return piece && *n > 0 ? piece : NULL;
}

static int compare(const void *a, const void *b, void *tokenizer) {
    int x = *(const int *)a, y = *(const int *)b;
    size_t n, m;
    const char *p = tokenizer_piece(tokenizer, x, &n), *q = tokenizer_piece(tokenizer, y, &m);
    int order = memcmp(p, q, MIN(n, m));
    if (order == 0) order = (n > m) - (n < m);
    return order ? order : (x > y) - (x < y);
}

static size_t in_common(const Tokenizer *t, int x, int y) {
    size_t n, m, i = 0;
    const char *p = tokenizer_piece(t, x, &n), *q = tokenizer_piece(t, y, &m);
    while (i < n && i < m && p[i] == q[i]) i++;
    return i;
}

int vocabulary_init(Vocabulary *v, const Tokenizer *t) {
    int size = tokenizer_vocab_size(t);
    size_t n;
    *v = (Vocabulary){.tokenizer = t,
                      .ids = try_malloc((size_t)size * sizeof *v->ids),
                      .shared = try_malloc((size_t)size * sizeof *v->shared)};
    if (!v->ids || !v->shared) {
        vocabulary_free(v);
        return -1;
    }
    for (int id = 0; id < size; id++)
        if (text_of(t, id, &n)) v->ids[v->n++] = id;
    qsort_r(v->ids, (size_t)v->n, sizeof *v->ids, compare, (void *)t);
    for (int i = 0; i < v->n; i++) {
        v->shared[i] = i > 0 ? (int)in_common(t, v->ids[i - 1], v->ids[i]) : 0;
        tokenizer_piece(t, v->ids[i], &n);
        v->n_bytes += (int64_t)n - v->shared[i];
    }
    return 0;
}

void vocabulary_free(Vocabulary *v) {
    free(v->ids);
    free(v->shared);
    *v = (Vocabulary){0};
}

bool vocabulary_test(const Vocabulary *v, FormWalk *w, int id, FormScratch *s) {
    size_t n;
    const char *text = text_of(v->tokenizer, id, &n);
    return text && form_test(w, text, n, s);
}

bool vocabulary_take(const Vocabulary *v, FormWalk *w, int id, FormScratch *s) {
    size_t n;
    const char *text = text_of(v->tokenizer, id, &n);
    return text && form_take(w, text, n, s);
}

int vocabulary_mask(const Vocabulary *v, FormWalk *w, FormScratch *s, int *ids, int64_t *visits) {
    int found = 0, frames = w->n_frames;
    size_t walked = 0;    /* bytes of the token that was looked at last, whose places hold */
    bool refused = false; /* the byte behind them may not come */
    int64_t most = VOCABULARY_VISITS * MAX(v->n_bytes, FORM_BYTES);
    s->n_visits = 0;
    walk_begin(w, s);
    for (int i = 0; i < v->n && s->n_visits <= most; i++) {
        size_t n, shared = (size_t)v->shared[i];
        if (refused && shared > walked) continue;
        const char *text = tokenizer_piece(v->tokenizer, v->ids[i], &n);
        walked = MIN(walked, shared);
        refused = false;
        if (n > FORM_BYTES) continue;
        walk_back(w, s->places[walked].n_frames);
        while (walked < n && walk_step(w, s, (int)walked, (uint8_t)text[walked])) walked++;
        refused = walked < n;
        if (!refused) ids[found++] = v->ids[i];
    }
    walk_back(w, frames);
    *visits = s->n_visits;
    return s->n_visits > most ? -1 : found;
}
