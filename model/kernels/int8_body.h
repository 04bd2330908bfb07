/* int8_body: rows to int8 codes, and products of them (docs/spec.md 2.3). The sum over a group is an exact integer and
 * the groups are added in order, so no instruction set has a say in the result. */

/* Nearest, ties to even, for |x| < 128: adding pushes the fraction out of the mantissa. */
INLINE int8_t int8_round(float x) { return (int8_t)bits_of_float(x + ROUND_MAGIC); }

/* Magnitudes compare as their bits do; those of Inf and NaN are the largest. */
INLINE float int8_scale(const float *x) {
    uint32_t largest = 0;
    for (int i = 0; i < INT8_GROUP; i++) largest = MAX(largest, bits_of_float(x[i]) & 0x7fffffff);
    return largest < 0x7f800000 ? float_of_bits(largest) / 127 : NAN;
}

/* x / s for scales of at least INT8_EXACT, where no remainder is subnormal. A division costs several times what a step
 * of Newton's does, whose bits are the same (Markstein): of all significands of s, and all x with a quotient within
 * four ulps of a tie, none is another. */
static const float INT8_EXACT = 0x1p-100f;
INLINE float int8_quotient(float x, float s) {
#ifdef __FP_FAST_FMAF
    float r = 1 / s, q = x * r; /* r once a group: it leaves the loop */
    return FMA(FMA(-q, s, x), r, q);
#else
    return x / s;
#endif
}

static void to_int8(int n, const float *x, int8_t *code, float *scale) {
    for (int g = 0; g < n / INT8_GROUP; g++) {
        const float *from = x + g * INT8_GROUP;
        int8_t *to = code + g * INT8_GROUP;
        float s = scale[g] = int8_scale(from);
        if (s >= INT8_EXACT)
            for (int i = 0; i < INT8_GROUP; i++) to[i] = int8_round(int8_quotient(from[i], s));
        else if (s > 0) /* a subnormal scale is coarse: it may leave quotients above 127 */
            for (int i = 0; i < INT8_GROUP; i++) to[i] = int8_round(MIN(MAX(from[i] / s, -127.0f), 127.0f));
        else
            memset(to, 0, INT8_GROUP);
    }
}

/* ---- products ---- */

enum { INT8_FEW = 3, INT8_SOON = 4 }; /* rows; groups */

typedef struct Int8Gemm {
    size_t n, n_out, k, groups;
    const int8_t *x, *w;
    const float *x_scale, *w_scale;
    float *y;
    size_t ldy;
} Int8Gemm;

/* scale[l] = that of group g of output o + l apart, 0 beyond the last of `outs`. */
INLINE void int8_scales(const Int8Gemm *a, size_t o, size_t apart, size_t outs, size_t g, float *scale) {
    for (size_t l = 0; l < LANES; l++) scale[l] = l < outs ? a->w_scale[(o + l * apart) * a->groups + g] : 0;
}

/* sum + the products of group g of row i, scaled. */
INLINE Vec int8_add(const Int8Gemm *a, size_t i, size_t g, Ints dots, const float *scale, Vec sum) {
    return vec_fma(ints_to_vec(dots), vec_mul(vec_set1(a->x_scale[i * a->groups + g]), vec_load(scale)), sum);
}

/* ---- few rows: outputs across lanes, W read in place, for a panel would cost more than it saves ---- */

/* Memory brings lines faster that follow each other. So the weights of the next outputs, as many as are multiplied at a
 * time, are fetched in the order they lie in: to the first level where they stay in it, else to the second, and to the
 * first what is soon multiplied. */
INLINE void int8_fetch(const Int8Gemm *a, size_t outs, size_t o, size_t g) {
    const int8_t *next = a->w + (o + outs) * a->k + g * outs * INT8_GROUP;
    const int8_t *soon = a->w + o * a->k + (g + INT8_SOON) * INT8_GROUP;
    __builtin_prefetch(a->w_scale + (o + outs) * a->groups + g * outs);
    if (stays_near(outs * a->k)) {
        for (size_t l = 0; l < outs; l++) __builtin_prefetch(next + l * INT8_GROUP);
        return;
    }
    for (size_t l = 0; l < outs; l++) {
        __builtin_prefetch(next + l * INT8_GROUP, 0, 2);
        __builtin_prefetch(soon);
        soon += a->k;
    }
}

/* `outs` outputs from o on, so many apart. */
INLINE void int8_few_outs(const Int8Gemm *a, size_t o, size_t apart, size_t outs) {
    Vec sums[INT8_FEW];
    for (size_t i = 0; i < a->n; i++) sums[i] = vec_set1(0);
    for (size_t g = 0; g < a->groups; g++) {
        float scale[LANES];
        int8_scales(a, o, apart, outs, g, scale);
        if (!reads_in_streams) int8_fetch(a, LANES, o, g);
        for (size_t i = 0; i < a->n; i++) {
            const int8_t *x = a->x + i * a->k + g * INT8_GROUP, *w = a->w + o * a->k + g * INT8_GROUP;
            sums[i] = int8_add(a, i, g, ints_dots(x, w, apart * a->k, (int)outs), scale, sums[i]);
        }
    }
    for (size_t i = 0; i < a->n; i++) {
        float y[LANES];
        vec_store(y, sums[i]);
        for (size_t l = 0; l < outs; l++) a->y[i * a->ldy + o + l * apart] = y[l];
    }
}

static void int8_few(const Int8Gemm *a) {
    const size_t tiles = a->n_out / LANES, apart = reads_in_streams ? tiles : 1, whole = tiles * LANES;
    for (size_t t = 0; t < tiles; t++) int8_few_outs(a, reads_in_streams ? t : t * LANES, apart, LANES);
    if (whole < a->n_out) int8_few_outs(a, whole, 1, a->n_out - whole);
}

#ifdef INT8_ACROSS
#include "model/kernels/int8_rows_body.h"
#else
/* ---- outputs across lanes, INT8_VECS LANES of them at a time ---- */

enum { INT8_BLOCK = 6, INT8_OUTS = INT8_VECS * LANES }; /* groups and outputs of a panel */

/* Some groups of some outputs, as lanes take them. */
typedef struct Int8Panel {
    _Alignas(64) uint32_t w[INT8_BLOCK][INT8_UNITS][INT8_OUTS], x[INT8_ROWS][INT8_BLOCK][INT8_UNITS];
    uint32_t start[INT8_BLOCK][INT8_OUTS];
    float scale[INT8_BLOCK][INT8_OUTS];
    size_t o, outs, g0, groups;
} Int8Panel;

static void int8_pack(const Int8Gemm *a, Int8Panel *p) {
    for (size_t c = 0; c < p->outs; c += LANES) {
        size_t o = p->o + c, outs = MIN(p->outs - c, LANES);
        for (size_t g = 0; g < p->groups; g++) {
            const int8_t *w = a->w + o * a->k + (p->g0 + g) * INT8_GROUP;
            ints_store(p->start[g] + c, ints_pack_w(w, a->k, (int)outs, p->w[g][0] + c, INT8_OUTS));
            int8_scales(a, o, 1, outs, p->g0 + g, p->scale[g] + c);
            for (size_t l = 0; l < LANES; l++) __builtin_prefetch(w + (INT8_OUTS + l) * a->k); /* the next panel's */
        }
    }
}

/* The products of group g of `rows` packed rows with the panel, which has `vecs` vectors of outputs. */
INLINE void int8_group(int rows, int vecs, const Int8Panel *p, size_t g, Ints *dots) {
#ifdef INT8_PAIRS
    (void)vecs;
    ints_pairs(rows, p->x[0][g], sizeof p->x[0] / sizeof(uint32_t), p->w[g][0], INT8_OUTS, dots);
#else
#pragma GCC unroll 32
    for (int t = 0; t < rows * vecs; t++) dots[t] = ints_load(p->start[g] + t % vecs * LANES);
    for (int u = 0; u < INT8_UNITS; u++) {
        Ints w[INT8_VECS];
#pragma GCC unroll 4
        for (int c = 0; c < vecs; c++) w[c] = ints_keep(ints_load(p->w[g][u] + c * LANES));
#pragma GCC unroll 8
        for (int r = 0; r < rows; r++) {
            Ints x = ints_set1(p->x[r][g][u]);
#pragma GCC unroll 4
            for (int c = 0; c < vecs; c++) dots[r * vecs + c] = ints_dot(dots[r * vecs + c], x, w[c]);
        }
    }
#endif
}

/* `rows` rows of x from i on against the panel, which has `vecs` vectors of outputs. */
INLINE void int8_tile(int rows, int vecs, const Int8Gemm *a, Int8Panel *p, size_t i) {
    Vec sums[INT8_ROWS * INT8_VECS];
    float *y = a->y + i * a->ldy + p->o;
    const int last = (int)p->outs - (vecs - 1) * LANES; /* outputs of the last vector */
#pragma GCC unroll 32
    for (int t = 0; t < rows * vecs; t++) {
        const float *at = y + (size_t)(t / vecs) * a->ldy + t % vecs * LANES;
        sums[t] = !p->g0 ? vec_set1(0) : t % vecs < vecs - 1 ? vec_load(at) : vec_load_n(at, last);
    }
    for (size_t g = 0; g < p->groups; g++) {
        Ints dots[INT8_ROWS * INT8_VECS];
        int8_group(rows, vecs, p, g, dots);
#pragma GCC unroll 32
        for (int t = 0; t < rows * vecs; t++)
            sums[t] = int8_add(a, i + (size_t)(t / vecs), p->g0 + g, dots[t], p->scale[g] + t % vecs * LANES, sums[t]);
    }
#pragma GCC unroll 32
    for (int t = 0; t < rows * vecs; t++) {
        float *at = y + (size_t)(t / vecs) * a->ldy + t % vecs * LANES;
        if (t % vecs < vecs - 1)
            vec_store(at, sums[t]);
        else
            vec_store_n(at, sums[t], last);
    }
}

INLINE void int8_rows(int rows, const Int8Gemm *a, Int8Panel *p, size_t i) {
#pragma GCC unroll 8
    for (int r = 0; r < rows; r++) {
        const int8_t *x = a->x + (i + (size_t)r) * a->k + p->g0 * INT8_GROUP;
        if (p->groups == INT8_BLOCK)
#pragma GCC unroll 8
            for (int g = 0; g < INT8_BLOCK; g++) ints_pack_x(x + g * INT8_GROUP, p->x[r][g]);
        else
            for (size_t g = 0; g < p->groups; g++) ints_pack_x(x + g * INT8_GROUP, p->x[r][g]);
    }
    if (p->outs > (INT8_VECS - 1) * LANES)
        int8_tile(rows, INT8_VECS, a, p, i);
    else
        int8_tile(rows, 1, a, p, i);
}

/* Not inlined: beside anything else gcc 12 no longer keeps the sums of the tiles in registers. */
static __attribute__((noinline)) void int8_panel(const Int8Gemm *a, Int8Panel *p) {
    int8_pack(a, p);
    for (size_t i = 0, rows; i < a->n; i += rows) {
        size_t left = a->n - i, tiles = (left + INT8_ROWS - 1) / INT8_ROWS;
        rows = (left + tiles - 1) / tiles;
#ifdef INT8_PAIRS
        rows += rows % 2 && rows < left;
#endif
        switch (rows) {
        case 1:
            int8_rows(1, a, p, i);
            break;
        case 2:
            if (INT8_ROWS >= 2) int8_rows(MIN(2, INT8_ROWS), a, p, i);
            break;
        case 3:
            if (INT8_ROWS >= 3) int8_rows(MIN(3, INT8_ROWS), a, p, i);
            break;
        case 4:
            if (INT8_ROWS >= 4) int8_rows(MIN(4, INT8_ROWS), a, p, i);
            break;
        case 5:
            if (INT8_ROWS >= 5) int8_rows(MIN(5, INT8_ROWS), a, p, i);
            break;
        case 6:
            if (INT8_ROWS >= 6) int8_rows(MIN(6, INT8_ROWS), a, p, i);
            break;
        }
    }
}

static void int8_many(const Int8Gemm *a) {
    Int8Panel p;
    for (p.o = 0; p.o < a->n_out; p.o += p.outs) {
        size_t left = a->n_out - p.o;
        p.outs = left > INT8_OUTS - LANES ? MIN(left, INT8_OUTS) : MIN(left, LANES);
        p.g0 = 0;
        do {
            p.groups = MIN(a->groups - p.g0, INT8_BLOCK);
            int8_panel(a, &p);
            p.g0 += p.groups;
        } while (p.g0 < a->groups);
    }
}
#endif

static void gemm_i8(int n, int n_out, int k, const int8_t *x, const float *x_scale, const int8_t *w,
                    const float *w_scale, float *y, int ldy) {
    Int8Gemm a = {.n = (size_t)n,
                  .n_out = (size_t)n_out,
                  .k = (size_t)k,
                  .groups = (size_t)(k / INT8_GROUP),
                  .x = x,
                  .w = w,
                  .x_scale = x_scale,
                  .w_scale = w_scale,
                  .y = y,
                  .ldy = (size_t)ldy};
    if (n <= INT8_FEW)
        int8_few(&a);
    else
        int8_many(&a);
}
