/* units_avx2: see units_ref.h for what each function means. */

enum { TILE_ROWS = 6, TILE_VECS = 1 };

/* By quarters of 8 x 8. */
INLINE void block_transpose(UnitBlock b) {
    for (int i = 0; i < LANES; i += 8)
        for (int k = 0; k <= i; k += 8) {
            __m256i here[8], there[8];
#pragma GCC unroll 8
            for (int v = 0; v < 8; v++) here[v] = _mm256_loadu_si256((const __m256i *)(b[i + v] + k));
            ints_transpose(here);
            if (k < i) {
#pragma GCC unroll 8
                for (int v = 0; v < 8; v++) there[v] = _mm256_loadu_si256((const __m256i *)(b[k + v] + i));
                ints_transpose(there);
#pragma GCC unroll 8
                for (int v = 0; v < 8; v++) _mm256_storeu_si256((__m256i *)(b[i + v] + k), there[v]);
            }
#pragma GCC unroll 8
            for (int v = 0; v < 8; v++) _mm256_storeu_si256((__m256i *)(b[k + v] + i), here[v]);
        }
}
/* v[i].lo lane l <-> v[l].lo lane i, and hi likewise */
INLINE void vec_transpose8(Vec v[8]) {
    __m256i lo[8], hi[8];
#pragma GCC unroll 8
    for (int i = 0; i < 8; i++) lo[i] = _mm256_castps_si256(v[i].lo), hi[i] = _mm256_castps_si256(v[i].hi);
    ints_transpose(lo);
    ints_transpose(hi);
#pragma GCC unroll 8
    for (int i = 0; i < 8; i++) v[i] = (Vec){_mm256_castsi256_ps(lo[i]), _mm256_castsi256_ps(hi[i])};
}
INLINE void half_store(float *p, __m256 a) { _mm256_storeu_ps(p, a); }

INLINE void pairs_along(const float *x, uint32_t *out) { plain_pairs_along(x, out); }
INLINE void pairs_across(const float *x, const float *next, int n, uint32_t *out) {
    plain_pairs_across(x, next, n, out);
}

INLINE __m256 half_upper(__m256 a) {
    return _mm256_castsi256_ps(_mm256_and_si256(_mm256_castps_si256(a), _mm256_set1_epi32((int)0xffff0000)));
}
INLINE __m256 half_lower(__m256 a) { return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_castps_si256(a), 16)); }
INLINE Vec vec_upper(Vec a) { return (Vec){half_upper(a.lo), half_upper(a.hi)}; }
INLINE Vec vec_lower(Vec a) { return (Vec){half_lower(a.lo), half_lower(a.hi)}; }

#include "model/kernels/vectors/units_x86.h"
