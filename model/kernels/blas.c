/* The level that leaves matrix products to OpenBLAS: those with weights while serving, all of training. Attention while
 * serving, whose blocks of 32 keys meet a few rows each, and everything that is no product has ref's bits, as on every
 * level. */
#include "model/kernels/blas.h"

#include "base/team.h"
#include "model/kernels/isa.h"
#include "model/kernels/vectors/words.h"

#include <cblas.h>
#include <stdio.h>
#include <string.h>

typedef struct BlasTile {
    _Alignas(64) float a[BLAS_ROWS * BLAS_DEPTH], b[BLAS_OUTS * BLAS_DEPTH], c[BLAS_ROWS][BLAS_OUTS];
} BlasTile;

void blas_product(bool across, const float *a, const float *b, float *c) {
    if (across)
        cblas_sgemm(CblasRowMajor, CblasTrans, CblasNoTrans, BLAS_ROWS, BLAS_OUTS, BLAS_DEPTH, 1, a, BLAS_ROWS, b,
                    BLAS_OUTS, 0, c, BLAS_OUTS);
    else
        cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasTrans, BLAS_ROWS, BLAS_OUTS, BLAS_DEPTH, 1, a, BLAS_DEPTH, b,
                    BLAS_DEPTH, 0, c, BLAS_OUTS);
}

/* y [rows, outs] (+)= the tile's sums */
static void tile_out(const BlasTile *t, int rows, int outs, float *y, size_t ldy, bool add) {
    for (int i = 0; i < rows; i++, y += ldy)
        if (add)
            for (int o = 0; o < outs; o++) y[o] += t->c[i][o];
        else
            memcpy(y, t->c[i], (size_t)outs * sizeof *y);
}

/* ---- serving: rows of any type, widened by panels ---- */

_Static_assert((int)BLAS_DEPTH == (int)INT8_GROUP, "a row of a panel has one scale");

typedef struct Rows {
    Dtype type;
    int n, k;
    const void *x;
    size_t ld;
    const float *scale;      /* [n, k / INT8_GROUP], I8 only */
    const uint16_t *scale16; /* I4 only */
} Rows;

static void widen(const Rows *s, int row, int k0, int n, float *out) {
    size_t at = (size_t)row * s->ld + (size_t)k0;
    switch (s->type) {
    case DTYPE_F32:
        memcpy(out, (const float *)s->x + at, (size_t)n * sizeof *out);
        break;
    case DTYPE_BF16:
        for (int e = 0; e < n; e++) out[e] = bf16_to_f32(((const uint16_t *)s->x + at)[e]);
        break;
    case DTYPE_F16:
        for (int e = 0; e < n; e++) out[e] = f16_to_f32(((const uint16_t *)s->x + at)[e]);
        break;
    case DTYPE_I8:
        for (int e = 0; e < n; e++) out[e] = s->scale[at / INT8_GROUP] * (float)((const int8_t *)s->x + at)[e];
        break;
    case DTYPE_I4:
        for (int e = 0; e < n; e++) out[e] = int4_element(s->x, s->scale16, s->ld, (size_t)row, (size_t)(k0 + e));
    }
}

/* A panel of `height` rows of which some may not exist: elements k0.. of rows first.. */
static void panel_fill(const Rows *s, int first, int height, int k0, float *panel) {
    int rows = MIN(height, s->n - first), n = MIN(BLAS_DEPTH, s->k - k0);
    if (rows < height || n < BLAS_DEPTH) memset(panel, 0, (size_t)height * BLAS_DEPTH * sizeof *panel);
    for (int r = 0; r < rows; r++) widen(s, first + r, k0, n, panel + r * BLAS_DEPTH);
}

static void gemm(const Rows *x, const Rows *w, float *y, int ldy) {
    BlasTile t;
    for (int o = 0; o < w->n; o += BLAS_OUTS)
        for (int k0 = 0; k0 < MAX(x->k, 1); k0 += BLAS_DEPTH) {
            panel_fill(w, o, BLAS_OUTS, k0, t.b);
            for (int i = 0; i < x->n; i += BLAS_ROWS) {
                panel_fill(x, i, BLAS_ROWS, k0, t.a);
                blas_product(false, t.a, t.b, t.c[0]);
                tile_out(&t, MIN(BLAS_ROWS, x->n - i), MIN(BLAS_OUTS, w->n - o), y + (size_t)i * (size_t)ldy + o,
                         (size_t)ldy, k0 > 0);
            }
        }
}

static void gemm_f32(int n, int n_out, int k, const float *x, int ldx, const float *w, float *y, int ldy) {
    gemm(&(Rows){DTYPE_F32, n, k, x, (size_t)ldx, NULL, NULL}, &(Rows){DTYPE_F32, n_out, k, w, (size_t)k, NULL, NULL},
         y, ldy);
}

static void gemm_bf16(int n, int n_out, int k, const uint16_t *x, int ldx, const uint16_t *w, float *y, int ldy) {
    gemm(&(Rows){DTYPE_BF16, n, k, x, (size_t)ldx, NULL, NULL}, &(Rows){DTYPE_BF16, n_out, k, w, (size_t)k, NULL, NULL},
         y, ldy);
}

static void gemm_f16(int n, int n_out, int k, const float *x, int ldx, const uint16_t *w, float *y, int ldy) {
    gemm(&(Rows){DTYPE_F32, n, k, x, (size_t)ldx, NULL, NULL}, &(Rows){DTYPE_F16, n_out, k, w, (size_t)k, NULL, NULL},
         y, ldy);
}

static void gemm_i8(int n, int n_out, int k, const int8_t *x, const float *x_scale, const int8_t *w,
                    const float *w_scale, float *y, int ldy) {
    gemm(&(Rows){DTYPE_I8, n, k, x, (size_t)k, x_scale, NULL}, &(Rows){DTYPE_I8, n_out, k, w, (size_t)k, w_scale, NULL},
         y, ldy);
}

static void gemm_i4(int n, int n_out, int k, const int8_t *x, const float *x_scale, const uint8_t *w,
                    const uint16_t *w_scale, float *y, int ldy) {
    Rows codes = {.type = DTYPE_I4, .n = n_out, .k = k, .x = w, .ld = (size_t)k, .scale16 = w_scale};
    gemm(&(Rows){DTYPE_I8, n, k, x, (size_t)k, x_scale, NULL}, &codes, y, ldy);
}

/* ---- training: packed operands, whose panels are tiles that lie across ---- */

static uint32_t unit_of(const PackSource *s, bool pairs, int i, int u) {
    const float *x = s->x + (size_t)i * s->stride + (size_t)(pairs ? 2 * u : u) * s->step;
    if (!pairs) return bits_of_float(*x);
    return round_to_upper(*x) >> 16 | (2 * u + 1 < s->k ? round_to_upper(x[s->step]) : 0);
}

static void pack(bool pairs, int width, const PackSource *s, uint32_t *out) {
    int units = pairs ? (s->k + 1) / 2 : s->k;
    for (int i0 = 0; i0 < s->n; i0 += width, out += units * width)
        for (int u = 0; u < units; u++)
            for (int v = 0; v < width; v++) out[u * width + v] = i0 + v < s->n ? unit_of(s, pairs, i0 + v, u) : 0;
}

static void pack_rows(bool pairs, const PackSource *s, uint32_t *out) { pack(pairs, BLAS_ROWS, s, out); }
static void pack_columns(bool pairs, const PackSource *s, uint32_t *out) { pack(pairs, BLAS_OUTS, s, out); }

static uint32_t word_at(const Panels *p, int width, int v, int u) {
    if (p->row) return p->at[(size_t)v * p->row + (size_t)u];
    return p->at[p->taps ? p->taps[u] + v : u * width + v];
}

/* Units u0.., up to BLAS_DEPTH elements, of the n vectors of a panel: in place, or in `copy` where they are pairs,
 * fewer, or lie otherwise. */
static const float *piece_of(bool pairs, int width, int n, const Panels *p, int u0, int units, float *copy) {
    if (!pairs && units == BLAS_DEPTH && !p->row && !p->taps)
        return (const float *)(const void *)(p->at + (size_t)(u0 * width));
    memset(copy, 0, (size_t)(BLAS_DEPTH * width) * sizeof *copy);
    for (int u = 0; u < units; u++)
        for (int v = 0; v < n; v++) {
            uint32_t word = word_at(p, width, v, u0 + u);
            if (!pairs) {
                copy[u * width + v] = float_of_bits(word);
                continue;
            }
            copy[2 * u * width + v] = float_of_bits(word << 16);
            copy[(2 * u + 1) * width + v] = float_of_bits(word & 0xffff0000);
        }
    return copy;
}

static void multiply(bool pairs, int m, int n, int units, Panels a, Panels b, float *c, size_t ldc, bool add) {
    BlasTile t;
    int depth = pairs ? BLAS_DEPTH / 2 : BLAS_DEPTH;
    for (int j = 0; j < n; j += BLAS_OUTS, b.at += b.words)
        for (int u = 0; u < MAX(units, 1); u += depth) {
            int some = MIN(depth, units - u), outs = MIN(BLAS_OUTS, n - j);
            const float *right = piece_of(pairs, BLAS_OUTS, outs, &b, u, some, t.b);
            Panels left = a;
            for (int i = 0; i < m; i += BLAS_ROWS, left.at += a.words) {
                int rows = MIN(BLAS_ROWS, m - i);
                blas_product(true, piece_of(pairs, BLAS_ROWS, rows, &left, u, some, t.a), right, t.c[0]);
                tile_out(&t, rows, outs, c + (size_t)i * ldc + j, ldc, add || u);
            }
        }
}

/* ---- the table ---- */

/* The team's size, too, is what OpenMP builds of OpenBLAS set. */
static void blas_threads(int n) {
    int team = team_size();
    openblas_set_num_threads(n);
    team_resize(team);
}

/* It maps one for each of its threads, keeps the first for itself, and hands the others to its callers. */
void blas_map_buffers(void) {
    blas_threads(team_size() + 1);
    blas_threads(1);
}

/* "blas-SkylakeX-0.3.21": another core or version may add in another order. */
static const char *arithmetic(void) {
    static char text[48];
    char version[16] = "";
    sscanf(openblas_get_config(), "OpenBLAS %15s", version);
    snprintf(text, sizeof text, "blas-%.20s-%s", openblas_get_corename(), version);
    return text;
}

Kernels kernels_blas(const Kernels *rest) {
    static TrainKernels train;
    Kernels k = *rest;
    blas_threads(1);
    train = *k.train;
    train.tile_rows[false] = train.tile_rows[true] = BLAS_ROWS;
    train.tile_columns = BLAS_OUTS;
    train.pairs_pay = false;
    train.pack_rows = pack_rows;
    train.pack_columns = pack_columns;
    train.multiply = multiply;
    k.name = "blas";
    k.arithmetic = k.arithmetic_bf16 = arithmetic();
    k.gemm_f32 = gemm_f32;
    k.gemm_bf16 = gemm_bf16;
    k.gemm_f16 = gemm_f16;
    k.gemm_i8 = gemm_i8;
    k.gemm_i4 = gemm_i4;
    k.train = &train;
    return k;
}
