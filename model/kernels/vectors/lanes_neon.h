/* lanes_neon: sixteen f32 lanes in four registers; see lanes_ref.h and units_ref.h for what each function means.
 *
 * Of the instructions for bf16, BFMLALT and BFMLALB widen the odd or the even elements of pairs and are fused
 * multiply-adds of them: the contract's bits, two elements a load and none taken apart. BFDOT and BFMMLA are not used:
 * they add two rounded products, and round to odd, or with FEAT_EBF16 an exact sum of two; both are other bits. */
#ifndef NOISED_KERNELS_LANES_H
#define NOISED_KERNELS_LANES_H

#include "base/quantiles.h"
#include "model/kernels/vectors/words.h"
#include "model/tensor.h"

#include <arm_neon.h>
#include <math.h>
#include <string.h>

enum { GEMM_ROWS = 2, GEMM_OUTS = 2, GEMM_OUTS_ONE_ROW = 4 };
enum { SCORE_ROWS = 2, MIX_ROWS = 4, MIX_VECS = 1, NOISE_VECS = 4 };

typedef struct Half {
    float32x4_t a, b;
} Half;

typedef struct Vec {
    Half lo, hi;
} Vec;

static inline Half half_load(const float *p) { return (Half){vld1q_f32(p), vld1q_f32(p + 4)}; }
static inline void half_store(float *p, Half h) {
    vst1q_f32(p, h.a);
    vst1q_f32(p + 4, h.b);
}

static inline Vec vec_set1(float a) {
    Half h = {vdupq_n_f32(a), vdupq_n_f32(a)};
    return (Vec){h, h};
}
static inline Vec vec_load(const float *p) { return (Vec){half_load(p), half_load(p + 8)}; }
static inline Vec vec_keep(Vec a) { return a; } /* there are no multiplications from memory */
static inline void vec_store(float *p, Vec a) {
    half_store(p, a.lo);
    half_store(p + 8, a.hi);
}
/* Nothing is masked here. */
static inline Vec vec_load_n(const float *p, int n) {
    float padded[16] = {0};
    memcpy(padded, p, (size_t)n * sizeof *p);
    return vec_load(padded);
}
static inline void vec_store_n(float *p, Vec a, int n) {
    float padded[16];
    vec_store(padded, a);
    memcpy(p, padded, (size_t)n * sizeof *p);
}

static inline Half half_of_bf16(uint16x8_t h) {
    return (Half){vreinterpretq_f32_u32(vshll_n_u16(vget_low_u16(h), 16)),
                  vreinterpretq_f32_u32(vshll_high_n_u16(h, 16))};
}
static inline Half half_of_f16(uint16x8_t h) {
    float16x8_t f = vreinterpretq_f16_u16(h);
    return (Half){vcvt_f32_f16(vget_low_f16(f)), vcvt_high_f32_f16(f)};
}
static inline Vec vec_load_bf16(const uint16_t *p) {
    return (Vec){half_of_bf16(vld1q_u16(p)), half_of_bf16(vld1q_u16(p + 8))};
}
static inline Vec vec_load_f16(const uint16_t *p) {
    return (Vec){half_of_f16(vld1q_u16(p)), half_of_f16(vld1q_u16(p + 8))};
}
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

static inline Half half_add(Half x, Half y) { return (Half){vaddq_f32(x.a, y.a), vaddq_f32(x.b, y.b)}; }
static inline Half half_mul(Half x, Half y) { return (Half){vmulq_f32(x.a, y.a), vmulq_f32(x.b, y.b)}; }
static inline Half half_fma(Half x, Half y, Half z) {
    return (Half){vfmaq_f32(z.a, x.a, y.a), vfmaq_f32(z.b, x.b, y.b)};
}
static inline Vec vec_add(Vec a, Vec b) { return (Vec){half_add(a.lo, b.lo), half_add(a.hi, b.hi)}; }
static inline Vec vec_mul(Vec a, Vec b) { return (Vec){half_mul(a.lo, b.lo), half_mul(a.hi, b.hi)}; }
static inline Vec vec_fma(Vec a, Vec b, Vec c) { return (Vec){half_fma(a.lo, b.lo, c.lo), half_fma(a.hi, b.hi, c.hi)}; }

#ifdef __ARM_FEATURE_BF16_VECTOR_ARITHMETIC /* both elements of a pair from one register, the odd one first */
enum { BF16_PARTS = 1 };
static inline float32x4_t factor_of_pairs(uint32x4_t pairs, int part) {
    (void)part;
    return vreinterpretq_f32_u32(pairs);
}
static inline float32x4_t quarter_fma_pairs(float32x4_t x, float32x4_t y, float32x4_t z) {
    bfloat16x8_t a = vreinterpretq_bf16_f32(x), b = vreinterpretq_bf16_f32(y);
    return vbfmlalbq_f32(vbfmlaltq_f32(z, a, b), a, b);
}
static inline Half half_fma_pairs(Half x, Half y, Half z) {
    return (Half){quarter_fma_pairs(x.a, y.a, z.a), quarter_fma_pairs(x.b, y.b, z.b)};
}
static inline Vec vec_fma_pairs(Vec a, Vec b, Vec c) {
    return (Vec){half_fma_pairs(a.lo, b.lo, c.lo), half_fma_pairs(a.hi, b.hi, c.hi)};
}
#else
enum { BF16_PARTS = 2 };
static inline float32x4_t factor_of_pairs(uint32x4_t pairs, int part) {
    return vreinterpretq_f32_u32(part ? vshlq_n_u32(pairs, 16) : vandq_u32(pairs, vdupq_n_u32(0xffff0000)));
}
static inline Vec vec_fma_pairs(Vec a, Vec b, Vec c) { return vec_fma(a, b, c); }
#endif
static inline Half half_of_pairs(const uint16_t *p, int part) {
    return (Half){factor_of_pairs(vreinterpretq_u32_u16(vld1q_u16(p)), part),
                  factor_of_pairs(vreinterpretq_u32_u16(vld1q_u16(p + 8)), part)};
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
    uint32_t pair;
    memcpy(&pair, p, sizeof pair);
    float32x4_t q = factor_of_pairs(vdupq_n_u32(pair), part);
    return (Vec){{q, q}, {q, q}};
}

static inline float32x4_t quarter_max(float32x4_t m, float32x4_t x) {
    return vbslq_f32(vornq_u32(vcgtq_f32(x, m), vceqq_f32(x, x)), x, m);
}
static inline Half half_max(Half m, Half x) { return (Half){quarter_max(m.a, x.a), quarter_max(m.b, x.b)}; }
static inline Vec vec_max(Vec m, Vec x) { return (Vec){half_max(m.lo, x.lo), half_max(m.hi, x.hi)}; }

static inline float vec_largest(Vec a) {
    Half h = half_max(a.lo, a.hi);
    float32x4_t m = quarter_max(h.a, h.b);
    m = quarter_max(m, vextq_f32(m, m, 2));
    return vgetq_lane_f32(quarter_max(m, vrev64q_f32(m)), 0);
}

/* Sums of lanes l, l + 8 and l + 4. */
static inline float32x4_t quarter_sum(Vec a) {
    Half s = half_add(a.lo, a.hi);
    return vaddq_f32(s.a, s.b);
}
/* Of two of them, lanes l and l + 2. */
static inline float32x4_t two_sums(float32x4_t x, float32x4_t y) {
    float64x2_t p = vreinterpretq_f64_f32(x), q = vreinterpretq_f64_f32(y);
    return vaddq_f32(vreinterpretq_f32_f64(vzip1q_f64(p, q)), vreinterpretq_f32_f64(vzip2q_f64(p, q)));
}
static inline float vec_sum(Vec a) {
    float32x4_t s = quarter_sum(a);
    float32x2_t two = vadd_f32(vget_low_f32(s), vget_high_f32(s));
    return vget_lane_f32(vpadd_f32(two, two), 0);
}
static inline void vec_sum4(const Vec *a, float *out) {
    float32x4_t pq = two_sums(quarter_sum(a[0]), quarter_sum(a[1]));
    vst1q_f32(out, vpaddq_f32(pq, two_sums(quarter_sum(a[2]), quarter_sum(a[3]))));
}

/* By the bytes of the table. */
static inline float32x4_t quarter_pick(uint8x16x4_t table, const uint16_t *index) {
    uint32x4_t at = vmlaq_n_u32(vdupq_n_u32(0x03020100), vmovl_u16(vld1_u16(index)), 0x04040404);
    return vreinterpretq_f32_u8(vqtbl4q_u8(table, vreinterpretq_u8_u32(at)));
}
static inline Vec vec_pick(Vec table, const uint16_t *index) {
    uint8x16x4_t bytes = {{vreinterpretq_u8_f32(table.lo.a), vreinterpretq_u8_f32(table.lo.b),
                           vreinterpretq_u8_f32(table.hi.a), vreinterpretq_u8_f32(table.hi.b)}};
    return (Vec){{quarter_pick(bytes, index), quarter_pick(bytes, index + 4)},
                 {quarter_pick(bytes, index + 8), quarter_pick(bytes, index + 12)}};
}

typedef uint64x2_t Counters;
enum { COUNTERS = 2 };

static inline Counters counters_set1(uint64_t a) { return vdupq_n_u64(a); }
static inline Counters counters_iota(void) { return (Counters){0, 1}; }
static inline Counters counters_mul32(Counters a, Counters b) { return vmull_u32(vmovn_u64(a), vmovn_u64(b)); }
static inline void counters_store_pairs(uint64_t *out, Counters a, Counters b) {
    vst1q_u64(out, vzip1q_u64(a, b));
    vst1q_u64(out + 2, vzip2q_u64(a, b));
}

/* r[i] lane l <-> r[l] lane i */
INLINE void quarters_transpose(uint32x4_t r[4]) {
    uint32x4_t p = vtrn1q_u32(r[0], r[1]), q = vtrn2q_u32(r[0], r[1]), s = vtrn1q_u32(r[2], r[3]),
               t = vtrn2q_u32(r[2], r[3]);
    r[0] = vreinterpretq_u32_u64(vzip1q_u64(vreinterpretq_u64_u32(p), vreinterpretq_u64_u32(s)));
    r[1] = vreinterpretq_u32_u64(vzip1q_u64(vreinterpretq_u64_u32(q), vreinterpretq_u64_u32(t)));
    r[2] = vreinterpretq_u32_u64(vzip2q_u64(vreinterpretq_u64_u32(p), vreinterpretq_u64_u32(s)));
    r[3] = vreinterpretq_u32_u64(vzip2q_u64(vreinterpretq_u64_u32(q), vreinterpretq_u64_u32(t)));
}

#include "model/kernels/vectors/ints_neon.h"

/* ---- what units_ref.h has ---- */

enum { TILE_ROWS = 4, TILE_VECS = 1 };

/* By quarters of 4 x 4. */
INLINE void block_transpose(UnitBlock b) {
    for (int i = 0; i < LANES; i += 4)
        for (int k = 0; k <= i; k += 4) {
            uint32x4_t here[4], there[4];
#pragma GCC unroll 4
            for (int v = 0; v < 4; v++) here[v] = vld1q_u32(b[i + v] + k), there[v] = vld1q_u32(b[k + v] + i);
            quarters_transpose(here);
            quarters_transpose(there);
#pragma GCC unroll 4
            for (int v = 0; v < 4; v++) vst1q_u32(b[i + v] + k, there[v]), vst1q_u32(b[k + v] + i, here[v]);
        }
}
INLINE void pairs_along(const float *x, uint32_t *out) { plain_pairs_along(x, out); }
INLINE void pairs_across(const float *x, const float *next, int n, uint32_t *out) {
    plain_pairs_across(x, next, n, out);
}

/* In so many words: FPCR's flush to zero looks at a product before it is rounded, and the contract after. What is
 * packed has no denormals. */
INLINE float32x4_t quarter_flush(float32x4_t a) {
    uint32x4_t magnitude = vshrq_n_u32(vcaltq_f32(a, vdupq_n_f32(0x1p-126f)), 1);
    return vreinterpretq_f32_u32(vbicq_u32(vreinterpretq_u32_f32(a), magnitude));
}
INLINE float32x4_t quarter_pair_multiply(float32x4_t x, float32x4_t w, float32x4_t sum) {
    uint32x4_t a = vreinterpretq_u32_f32(x), b = vreinterpretq_u32_f32(w), odd = vdupq_n_u32(0xffff0000);
    float32x4_t upper =
        vfmaq_f32(sum, vreinterpretq_f32_u32(vandq_u32(a, odd)), vreinterpretq_f32_u32(vandq_u32(b, odd)));
    float32x4_t lower_x = vreinterpretq_f32_u32(vshlq_n_u32(a, 16)),
                lower_w = vreinterpretq_f32_u32(vshlq_n_u32(b, 16));
    return quarter_flush(vfmaq_f32(quarter_flush(upper), lower_x, lower_w));
}
INLINE Vec unit_pair_multiply(Vec x, Vec w, Vec sum) {
    return (Vec){{quarter_pair_multiply(x.lo.a, w.lo.a, sum.lo.a), quarter_pair_multiply(x.lo.b, w.lo.b, sum.lo.b)},
                 {quarter_pair_multiply(x.hi.a, w.hi.a, sum.hi.a), quarter_pair_multiply(x.hi.b, w.hi.b, sum.hi.b)}};
}
INLINE unsigned pairs_begin(void) { return 0; }
INLINE void pairs_end(unsigned before) { (void)before; }

INLINE float32x4_t quantiles4(uint64_t k) {
    const float *q = gaussian_quantiles;
    float32x4_t v = vld1q_dup_f32(q + (k >> 3 & 4095));
    v = vld1q_lane_f32(q + (k >> 19 & 4095), v, 1);
    v = vld1q_lane_f32(q + (k >> 35 & 4095), v, 2);
    return vld1q_lane_f32(q + (k >> 51 & 4095), v, 3);
}

INLINE void gaussian8(const uint16_t *draws, float *out) {
    uint64_t k[2];
    uint32x4_t sign_bit = vdupq_n_u32(0x80000000);
    memcpy(k, draws, sizeof k);
    uint16x8_t d = vld1q_u16(draws);
    vst1q_f32(out, vbslq_f32(sign_bit, vreinterpretq_f32_u32(vshll_n_u16(vget_low_u16(d), 16)), quantiles4(k[0])));
    vst1q_f32(out + 4, vbslq_f32(sign_bit, vreinterpretq_f32_u32(vshll_high_n_u16(d, 16)), quantiles4(k[1])));
}

#endif
