#include "trainer/ranks/gradient_sum.h"

#include "base/memory.h"
#include "trainer/ranks/ranks.h"

#include <stdlib.h>
#include <string.h>

void gradient_sum_init(GradientSum *s, size_t n, int64_t leaves) {
    *s = (GradientSum){.n = n, .levels = ranks_levels(leaves)};
    s->waits = xcalloc((size_t)s->levels + 1, sizeof *s->waits);
    for (int i = 0; i < s->levels; i++) s->waits[i] = xcalloc(n, sizeof(float));
}

void gradient_sum_free(GradientSum *s) {
    for (int i = 0; i < s->levels; i++) free(s->waits[i]);
    free(s->waits);
    *s = (GradientSum){0};
}

void gradient_add(float *restrict to, const float *restrict x, size_t n) {
#pragma omp parallel for schedule(static)
    for (size_t i = 0; i < n; i++) to[i] += x[i];
}

/* A bit of the leaf's number says, level by level, whether it lies in a right half, whose left one waits. */
void gradient_sum_add(GradientSum *s, float *g, int64_t leaf) {
    int level = 0;
    for (; leaf >> level & 1; level++) gradient_add(g, s->waits[level], s->n);
    memcpy(s->waits[level], g, s->n * sizeof *g);
}

void gradient_sum_end(const GradientSum *s, float *g, size_t first, size_t n, int64_t leaves) {
    for (int level = 0; level < s->levels; level++)
        if ((leaves - 1) >> level & 1) gradient_add(g + first, s->waits[level] + first, n);
}
