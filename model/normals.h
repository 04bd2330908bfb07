/* normals: rows of Gaussians of a stream of draws, as many at once as a level's vectors hold. */
#ifndef NOISED_NORMALS_H
#define NOISED_NORMALS_H

#include "base/random.h"

enum { NORMALS_MOST = 4096 };

/* out[k] = (float)(mean + deviation z), z the Gaussian that draw_normal (base/random.h) makes of the draws 2 (first +
 * k) and 2 (first + k) + 1. first a multiple of NORMALS_MOST, n at most that many. Any thread, after kernels_init. */
void normals_of_draws(const Draws *d, uint64_t first, int n, double mean, double deviation, float *out);

#endif
