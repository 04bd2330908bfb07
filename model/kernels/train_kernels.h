/* train_kernels: the inner loops that only training has; one table per instruction set, kernels->train.
 *
 * The rules of kernels.h hold: pure, single-threaded, any alignment, no aliasing unless said. Every level gives the
 * same bits, but for amx's products of pairs and blas's of f32. */
#ifndef NOISED_TRAIN_KERNELS_H
#define NOISED_TRAIN_KERNELS_H

#include "model/tensor.h"

/* n vectors (rows of A or columns of B) of k elements: element e of vector i is x[i stride + e] when step is 1, and
 * x[i + e step] otherwise (stride is 1 then). */
typedef struct PackSource {
    const float *x;
    int n, k;
    size_t stride, step;
} PackSource;

/* An operand: packed panels, or units that are read where they lie. */
typedef struct Panels {
    const uint32_t *at;
    size_t words;    /* from one panel to the next */
    size_t row;      /* A alone; not 0: unit u of row i lies at at[i row + u] */
    const int *taps; /* B alone; not NULL: unit u of column j lies at at[taps[u] + j]; whole vectors are read, up to
                        tile_columns words behind the last column */
} Panels;

/* Constants of one AdamW step (optimizer.h). */
typedef struct AdamwRow {
    float beta1, beta2, eps, grad_scale;
    float correction2; /* 1 / sqrt(1 - b2^t) */
    float step, keep;  /* a / (1 - b1^t), 1 - a decay */
} AdamwRow;

typedef struct TrainKernels {
    /* Packed operands: panels of tile_rows[pairs] (A) or tile_columns (B) vectors, [panels][units][vectors] words, of A
     * as the level likes it; a unit is one f32, or with `pairs` two neighbours of k rounded to bf16. Room: n rounded up
     * to whole panels, times units. */
    int tile_rows[2], tile_columns; /* train_panels_words, train_units */
    bool pairs_pay; /* products of pairs are faster than those of f32: decides about a run's bits, so never measured */
    void (*pack_rows)(bool pairs, const PackSource *s, uint32_t *out);
    void (*pack_columns)(bool pairs, const PackSource *s, uint32_t *out);
    /* c [m, n] = a b, or += with `add`; the units are added in order, in a pair the odd element first; in
     * pairs amx adds 16 units at a time (isa.h). */
    void (*multiply)(bool pairs, int m, int n, int units, Panels a, Panels b, float *c, size_t ldc, bool add);
    /* Operands that are read where they lie (Panels). pair_row: the units of n neighbours. pair_with: of n lanes x and
     * next. transpose: out[e n + i] = x[i stride + e], i < n, e < k. */
    void (*pair_row)(int n, const float *x, uint32_t *out);
    void (*pair_with)(int n, const float *x, const float *next, uint32_t *out);
    void (*transpose)(int n, int k, size_t stride, const uint32_t *x, uint32_t *out);

    float (*dot_row)(int d, const float *a, const float *b);
    void (*scale_in_place)(int d, float scale, float *x);
    void (*product_row)(int d, const float *a, const float *b, bool add, float *y); /* y = a b, or +=; y may be a */
    /* y = a(g) u: du (+)= dy activated, dg (+)= dy u slope */
    void (*gate_slope_row)(int d, const float *dy, const float *up, const float *activated, const float *slope,
                           bool add, float *dgate, float *dup);
    /* slope = a'(x), y = a(x) given */
    void (*slope_row)(Activation a, int d, const float *x, const float *y, float *slope);
    /* ds = p (ds - dot) */
    void (*softmax_slope_row)(int d, const float *p, float dot, float *ds);
    /* y = cos(freq x + phase), sine = sin(freq x + phase): dx (+)= - sine freq dy, d_freq -= sine x dy,
     * d_phase -= sine dy; d_freq and d_phase may be NULL */
    void (*cos_slope_row)(int d, const float *x, const float *freq, const float *sine, const float *dy, bool add,
                          float *dx, float *d_freq, float *d_phase);
    /* lstm_row's z (after), c_before and c, and dh: writes dz [4][n], of the gates before their nonlinearities. dc
     * holds what later steps want of c, and then what this one wants of c_before. */
    void (*lstm_slope_row)(int n, const float *z, const float *c_before, const float *c, const float *dh, float *dc,
                           float *dz);
    /* y = xh w + b, xh = (x - mean) rstd; mean 0 unless center. dx (+)= the derivative, dw += dy xh; db += dy unless
     * NULL. xh [d] is scratch. */
    void (*norm_slope_row)(bool center, int d, const float *x, const float *w, float eps, const float *dy, bool add,
                           float *dx, float *dw, float *db, float *xh);

    /* sum (+)= round(x scale), to even, scale a power of two, |x scale| < 2^63. False, and sum is worth nothing,
     * unless |x| < limit everywhere. */
    bool (*fixed_add)(int n, const float *x, double scale, float limit, bool first, int64_t *sum);
    void (*fixed_read)(int n, const int64_t *sum, float unit, float *x); /* x = sum unit, a power of two */
    /* x = what fixed_read has of fixed_add's sum of x alone, unit = 1 / scale; returns what fixed_add does. */
    bool (*fixed_single)(int n, float unit, float limit, float *x);
    double (*squares)(int n, const float *g); /* sum of g^2 in double */
    void (*adamw)(const AdamwRow *u, int n, float *w, const float *g, float *m, float *v);
} TrainKernels;

/* Words of n vectors of so many units in panels of so many vectors; units of k elements. */
static inline size_t train_panels_words(int panel, int n, size_t units) {
    return (size_t)((n + panel - 1) / panel * panel) * units;
}
static inline int train_units(bool pairs, int k) { return pairs ? (k + 1) / 2 : k; }

#endif
