/* gemm_panels_body: y = x W^T of many rows, as outer products.
 *
 * A tile of dot products (gemm_body.h) reads nearly a vector for every multiplication, too many where registers are
 * few. Here both operands are transposed into panels, where the factors of a virtual lane follow each other: W a block
 * of outputs at a time, which all rows of x meet, and x PANEL_ROWS rows at a time. A tile makes the sums of one virtual
 * lane after the other, outputs across registers, each the chain of the dot tile, and adds lanes as that does
 * (vec_sum): the same bits. Missing elements of the last factors are 0 there and here. */

enum { PANEL_ROWS = 6, PANEL_GROUP = 8, SHORTEST = 128, MOST_STEPS = 512, W_FLOATS = 200 << 10 };

/* The factors of `width` vectors: [LANES][steps][width], lanes one cache line farther apart than they need, or they
 * would fall on the same places of the cache. Lanes lie in the order in which a tree of sums is walked in depth. */
enum { LINE_FLOATS = CACHE_LINE / (int)sizeof(float), X_FLOATS = LANES * (MOST_STEPS * PANEL_GROUP + LINE_FLOATS) };
static const int LANE_ORDER[LANES] = {0, 8, 4, 12, 2, 10, 6, 14, 1, 9, 5, 13, 3, 11, 7, 15};
enum { LANE_LEVELS = 4 };

typedef float PanelSums[PANEL_ROWS][LANES];

typedef struct PanelScratch {
    _Alignas(CACHE_LINE) float w[W_FLOATS]; /* panels of LANES */
    float x[X_FLOATS];                      /* one of PANEL_GROUP */
    PanelSums sums[LANE_LEVELS + 1];        /* of 1, 2, 4, 8 and all lanes */
} PanelScratch;

INLINE int panel_steps(Dtype type, int k) {
    return (k + factor_width(type) - 1) / factor_width(type) * factor_parts(type);
}
INLINE int panel_lane(int steps, int width) { return steps * width + LINE_FLOATS; }

/* One step of PANEL_GROUP vectors, of which there are n, as columns of a panel; `left` elements are left. */
INLINE void panel_step(Dtype type, int part, int n, int left, const void *x, size_t ld, int lane, float *panel) {
    Vec v[PANEL_GROUP];
#pragma GCC unroll 8
    for (int i = 0; i < PANEL_GROUP; i++) {
        const void *at = element_at(type, x, (size_t)i * ld);
        if (i >= n)
            v[i] = vec_set1(0);
        else
            v[i] = left >= factor_width(type) ? factor_load(type, part, at) : factor_load_n(type, part, at, left);
    }
    vec_transpose8(v);
#pragma GCC unroll 8
    for (int i = 0; i < PANEL_GROUP; i++) {
        half_store(panel + LANE_ORDER[i] * lane, v[i].lo);
        half_store(panel + LANE_ORDER[i + 8] * lane, v[i].hi);
    }
}

INLINE void panel_group(Dtype type, int n, int k, const void *x, size_t ld, int width, float *panel) {
    const int step = factor_width(type), parts = factor_parts(type), lane = panel_lane(panel_steps(type, k), width);
    int at = 0;
    for (; at + step <= k; at += step)
#pragma GCC unroll 2
        for (int part = 0; part < parts; part++, panel += width)
            panel_step(type, part, n, step, element_at(type, x, (size_t)at), ld, lane, panel);
    for (int part = 0; part < parts && at < k; part++, panel += width)
        panel_step(type, part, n, k - at, element_at(type, x, (size_t)at), ld, lane, panel);
}

/* LANES outputs from o on. */
INLINE void panel_of_w(Dtype type, const Gemm *g, int o, float *panel) {
    const size_t k = (size_t)g->k;
    for (int c = 0; c < LANES; c += PANEL_GROUP) {
        const void *w = element_at(type, g->w, (size_t)(o + c) * k);
        if (o + c + PANEL_GROUP <= g->n_out)
            panel_group(type, PANEL_GROUP, g->k, w, k, LANES, panel + c);
        else
            panel_group(type, g->n_out - o - c, g->k, w, k, LANES, panel + c);
    }
}

INLINE void panel_of_x(Dtype type, const Gemm *g, int i, int rows, float *panel) {
    const void *x = element_at(type, g->x, (size_t)i * g->ldx);
    if (rows == PANEL_ROWS)
        panel_group(type, PANEL_ROWS, g->k, x, g->ldx, PANEL_GROUP, panel);
    else
        panel_group(type, rows, g->k, x, g->ldx, PANEL_GROUP, panel);
}

/* sums[LANE_LEVELS] = x w^T. Not inlined: its registers are its own. */
static __attribute__((noinline)) void panel_tile(int steps, const float *x, const float *w, PanelSums *sums) {
    for (int j = 0; j < LANES; j++, x += LINE_FLOATS, w += LINE_FLOATS) {
        Vec acc[PANEL_ROWS];
#pragma GCC unroll 8
        for (int r = 0; r < PANEL_ROWS; r++) acc[r] = vec_set1(0);
#pragma GCC unroll 4
        for (int step = 0; step < steps; step++, x += PANEL_GROUP, w += LANES) {
            Vec wv = vec_load(w);
#pragma GCC unroll 8
            for (int r = 0; r < PANEL_ROWS; r++) acc[r] = vec_fma(vec_set1(x[r]), wv, acc[r]);
        }
        PanelSums *to = sums;
        for (int done = j; done & 1; done >>= 1, to++)
#pragma GCC unroll 8
            for (int r = 0; r < PANEL_ROWS; r++) acc[r] = vec_add(vec_load((*to)[r]), acc[r]);
#pragma GCC unroll 8
        for (int r = 0; r < PANEL_ROWS; r++) vec_store((*to)[r], acc[r]);
    }
}

/* Masked stores cost several whole ones. */
INLINE void panel_store(const PanelSums sums, int rows, int outs, float *y, size_t ldy) {
    for (int r = 0; r < rows; r++, y += ldy)
        if (outs == LANES)
            vec_store(y, vec_load(sums[r]));
        else
            vec_store_n(y, vec_load(sums[r]), outs);
}

INLINE void gemm_blocks(Dtype xt, Dtype wt, const Gemm *g, PanelScratch *s) {
    const int steps = panel_steps(wt, g->k), panel = LANES * panel_lane(steps, LANES), block = W_FLOATS / panel * LANES;
    for (int o0 = 0; o0 < g->n_out; o0 += block) {
        int o1 = MIN(o0 + block, g->n_out);
        for (int o = o0; o < o1; o += LANES) panel_of_w(wt, g, o, s->w + (o - o0) / LANES * panel);
        for (int i = 0; i < g->n; i += PANEL_ROWS) {
            int rows = MIN(PANEL_ROWS, g->n - i);
            panel_of_x(xt, g, i, rows, s->x);
            for (int o = o0; o < o1; o += LANES) {
                panel_tile(steps, s->x, s->w + (o - o0) / LANES * panel, s->sums);
                panel_store(s->sums[LANE_LEVELS], rows, MIN(LANES, o1 - o), g->y + (size_t)i * g->ldy + o, g->ldy);
            }
        }
    }
}

/* Of fewer rows, or of sums so short that the additions of lanes count, dot products are faster. */
static bool gemm_has_panels(Dtype type, const Gemm *g) {
    return g->n >= PANELS_FROM && g->n_out >= LANES && g->k >= SHORTEST && panel_steps(type, g->k) <= MOST_STEPS;
}

/* Not inlined: who does not come here shall not pay for its room on the stack. */
static __attribute__((noinline)) void gemm_panels(Dtype wt, const Gemm *g) {
    PanelScratch s;
    if (wt == DTYPE_BF16)
        gemm_blocks(DTYPE_BF16, DTYPE_BF16, g, &s);
    else if (wt == DTYPE_F16)
        gemm_blocks(DTYPE_F32, DTYPE_F16, g, &s);
    else
        gemm_blocks(DTYPE_F32, DTYPE_F32, g, &s);
}
