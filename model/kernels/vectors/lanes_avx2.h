/* lanes_avx2: sixteen f32 lanes in two registers; see lanes_ref.h for what each function means. */
#ifndef NOISED_KERNELS_LANES_H
#define NOISED_KERNELS_LANES_H

#include "base/quantiles.h"
#include "model/kernels/vectors/words.h"
#include "model/tensor.h"

#include <immintrin.h>
#include <math.h>
#include <string.h>

enum { GEMM_ROWS = 6, GEMM_OUTS = 1, GEMM_OUTS_ONE_ROW = 4, BF16_PARTS = 2 };
#define PANELS_FROM 48 /* rows, see gemm_panels_body.h */
enum { SCORE_ROWS = 2, MIX_ROWS = 2, MIX_VECS = 2, NOISE_VECS = 2 };

typedef struct Vec {
    __m256 lo, hi;
} Vec;

static inline __m256i lanes_below(int n) {
    return _mm256_cmpgt_epi32(_mm256_set1_epi32(n), _mm256_set_epi32(7, 6, 5, 4, 3, 2, 1, 0));
}

static inline Vec vec_set1(float a) { return (Vec){_mm256_set1_ps(a), _mm256_set1_ps(a)}; }
static inline Vec vec_load(const float *p) { return (Vec){_mm256_loadu_ps(p), _mm256_loadu_ps(p + 8)}; }
static inline Vec vec_load_n(const float *p, int n) {
    return (Vec){_mm256_maskload_ps(p, lanes_below(n)), _mm256_maskload_ps(p + 8, lanes_below(n - 8))};
}
static inline Vec vec_keep(Vec a) {
    __asm__("" : "+x"(a.lo), "+x"(a.hi));
    return a;
}
static inline void vec_store(float *p, Vec a) {
    _mm256_storeu_ps(p, a.lo);
    _mm256_storeu_ps(p + 8, a.hi);
}
static inline void vec_store_n(float *p, Vec a, int n) {
    _mm256_maskstore_ps(p, lanes_below(n), a.lo);
    _mm256_maskstore_ps(p + 8, lanes_below(n - 8), a.hi);
}

static inline __m256 half_of_bf16(const uint16_t *p) {
    return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(_mm_loadu_si128((const __m128i *)p)), 16));
}
static inline Vec vec_load_bf16(const uint16_t *p) { return (Vec){half_of_bf16(p), half_of_bf16(p + 8)}; }
static inline Vec vec_load_f16(const uint16_t *p) {
    return (Vec){_mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)p)),
                 _mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)(p + 8)))};
}
/* AVX2 has no masked load of 16-bit elements. */
static inline Vec vec_load_bf16_n(const uint16_t *p, int n) {
    uint16_t padded[16] = {0};
    memcpy(padded, p, (size_t)n * sizeof *p);
    return vec_load_bf16(padded);
}
static inline Vec vec_load_f16_n(const uint16_t *p, int n) {
    uint16_t padded[16] = {0};
    memcpy(padded, p, (size_t)n * sizeof *p);
    return vec_load_f16(padded);
}

static inline Vec vec_add(Vec a, Vec b) { return (Vec){_mm256_add_ps(a.lo, b.lo), _mm256_add_ps(a.hi, b.hi)}; }
static inline Vec vec_mul(Vec a, Vec b) { return (Vec){_mm256_mul_ps(a.lo, b.lo), _mm256_mul_ps(a.hi, b.hi)}; }
static inline Vec vec_fma(Vec a, Vec b, Vec c) {
    return (Vec){_mm256_fmadd_ps(a.lo, b.lo, c.lo), _mm256_fmadd_ps(a.hi, b.hi, c.hi)};
}
static inline __m256 half_of_pairs(const uint16_t *p, int part) {
    __m256i v = _mm256_loadu_si256((const __m256i *)p);
    v = part ? _mm256_slli_epi32(v, 16) : _mm256_and_si256(v, _mm256_set1_epi32((int)0xffff0000));
    return _mm256_castsi256_ps(v);
}
static inline Vec vec_load_pairs(const uint16_t *p, int part) {
    return (Vec){half_of_pairs(p, part), half_of_pairs(p + 16, part)};
}
static inline Vec vec_load_pairs_n(const uint16_t *p, int n, int part) {
    uint16_t padded[32] = {0};
    memcpy(padded, p, (size_t)n * sizeof *p);
    return vec_load_pairs(padded, part);
}
static inline Vec vec_set1_pair(const uint16_t *p, int part) {
    int pair;
    memcpy(&pair, p, sizeof pair);
    __m256i v = _mm256_set1_epi32(pair);
    v = part ? _mm256_slli_epi32(v, 16) : _mm256_and_si256(v, _mm256_set1_epi32((int)0xffff0000));
    return (Vec){_mm256_castsi256_ps(v), _mm256_castsi256_ps(v)};
}
static inline Vec vec_fma_pairs(Vec a, Vec b, Vec c) { return vec_fma(a, b, c); }

static inline __m256 half_max(__m256 m, __m256 x) {
    __m256 take = _mm256_or_ps(_mm256_cmp_ps(x, m, _CMP_GT_OQ), _mm256_cmp_ps(x, x, _CMP_UNORD_Q));
    return _mm256_blendv_ps(m, x, take);
}
static inline Vec vec_max(Vec m, Vec x) { return (Vec){half_max(m.lo, x.lo), half_max(m.hi, x.hi)}; }

static inline float vec_largest(Vec a) {
    __m256 m = half_max(a.lo, a.hi);
    m = half_max(m, _mm256_permute2f128_ps(m, m, 1));
    m = half_max(m, _mm256_permute_ps(m, 0x4e));
    return _mm256_cvtss_f32(half_max(m, _mm256_permute_ps(m, 0xb1)));
}

/* Sums of lanes l, l + 8 and l + 4. */
static inline __m128 quarter_sum(Vec a) {
    __m256 s = _mm256_add_ps(a.lo, a.hi);
    return _mm_add_ps(_mm256_castps256_ps128(s), _mm256_extractf128_ps(s, 1));
}
static inline float vec_sum(Vec a) {
    __m128 s = quarter_sum(a);
    s = _mm_add_ps(s, _mm_movehl_ps(s, s));
    return _mm_cvtss_f32(_mm_add_ss(s, _mm_movehdup_ps(s)));
}
static inline void vec_sum4(const Vec *a, float *out) {
    __m128 p = quarter_sum(a[0]), q = quarter_sum(a[1]), r = quarter_sum(a[2]), s = quarter_sum(a[3]);
    __m128 pq = _mm_add_ps(_mm_movelh_ps(p, q), _mm_movehl_ps(q, p));
    __m128 rs = _mm_add_ps(_mm_movelh_ps(r, s), _mm_movehl_ps(s, r));
    _mm_storeu_ps(out, _mm_add_ps(_mm_shuffle_ps(pq, rs, 0x88), _mm_shuffle_ps(pq, rs, 0xdd)));
}

/* Bit 3 of an index tells which half of the table has it. */
static inline __m256 half_pick(Vec table, const uint16_t *index) {
    __m256i at = _mm256_cvtepu16_epi32(_mm_loadu_si128((const __m128i *)index));
    return _mm256_blendv_ps(_mm256_permutevar8x32_ps(table.lo, at), _mm256_permutevar8x32_ps(table.hi, at),
                            _mm256_castsi256_ps(_mm256_slli_epi32(at, 28)));
}
static inline Vec vec_pick(Vec table, const uint16_t *index) {
    return (Vec){half_pick(table, index), half_pick(table, index + 8)};
}

typedef unsigned long long Counters __attribute__((vector_size(32)));
enum { COUNTERS = 4 };

static inline Counters counters_set1(uint64_t a) { return (Counters)_mm256_set1_epi64x((long long)a); }
static inline Counters counters_iota(void) { return (Counters){0, 1, 2, 3}; }
static inline Counters counters_mul32(Counters a, Counters b) {
    return (Counters)_mm256_mul_epu32((__m256i)a, (__m256i)b);
}
static inline void counters_store_pairs(uint64_t *out, Counters a, Counters b) {
    __m256i even = _mm256_unpacklo_epi64((__m256i)a, (__m256i)b), odd = _mm256_unpackhi_epi64((__m256i)a, (__m256i)b);
    _mm256_storeu_si256((__m256i *)out, _mm256_permute2x128_si256(even, odd, 0x20));
    _mm256_storeu_si256((__m256i *)(out + 4), _mm256_permute2x128_si256(even, odd, 0x31));
}

#include "model/kernels/vectors/ints_avx2.h"
#include "model/kernels/vectors/units_avx2.h"

#endif
