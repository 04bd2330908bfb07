/* quantiles: the magnitudes of the Gaussians that seeds draw (docs/spec.md 4). */
#ifndef NOISED_QUANTILES_H
#define NOISED_QUANTILES_H

/* Q[m] = float32(inverse normal CDF(0.5 + (m + 0.5) / 8192)). */
extern float gaussian_quantiles[4096];

/* Not thread-safe; kernels_init calls it. */
void gaussian_quantiles_build(void);

#endif
