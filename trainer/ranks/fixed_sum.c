#include "trainer/ranks/fixed_sum.h"

#include "base/memory.h"
#include "base/team.h"
#include "model/kernels/kernels.h"

#include <math.h>

enum { FRACTION = 52, PIECE = 1 << 14 };

double fixed_sum_unit(int64_t micro_batches) {
    int p = 0;
    while ((int64_t)1 << p < micro_batches) p++;
    return ldexp(1, p - FRACTION);
}

static size_t first_misfit(size_t n, const float *x) {
    size_t i = 0;
    while (i < n && fabsf(x[i]) < FIXED_SUM_LIMIT) i++;
    return i;
}

/* n numbers of x from `at` on, added to sum; the place of the first that does not fit. */
static size_t add_piece(double unit, size_t n, const float *x, size_t at, bool first, int64_t *sum) {
    bool fits = kernels->train->fixed_add((int)n, x + at, 1 / unit, FIXED_SUM_LIMIT, first, sum);
    return fits ? SIZE_MAX : at + first_misfit(n, x + at);
}

size_t fixed_sum_add(double unit, size_t n, const float *x, bool first, int64_t *sum) {
    size_t misfit = SIZE_MAX;
#pragma omp parallel for schedule(static) reduction(min : misfit) if (team_pays(n, TEAM_ELEMENTS))
    for (size_t at = 0; at < n; at += PIECE) {
        size_t here = MIN(n - at, (size_t)PIECE);
        size_t place = add_piece(unit, here, x, at, first, sum + at);
        misfit = MIN(misfit, place);
    }
    return misfit;
}

size_t fixed_sum_single(double unit, size_t n, float *x) {
    bool fits = kernels->train->fixed_single((int)n, (float)unit, FIXED_SUM_LIMIT, x);
    return fits ? SIZE_MAX : first_misfit(n, x);
}

void fixed_sum_read(double unit, size_t n, const int64_t *sum, float *x) {
#pragma omp parallel for schedule(static) if (team_pays(n, TEAM_ELEMENTS))
    for (size_t at = 0; at < n; at += PIECE)
        kernels->train->fixed_read((int)MIN(n - at, (size_t)PIECE), sum + at, (float)unit, x + at);
}
