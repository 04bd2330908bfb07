/* amx_body: y = x W^T in tiles. x is read in place as operand A, 16 rows x 64 bytes; W is packed, a panel of AMX_OUTS
 * outputs at a time, into the units of operand B. What would reach beyond x or W counts as zeros.
 *
 * A bf16 output is the sum, over steps of 32 elements in order, of what one instruction makes of a step, so its bits
 * depend on k alone. An int8 step is one group. Include lanes_avx512.h and tiles.h, or a model of it, before this. */

enum { AMX_TILE = 16, AMX_OUTS = 2 * AMX_TILE, AMX_ROWS = 2 * AMX_TILE, AMX_STEPS = 16, AMX_BYTES = 64 };

typedef struct TileGemm {
    size_t n, n_out, bytes, steps; /* bytes: of a row of W; steps: of AMX_BYTES */
    const char *x, *w;
    size_t ldx; /* bytes */
    const float *x_scale, *w_scale;
    float *y;
    size_t ldy;
} TileGemm;

typedef struct TileScratch {
    _Alignas(64) uint32_t w[AMX_STEPS][2][AMX_TILE][AMX_TILE], x[2][AMX_TILE][AMX_TILE];
    float sums[AMX_ROWS][AMX_OUTS], scale[AMX_STEPS][AMX_OUTS];
    int32_t products[AMX_ROWS][AMX_OUTS];
} TileScratch;

/* A block of y: rows i.., outputs o.., steps s0..s0+steps-1. */
typedef struct TileBlock {
    size_t i, rows, o, outs, s0, steps;
} TileBlock;

/* Up to 16 rows of up to 64 bytes, zeros beyond. */
static void tile_rows(const char *from, size_t ld, size_t rows, size_t bytes, __m512i r[AMX_TILE]) {
    __mmask64 present = bytes < AMX_BYTES ? ((uint64_t)1 << bytes) - 1 : ~(uint64_t)0;
    for (size_t l = 0; l < AMX_TILE; l++)
        r[l] = l < rows ? _mm512_maskz_loadu_epi8(present, from + l * ld) : _mm512_setzero_si512();
}

static void tile_pack(const TileGemm *g, const TileBlock *b, TileScratch *s) {
    for (size_t step = 0; step < b->steps; step++)
        for (size_t h = 0; h < 2; h++) {
            __m512i r[AMX_TILE];
            size_t at = (b->s0 + step) * AMX_BYTES, first = h * AMX_TILE;
            const char *w = g->w + (b->o + first) * g->bytes + at;
            tile_rows(w, g->bytes, b->outs > first ? b->outs - first : 0, g->bytes - at, r);
            ints_transpose(r);
            for (size_t u = 0; u < AMX_TILE; u++) _mm512_store_si512(s->w[step][h][u], r[u]);
            for (size_t l = 0; l < AMX_TILE; l++) __builtin_prefetch(w + (AMX_OUTS + l) * g->bytes); /* next panel */
        }
}

/* Where rows i.. of x are to be loaded from: in place, or a copy where that would reach beyond x. */
static const void *tile_of_x(const TileGemm *g, size_t i, size_t step, uint32_t copy[AMX_TILE][AMX_TILE], size_t *ld) {
    size_t rows = g->n - i, at = step * AMX_BYTES;
    const char *x = g->x + i * g->ldx + at;
    *ld = g->ldx;
    if (rows >= AMX_TILE && at + AMX_BYTES <= g->bytes) return x;
    __m512i r[AMX_TILE];
    tile_rows(x, g->ldx, rows, g->bytes - at, r);
    for (size_t l = 0; l < AMX_TILE; l++) _mm512_store_si512(copy[l], r[l]);
    *ld = AMX_BYTES;
    return copy;
}

/* Between panels the sums rest in y. */
static void tile_sums_load(const TileGemm *g, const TileBlock *b, TileScratch *s) {
    for (size_t r = 0; r < AMX_ROWS; r++)
        for (size_t c = 0; c < AMX_OUTS; c += AMX_TILE) {
            int present = !b->s0 || r >= b->rows || c >= b->outs ? 0 : (int)MIN(b->outs - c, AMX_TILE);
            vec_store(s->sums[r] + c, vec_load_n(g->y + (b->i + r) * g->ldy + b->o + c, present));
        }
}

static void tile_sums_store(const TileGemm *g, const TileBlock *b, const TileScratch *s) {
    for (size_t r = 0; r < b->rows; r++)
        for (size_t c = 0; c < b->outs; c += AMX_TILE)
            vec_store_n(g->y + (b->i + r) * g->ldy + b->o + c, vec_load(s->sums[r] + c),
                        (int)MIN(b->outs - c, AMX_TILE));
}

static void tile_block_bf16(const TileGemm *g, const TileBlock *b, TileScratch *s) {
    bool lower = b->rows > AMX_TILE;
    TILE_LOAD(0, &s->sums[0][0], sizeof s->sums[0]);
    TILE_LOAD(1, &s->sums[0][AMX_TILE], sizeof s->sums[0]);
    TILE_LOAD(2, &s->sums[AMX_TILE][0], sizeof s->sums[0]);
    TILE_LOAD(3, &s->sums[AMX_TILE][AMX_TILE], sizeof s->sums[0]);
    for (size_t step = 0; step < b->steps; step++) {
        size_t ld;
        const void *x = tile_of_x(g, b->i, b->s0 + step, s->x[0], &ld);
        TILE_LOAD(4, x, ld);
        TILE_LOAD(6, s->w[step][0], AMX_BYTES);
        TILE_LOAD(7, s->w[step][1], AMX_BYTES);
        TILE_DOT_BF16(0, 4, 6);
        TILE_DOT_BF16(1, 4, 7);
        if (!lower) continue;
        x = tile_of_x(g, b->i + AMX_TILE, b->s0 + step, s->x[1], &ld);
        TILE_LOAD(5, x, ld);
        TILE_DOT_BF16(2, 5, 6);
        TILE_DOT_BF16(3, 5, 7);
    }
    TILE_STORE(0, &s->sums[0][0], sizeof s->sums[0]);
    TILE_STORE(1, &s->sums[0][AMX_TILE], sizeof s->sums[0]);
    TILE_STORE(2, &s->sums[AMX_TILE][0], sizeof s->sums[0]);
    TILE_STORE(3, &s->sums[AMX_TILE][AMX_TILE], sizeof s->sums[0]);
}

/* The products of group s0 + step, all integers. */
static void tile_products_i8(const TileGemm *g, const TileBlock *b, TileScratch *s, size_t step) {
    size_t ld;
    const void *x = tile_of_x(g, b->i, b->s0 + step, s->x[0], &ld);
    TILE_LOAD(4, x, ld);
    TILE_LOAD(6, s->w[step][0], AMX_BYTES);
    TILE_LOAD(7, s->w[step][1], AMX_BYTES);
    TILE_ZERO(0);
    TILE_ZERO(1);
    TILE_DOT_I8(0, 4, 6);
    TILE_DOT_I8(1, 4, 7);
    TILE_STORE(0, &s->products[0][0], sizeof s->products[0]);
    TILE_STORE(1, &s->products[0][AMX_TILE], sizeof s->products[0]);
    if (b->rows <= AMX_TILE) return;
    x = tile_of_x(g, b->i + AMX_TILE, b->s0 + step, s->x[1], &ld);
    TILE_LOAD(5, x, ld);
    TILE_ZERO(2);
    TILE_ZERO(3);
    TILE_DOT_I8(2, 5, 6);
    TILE_DOT_I8(3, 5, 7);
    TILE_STORE(2, &s->products[AMX_TILE][0], sizeof s->products[0]);
    TILE_STORE(3, &s->products[AMX_TILE][AMX_TILE], sizeof s->products[0]);
}

static void tile_block_i8(const TileGemm *g, const TileBlock *b, TileScratch *s) {
    for (size_t step = 0; step < b->steps; step++) {
        tile_products_i8(g, b, s, step);
        for (size_t r = 0; r < b->rows; r++) {
            Vec x_scale = vec_set1(g->x_scale[(b->i + r) * g->steps + b->s0 + step]);
            for (size_t c = 0; c < AMX_OUTS; c += AMX_TILE) {
                float *sum = s->sums[r] + c;
                Vec scale = vec_mul(x_scale, vec_load(s->scale[step] + c));
                Vec product = _mm512_cvtepi32_ps(_mm512_load_si512(s->products[r] + c));
                vec_store(sum, vec_fma(product, scale, vec_load(sum)));
            }
        }
    }
}

static void tile_scales(const TileGemm *g, const TileBlock *b, TileScratch *s) {
    for (size_t step = 0; step < b->steps; step++)
        for (size_t c = 0; c < AMX_OUTS; c++)
            s->scale[step][c] = c < b->outs ? g->w_scale[(b->o + c) * g->steps + b->s0 + step] : 0;
}

static void tile_gemm(const TileGemm *g) {
    TileScratch s;
    tiles_open();
    for (TileBlock b = {0}; b.o < g->n_out; b.o += AMX_OUTS) {
        b.outs = MIN(g->n_out - b.o, AMX_OUTS);
        b.s0 = 0;
        do {
            b.steps = MIN(g->steps - b.s0, AMX_STEPS);
            tile_pack(g, &b, &s);
            if (g->w_scale) tile_scales(g, &b, &s);
            for (b.i = 0; b.i < g->n; b.i += AMX_ROWS) {
                b.rows = MIN(g->n - b.i, AMX_ROWS);
                tile_sums_load(g, &b, &s);
                if (g->w_scale)
                    tile_block_i8(g, &b, &s);
                else
                    tile_block_bf16(g, &b, &s);
                tile_sums_store(g, &b, &s);
            }
            b.s0 += b.steps;
        } while (b.s0 < g->steps);
    }
    tiles_close();
}

static void tile_gemm_bf16(int n, int n_out, int k, const uint16_t *x, int ldx, const uint16_t *w, float *y, int ldy) {
    size_t bytes = (size_t)k * sizeof *w;
    tile_gemm(&(TileGemm){.n = (size_t)n,
                          .n_out = (size_t)n_out,
                          .bytes = bytes,
                          .steps = (bytes + AMX_BYTES - 1) / AMX_BYTES,
                          .x = (const char *)x,
                          .w = (const char *)w,
                          .ldx = (size_t)ldx * sizeof *x,
                          .y = y,
                          .ldy = (size_t)ldy});
}

static void tile_gemm_i8(int n, int n_out, int k, const int8_t *x, const float *x_scale, const int8_t *w,
                         const float *w_scale, float *y, int ldy) {
    tile_gemm(&(TileGemm){.n = (size_t)n,
                          .n_out = (size_t)n_out,
                          .bytes = (size_t)k,
                          .steps = (size_t)k / INT8_GROUP,
                          .x = (const char *)x,
                          .w = (const char *)w,
                          .ldx = (size_t)k,
                          .x_scale = x_scale,
                          .w_scale = w_scale,
                          .y = y,
                          .ldy = (size_t)ldy});
}
