/* merge: byte-pair merging of one word. */
#ifndef NOISED_MERGE_H
#define NOISED_MERGE_H

#include "base/err.h"

typedef struct Tokenizer Tokenizer; /* tokenizer.h */

typedef struct Symbol {
    int id;
    int rank;       /* of the pair it begins */
    int prev, next; /* -1: none */
} Symbol;

typedef struct MergeScratch {
    Symbol *symbols; /* [capacity] of one word */
    uint64_t *heap;  /* [2 capacity] rank << 32 | position */
    size_t n_heap, capacity;
} MergeScratch;

bool merge_scratch_reserve(MergeScratch *m, size_t n); /* false when memory runs out */
void merge_scratch_free(MergeScratch *m);

/* Merges m->symbols[0..n), whose ids are set, in place until no pair has a rank; returns how many are left. */
size_t merge_symbols(const Tokenizer *t, MergeScratch *m, size_t n);

#endif
