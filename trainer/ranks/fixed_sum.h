/* fixed_sum: gradients of a step's M micro-batches, added as fixed point in integers of 64 bits:
 *
 *     s = sum over i of round(g_i / u)        g = s u, rounded once to f32        u = P 2^-52
 *
 * P is the power of two that holds M. Integer addition is exact, so s is a function of the set of micro-batches alone:
 * in which order they come, and who adds which to what (ranks.h), is nothing to it.
 *
 * Why it is sound. |g_i| < 2^11 is asked of every number, so |round(g_i / u)| < 2^63 / P and no sum of M or fewer of
 * them leaves the integers. A number of at least 2^24 u loses nothing, a smaller one half of u at most, so the mean g /
 * M is off by at most P 2^-53 and half a unit in the last place of f32: of 64 micro-batches by 7e-15, where AdamW's
 * epsilon, below which no gradient counts, is 1e-8. */
#ifndef NOISED_FIXED_SUM_H
#define NOISED_FIXED_SUM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { FIXED_SUM_LIMIT = 1 << 11 }; /* every |g_i| is below */

double fixed_sum_unit(int64_t micro_batches); /* u */

/* sum[n] += round(x / unit), or = where there is none before. Returns the place of the first number that does not fit,
 * infinities and NaN among them, SIZE_MAX where all do; behind such a number the sum is undefined. */
size_t fixed_sum_add(double unit, size_t n, const float *x, bool first, int64_t *sum);
void fixed_sum_read(double unit, size_t n, const int64_t *sum, float *x);
/* x[n] = what is read of a sum that x is all of; returns what fixed_sum_add does. By one thread. */
size_t fixed_sum_single(double unit, size_t n, float *x);

#endif
