#include "server/engine/bad_words.h"

#include "base/memory.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

typedef struct Word {
    int *ids;
    int n;
} Word;

struct BadWords {
    atomic_int owners;
    Word *words; /* [n] */
    int n;
};

BadWords *bad_words_new(void) {
    BadWords *w = try_calloc(1, sizeof *w);
    if (w) atomic_init(&w->owners, 1);
    return w;
}

int bad_words_add(BadWords *w, const int *ids, int n) {
    Word *words = try_realloc(w->words, (size_t)(w->n + 1) * sizeof *words);
    if (!words) return -1;
    w->words = words;
    int *copy = try_malloc((size_t)n * sizeof *copy);
    if (!copy) return -1;
    memcpy(copy, ids, (size_t)n * sizeof *copy);
    w->words[w->n++] = (Word){.ids = copy, .n = n};
    return 0;
}

BadWords *bad_words_hold(BadWords *w) {
    if (w) atomic_fetch_add(&w->owners, 1);
    return w;
}

void bad_words_release(BadWords *w) {
    if (!w || atomic_fetch_sub(&w->owners, 1) > 1) return;
    for (int i = 0; i < w->n; i++) free(w->words[i].ids);
    free(w->words);
    free(w);
}

int bad_words_count(const BadWords *w) { return w->n; }

int bad_words_next(const BadWords *w, const int *text, int n, int *banned) {
    int found = 0;
    for (const Word *x = w->words; x < w->words + w->n; x++) {
        int before = x->n - 1;
        bool begun = before <= n && (before == 0 || !memcmp(text + n - before, x->ids, (size_t)before * sizeof *text));
        if (begun) banned[found++] = x->ids[before];
    }
    return found;
}
