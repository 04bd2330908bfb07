#include "tokenizer/merge.h"

#include "base/err.h"
#include "base/memory.h"
#include "tokenizer/impl.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>

/* Below this many symbols scanning for the lowest rank beats a heap. */
enum { SHORT_WORD = 32, NO_RANK = INT_MAX };

/* Wide and flat: a long word's heap is larger than the cache. */
enum { HEAP_WAYS = 4 };

bool merge_scratch_reserve(MergeScratch *m, size_t n) {
    if (n <= m->capacity) return true;
    merge_scratch_free(m);
    m->capacity = MAX(n, 256);
    m->symbols = try_malloc(m->capacity * sizeof *m->symbols);
    m->heap = try_malloc(2 * m->capacity * sizeof *m->heap);
    if (m->symbols && m->heap) return true;
    merge_scratch_free(m);
    return false;
}

void merge_scratch_free(MergeScratch *m) {
    free(m->symbols);
    free(m->heap);
    *m = (MergeScratch){0};
}

static int pair_rank(const Tokenizer *t, int left, int right) {
    int rank = pair_map_find(&t->ranks, left, right);
    return rank < 0 ? NO_RANK : rank;
}

static size_t merge_short(const Tokenizer *t, Symbol *s, size_t n) {
    for (size_t i = 0; i + 1 < n; i++) s[i].rank = pair_rank(t, s[i].id, s[i + 1].id);
    while (n > 1) {
        size_t best = 0;
        for (size_t i = 1; i + 1 < n; i++)
            if (s[i].rank < s[best].rank) best = i;
        if (s[best].rank == NO_RANK) break;
        s[best].id = t->spec.merges[s[best].rank].result;
        n--;
        memmove(s + best + 1, s + best + 2, (n - best - 1) * sizeof *s);
        if (best > 0) s[best - 1].rank = pair_rank(t, s[best - 1].id, s[best].id);
        if (best + 1 < n) s[best].rank = pair_rank(t, s[best].id, s[best + 1].id);
    }
    return n;
}

/* ---- long words: a linked list of symbols and a min-heap of the pairs that have a rank ---- */

static void heap_sift_down(uint64_t *heap, size_t n, size_t i) {
    uint64_t x = heap[i];
    for (size_t child; (child = HEAP_WAYS * i + 1) < n; i = child) {
        const size_t end = MIN(child + HEAP_WAYS, n);
        for (size_t k = child + 1; k < end; k++)
            if (heap[k] < heap[child]) child = k;
        if (x <= heap[child]) break;
        heap[i] = heap[child];
    }
    heap[i] = x;
}

static void heap_push(MergeScratch *m, uint64_t x) {
    size_t i = m->n_heap++;
    for (size_t parent; i > 0 && m->heap[parent = (i - 1) / HEAP_WAYS] > x; i = parent) m->heap[i] = m->heap[parent];
    m->heap[i] = x;
}

static uint64_t heap_pop(MergeScratch *m) {
    uint64_t top = m->heap[0];
    m->heap[0] = m->heap[--m->n_heap];
    if (m->n_heap) heap_sift_down(m->heap, m->n_heap, 0);
    return top;
}

static uint64_t heap_entry(int rank, int at) { return (uint64_t)(uint32_t)rank << 32 | (uint32_t)at; }

static void rank_pair_at(const Tokenizer *t, MergeScratch *m, int at) {
    Symbol *s = &m->symbols[at];
    s->rank = s->next < 0 ? NO_RANK : pair_rank(t, s->id, m->symbols[s->next].id);
    if (s->rank != NO_RANK) heap_push(m, heap_entry(s->rank, at));
}

static void heap_fill(const Tokenizer *t, MergeScratch *m, int n) {
    m->n_heap = 0;
    for (int i = 0; i < n; i++) {
        Symbol *s = &m->symbols[i];
        s->prev = i - 1;
        s->next = i + 1 < n ? i + 1 : -1;
        s->rank = i + 1 < n ? pair_rank(t, s->id, s[1].id) : NO_RANK;
        if (s->rank != NO_RANK) m->heap[m->n_heap++] = heap_entry(s->rank, i);
    }
    for (size_t i = (m->n_heap + HEAP_WAYS - 2) / HEAP_WAYS; i-- > 0;) heap_sift_down(m->heap, m->n_heap, i);
}

static size_t merge_long(const Tokenizer *t, MergeScratch *m, int n) {
    Symbol *symbols = m->symbols;
    heap_fill(t, m, n);
    while (m->n_heap) {
        uint64_t top = heap_pop(m);
        int at = (int)(uint32_t)top, rank = (int)(top >> 32);
        Symbol *s = &symbols[at];
        /* A rank names one pair, so an entry is stale exactly when the rank at its place has changed. */
        if (s->rank != rank) continue;
        Symbol *eaten = &symbols[s->next];
        eaten->rank = NO_RANK;
        s->id = t->spec.merges[rank].result;
        s->next = eaten->next;
        if (s->next >= 0) symbols[s->next].prev = at;
        rank_pair_at(t, m, at);
        if (s->prev >= 0) rank_pair_at(t, m, s->prev);
    }
    size_t left = 0;
    for (int i = 0; i >= 0; i = symbols[i].next) symbols[left++].id = symbols[i].id;
    return left;
}

size_t merge_symbols(const Tokenizer *t, MergeScratch *m, size_t n) {
    BUG_ON(n > m->capacity || n > INT_MAX);
    return n <= SHORT_WORD ? merge_short(t, m->symbols, n) : merge_long(t, m, (int)n);
}
