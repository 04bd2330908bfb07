/* gemm_body: y = x W^T as dot products in sixteen lanes.
 *
 * A tile is `rows` rows of x against `outs` rows of W, one Vec accumulator for each pair, so the order of additions in
 * an output does not know the tile it was computed in. W is walked in blocks of outputs that stay in the second-level
 * cache while all groups of rows of x meet them, and fetched ahead; k in blocks of K_BLOCK, so that the rows of x of a
 * tile stay in the first level. Between blocks of k the accumulators rest, lanes and all, in an array.
 *
 * Pairs of bf16 that no instruction multiplies are taken apart before: those of x once for a block of outputs, those of
 * W, where WIDE_FROM rows or more meet them, once for all rows. */

enum { K_BLOCK = 768, OUT_BLOCK = 64 };
/* Of few rows the next block is mostly still on its way; of many, larger blocks let x, which is in no near cache, be
 * read less often. */
enum { W_BLOCK_BYTES = 192 << 10, W_BLOCK_MANY = 512 << 10, MANY_ROWS = 64 };
enum { GEMM_OUTS_MAX = MAX(GEMM_OUTS, GEMM_OUTS_ONE_ROW) };
enum { STREAM_GROUPS = 2 };                       /* of rows: of more, memory does not decide */
enum { WIDE_FROM = 64, WIDE_FLOATS = 192 << 10 }; /* of a block of W */

/* W is fetched in the order it lies in, for memory brings lines faster that follow each other: every so many steps of
 * the tiles as many lines as a step reads. */
typedef struct Ahead {
    const char *next;
    int every, due; /* steps; those left */
    bool near;      /* to the first level, else to the second */
} Ahead;

typedef struct GemmScratch {
    _Alignas(64) float rest[GEMM_ROWS][OUT_BLOCK][LANES];
    float wide[GEMM_ROWS * K_BLOCK]; /* the rows of x as factors */
    Ahead ahead;
} GemmScratch;

/* Rows i.. of x against rows o.. of W, `apart` of each other, which are at x and w, elements k0..k1-1; the tile rests
 * at column `slot`. */
typedef struct Tile {
    int i, o, apart, k0, k1, slot;
    const void *x, *w;
    size_t ldx;
} Tile;

INLINE void gemm_fetch(int outs, Ahead *a) {
    if (--a->due) return;
    a->due = a->every;
#pragma GCC unroll 8
    for (int c = 0; c < outs; c++) {
        if (a->near) __builtin_prefetch(a->next + c * CACHE_LINE);
        if (!a->near) __builtin_prefetch(a->next + c * CACHE_LINE, 0, 2);
    }
    a->next += outs * CACHE_LINE;
}

INLINE void gemm_tile(Dtype xt, Dtype wt, int rows, int outs, const Gemm *g, Tile t, GemmScratch *s) {
    Vec acc[GEMM_ROWS * GEMM_OUTS_MAX];
    const int width = factor_width(wt), parts = factor_parts(wt), count = rows * outs;
    const bool wide = wt == DTYPE_BF16 && xt == DTYPE_F32;
    const size_t ldw = (size_t)t.apart * (size_t)g->k;
    size_t at = 0, end = (size_t)(t.k1 - t.k0);
    Ahead ahead = s->ahead;
#pragma GCC unroll 32
    for (int a = 0; a < count; a++) acc[a] = t.k0 ? vec_load(s->rest[a / outs][t.slot + a % outs]) : vec_set1(0);
    for (; at + (size_t)width <= end; at += (size_t)width) {
        gemm_fetch(outs, &ahead);
#pragma GCC unroll 2
        for (int part = 0; part < parts; part++) {
            Vec ws[GEMM_OUTS_MAX];
#pragma GCC unroll 8
            for (int c = 0; c < outs; c++) ws[c] = factor_load(wt, part, element_at(wt, t.w, (size_t)c * ldw + at));
#pragma GCC unroll 8
            for (int r = 0; r < rows; r++) {
                Vec xv = vec_keep(factor_load(xt, part, element_at(xt, t.x, (size_t)r * t.ldx + at)));
#pragma GCC unroll 8
                for (int c = 0; c < outs; c++) acc[r * outs + c] = factor_fma(wt, xv, ws[c], acc[r * outs + c]);
            }
        }
    }
    s->ahead = ahead;
    if (at < end)
#pragma GCC unroll 2
        for (int part = 0; part < parts; part++)
#pragma GCC unroll 32
            for (int a = 0; a < count; a++) {
                size_t r = (size_t)(a / outs), c = (size_t)(a % outs);
                const void *from = element_at(xt, t.x, r * t.ldx + at);
                Vec xv = wide ? factor_load(xt, part, from) : factor_load_n(xt, part, from, (int)(end - at));
                Vec wv = factor_load_n(wt, part, element_at(wt, t.w, c * ldw + at), (int)(end - at));
                acc[a] = factor_fma(wt, xv, wv, acc[a]);
            }
    if (t.k1 < g->k) {
#pragma GCC unroll 32
        for (int a = 0; a < count; a++) vec_store(s->rest[a / outs][t.slot + a % outs], acc[a]);
        return;
    }
    float sums[GEMM_ROWS * GEMM_OUTS_MAX];
    int a = 0;
#pragma GCC unroll 8
    for (; a + 4 <= count; a += 4) vec_sum4(acc + a, sums + a);
#pragma GCC unroll 4
    for (; a < count; a++) sums[a] = vec_sum(acc[a]);
    float *y = g->y + (size_t)t.i * g->ldy + t.o;
    for (int r = 0; r < rows; r++, y += g->ldy) {
        if (t.apart == 1) memcpy(y, sums + r * outs, (size_t)outs * sizeof *y);
        for (int c = 0; t.apart > 1 && c < outs; c++) y[c * t.apart] = sums[r * outs + c];
    }
}

/* n pairs' elements as factors, so that tiles need not take them apart one by one. Missing elements are 0. */
INLINE void gemm_widen(int n, const uint16_t *x, float *wide) {
    for (int k = 0; k < n; k += BF16_PARTS * LANES)
        for (int part = 0; part < BF16_PARTS; part++) {
            Vec v = k + 2 * LANES <= n ? vec_load_pairs(x + k, part) : vec_load_pairs_n(x + k, n - k, part);
            vec_store(wide + k + part * LANES, v);
        }
}

/* `rows` rows of the outputs o0..o1-1, whose weights are in `wide` if that is not NULL. */
INLINE void gemm_rows(Dtype xt, Dtype wt, int rows, int outs, const Gemm *g, int i, int o0, int o1, const float *wide,
                      GemmScratch *s) {
    const size_t k = (size_t)g->k;
    const int tiles = (o1 - o0) / outs, step = g->streams ? 1 : outs, apart = g->streams ? MAX(tiles, 1) : 1;
    int k0 = 0;
    do {
        Tile t = {.i = i, .apart = apart, .k0 = k0, .k1 = MIN(k0 + K_BLOCK, g->k), .ldx = g->ldx};
        const bool widen = wt == DTYPE_BF16 && BF16_PARTS > 1;
        const Dtype ft = widen ? DTYPE_F32 : xt, of_w = wide ? DTYPE_F32 : wt;
        t.x = element_at(xt, g->x, (size_t)i * g->ldx + (size_t)k0);
        const void *w = element_at(of_w, wide ? wide : element_at(wt, g->w, (size_t)o0 * k), (size_t)k0);
        if (widen) {
            for (size_t r = 0; r < (size_t)rows; r++)
                gemm_widen(t.k1 - k0, (const uint16_t *)t.x + r * g->ldx, s->wide + r * K_BLOCK);
            t.x = s->wide;
            t.ldx = K_BLOCK;
        }
        for (int tile = 0; tile < tiles; tile++, t.slot += outs) {
            t.o = o0 + tile * step;
            t.w = element_at(of_w, w, (size_t)(t.o - o0) * k);
            gemm_tile(ft, of_w, rows, outs, g, t, s);
        }
        for (t.o = o0 + tiles * outs; t.o < o1; t.o++, t.slot++) {
            t.w = element_at(of_w, w, (size_t)(t.o - o0) * k);
            gemm_tile(ft, of_w, rows, 1, g, t, s);
        }
        k0 = t.k1;
    } while (k0 < g->k);
}

/* ---- short rows of W, as NOBLE's up has ---- */

/* Where k is one or two vectors of pairs, tiles would spend their time on sums across lanes. So W is transposed, an
 * output per lane, and those sums become sums of vectors: the same additions in the same order (vec_sum4), hence the
 * same bits. */
enum { SHORT_K = 4 * LANES, SHORT_FROM = 32, SHORT_ROWS = 2, SHORT_VECS = 2, SHORT_TILE = SHORT_ROWS * SHORT_VECS };

typedef uint16_t TransposedPair[SHORT_VECS][LANES][2];

typedef struct ShortTile {
    int rows, vectors; /* vectors of pairs in a row of W */
    const uint16_t *x;
    size_t ldx;
    const TransposedPair *w; /* [k / 2] */
} ShortTile;

static void short_transpose(const Gemm *g, int o, TransposedPair *out) {
    const uint16_t *w = (const uint16_t *)g->w + (size_t)o * (size_t)g->k;
    int outs = MIN(SHORT_VECS * LANES, g->n_out - o);
    for (int c = 0; c < SHORT_VECS * LANES; c += LANES)
        for (int p = 0; p < g->k / 2; p += LANES) {
            UnitBlock b = {{0}};
            for (int i = 0; i < MIN(LANES, outs - c); i++) memcpy(b[i], w + (c + i) * g->k + 2 * p, sizeof b[i]);
            block_transpose(b);
            for (int i = 0; i < LANES; i++) memcpy(out[p + i][c / LANES], b[i], sizeof b[i]);
        }
}

/* What lane `lane` of the accumulators of gemm_tile would hold, for every row and output. */
INLINE void short_lane(const ShortTile *t, int lane, Vec *acc) {
#pragma GCC unroll 4
    for (int a = 0; a < t->rows * SHORT_VECS; a++) acc[a] = vec_set1(0);
#pragma GCC unroll 2
    for (int p = lane; p < t->vectors * LANES; p += LANES) {
        Vec w[SHORT_VECS];
#pragma GCC unroll 4
        for (int v = 0; v < SHORT_VECS; v++) w[v] = vec_load_pairs(t->w[p][v][0], 0);
#pragma GCC unroll 4
        for (int r = 0; r < t->rows; r++) {
            Vec x = vec_set1_pair(t->x + (size_t)r * t->ldx + 2 * p, 0);
#pragma GCC unroll 4
            for (int v = 0; v < SHORT_VECS; v++)
                acc[r * SHORT_VECS + v] = vec_fma_pairs(x, w[v], acc[r * SHORT_VECS + v]);
        }
    }
}

/* Sums of the lanes that are `step` apart, a tree that is walked in depth, so that few of them are held at a time. One
 * recursive function in four copies, for compilers inline no recursion, and what is not inlined is not in registers. */
#define SHORT_SUM(name, part, step)                                                                                    \
    INLINE void name(const ShortTile *t, int lane, Vec *sum) {                                                         \
        Vec a[SHORT_TILE];                                                                                             \
        part(t, lane, sum);                                                                                            \
        part(t, lane + (step), a);                                                                                     \
        _Pragma("GCC unroll 4") for (int i = 0; i < t->rows * SHORT_VECS; i++) sum[i] =                                \
            vec_keep(vec_add(sum[i], a[i]));                                                                           \
    }
SHORT_SUM(short_sum8, short_lane, 8)
SHORT_SUM(short_sum4, short_sum8, 4)
SHORT_SUM(short_sum2, short_sum4, 2)
SHORT_SUM(short_sum1, short_sum2, 1)

INLINE void short_rows(int rows, int vectors, const Gemm *g, int i, int o, const TransposedPair *w) {
    ShortTile t = {rows, vectors, (const uint16_t *)g->x + (size_t)i * g->ldx, g->ldx, w};
    Vec y[SHORT_TILE];
    short_sum1(&t, 0, y);
#pragma GCC unroll 4
    for (int a = 0; a < rows * SHORT_VECS; a++) {
        int at = o + a % SHORT_VECS * LANES, outs = MIN(LANES, g->n_out - at);
        if (outs > 0) vec_store_n(g->y + (size_t)(i + a / SHORT_VECS) * g->ldy + at, y[a], outs);
    }
}

INLINE void gemm_short(int vectors, const Gemm *g) {
    _Alignas(64) TransposedPair transposed[SHORT_K / 2];
    for (int o = 0; o < g->n_out; o += SHORT_VECS * LANES) {
        int i = 0;
        short_transpose(g, o, transposed);
        for (; i + SHORT_ROWS <= g->n; i += SHORT_ROWS) short_rows(SHORT_ROWS, vectors, g, i, o, transposed);
        for (; i < g->n; i++) short_rows(1, vectors, g, i, o, transposed);
    }
}

/* From SHORT_FROM rows on it pays to transpose W. */
static bool gemm_is_short(const Gemm *g) {
    return BF16_PARTS == 1 && g->n >= SHORT_FROM && (g->k == SHORT_K || g->k == SHORT_K / 2);
}

/* Of a tile. */
INLINE int gemm_outs(const Gemm *g) { return g->n == 1 ? GEMM_OUTS_ONE_ROW : GEMM_OUTS; }

/* Where W is read once and in its order that is what the next tile reads, else the next block, each group a share. */
INLINE Ahead gemm_ahead(Dtype wt, bool wide, const Gemm *g, int o) {
    const int groups = (g->n + GEMM_ROWS - 1) / GEMM_ROWS, outs = gemm_outs(g);
    const bool in_order = groups == 1 && g->k <= K_BLOCK;
    const int step = (wide ? LANES : factor_width(wt)) * (int)element_size(wt), next = o + (in_order ? outs : g->block);
    const size_t k = (size_t)g->k;
    Ahead a = {.next = element_at(wt, g->w, (size_t)next * k), .every = groups * CACHE_LINE / step};
    a.near = in_order && stays_near((size_t)outs * k * element_size(wt));
    a.due = next < g->n_out && !g->streams ? a.every : INT_MAX;
    return a;
}

/* wide [WIDE_FLOATS]: for weights as factors, or NULL. */
INLINE void gemm_dots(Dtype xt, Dtype wt, Gemm *g, float *wide) {
    GemmScratch s;
    size_t row = (size_t)MAX(g->k, 1) * element_size(wt);
    size_t cached = g->n < MANY_ROWS ? W_BLOCK_BYTES : W_BLOCK_MANY;
    g->block = (int)MIN(MAX(cached / row / 8 * 8, 8), OUT_BLOCK);
    g->streams = reads_in_streams && g->n <= STREAM_GROUPS * GEMM_ROWS && gemm_outs(g) > 1;
    if (wide) g->block = MIN(g->block, WIDE_FLOATS / g->k / 8 * 8);
    for (int o0 = 0; o0 < g->n_out; o0 += g->block) {
        int o1 = MIN(o0 + g->block, g->n_out);
        s.ahead = gemm_ahead(wt, wide, g, o0);
        for (size_t o = (size_t)o0, k = (size_t)g->k; wide && o < (size_t)o1; o++)
            gemm_widen(g->k, (const uint16_t *)g->w + o * k, wide + (o - (size_t)o0) * k);
        for (int i = 0, rows; i < g->n; i += rows) {
            int left = g->n - i, groups = (left + GEMM_ROWS - 1) / GEMM_ROWS;
            rows = (left + groups - 1) / groups; /* no group much smaller than the others */
            switch (rows) {
            case 1:
                gemm_rows(xt, wt, 1, GEMM_OUTS_ONE_ROW, g, i, o0, o1, wide, &s);
                break;
            case 2:
                if (GEMM_ROWS >= 2) gemm_rows(xt, wt, MIN(2, GEMM_ROWS), GEMM_OUTS, g, i, o0, o1, wide, &s);
                break;
            case 3:
                if (GEMM_ROWS >= 3) gemm_rows(xt, wt, MIN(3, GEMM_ROWS), GEMM_OUTS, g, i, o0, o1, wide, &s);
                break;
            case 4:
                if (GEMM_ROWS >= 4) gemm_rows(xt, wt, MIN(4, GEMM_ROWS), GEMM_OUTS, g, i, o0, o1, wide, &s);
                break;
            case 5:
                if (GEMM_ROWS >= 5) gemm_rows(xt, wt, MIN(5, GEMM_ROWS), GEMM_OUTS, g, i, o0, o1, wide, &s);
                break;
            case 6:
                if (GEMM_ROWS >= 6) gemm_rows(xt, wt, MIN(6, GEMM_ROWS), GEMM_OUTS, g, i, o0, o1, wide, &s);
                break;
            }
        }
    }
}

/* Not inlined: who does not come here shall not pay for its room on the stack. */
static __attribute__((noinline)) void gemm_wide(Gemm *g) {
    _Alignas(CACHE_LINE) float wide[WIDE_FLOATS];
    gemm_dots(DTYPE_BF16, DTYPE_BF16, g, wide);
}

INLINE void gemm(Dtype xt, Dtype wt, Gemm *g) {
#ifdef PANELS_FROM
    if (gemm_has_panels(wt, g)) {
        gemm_panels(wt, g);
        return;
    }
#endif
    if (wt == DTYPE_BF16 && BF16_PARTS > 1 && g->n >= WIDE_FROM && g->k % factor_width(wt) == 0 &&
        g->k <= WIDE_FLOATS / 8)
        gemm_wide(g);
    else
        gemm_dots(xt, wt, g, NULL);
}

static void gemm_f32(int n, int n_out, int k, const float *x, int ldx, const float *w, float *y, int ldy) {
    Gemm g = {.n = n, .n_out = n_out, .k = k, .x = x, .w = w, .ldx = (size_t)ldx, .y = y, .ldy = (size_t)ldy};
    gemm(DTYPE_F32, DTYPE_F32, &g);
}

static void gemm_bf16(int n, int n_out, int k, const uint16_t *x, int ldx, const uint16_t *w, float *y, int ldy) {
    Gemm g = {.n = n, .n_out = n_out, .k = k, .x = x, .w = w, .ldx = (size_t)ldx, .y = y, .ldy = (size_t)ldy};
    if (!gemm_is_short(&g))
        gemm(DTYPE_BF16, DTYPE_BF16, &g);
    else if (k == SHORT_K)
        gemm_short(2, &g);
    else
        gemm_short(1, &g);
}

static void gemm_f16(int n, int n_out, int k, const float *x, int ldx, const uint16_t *w, float *y, int ldy) {
    Gemm g = {.n = n, .n_out = n_out, .k = k, .x = x, .w = w, .ldx = (size_t)ldx, .y = y, .ldy = (size_t)ldy};
    gemm(DTYPE_F32, DTYPE_F16, &g);
}
