/* ints_neon: sixteen i32 lanes in four registers for sums of int8 products; see ints_ref.h for what each function
 * means. A unit is four codes: SDOT's, where it is; elsewhere two products, at most 2 x 127 x 128, are added in 16
 * bits. With SMMLA (INT8_PAIRS says so) a panel meets rows of x two at a time. */
#ifndef NOISED_KERNELS_INTS_H
#define NOISED_KERNELS_INTS_H

#include "model/tensor.h"

#include <arm_neon.h>

#ifdef __ARM_FEATURE_MATMUL_INT8
#define INT8_PAIRS
enum { INT8_ROWS = 4 };
#else
enum { INT8_ROWS = 5 };
#endif
enum { INT8_UNITS = INT8_GROUP / 4, INT8_VECS = 1 };

typedef struct Ints {
    int32x4_t a, b, c, d;
} Ints;

static inline int32x4_t quarter_load(const void *p) { return vreinterpretq_s32_u8(vld1q_u8(p)); }
static inline Ints ints_load(const uint32_t *p) {
    return (Ints){quarter_load(p), quarter_load(p + 4), quarter_load(p + 8), quarter_load(p + 12)};
}
static inline void ints_store(uint32_t *p, Ints i) {
    vst1q_u32(p, vreinterpretq_u32_s32(i.a));
    vst1q_u32(p + 4, vreinterpretq_u32_s32(i.b));
    vst1q_u32(p + 8, vreinterpretq_u32_s32(i.c));
    vst1q_u32(p + 12, vreinterpretq_u32_s32(i.d));
}
static inline Ints ints_keep(Ints i) { return i; }
static inline Ints ints_start(int32_t start) {
    int32x4_t q = vdupq_n_s32(start);
    return (Ints){q, q, q, q};
}
static inline Vec ints_to_vec(Ints i) {
    return (Vec){{vcvtq_f32_s32(i.a), vcvtq_f32_s32(i.b)}, {vcvtq_f32_s32(i.c), vcvtq_f32_s32(i.d)}};
}

#ifdef __ARM_FEATURE_DOTPROD
static inline int32x4_t quarter_dot(int32x4_t acc, int32x4_t x, int32x4_t w) {
    return vdotq_s32(acc, vreinterpretq_s8_s32(x), vreinterpretq_s8_s32(w));
}
/* A unit of x is multiplied where it was loaded to: to copy it to all lanes would take a fifth of a tile's work. */
static inline Ints ints_set1(uint32_t unit) {
    int32x4_t q;
    __asm__("" : "=w"(q) : "0"(float_of_bits(unit)));
    return (Ints){q, q, q, q};
}
static inline int32x4_t quarter_dot_unit(int32x4_t acc, int32x4_t x, int32x4_t w) {
    return vdotq_laneq_s32(acc, vreinterpretq_s8_s32(w), vreinterpretq_s8_s32(x), 0);
}
#else
static inline int32x4_t quarter_dot(int32x4_t acc, int32x4_t x, int32x4_t w) {
    int8x16_t p = vreinterpretq_s8_s32(x), q = vreinterpretq_s8_s32(w);
    return vpadalq_s16(acc, vpaddq_s16(vmull_s8(vget_low_s8(p), vget_low_s8(q)), vmull_high_s8(p, q)));
}
static inline Ints ints_set1(uint32_t unit) { return ints_start((int32_t)unit); }
static inline int32x4_t quarter_dot_unit(int32x4_t acc, int32x4_t x, int32x4_t w) { return quarter_dot(acc, x, w); }
#endif
static inline Ints ints_dot(Ints acc, Ints x, Ints w) {
    return (Ints){quarter_dot_unit(acc.a, x.a, w.a), quarter_dot_unit(acc.b, x.b, w.b),
                  quarter_dot_unit(acc.c, x.c, w.c), quarter_dot_unit(acc.d, x.d, w.d)};
}

static inline void ints_pack_x(const int8_t *x, uint32_t *units) { memcpy(units, x, INT8_GROUP); }

#ifdef INT8_PAIRS
/* acc[2 i + j] += the product of eight codes, of the i-th half of x and the j-th of w. */
static inline int32x4_t quarter_products(int32x4_t acc, int32x4_t x, int32x4_t w) {
    return vmmlaq_s32(acc, vreinterpretq_s8_s32(x), vreinterpretq_s8_s32(w));
}
static inline int32x4_t quarter_firsts(int32x4_t a, int32x4_t b) {
    return vreinterpretq_s32_s64(vzip1q_s64(vreinterpretq_s64_s32(a), vreinterpretq_s64_s32(b)));
}
static inline int32x4_t quarter_seconds(int32x4_t a, int32x4_t b) {
    return vreinterpretq_s32_s64(vzip2q_s64(vreinterpretq_s64_s32(a), vreinterpretq_s64_s32(b)));
}
/* q[j]: of both rows outputs 2 j and 2 j + 1. */
static inline void ints_of_pair(const int32x4_t q[8], Ints *first, Ints *second) {
    *first = (Ints){quarter_firsts(q[0], q[1]), quarter_firsts(q[2], q[3]), quarter_firsts(q[4], q[5]),
                    quarter_firsts(q[6], q[7])};
    *second = (Ints){quarter_seconds(q[0], q[1]), quarter_seconds(q[2], q[3]), quarter_seconds(q[4], q[5]),
                     quarter_seconds(q[6], q[7])};
}

/* Two units at a time, as pairs of outputs: eight codes of each. */
static inline Ints ints_pack_w(const int8_t *w, size_t ld, int outs, uint32_t *units, size_t step) {
    for (int l = 0; l < 16; l += 2)
        for (int u = 0; u < INT8_UNITS; u += 4) {
            int32x4_t zero = vdupq_n_s32(0);
            int32x4_t a = l < outs ? quarter_load(w + (size_t)l * ld + 4 * u) : zero;
            int32x4_t b = l + 1 < outs ? quarter_load(w + (size_t)(l + 1) * ld + 4 * u) : zero;
            uint32_t *to = units + (size_t)(u + l / 8) * step + l % 8 * 2;
            vst1q_u32(to, vreinterpretq_u32_s32(quarter_firsts(a, b)));
            vst1q_u32(to + 2 * step, vreinterpretq_u32_s32(quarter_seconds(a, b)));
        }
    return ints_start(0);
}

/* The products of a group of `rows` rows of x, as ints_pack_x left them `ldx` units apart, with W, as ints_pack_w
 * did. A last single row is a pair with itself. */
INLINE void ints_pairs(int rows, const uint32_t *x, size_t ldx, const uint32_t *w, size_t step, Ints *dots) {
    const int pairs = (rows + 1) / 2;
    int32x4_t acc[INT8_ROWS / 2][8];
#pragma GCC unroll 32
    for (int t = 0; t < pairs * 8; t++) acc[t / 8][t % 8] = vdupq_n_s32(0);
    for (int u = 0; u < INT8_UNITS; u += 2) {
        int32x4_t xs[INT8_ROWS / 2];
#pragma GCC unroll 4
        for (int r = 0; r < pairs; r++) {
            const uint32_t *a = x + (size_t)(2 * r) * ldx + u, *b = x + (size_t)MIN(2 * r + 1, rows - 1) * ldx + u;
            xs[r] = vreinterpretq_s32_u32(vcombine_u32(vld1_u32(a), vld1_u32(b)));
        }
#pragma GCC unroll 8
        for (int j = 0; j < 8; j++) {
            int32x4_t q = quarter_load(w + (size_t)(u + j / 4) * step + j % 4 * 4);
#pragma GCC unroll 4
            for (int r = 0; r < pairs; r++) acc[r][j] = quarter_products(acc[r][j], xs[r], q);
        }
    }
#pragma GCC unroll 4
    for (int r = 0; r < pairs; r++) {
        Ints second;
        ints_of_pair(acc[r], dots + 2 * r, &second);
        if (2 * r + 1 < rows) dots[2 * r + 1] = second;
    }
}
#else
static inline Ints ints_pack_w(const int8_t *w, size_t ld, int outs, uint32_t *units, size_t step) {
    for (int l0 = 0; l0 < 16; l0 += 4)
        for (int u = 0; u < INT8_UNITS; u += 4) {
            uint32x4_t r[4];
#pragma GCC unroll 4
            for (int l = 0; l < 4; l++)
                r[l] = l0 + l < outs ? vreinterpretq_u32_s32(quarter_load(w + (size_t)(l0 + l) * ld + 4 * u))
                                     : vdupq_n_u32(0);
            quarters_transpose(r);
#pragma GCC unroll 4
            for (int l = 0; l < 4; l++) vst1q_u32(units + (size_t)(u + l) * step + l0, r[l]);
        }
    return ints_start(0);
}
#endif

/* Four rows of W: lane l the product of x and row l. */
static inline int32x4_t ints_dots4(const int32x4_t x[4], const int8_t *w, size_t ld, int outs) {
    int32x4_t r[4];
#pragma GCC unroll 4
    for (int l = 0; l < 4; l++) {
        const int8_t *row = w + (size_t)(l < outs ? l : 0) * ld;
        r[l] = vdupq_n_s32(0);
#pragma GCC unroll 4
        for (int q = 0; q < 4; q++) r[l] = quarter_dot(r[l], x[q], quarter_load(row + 16 * q));
    }
    return vpaddq_s32(vpaddq_s32(r[0], r[1]), vpaddq_s32(r[2], r[3]));
}

static inline Ints ints_dots(const int8_t *x, const int8_t *w, size_t ld, int outs) {
    int32x4_t xs[4], r[4];
#pragma GCC unroll 4
    for (int q = 0; q < 4; q++) xs[q] = quarter_load(x + 16 * q);
#pragma GCC unroll 4
    for (int q = 0; q < 4; q++)
        r[q] = 4 * q < outs ? ints_dots4(xs, w + (size_t)(4 * q) * ld, ld, outs - 4 * q) : vdupq_n_s32(0);
    return (Ints){r[0], r[1], r[2], r[3]};
}

/* ---- I4 ---- */

enum { INT4_ROWS = 4, INT4_VECS = 1 };

static inline int32x4_t quarter_low(const uint8_t *w) {
    return vreinterpretq_s32_u8(vandq_u8(vld1q_u8(w), vdupq_n_u8(15)));
}
static inline int32x4_t quarter_high(const uint8_t *w) { return vreinterpretq_s32_u8(vshrq_n_u8(vld1q_u8(w), 4)); }
static inline Ints ints4_low(const uint8_t *w) {
    return (Ints){quarter_low(w), quarter_low(w + 16), quarter_low(w + 32), quarter_low(w + 48)};
}
static inline Ints ints4_high(const uint8_t *w) {
    return (Ints){quarter_high(w), quarter_high(w + 16), quarter_high(w + 32), quarter_high(w + 48)};
}
static inline Ints ints4_set1(const int8_t *x) {
    uint32_t four;
    memcpy(&four, x, sizeof four);
    return ints_set1(four);
}
static inline Ints ints4_start(int32_t less) { return ints_start(less); }
static inline Ints ints4_dot(Ints acc, Ints x, Ints w) { return ints_dot(acc, x, w); }
static inline Ints ints4_end(Ints acc, int32_t less) {
    (void)less;
    return acc;
}

#endif
