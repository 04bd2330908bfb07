/* amx_body: y = x W^T in tiles. W is read in place as operand A, 16 outputs x 64 bytes, so that weights are touched
 * once and never rearranged; x is packed into the units of operand B, 16 rows a tile, and y comes out turned: an output
 * a row. What would reach beyond x or W counts as zeros.
 *
 * AMX_OUTS outputs and AMX_ROWS rows are a block, whose sums rest in tiles of their own while k goes by in pieces of
 * AMX_STEPS: a pair of tiles of x then stays in the first level of cache, a piece of W in the second.
 *
 * An output is the sum, over steps of 32 elements in order, of what one instruction makes of a step, so its bits
 * depend on k alone. Include lanes_avx512.h and tiles.h, or a model of it, before this. */

enum { AMX_TILE = 16, AMX_PAIR = 2 * AMX_TILE, AMX_BYTES = 64 };
enum { AMX_STEPS = 16, AMX_OUTS = 512, AMX_ROWS = 64 };
enum { OUT_PAIRS = AMX_OUTS / AMX_PAIR, ROW_PAIRS = AMX_ROWS / AMX_PAIR };

typedef struct TileGemm {
    size_t n, n_out, bytes, steps; /* bytes: of a row of W; steps: of AMX_BYTES */
    const char *x, *w;
    size_t ldx; /* bytes */
    float *y;
    size_t ldy;
} TileGemm;

/* Tiles of C, an output a row: [output tile of the pair][row tile of the pair]. */
typedef union TileSums {
    _Alignas(64) float f[2][2][AMX_TILE][AMX_TILE];
    int32_t i[2][2][AMX_TILE][AMX_TILE];
} TileSums;

typedef struct TileScratch {
    _Alignas(64) uint32_t x[ROW_PAIRS][AMX_STEPS][2][AMX_TILE][AMX_TILE], w[2][AMX_TILE][AMX_TILE];
    TileSums sums[ROW_PAIRS][OUT_PAIRS];
} TileScratch;

/* Rows i.., outputs o.., steps s0..s0+steps-1. */
typedef struct TileBlock {
    size_t i, rows, o, outs, s0, steps;
} TileBlock;

/* Up to 16 rows of up to 64 bytes, zeros beyond. */
static void tile_rows(const char *from, size_t ld, size_t rows, size_t bytes, __m512i r[AMX_TILE]) {
    __mmask64 present = bytes < AMX_BYTES ? ((uint64_t)1 << bytes) - 1 : ~(uint64_t)0;
    for (size_t l = 0; l < AMX_TILE; l++)
        r[l] = l < rows ? _mm512_maskz_loadu_epi8(present, from + l * ld) : _mm512_setzero_si512();
}

/* How many of n are left from `from` on, at most a tile. */
static size_t tile_left(size_t n, size_t from) { return n > from ? MIN(n - from, AMX_TILE) : 0; }

static void tile_pack(const TileGemm *g, const TileBlock *b, TileScratch *s) {
    for (size_t first = 0; first < b->rows; first += AMX_TILE)
        for (size_t step = 0; step < b->steps; step++) {
            __m512i r[AMX_TILE];
            size_t at = (b->s0 + step) * AMX_BYTES;
            uint32_t(*to)[AMX_TILE] = s->x[first / AMX_PAIR][step][first / AMX_TILE % 2];
            tile_rows(g->x + (b->i + first) * g->ldx + at, g->ldx, tile_left(b->rows, first), g->bytes - at, r);
            ints_transpose(r);
            for (size_t u = 0; u < AMX_TILE; u++) _mm512_store_si512(to[u], r[u]);
        }
}

/* Where outputs o.. of W are to be loaded from: in place, or a copy where that would reach beyond W. */
static const void *tile_of_w(const TileGemm *g, size_t o, size_t step, uint32_t copy[AMX_TILE][AMX_TILE], size_t *ld) {
    size_t at = step * AMX_BYTES;
    const char *w = g->w + o * g->bytes + at;
    *ld = g->bytes;
    if (o + AMX_TILE <= g->n_out && at + AMX_BYTES <= g->bytes) return w;
    __m512i r[AMX_TILE];
    tile_rows(w, g->bytes, tile_left(g->n_out, o), g->bytes - at, r);
    for (size_t l = 0; l < AMX_TILE; l++) _mm512_store_si512(copy[l], r[l]);
    *ld = AMX_BYTES;
    return copy;
}

/* Asks for the same step of the next pair of outputs. */
static void tile_fetch(const TileGemm *g, size_t o, size_t step) {
    const char *w = g->w + (o + AMX_PAIR) * g->bytes + step * AMX_BYTES;
    for (size_t l = 0; l < AMX_PAIR; l++) __builtin_prefetch(w + l * g->bytes);
}

/* Outputs o.. against rows 32 p.. of the block: four tiles of sums. */
static void tile_pair_bf16(const TileGemm *g, const TileBlock *b, TileScratch *s, size_t p, size_t o, TileSums *c) {
    bool more_outs = o + AMX_TILE<g->n_out, more_rows = b->rows> p * AMX_PAIR + AMX_TILE;
    if (b->s0) {
        TILE_LOAD(0, c->f[0][0], AMX_BYTES);
        TILE_LOAD(1, c->f[0][1], AMX_BYTES);
        TILE_LOAD(2, c->f[1][0], AMX_BYTES);
        TILE_LOAD(3, c->f[1][1], AMX_BYTES);
    } else {
        TILE_ZERO(0);
        TILE_ZERO(1);
        TILE_ZERO(2);
        TILE_ZERO(3);
    }
    for (size_t step = 0; step < b->steps; step++) {
        size_t ld;
        const void *w = tile_of_w(g, o, b->s0 + step, s->w[0], &ld);
        if (p == 0) tile_fetch(g, o, b->s0 + step);
        TILE_LOAD(4, w, ld);
        TILE_LOAD(6, s->x[p][step][0], AMX_BYTES);
        TILE_DOT_BF16(0, 4, 6);
        if (more_rows) {
            TILE_LOAD(7, s->x[p][step][1], AMX_BYTES);
            TILE_DOT_BF16(1, 4, 7);
        }
        if (!more_outs) continue;
        w = tile_of_w(g, o + AMX_TILE, b->s0 + step, s->w[1], &ld);
        TILE_LOAD(5, w, ld);
        TILE_DOT_BF16(2, 5, 6);
        if (more_rows) TILE_DOT_BF16(3, 5, 7);
    }
    TILE_STORE(0, c->f[0][0], AMX_BYTES);
    TILE_STORE(1, c->f[0][1], AMX_BYTES);
    TILE_STORE(2, c->f[1][0], AMX_BYTES);
    TILE_STORE(3, c->f[1][1], AMX_BYTES);
}

/* Turns the sums round into y. */
static void tile_unload(const TileGemm *g, const TileBlock *b, const TileScratch *s) {
    for (size_t i = 0; i < b->rows; i += AMX_TILE)
        for (size_t o = 0; o < b->outs; o += AMX_TILE) {
            const TileSums *c = &s->sums[i / AMX_PAIR][o / AMX_PAIR];
            const float(*sums)[AMX_TILE] = c->f[o / AMX_TILE % 2][i / AMX_TILE % 2];
            float *y = g->y + (b->i + i) * g->ldy + b->o + o;
            __m512i r[AMX_TILE];
            for (size_t l = 0; l < AMX_TILE; l++) r[l] = _mm512_load_si512(sums[l]);
            ints_transpose(r);
            for (size_t l = 0; l < tile_left(b->rows, i); l++)
                vec_store_n(y + l * g->ldy, _mm512_castsi512_ps(r[l]), (int)tile_left(b->outs, o));
        }
}

static void tile_block(const TileGemm *g, TileBlock *b, TileScratch *s) {
    for (b->s0 = 0; b->s0 < MAX(g->steps, 1); b->s0 += AMX_STEPS) {
        b->steps = MIN(g->steps - b->s0, AMX_STEPS);
        tile_pack(g, b, s);
        for (size_t p = 0; p * AMX_PAIR < b->rows; p++)
            for (size_t o = 0; o < b->outs; o += AMX_PAIR)
                tile_pair_bf16(g, b, s, p, b->o + o, &s->sums[p][o / AMX_PAIR]);
    }
    tile_unload(g, b, s);
}

static void tile_gemm(const TileGemm *g) {
    TileScratch s;
    tiles_open();
    for (TileBlock b = {0}; b.o < g->n_out; b.o += AMX_OUTS) {
        b.outs = MIN(g->n_out - b.o, AMX_OUTS);
        for (b.i = 0; b.i < g->n; b.i += AMX_ROWS) {
            b.rows = MIN(g->n - b.i, AMX_ROWS);
            tile_block(g, &b, &s);
        }
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
