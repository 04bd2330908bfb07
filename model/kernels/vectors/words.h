/* words: what the lanes_*.h of all levels share. */
#ifndef NOISED_KERNELS_WORDS_H
#define NOISED_KERNELS_WORDS_H

#include "model/kernels/kernels.h"

#define INLINE static inline __attribute__((always_inline))

enum { LANES = 16 };

typedef union FloatBits {
    float f;
    uint32_t u;
} FloatBits;

INLINE float float_of_bits(uint32_t u) { return (FloatBits){.u = u}.f; }
INLINE uint32_t bits_of_float(float f) { return (FloatBits){.f = f}.u; }

/* ---- units of the training product (train_body.h), for levels without instructions for them ---- */

typedef uint32_t UnitBlock[LANES][LANES]; /* units of LANES vectors */

INLINE void plain_transpose(UnitBlock b) {
    for (int i = 0; i < LANES; i++)
        for (int k = 0; k < i; k++) {
            uint32_t kept = b[i][k];
            b[i][k] = b[k][i];
            b[k][i] = kept;
        }
}

/* To bf16 in the upper half, nearest even, denormals to zero; NaN stays NaN. */
INLINE uint32_t round_to_upper(float f) {
    uint32_t u = bits_of_float(f), size = u & 0x7fffffff, rounded = u + 0x7fff + (u >> 16 & 1);
    rounded = size < 0x00800000 ? u & 0x80000000 : rounded;
    return (size > 0x7f800000 ? u | 0x400000 : rounded) & 0xffff0000;
}

INLINE void plain_pairs_along(const float *x, uint32_t *out) {
#pragma GCC ivdep
    for (int u = 0; u < LANES; u++) out[u] = round_to_upper(x[2 * u]) >> 16 | round_to_upper(x[2 * u + 1]);
}
INLINE void plain_pairs_across(const float *x, const float *next, int n, uint32_t *out) {
#pragma GCC ivdep
    for (int i = 0; i < n; i++) out[i] = round_to_upper(x[i]) >> 16 | round_to_upper(next[i]);
}

#endif
