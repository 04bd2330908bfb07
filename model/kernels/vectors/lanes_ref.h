/* lanes_ref: sixteen f32 lanes in plain C, the contract of lanes_avx2.h and lanes_avx512.h (see body.h).
 * fmaf is the C library's: correctly rounded, with or without an FMA unit. */
#ifndef NOISED_KERNELS_LANES_H
#define NOISED_KERNELS_LANES_H

#include "base/quantiles.h"
#include "model/kernels/vectors/words.h"
#include "model/tensor.h"

#include <math.h>
#include <string.h>

enum { GEMM_ROWS = 1, GEMM_OUTS = 1, GEMM_OUTS_ONE_ROW = 1, BF16_PARTS = 2 };
enum { SCORE_ROWS = 1, MIX_ROWS = 1, MIX_VECS = 1, NOISE_VECS = 1 };

typedef struct Vec {
    float v[16];
} Vec;

static inline Vec vec_set1(float a) {
    Vec r;
    for (int l = 0; l < 16; l++) r.v[l] = a;
    return r;
}

static inline Vec vec_load_n(const float *p, int n) {
    Vec r = {{0}};
    for (int l = 0; l < n; l++) r.v[l] = p[l];
    return r;
}

static inline Vec vec_load_bf16_n(const uint16_t *p, int n) {
    Vec r = {{0}};
    for (int l = 0; l < n; l++) r.v[l] = bf16_to_f32(p[l]);
    return r;
}

static inline Vec vec_load_f16_n(const uint16_t *p, int n) {
    Vec r = {{0}};
    for (int l = 0; l < n; l++) r.v[l] = f16_to_f32(p[l]);
    return r;
}

static inline Vec vec_load(const float *p) { return vec_load_n(p, 16); }
static inline Vec vec_load_bf16(const uint16_t *p) { return vec_load_bf16_n(p, 16); }
static inline Vec vec_load_f16(const uint16_t *p) { return vec_load_f16_n(p, 16); }

/* The same value, held in registers: without it gcc 12 repeats the load in every multiplication that uses it. */
static inline Vec vec_keep(Vec a) { return a; }

static inline void vec_store_n(float *p, Vec a, int n) {
    for (int l = 0; l < n; l++) p[l] = a.v[l];
}
static inline void vec_store(float *p, Vec a) { vec_store_n(p, a, 16); }

static inline Vec vec_add(Vec a, Vec b) {
    for (int l = 0; l < 16; l++) a.v[l] += b.v[l];
    return a;
}

static inline Vec vec_mul(Vec a, Vec b) {
    for (int l = 0; l < 16; l++) a.v[l] *= b.v[l];
    return a;
}

static inline Vec vec_fma(Vec a, Vec b, Vec c) {
    for (int l = 0; l < 16; l++) c.v[l] = fmaf(a.v[l], b.v[l], c.v[l]);
    return c;
}

/* Pairs of bf16, lane l holding elements 2 l and 2 l + 1, as factors: part 0 the odd elements, part 1 the even ones. */
static inline Vec vec_load_pairs_n(const uint16_t *p, int n, int part) {
    Vec r = {{0}};
    for (int i = 1 - part; i < n; i += 2) r.v[i / 2] = bf16_to_f32(p[i]);
    return r;
}
static inline Vec vec_load_pairs(const uint16_t *p, int part) { return vec_load_pairs_n(p, 32, part); }
static inline Vec vec_set1_pair(const uint16_t *p, int part) { return vec_set1(bf16_to_f32(p[1 - part])); }
static inline Vec vec_fma_pairs(Vec a, Vec b, Vec c) { return vec_fma(a, b, c); }

/* The larger; m when equal; NaN when either is. */
static inline Vec vec_max(Vec m, Vec x) {
    for (int l = 0; l < 16; l++) m.v[l] = x.v[l] > m.v[l] || x.v[l] != x.v[l] ? x.v[l] : m.v[l];
    return m;
}

/* The largest lane, by vec_max. */
static inline float vec_largest(Vec a) {
    for (int half = 8; half >= 1; half /= 2)
        for (int l = 0; l < half; l++)
            a.v[l] = a.v[l + half] > a.v[l] || a.v[l + half] != a.v[l + half] ? a.v[l + half] : a.v[l];
    return a.v[0];
}

/* The one tree in which lanes are added: l with l + 8, then + 4, + 2, + 1. */
static inline float vec_sum(Vec a) {
    for (int half = 8; half >= 1; half /= 2)
        for (int l = 0; l < half; l++) a.v[l] += a.v[l + half];
    return a.v[0];
}

static inline void vec_sum4(const Vec *a, float *out) {
    for (int i = 0; i < 4; i++) out[i] = vec_sum(a[i]);
}

/* Lane l: lane index[l] of the table, below 16. */
static inline Vec vec_pick(Vec table, const uint16_t *index) {
    Vec r;
    for (int l = 0; l < 16; l++) r.v[l] = table.v[index[l]];
    return r;
}

/* Philox counters, one per 64-bit lane. */
typedef uint64_t Counters;
enum { COUNTERS = 1 };

static inline Counters counters_set1(uint64_t a) { return a; }
static inline Counters counters_iota(void) { return 0; }
/* Product of the low 32 bits of each lane. */
static inline Counters counters_mul32(Counters a, Counters b) { return (uint64_t)(uint32_t)a * (uint32_t)b; }
/* out[2 c] = a[c], out[2 c + 1] = b[c] */
static inline void counters_store_pairs(uint64_t *out, Counters a, Counters b) {
    out[0] = a;
    out[1] = b;
}

#include "model/kernels/vectors/ints_ref.h"
#include "model/kernels/vectors/units_ref.h"

#endif
