/* units_avx512: see units_ref.h for what each function means. */

enum { TILE_ROWS = 6, TILE_VECS = 4 };

INLINE void block_transpose(UnitBlock b) {
    __m512i r[LANES], t[LANES];
#pragma GCC unroll 16
    for (int i = 0; i < LANES; i++) r[i] = _mm512_loadu_si512(b[i]);
#pragma GCC unroll 8
    for (int i = 0; i < LANES; i += 2) {
        t[i] = _mm512_unpacklo_epi32(r[i], r[i + 1]);
        t[i + 1] = _mm512_unpackhi_epi32(r[i], r[i + 1]);
    }
#pragma GCC unroll 4
    for (int i = 0; i < LANES; i += 4) {
        r[i] = _mm512_unpacklo_epi64(t[i], t[i + 2]);
        r[i + 1] = _mm512_unpackhi_epi64(t[i], t[i + 2]);
        r[i + 2] = _mm512_unpacklo_epi64(t[i + 1], t[i + 3]);
        r[i + 3] = _mm512_unpackhi_epi64(t[i + 1], t[i + 3]);
    }
#pragma GCC unroll 4
    for (int i = 0; i < 4; i++) {
        __m512i a = _mm512_shuffle_i32x4(r[i], r[i + 4], 0x88), c = _mm512_shuffle_i32x4(r[i], r[i + 4], 0xdd);
        __m512i d = _mm512_shuffle_i32x4(r[i + 8], r[i + 12], 0x88),
                e = _mm512_shuffle_i32x4(r[i + 8], r[i + 12], 0xdd);
        _mm512_storeu_si512(b[i], _mm512_shuffle_i32x4(a, d, 0x88));
        _mm512_storeu_si512(b[i + 4], _mm512_shuffle_i32x4(c, e, 0x88));
        _mm512_storeu_si512(b[i + 8], _mm512_shuffle_i32x4(a, d, 0xdd));
        _mm512_storeu_si512(b[i + 12], _mm512_shuffle_i32x4(c, e, 0xdd));
    }
}

INLINE Vec vec_upper(Vec a) {
    return _mm512_castsi512_ps(_mm512_and_si512(_mm512_castps_si512(a), _mm512_set1_epi32((int)0xffff0000)));
}
INLINE Vec vec_lower(Vec a) { return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_castps_si512(a), 16)); }

#ifdef __AVX512BF16__
/* y = x in bf16, unless the instruction would make a denormal zero. */
#define HALVES 32
INLINE bool halves_of(const float *x, uint16_t *y) {
    enum { DENORMAL = 0x20 };
    __m512 a = _mm512_loadu_ps(x), b = _mm512_loadu_ps(x + LANES);
    if (_mm512_fpclass_ps_mask(a, DENORMAL) | _mm512_fpclass_ps_mask(b, DENORMAL)) return false;
    _mm512_storeu_si512(y, (__m512i)_mm512_cvtne2ps_pbh(b, a));
    return true;
}

INLINE void pairs_along(const float *x, uint32_t *out) {
    _mm512_storeu_si512(out, (__m512i)_mm512_cvtne2ps_pbh(_mm512_loadu_ps(x + LANES), _mm512_loadu_ps(x)));
}
INLINE void pairs_across(const float *x, const float *next, int n, uint32_t *out) {
    /* clang-format off */
    const __m512i turns = _mm512_set_epi16(31, 15, 30, 14, 29, 13, 28, 12, 27, 11, 26, 10, 25, 9, 24, 8,
                                           23, 7, 22, 6, 21, 5, 20, 4, 19, 3, 18, 2, 17, 1, 16, 0);
    /* clang-format on */
    __m512i both = (__m512i)_mm512_cvtne2ps_pbh(vec_load_n(next, n), vec_load_n(x, n));
    _mm512_storeu_si512(out, _mm512_permutexvar_epi16(turns, both));
}

INLINE Vec unit_pair_multiply(Vec x, Vec w, Vec sum) { return _mm512_dpbf16_ps(sum, (__m512bh)x, (__m512bh)w); }
INLINE unsigned pairs_begin(void) { return 0; }
INLINE void pairs_end(unsigned before) { (void)before; }
#else
INLINE void pairs_along(const float *x, uint32_t *out) { plain_pairs_along(x, out); }
INLINE void pairs_across(const float *x, const float *next, int n, uint32_t *out) {
    plain_pairs_across(x, next, n, out);
}
#endif

#include "model/kernels/vectors/units_x86.h"
