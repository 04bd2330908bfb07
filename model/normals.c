#include "model/normals.h"

#include "model/kernels/kernels.h"

/* Blocks of draws are counted on, which is what the noise of a row is drawn by. */
void normals_of_draws(const Draws *d, uint64_t first, int n, double mean, double deviation, float *out) {
    uint64_t draws[NORMALS_MOST], block = first / 2;
    kernels->gaussian_bits(d->seed, d->purpose, d->index, (uint32_t)(block >> 32), (uint32_t)block >> 16,
                           (int)(block & 0xffff) * 8, 4 * n, (uint16_t *)draws);
    kernels->normals(n, draws, mean, deviation, out);
}
