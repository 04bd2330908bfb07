/* gradient_sum: adds up the gradients of a step's micro-batches, number 0 to M-1, in one fixed binary tree:
 *
 *     ((g0 + g1) + (g2 + g3)) + ((g4 + g5) + (g6 + g7))        a leaf that is not there is left out
 *
 * so that adding whole subtrees, and then these, gives the same bits: as one rank or many (ranks.h). What waits
 * for its right half is one buffer for every level of the tree. */
#ifndef NOISED_GRADIENT_SUM_H
#define NOISED_GRADIENT_SUM_H

#include <stddef.h>
#include <stdint.h>

typedef struct GradientSum {
    size_t n;      /* floats */
    int levels;    /* of a tree of so many leaves */
    float **waits; /* [levels] of n */
} GradientSum;

void gradient_sum_init(GradientSum *s, size_t n, int64_t leaves);
void gradient_sum_free(GradientSum *s);

/* g is that of leaf `leaf`; they come in order, all but the last. It is whatever behind the call. */
void gradient_sum_add(GradientSum *s, float *g, int64_t leaf);
/* g is that of the last leaf, and becomes the sum in its floats first to first + n. */
void gradient_sum_end(const GradientSum *s, float *g, size_t first, size_t n, int64_t leaves);

/* to += x. */
void gradient_add(float *restrict to, const float *restrict x, size_t n);

#endif
