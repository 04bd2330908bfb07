/* lanes_avx512: sixteen f32 lanes in one register; see lanes_ref.h for what each function means. */
#ifndef NOISED_KERNELS_LANES_H
#define NOISED_KERNELS_LANES_H

#include "base/quantiles.h"
#include "model/kernels/vectors/words.h"
#include "model/tensor.h"

#include <immintrin.h>
#include <math.h>
#include <string.h>

enum { GEMM_ROWS = 6, GEMM_OUTS = 4, GEMM_OUTS_ONE_ROW = 8 };
enum { SCORE_ROWS = 8, MIX_ROWS = 4, MIX_VECS = 4, NOISE_VECS = 4 };

typedef __m512 Vec;

static inline __mmask16 lanes_below(int n) { return (__mmask16)((1u << n) - 1); }

static inline Vec vec_set1(float a) { return _mm512_set1_ps(a); }
static inline Vec vec_load(const float *p) { return _mm512_loadu_ps(p); }
static inline Vec vec_load_n(const float *p, int n) { return _mm512_maskz_loadu_ps(lanes_below(n), p); }
static inline Vec vec_keep(Vec a) {
    __asm__("" : "+v"(a));
    return a;
}
static inline void vec_store(float *p, Vec a) { _mm512_storeu_ps(p, a); }
static inline void vec_store_n(float *p, Vec a, int n) { _mm512_mask_storeu_ps(p, lanes_below(n), a); }

static inline Vec vec_of_bf16(__m256i h) {
    return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(h), 16));
}
static inline Vec vec_load_bf16(const uint16_t *p) { return vec_of_bf16(_mm256_loadu_si256((const __m256i *)p)); }
static inline Vec vec_load_bf16_n(const uint16_t *p, int n) {
    return vec_of_bf16(_mm256_maskz_loadu_epi16(lanes_below(n), p));
}
static inline Vec vec_load_f16(const uint16_t *p) { return _mm512_cvtph_ps(_mm256_loadu_si256((const __m256i *)p)); }
static inline Vec vec_load_f16_n(const uint16_t *p, int n) {
    return _mm512_cvtph_ps(_mm256_maskz_loadu_epi16(lanes_below(n), p));
}

static inline Vec vec_add(Vec a, Vec b) { return _mm512_add_ps(a, b); }
static inline Vec vec_mul(Vec a, Vec b) { return _mm512_mul_ps(a, b); }
static inline Vec vec_fma(Vec a, Vec b, Vec c) { return _mm512_fmadd_ps(a, b, c); }

#ifdef __AVX512BF16__ /* one instruction takes both elements of a pair, the odd one first */
enum { BF16_PARTS = 1 };
static inline Vec factor_of_pairs(__m512i pairs, int part) {
    (void)part;
    return _mm512_castsi512_ps(pairs);
}
static inline Vec vec_fma_pairs(Vec a, Vec b, Vec c) { return _mm512_dpbf16_ps(c, (__m512bh)a, (__m512bh)b); }
#else
enum { BF16_PARTS = 2 };
static inline Vec factor_of_pairs(__m512i pairs, int part) {
    __m512i odd = _mm512_set1_epi32((int)0xffff0000);
    return _mm512_castsi512_ps(part ? _mm512_slli_epi32(pairs, 16) : _mm512_and_si512(pairs, odd));
}
static inline Vec vec_fma_pairs(Vec a, Vec b, Vec c) { return vec_fma(a, b, c); }
#endif
static inline Vec vec_load_pairs(const uint16_t *p, int part) { return factor_of_pairs(_mm512_loadu_si512(p), part); }
static inline Vec vec_set1_pair(const uint16_t *p, int part) {
    int pair;
    memcpy(&pair, p, sizeof pair);
    return factor_of_pairs(_mm512_set1_epi32(pair), part);
}
static inline Vec vec_load_pairs_n(const uint16_t *p, int n, int part) {
    return factor_of_pairs(_mm512_maskz_loadu_epi16((1u << n) - 1, p), part);
}

static inline Vec vec_max(Vec m, Vec x) {
    __mmask16 take = _mm512_cmp_ps_mask(x, m, _CMP_GT_OQ) | _mm512_cmp_ps_mask(x, x, _CMP_UNORD_Q);
    return _mm512_mask_mov_ps(m, take, x);
}

static inline float vec_largest(Vec a) {
    a = vec_max(a, _mm512_shuffle_f32x4(a, a, 0x4e));
    a = vec_max(a, _mm512_shuffle_f32x4(a, a, 0xb1));
    a = vec_max(a, _mm512_permute_ps(a, 0x4e));
    return _mm512_cvtss_f32(vec_max(a, _mm512_permute_ps(a, 0xb1)));
}

/* The 128-bit quarters of four vectors: + 8 and + 4 leave one quarter of each, + 2 and + 1 work inside the quarters. */
static inline __m512 quarters_sum4(__m512 a, __m512 b, __m512 c, __m512 d) {
    __m512 ab = _mm512_add_ps(_mm512_shuffle_f32x4(a, b, 0x44), _mm512_shuffle_f32x4(a, b, 0xee));
    __m512 cd = _mm512_add_ps(_mm512_shuffle_f32x4(c, d, 0x44), _mm512_shuffle_f32x4(c, d, 0xee));
    __m512 s = _mm512_add_ps(_mm512_shuffle_f32x4(ab, cd, 0x88), _mm512_shuffle_f32x4(ab, cd, 0xdd));
    s = _mm512_add_ps(s, _mm512_permute_ps(s, 0x4e));
    return _mm512_add_ps(s, _mm512_permute_ps(s, 0xb1));
}
static inline void vec_sum4(const Vec *a, float *out) {
    __m512 s = quarters_sum4(a[0], a[1], a[2], a[3]);
    __m512i first = _mm512_set_epi32(0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 12, 8, 4, 0);
    _mm_storeu_ps(out, _mm512_castps512_ps128(_mm512_permutexvar_ps(first, s)));
}
static inline float vec_sum(Vec a) { return _mm512_cvtss_f32(quarters_sum4(a, a, a, a)); }

static inline Vec vec_pick(Vec table, const uint16_t *index) {
    return _mm512_permutexvar_ps(_mm512_cvtepu16_epi32(_mm256_loadu_si256((const __m256i *)index)), table);
}

typedef unsigned long long Counters __attribute__((vector_size(64)));
enum { COUNTERS = 8 };

static inline Counters counters_set1(uint64_t a) { return (Counters)_mm512_set1_epi64((long long)a); }
static inline Counters counters_iota(void) { return (Counters){0, 1, 2, 3, 4, 5, 6, 7}; }
static inline Counters counters_mul32(Counters a, Counters b) {
    return (Counters)_mm512_mul_epu32((__m512i)a, (__m512i)b);
}
static inline void counters_store_pairs(uint64_t *out, Counters a, Counters b) {
    __m512i low = _mm512_set_epi64(11, 3, 10, 2, 9, 1, 8, 0), high = _mm512_set_epi64(15, 7, 14, 6, 13, 5, 12, 4);
    _mm512_storeu_si512(out, _mm512_permutex2var_epi64((__m512i)a, low, (__m512i)b));
    _mm512_storeu_si512(out + 8, _mm512_permutex2var_epi64((__m512i)a, high, (__m512i)b));
}

#include "model/kernels/vectors/ints_avx512.h"
#include "model/kernels/vectors/units_avx512.h"

#endif
