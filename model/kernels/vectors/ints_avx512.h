/* ints_avx512: sixteen i32 lanes for sums of int8 products; see ints_ref.h for what each function means.
 * With VNNI a unit is four codes, those of one side made unsigned by an offset of 128 that the start of the sums takes
 * back; without, two codes widened to 16 bits. */
#ifndef NOISED_KERNELS_INTS_H
#define NOISED_KERNELS_INTS_H

#include "model/tensor.h"

#include <immintrin.h>

typedef __m512i Ints;

static inline Ints ints_load(const uint32_t *units) { return _mm512_loadu_si512(units); }
static inline void ints_store(uint32_t *p, Ints a) { _mm512_storeu_si512(p, a); }
static inline Ints ints_keep(Ints a) {
    __asm__("" : "+v"(a));
    return a;
}
static inline Ints ints_set1(uint32_t unit) { return _mm512_set1_epi32((int)unit); }
static inline Vec ints_to_vec(Ints a) { return _mm512_cvtepi32_ps(a); }

/* r[i] lane l <-> r[l] lane i */
static inline __attribute__((always_inline)) void ints_transpose(Ints r[16]) {
    Ints t[16];
#pragma GCC unroll 8
    for (int i = 0; i < 16; i += 2) {
        t[i] = _mm512_unpacklo_epi32(r[i], r[i + 1]);
        t[i + 1] = _mm512_unpackhi_epi32(r[i], r[i + 1]);
    }
#pragma GCC unroll 4
    for (int i = 0; i < 16; i += 4) { /* r[i + c]: column c of the 4 x 4 blocks of rows i..i+3 */
        r[i] = _mm512_unpacklo_epi64(t[i], t[i + 2]);
        r[i + 1] = _mm512_unpackhi_epi64(t[i], t[i + 2]);
        r[i + 2] = _mm512_unpacklo_epi64(t[i + 1], t[i + 3]);
        r[i + 3] = _mm512_unpackhi_epi64(t[i + 1], t[i + 3]);
    }
#pragma GCC unroll 4
    for (int c = 0; c < 4; c++) {
        t[c] = _mm512_shuffle_i32x4(r[c], r[c + 4], 0x88); /* blocks 0 and 2 of rows 0..7 */
        t[c + 4] = _mm512_shuffle_i32x4(r[c], r[c + 4], 0xdd);
        t[c + 8] = _mm512_shuffle_i32x4(r[c + 8], r[c + 12], 0x88);
        t[c + 12] = _mm512_shuffle_i32x4(r[c + 8], r[c + 12], 0xdd);
    }
#pragma GCC unroll 4
    for (int c = 0; c < 4; c++) {
        r[c] = _mm512_shuffle_i32x4(t[c], t[c + 8], 0x88);
        r[c + 4] = _mm512_shuffle_i32x4(t[c + 4], t[c + 12], 0x88);
        r[c + 8] = _mm512_shuffle_i32x4(t[c], t[c + 8], 0xdd);
        r[c + 12] = _mm512_shuffle_i32x4(t[c + 4], t[c + 12], 0xdd);
    }
}

/* Block b of 128 bits, lane l: the sum of block b of r[l]. */
static inline __attribute__((always_inline)) Ints ints_sum_blocks(const Ints r[4]) {
    Ints lo = _mm512_add_epi32(_mm512_unpacklo_epi32(r[0], r[1]), _mm512_unpackhi_epi32(r[0], r[1]));
    Ints hi = _mm512_add_epi32(_mm512_unpacklo_epi32(r[2], r[3]), _mm512_unpackhi_epi32(r[2], r[3]));
    return _mm512_add_epi32(_mm512_unpacklo_epi64(lo, hi), _mm512_unpackhi_epi64(lo, hi));
}

/* Lane l: the sum of r[l]. */
static inline __attribute__((always_inline)) Ints ints_sum16(const Ints r[16]) {
    Ints b[4]; /* rows 4 i .. 4 i + 3, of each the four blocks of 128 bits apart */
#pragma GCC unroll 4
    for (int i = 0; i < 4; i++) b[i] = ints_sum_blocks(r + 4 * i);
#pragma GCC unroll 2
    for (int i = 0; i < 2; i++)
        b[i] = _mm512_add_epi32(_mm512_shuffle_i32x4(b[2 * i], b[2 * i + 1], 0x88),
                                _mm512_shuffle_i32x4(b[2 * i], b[2 * i + 1], 0xdd));
    return _mm512_add_epi32(_mm512_shuffle_i32x4(b[0], b[1], 0x88), _mm512_shuffle_i32x4(b[0], b[1], 0xdd));
}

/* ---- I4 ---- */

enum { INT4_ROWS = 5, INT4_VECS = 2 };

static inline Ints ints4_low(const uint8_t *w) { return _mm512_and_si512(_mm512_loadu_si512(w), _mm512_set1_epi8(15)); }
static inline Ints ints4_high(const uint8_t *w) {
    return _mm512_and_si512(_mm512_srli_epi16(_mm512_loadu_si512(w), 4), _mm512_set1_epi8(15));
}
static inline Ints ints4_set1(const int8_t *x) {
    uint32_t four;
    memcpy(&four, x, sizeof four);
    return ints_set1(four);
}

#ifdef __AVX512VNNI__
#define INT8_ACROSS /* rows of x lie across lanes, not of W, whose codes are therefore the unsigned ones */
enum { INT8_UNITS = INT8_GROUP / 4 };

static inline Ints ints_dot(Ints acc, Ints w, Ints x) {
    __asm__("vpdpbusd %2, %1, %0" : "+v"(acc) : "v"(w), "v"(x)); /* the intrinsic of gcc 12 copies every sum */
    return acc;
}

static inline Ints ints4_start(int32_t less) { return _mm512_set1_epi32(less); }
static inline Ints ints4_dot(Ints acc, Ints x, Ints w) { return ints_dot(acc, w, x); }
static inline Ints ints4_end(Ints acc, int32_t less) {
    (void)less;
    return acc;
}

/* acc less what the offset of W adds to its products with x. */
static inline Ints ints_less(Ints acc, Ints x) {
    return _mm512_sub_epi32(acc, _mm512_dpbusd_epi32(ints_set1(0), _mm512_set1_epi8(-128), x));
}

/* A unit of W for all lanes. */
static inline Ints ints_set1_w(const int8_t *w) {
    int32_t unit;
    memcpy(&unit, w, sizeof unit);
    return _mm512_xor_si512(_mm512_set1_epi32(unit), _mm512_set1_epi8(-128));
}

/* A group of 16 rows of x, `ld` bytes each, as ints_pack_w has it. */
static inline __attribute__((always_inline)) Ints ints_pack_across(const int8_t *x, size_t ld, const size_t row[16],
                                                                   uint32_t *units, size_t step) {
    Ints r[16], start = ints_set1(0);
#pragma GCC unroll 16
    for (int l = 0; l < 16; l++) r[l] = _mm512_loadu_si512(x + row[l] * ld);
    ints_transpose(r);
#pragma GCC unroll 16
    for (int u = 0; u < 16; u++) {
        ints_store(units + (size_t)u * step, r[u]);
        start = ints_less(start, r[u]);
    }
    return start;
}

/* r[i] lane l <-> r[l] lane i */
static inline __attribute__((always_inline)) void vecs_transpose(Vec r[16]) {
    Ints t[16];
#pragma GCC unroll 16
    for (int i = 0; i < 16; i++) t[i] = _mm512_castps_si512(r[i]);
    ints_transpose(t);
#pragma GCC unroll 16
    for (int i = 0; i < 16; i++) r[i] = _mm512_castsi512_ps(t[i]);
}

/* Sixteen codes of W for every block of 128 bits. */
static inline Ints ints_block_w(const int8_t *w) {
    return _mm512_xor_si512(_mm512_broadcast_i32x4(_mm_loadu_si128((const __m128i *)w)), _mm512_set1_epi8(-128));
}

/* p[0], p[ld], p[2 ld], p[3 ld] in every block. */
static inline Vec vec_blocks(const float *p, size_t ld) {
    Vec v = _mm512_mask_broadcastss_ps(_mm512_set1_ps(*p), 0x2222, _mm_load_ss(p + ld));
    v = _mm512_mask_broadcastss_ps(v, 0x4444, _mm_load_ss(p + 2 * ld));
    return _mm512_mask_broadcastss_ps(v, 0x8888, _mm_load_ss(p + 3 * ld));
}

static inline Ints ints_dots(const int8_t *x, const int8_t *w, size_t ld, int outs) {
    Ints r[16], xv = _mm512_loadu_si512(x), flip = _mm512_set1_epi8(-128);
    Ints start = ints_less(ints_set1(0), xv);
#pragma GCC unroll 16
    for (int l = 0; l < 16; l++) {
        r[l] = _mm512_dpbusd_epi32(start, _mm512_xor_si512(_mm512_loadu_si512(w), flip), xv);
        if (l + 1 < outs) w += ld;
        __asm__("" : "+r"(w)); /* not sixteen pointers */
    }
    return ints_sum16(r);
}
#else
enum { INT8_UNITS = INT8_GROUP / 2, INT8_ROWS = 3, INT8_VECS = 4 };

static inline Ints ints_dot(Ints acc, Ints x, Ints w) { return _mm512_add_epi32(acc, _mm512_madd_epi16(x, w)); }

/* Sums of 16 bits, for a group's are at most 8 x 2 x 127 x 15. */
static inline Ints ints4_start(int32_t less) {
    (void)less;
    return ints_set1(0);
}
static inline Ints ints4_dot(Ints acc, Ints x, Ints w) { return _mm512_add_epi16(acc, _mm512_maddubs_epi16(w, x)); }
static inline Ints ints4_end(Ints acc, int32_t less) {
    return _mm512_add_epi32(_mm512_set1_epi32(less), _mm512_madd_epi16(acc, _mm512_set1_epi16(1)));
}

static inline Ints ints_widen(const int8_t *p) { return _mm512_cvtepi8_epi16(_mm256_loadu_si256((const __m256i *)p)); }

static inline void ints_pack_x(const int8_t *x, uint32_t *units) {
    ints_store(units, ints_widen(x));
    ints_store(units + 16, ints_widen(x + 32));
}

static inline Ints ints_pack_w(const int8_t *w, size_t ld, int outs, uint32_t *units, size_t step) {
    for (int half = 0; half < 2; half++) {
        Ints r[16];
#pragma GCC unroll 16
        for (int l = 0; l < 16; l++) r[l] = l < outs ? ints_widen(w + (size_t)l * ld + 32 * half) : ints_set1(0);
        ints_transpose(r);
#pragma GCC unroll 16
        for (int u = 0; u < 16; u++) ints_store(units + (size_t)(16 * half + u) * step, r[u]);
    }
    return ints_set1(0);
}

static inline Ints ints_dots(const int8_t *x, const int8_t *w, size_t ld, int outs) {
    Ints r[16], lo = ints_widen(x), hi = ints_widen(x + 32);
#pragma GCC unroll 16
    for (int l = 0; l < 16; l++) {
        const int8_t *row = w + (size_t)(l < outs ? l : 0) * ld;
        r[l] = ints_dot(_mm512_madd_epi16(lo, ints_widen(row)), hi, ints_widen(row + 32));
    }
    return ints_sum16(r);
}
#endif

#endif
