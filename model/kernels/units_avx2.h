/* units_avx2: see units_ref.h for what each function means. */

#include "model/kernels/noise_avx2.h"

enum { TILE_ROWS = 4, TILE_VECS = 1 };

INLINE void block_transpose(UnitBlock b) { plain_transpose(b); }
INLINE void pairs_along(const float *x, uint32_t *out) { plain_pairs_along(x, out); }
INLINE void pairs_across(const float *x, const float *next, uint32_t *out) { plain_pairs_across(x, next, out); }

INLINE __m256 half_upper(__m256 a) {
    return _mm256_castsi256_ps(_mm256_and_si256(_mm256_castps_si256(a), _mm256_set1_epi32((int)0xffff0000)));
}
INLINE __m256 half_lower(__m256 a) { return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_castps_si256(a), 16)); }
INLINE Vec vec_upper(Vec a) { return (Vec){half_upper(a.lo), half_upper(a.hi)}; }
INLINE Vec vec_lower(Vec a) { return (Vec){half_lower(a.lo), half_lower(a.hi)}; }

#include "model/kernels/units_pairs.h"
