/* ints_avx2: sixteen i32 lanes in two registers for sums of int8 products; see ints_ref.h for what each function means.
 * A unit is two codes widened to 16 bits: the products of bytes that AVX2 offers want one of them without its sign.
 * With AVX-VNNI (DOT4 says so) it is four codes, those of x made unsigned by an offset of 128 that the start of the
 * sums takes back. */
#ifndef NOISED_KERNELS_INTS_H
#define NOISED_KERNELS_INTS_H

#include "model/tensor.h"

#include <immintrin.h>

enum { INT8_ROWS = 2, INT8_VECS = 2 };

typedef struct Ints {
    __m256i lo, hi;
} Ints;

static inline Ints ints_load(const uint32_t *units) {
    return (Ints){_mm256_loadu_si256((const __m256i *)units), _mm256_loadu_si256((const __m256i *)(units + 8))};
}
static inline void ints_store(uint32_t *p, Ints a) {
    _mm256_storeu_si256((__m256i *)p, a.lo);
    _mm256_storeu_si256((__m256i *)(p + 8), a.hi);
}
static inline Ints ints_keep(Ints a) { return a; }
static inline Ints ints_set1(uint32_t unit) {
    return (Ints){_mm256_set1_epi32((int)unit), _mm256_set1_epi32((int)unit)};
}
static inline Vec ints_to_vec(Ints a) { return (Vec){_mm256_cvtepi32_ps(a.lo), _mm256_cvtepi32_ps(a.hi)}; }

/* r[i] lane l <-> r[l] lane i */
static inline __attribute__((always_inline)) void ints_transpose(__m256i r[8]) {
    __m256i t[8];
#pragma GCC unroll 4
    for (int i = 0; i < 8; i += 2) {
        t[i] = _mm256_unpacklo_epi32(r[i], r[i + 1]);
        t[i + 1] = _mm256_unpackhi_epi32(r[i], r[i + 1]);
    }
#pragma GCC unroll 2
    for (int i = 0; i < 8; i += 4) { /* r[i + c]: column c of the 4 x 4 blocks of rows i..i+3 */
        r[i] = _mm256_unpacklo_epi64(t[i], t[i + 2]);
        r[i + 1] = _mm256_unpackhi_epi64(t[i], t[i + 2]);
        r[i + 2] = _mm256_unpacklo_epi64(t[i + 1], t[i + 3]);
        r[i + 3] = _mm256_unpackhi_epi64(t[i + 1], t[i + 3]);
    }
#pragma GCC unroll 4
    for (int c = 0; c < 4; c++) {
        t[c] = _mm256_permute2x128_si256(r[c], r[c + 4], 0x20);
        t[c + 4] = _mm256_permute2x128_si256(r[c], r[c + 4], 0x31);
    }
#pragma GCC unroll 8
    for (int c = 0; c < 8; c++) r[c] = t[c];
}

/* a's sums of neighbours in the even lanes, b's in the odd ones: half of what is left of either row. */
static inline __m256i ints_fold(__m256i a, __m256i b) {
    __m256 p = _mm256_castsi256_ps(a), q = _mm256_castsi256_ps(b);
    return _mm256_add_epi32(_mm256_castps_si256(_mm256_shuffle_ps(p, q, 0x88)),
                            _mm256_castps_si256(_mm256_shuffle_ps(p, q, 0xdd)));
}

/* Lane l: the sum of r[l]. */
static inline __attribute__((always_inline)) __m256i ints_sum8(const __m256i r[8]) {
    __m256i lo = ints_fold(ints_fold(r[0], r[1]), ints_fold(r[2], r[3]));
    __m256i hi = ints_fold(ints_fold(r[4], r[5]), ints_fold(r[6], r[7]));
    return _mm256_add_epi32(_mm256_permute2x128_si256(lo, hi, 0x20), _mm256_permute2x128_si256(lo, hi, 0x31));
}

/* ---- I4 ---- */

enum { INT4_ROWS = 4, INT4_VECS = 1 };

static inline __m256i ints4_halves(const uint8_t *w, int shift) {
    __m256i both = _mm256_loadu_si256((const __m256i *)w);
    return _mm256_and_si256(_mm256_srli_epi16(both, shift), _mm256_set1_epi8(15));
}
static inline Ints ints4_low(const uint8_t *w) { return (Ints){ints4_halves(w, 0), ints4_halves(w + 32, 0)}; }
static inline Ints ints4_high(const uint8_t *w) { return (Ints){ints4_halves(w, 4), ints4_halves(w + 32, 4)}; }
static inline Ints ints4_set1(const int8_t *x) {
    uint32_t four;
    memcpy(&four, x, sizeof four);
    return ints_set1(four);
}

#ifdef DOT4
enum { INT8_UNITS = INT8_GROUP / 4 };

static inline Ints ints_dot(Ints acc, Ints x, Ints w) {
    return (Ints){DOT4(acc.lo, x.lo, w.lo), DOT4(acc.hi, x.hi, w.hi)};
}

static inline Ints ints4_start(int32_t less) { return ints_set1((uint32_t)less); }
static inline Ints ints4_dot(Ints acc, Ints x, Ints w) { return ints_dot(acc, w, x); }
static inline Ints ints4_end(Ints acc, int32_t less) {
    (void)less;
    return acc;
}

static inline __m256i ints_codes(const int8_t *p) { return _mm256_loadu_si256((const __m256i *)p); }
static inline __m256i ints_unsigned(const int8_t *p) { return _mm256_xor_si256(ints_codes(p), _mm256_set1_epi8(-128)); }

static inline void ints_pack_x(const int8_t *x, uint32_t *units) {
    ints_store(units, (Ints){ints_unsigned(x), ints_unsigned(x + 32)});
}

static inline Ints ints_pack_w(const int8_t *w, size_t ld, int outs, uint32_t *units, size_t step) {
    __m256i offset[2] = {_mm256_setzero_si256(), _mm256_setzero_si256()};
    for (int l0 = 0; l0 < 16; l0 += 8)
        for (int half = 0; half < 2; half++) {
            __m256i r[8];
#pragma GCC unroll 8
            for (int l = 0; l < 8; l++)
                r[l] = l0 + l < outs ? ints_codes(w + (size_t)(l0 + l) * ld + 32 * half) : _mm256_setzero_si256();
            ints_transpose(r);
#pragma GCC unroll 8
            for (int u = 0; u < 8; u++) {
                _mm256_storeu_si256((__m256i *)(units + (size_t)(8 * half + u) * step + l0), r[u]);
                offset[l0 / 8] = DOT4(offset[l0 / 8], _mm256_set1_epi8(-128), r[u]);
            }
        }
    return (Ints){_mm256_sub_epi32(_mm256_setzero_si256(), offset[0]),
                  _mm256_sub_epi32(_mm256_setzero_si256(), offset[1])};
}

/* Eight rows of W: lane l the product of x and row l. */
static inline __m256i ints_dots8(const int8_t *x, const int8_t *w, size_t ld, int outs) {
    __m256i r[8], x0 = ints_codes(x), x1 = ints_codes(x + 32), flip = _mm256_set1_epi8(-128);
    __m256i start = _mm256_sub_epi32(_mm256_setzero_si256(), DOT4(DOT4(_mm256_setzero_si256(), flip, x0), flip, x1));
#pragma GCC unroll 8
    for (int l = 0; l < 8; l++) {
        const int8_t *row = w + (size_t)(l < outs ? l : 0) * ld;
        r[l] = DOT4(DOT4(start, ints_unsigned(row), x0), ints_unsigned(row + 32), x1);
    }
    return ints_sum8(r);
}
#else
enum { INT8_UNITS = INT8_GROUP / 2 };

/* acc += a, in words of its own: gcc 12 adds into a's register and moves that to acc's, a fourth of a tile's work. */
static inline __m256i half_add32(__m256i acc, __m256i a) {
    __asm__("vpaddd %1, %0, %0" : "+x"(acc) : "x"(a));
    return acc;
}
static inline __m256i half_add16(__m256i acc, __m256i a) {
    __asm__("vpaddw %1, %0, %0" : "+x"(acc) : "x"(a));
    return acc;
}
static inline Ints ints_dot(Ints acc, Ints x, Ints w) {
    return (Ints){half_add32(acc.lo, _mm256_madd_epi16(x.lo, w.lo)), half_add32(acc.hi, _mm256_madd_epi16(x.hi, w.hi))};
}

/* Sums of 16 bits, for a group's are at most 8 x 2 x 127 x 15. */
static inline Ints ints4_start(int32_t less) {
    (void)less;
    return ints_set1(0);
}
static inline Ints ints4_dot(Ints acc, Ints x, Ints w) {
    return (Ints){half_add16(acc.lo, _mm256_maddubs_epi16(w.lo, x.lo)),
                  half_add16(acc.hi, _mm256_maddubs_epi16(w.hi, x.hi))};
}
static inline Ints ints4_end(Ints acc, int32_t less) {
    __m256i one = _mm256_set1_epi16(1), off = _mm256_set1_epi32(less);
    return (Ints){_mm256_add_epi32(off, _mm256_madd_epi16(acc.lo, one)),
                  _mm256_add_epi32(off, _mm256_madd_epi16(acc.hi, one))};
}

static inline __m256i ints_widen(const int8_t *p) { return _mm256_cvtepi8_epi16(_mm_loadu_si128((const __m128i *)p)); }

static inline void ints_pack_x(const int8_t *x, uint32_t *units) {
    for (int q = 0; q < 4; q++) _mm256_storeu_si256((__m256i *)(units + 8 * q), ints_widen(x + 16 * q));
}

static inline Ints ints_pack_w(const int8_t *w, size_t ld, int outs, uint32_t *units, size_t step) {
    for (int l0 = 0; l0 < 16; l0 += 8)
        for (int q = 0; q < 4; q++) {
            __m256i r[8];
#pragma GCC unroll 8
            for (int l = 0; l < 8; l++)
                r[l] = l0 + l < outs ? ints_widen(w + (size_t)(l0 + l) * ld + 16 * q) : _mm256_setzero_si256();
            ints_transpose(r);
#pragma GCC unroll 8
            for (int u = 0; u < 8; u++) _mm256_storeu_si256((__m256i *)(units + (size_t)(8 * q + u) * step + l0), r[u]);
        }
    return ints_set1(0);
}

/* Eight rows of W: lane l the product of x and row l. A byte of w gives its sign to x, which is never -128: two
 * products are then at most 2 x 128 x 127 and fit in 16 bits. */
static inline __m256i ints_dots8(const int8_t *x, const int8_t *w, size_t ld, int outs) {
    const __m256i one = _mm256_set1_epi16(1);
    __m256i r[8], x0 = _mm256_loadu_si256((const __m256i *)x), x1 = _mm256_loadu_si256((const __m256i *)(x + 32));
#pragma GCC unroll 8
    for (int l = 0; l < 8; l++) {
        const __m256i *row = (const __m256i *)(w + (size_t)(l < outs ? l : 0) * ld);
        __m256i a = _mm256_loadu_si256(row), b = _mm256_loadu_si256(row + 1);
        a = _mm256_maddubs_epi16(_mm256_abs_epi8(a), _mm256_sign_epi8(x0, a));
        b = _mm256_maddubs_epi16(_mm256_abs_epi8(b), _mm256_sign_epi8(x1, b));
        r[l] = _mm256_add_epi32(_mm256_madd_epi16(a, one), _mm256_madd_epi16(b, one));
    }
    return ints_sum8(r);
}
#endif

static inline Ints ints_dots(const int8_t *x, const int8_t *w, size_t ld, int outs) {
    return (Ints){ints_dots8(x, w, ld, outs),
                  outs > 8 ? ints_dots8(x, w + 8 * ld, ld, outs - 8) : _mm256_setzero_si256()};
}

#endif
