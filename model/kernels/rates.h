/* rates: the products that several levels have in the same bits, each by the level that is fastest at it.
 *
 * A feature bit says that an instruction is there, not what it costs: vdpbf16ps has twice the rate of fused
 * multiply-adds on Zen 5 and half of it on Sapphire Rapids. So products are tried, and what is faster is taken. Among
 * equal bits alone: a busy machine's tries can be wrong. */
#ifndef NOISED_RATES_H
#define NOISED_RATES_H

#include "model/kernels/kernels.h"

typedef struct RatedKernels {
    Kernels kernels; /* points to the others */
    TrainKernels train;
    char others[256];
} RatedKernels;

/* The last of levels[0..n-1], with those products of the others that have its bits and are clearly faster. What
 * decides about bits is left as that level has it. Takes some milliseconds of this thread. */
void kernels_by_rate(RatedKernels *r, const Kernels *const *levels, int n);

#endif
