/* gemm_body: y = x W^T as dot products in sixteen lanes.
 *
 * A tile is `rows` rows of x against `outs` rows of W, one Vec accumulator for each pair, so the order of additions in
 * an output does not know the tile it was computed in. k is walked in blocks of K_BLOCK, so that the tile of W stays in
 * the first-level cache while the rows of x stream past it; between blocks the accumulators rest, lanes and all, in
 * an array. Rows are taken in blocks that stay in the second-level cache. */

enum { K_BLOCK = 768, REST_ROWS = 48, PACK_ROWS = 12, X_BLOCK_BYTES = 512 << 10 };
enum { GEMM_OUTS_MAX = MAX(GEMM_OUTS, GEMM_OUTS_ONE_ROW) };

typedef struct Gemm {
    int n, n_out, k;
    const void *x, *w;
    size_t ldx;
    float *y;
    size_t ldy;
} Gemm;

INLINE Vec element_load(Dtype type, const void *p) {
    if (type == DTYPE_BF16) return vec_load_bf16(p);
    if (type == DTYPE_F16) return vec_load_f16(p);
    return vec_load(p);
}

INLINE Vec element_load_n(Dtype type, const void *p, int n) {
    if (type == DTYPE_BF16) return vec_load_bf16_n(p, n);
    if (type == DTYPE_F16) return vec_load_f16_n(p, n);
    return vec_load_n(p, n);
}

INLINE const void *element_at(Dtype type, const void *base, size_t i) {
    return (const char *)base + i * (type == DTYPE_F32 ? sizeof(float) : sizeof(uint16_t));
}

typedef struct GemmScratch {
    _Alignas(64) float packed[K_BLOCK * GEMM_OUTS_MAX];
    float rest[REST_ROWS][GEMM_OUTS_MAX][LANES];
} GemmScratch;

/* Rows o.. of W, elements k0..k1-1: element k0 + k of the c-th is at[c * row + k * step], in runs of LANES. */
typedef struct Panel {
    int o, k0, k1;
    const void *at;
    size_t row, step;
} Panel;

/* Rows i.. of x against a panel; row i rests at s->rest[slot]. `stream`: W comes from memory, the next panel right
 * behind this one, so fetch it ahead (rows are too short for the hardware to see it coming). */
INLINE void gemm_tile(Dtype xt, Dtype wt, int rows, int outs, bool stream, const Gemm *g, Panel p, GemmScratch *s,
                      int i, int slot) {
    Vec acc[GEMM_ROWS * GEMM_OUTS_MAX];
    const void *x = element_at(xt, g->x, (size_t)i * g->ldx + (size_t)p.k0);
    int k = 0, n = p.k1 - p.k0;
#pragma GCC unroll 32
    for (int t = 0; t < rows * outs; t++) acc[t] = p.k0 ? vec_load(s->rest[slot + t / outs][t % outs]) : vec_set1(0);
    for (; k + LANES <= n; k += LANES) {
        Vec xs[GEMM_ROWS];
#pragma GCC unroll 4
        for (int r = 0; r < rows; r++) xs[r] = element_load(xt, element_at(xt, x, (size_t)r * g->ldx + (size_t)k));
#pragma GCC unroll 8
        for (int c = 0; c < outs; c++) {
            Vec w = element_load(wt, element_at(wt, p.at, (size_t)c * p.row + (size_t)k * p.step));
            if (rows > 1) w = vec_keep(w);
            if (stream) __builtin_prefetch(element_at(wt, p.at, (size_t)(c + outs) * p.row + (size_t)k * p.step));
#pragma GCC unroll 4
            for (int r = 0; r < rows; r++) acc[r * outs + c] = vec_fma(xs[r], w, acc[r * outs + c]);
        }
    }
    if (k < n) {
#pragma GCC unroll 32
        for (int t = 0; t < rows * outs; t++) {
            size_t r = (size_t)(t / outs), c = (size_t)(t % outs);
            Vec xv = element_load_n(xt, element_at(xt, x, r * g->ldx + (size_t)k), n - k);
            Vec w = element_load_n(wt, element_at(wt, p.at, c * p.row + (size_t)k * p.step), n - k);
            acc[t] = vec_fma(xv, w, acc[t]);
        }
    }
    if (p.k1 < g->k) {
#pragma GCC unroll 32
        for (int t = 0; t < rows * outs; t++) vec_store(s->rest[slot + t / outs][t % outs], acc[t]);
        return;
    }
    float sums[GEMM_ROWS * GEMM_OUTS_MAX];
    int t = 0;
#pragma GCC unroll 8
    for (; t + 4 <= rows * outs; t += 4) vec_sum4(acc + t, sums + t);
#pragma GCC unroll 4
    for (; t < rows * outs; t++) sums[t] = vec_sum(acc[t]);
    float *y = g->y + (size_t)i * g->ldy + p.o;
    for (int r = 0; r < rows; r++) memcpy(y + (size_t)r * g->ldy, sums + r * outs, (size_t)outs * sizeof *y);
}

/* Copies a panel to f32 in the order in which tiles read it: rows of W far apart collide in the cache. */
INLINE void gemm_pack(Dtype wt, int outs, Panel *p, float *packed) {
    int n = p->k1 - p->k0;
    for (int k = 0; k < n; k += LANES)
#pragma GCC unroll 8
        for (int c = 0; c < outs; c++) {
            const void *w = element_at(wt, p->at, (size_t)c * p->row + (size_t)k);
            Vec v = k + LANES <= n ? element_load(wt, w) : element_load_n(wt, w, n - k);
            vec_store(packed + k * outs + c * LANES, v);
        }
    p->at = packed;
    p->row = LANES;
    p->step = (size_t)outs;
}

/* Rows i0..i1-1 of `outs` outputs. */
INLINE void gemm_column(Dtype xt, Dtype wt, int outs, bool pack, const Gemm *g, GemmScratch *s, int i0, int i1, int o) {
    int k0 = 0;
    do {
        Panel p = {.o = o, .k0 = k0, .k1 = MIN(k0 + K_BLOCK, g->k), .row = (size_t)g->k, .step = 1};
        p.at = element_at(wt, g->w, (size_t)o * (size_t)g->k + (size_t)k0);
        if (pack) gemm_pack(wt, outs, &p, s->packed);
        bool stream = !pack && outs > 1;
        Dtype pt = pack ? DTYPE_F32 : wt;
        int i = i0;
        for (; i + GEMM_ROWS <= i1; i += GEMM_ROWS) gemm_tile(xt, pt, GEMM_ROWS, outs, stream, g, p, s, i, i - i0);
        for (; i < i1; i++) gemm_tile(xt, pt, 1, outs, stream, g, p, s, i, i - i0);
        k0 = p.k1;
    } while (k0 < g->k);
}

/* How many rows of x to keep in the second-level cache while all of W streams past. */
static int gemm_block_rows(Dtype xt, int k) {
    size_t row = (size_t)MAX(k, 1) * (xt == DTYPE_F32 ? sizeof(float) : sizeof(uint16_t));
    int rows = (int)MIN(MAX(X_BLOCK_BYTES / row, GEMM_ROWS), 1 << 20);
    if (k > K_BLOCK) rows = MIN(rows, REST_ROWS);
    return rows / GEMM_ROWS * GEMM_ROWS;
}

INLINE void gemm(Dtype xt, Dtype wt, int outs, const Gemm *g) {
    GemmScratch s;
    int block = gemm_block_rows(xt, g->k);
    for (int i0 = 0; i0 < g->n; i0 += block) {
        int i1 = MIN(i0 + block, g->n), o = 0;
        if (g->n == 1)
            for (; o + GEMM_OUTS_ONE_ROW <= g->n_out; o += GEMM_OUTS_ONE_ROW)
                gemm_column(xt, wt, GEMM_OUTS_ONE_ROW, false, g, &s, i0, i1, o);
        if (i1 - i0 >= PACK_ROWS)
            for (; o + outs <= g->n_out; o += outs) gemm_column(xt, wt, outs, true, g, &s, i0, i1, o);
        for (; o + outs <= g->n_out; o += outs) gemm_column(xt, wt, outs, false, g, &s, i0, i1, o);
        for (; o < g->n_out; o++) gemm_column(xt, wt, 1, false, g, &s, i0, i1, o);
    }
}

static void gemm_f32(int n, int n_out, int k, const float *x, int ldx, const float *w, float *y, int ldy) {
    Gemm g = {.n = n, .n_out = n_out, .k = k, .x = x, .w = w, .ldx = (size_t)ldx, .y = y, .ldy = (size_t)ldy};
    gemm(DTYPE_F32, DTYPE_F32, GEMM_OUTS, &g);
}

static void gemm_bf16(int n, int n_out, int k, const uint16_t *x, int ldx, const uint16_t *w, float *y, int ldy) {
    Gemm g = {.n = n, .n_out = n_out, .k = k, .x = x, .w = w, .ldx = (size_t)ldx, .y = y, .ldy = (size_t)ldy};
    gemm(DTYPE_BF16, DTYPE_BF16, GEMM_OUTS_BF16, &g);
}

static void gemm_f16(int n, int n_out, int k, const float *x, int ldx, const uint16_t *w, float *y, int ldy) {
    Gemm g = {.n = n, .n_out = n_out, .k = k, .x = x, .w = w, .ldx = (size_t)ldx, .y = y, .ldy = (size_t)ldy};
    gemm(DTYPE_F32, DTYPE_F16, GEMM_OUTS, &g);
}
