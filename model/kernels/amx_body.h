/* amx_body: y = x W^T of bf16 in tiles. W is read in place as operand A, 16 outputs x 64 bytes, so that weights are
 * touched once and never rearranged; x is packed into the units of operand B, 16 rows a tile, and y comes out turned:
 * an output a row. What would reach beyond x or W counts as zeros.
 *
 * AMX_ROWS rows of x are packed for AMX_OUTS outputs, whose weights then stay in the second level of cache; the sums of
 * AMX_PAIR outputs and rows rest in tiles of their own while k goes by, in pieces of AMX_STEPS where it is longer.
 *
 * An output is the sum, over steps of 32 elements in order, of what one instruction makes of a step, so its bits depend
 * on k alone. Include lanes_avx512.h and tiles.h, or a model of it, before this. */

enum { AMX_TILE = 16, AMX_PAIR = 2 * AMX_TILE, AMX_BYTES = 64, AMX_UNITS = AMX_BYTES / sizeof(uint32_t) };
enum { AMX_STEPS = 96, AMX_OUTS = 768, AMX_ROWS = 64 };
enum { OUT_PAIRS = AMX_OUTS / AMX_PAIR, ROW_PAIRS = AMX_ROWS / AMX_PAIR };

typedef struct TileGemm {
    size_t n, n_out, bytes, steps; /* bytes: of a row of W; steps: of AMX_BYTES */
    const char *x, *w;
    size_t ldx; /* bytes */
    float *y;
    size_t ldy;
} TileGemm;

/* Tiles of C, an output a row: [output tile of the pair][row tile of the pair]. */
typedef float TileSums[2][2][AMX_TILE][AMX_TILE];

typedef struct TileScratch {
    _Alignas(64) uint32_t x[ROW_PAIRS][AMX_STEPS][2][AMX_TILE][AMX_TILE], w[2][AMX_TILE][AMX_TILE];
    _Alignas(64) TileSums sums[ROW_PAIRS][OUT_PAIRS]; /* the first alone where k is one piece */
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

/* These rows as a tile; units across, as a tile of operand B. */
INLINE void tile_copy(const void *from, size_t ld, size_t rows, size_t bytes, void *to) {
    __m512i r[AMX_TILE];
    tile_rows(from, ld, rows, bytes, r);
    for (size_t l = 0; l < AMX_TILE; l++) _mm512_store_si512((char *)to + l * AMX_BYTES, r[l]);
}

INLINE void tile_turn(const void *from, size_t ld, size_t rows, size_t bytes, void *to) {
    __m512i r[AMX_TILE];
    tile_rows(from, ld, rows, bytes, r);
    ints_transpose(r);
    for (size_t u = 0; u < AMX_TILE; u++) _mm512_store_si512((char *)to + u * AMX_BYTES, r[u]);
}

/* Where a tile is loaded from, and where one of sums is stored to, too. */
typedef struct TileAt {
    const void *at;
    size_t ld; /* bytes */
} TileAt;

typedef struct SumsAt {
    float *at;
    size_t ld; /* bytes */
} SumsAt;

/* Of up to 16 rows and columns of c, ld floats apart, or more: in place where the tile is whole, or a copy, of what is
 * there if it is to be loaded. sums_return brings a copy back. */
INLINE SumsAt sums_place(float *c, size_t ld, size_t rows, size_t columns, bool load, float copy[AMX_TILE][AMX_TILE]) {
    if (rows >= AMX_TILE && columns >= AMX_TILE) return (SumsAt){c, ld * sizeof *c};
    if (load) tile_copy(c, ld * sizeof *c, MIN(rows, AMX_TILE), MIN(columns, AMX_TILE) * sizeof *c, copy);
    return (SumsAt){copy[0], AMX_BYTES};
}

INLINE void sums_return(float *c, size_t ld, size_t rows, size_t columns, const float copy[AMX_TILE][AMX_TILE]) {
    if (rows >= AMX_TILE && columns >= AMX_TILE) return;
    for (size_t r = 0; r < MIN(rows, AMX_TILE); r++)
        vec_store_n(c + r * ld, vec_load(copy[r]), (int)MIN(columns, AMX_TILE));
}

/* A step of two tiles of rows, or one, and two of columns, or one: sums in tiles 0 and 1, and 2 and 3 below. */
static void tile_square_step(const TileAt a[2], const TileAt b[2], bool below, bool beside) {
    TILE_LOAD(4, a[0].at, a[0].ld);
    TILE_LOAD(6, b[0].at, b[0].ld);
    TILE_DOT_BF16(0, 4, 6);
    if (beside) {
        TILE_LOAD(7, b[1].at, b[1].ld);
        TILE_DOT_BF16(1, 4, 7);
    }
    if (!below) return;
    TILE_LOAD(5, a[1].at, a[1].ld);
    TILE_DOT_BF16(2, 5, 6);
    if (beside) TILE_DOT_BF16(3, 5, 7);
}

/* How many of n are left from `from` on, at most a tile. */
static size_t tile_left(size_t n, size_t from) { return n > from ? MIN(n - from, AMX_TILE) : 0; }

static void tile_pack(const TileGemm *g, const TileBlock *b, TileScratch *s) {
    for (size_t first = 0; first < b->rows; first += AMX_TILE)
        for (size_t step = 0; step < b->steps; step++) {
            size_t at = (b->s0 + step) * AMX_BYTES;
            tile_turn(g->x + (b->i + first) * g->ldx + at, g->ldx, tile_left(b->rows, first), g->bytes - at,
                      s->x[first / AMX_PAIR][step][first / AMX_TILE % 2]);
        }
}

/* Where outputs o.. of W are to be loaded from: in place, or a copy where that would reach beyond W. */
static TileAt tile_of_w(const TileGemm *g, size_t o, size_t step, uint32_t copy[AMX_TILE][AMX_TILE]) {
    size_t at = step * AMX_BYTES;
    const char *w = g->w + o * g->bytes + at;
    if (o + AMX_TILE <= g->n_out && at + AMX_BYTES <= g->bytes) return (TileAt){w, g->bytes};
    tile_copy(w, g->bytes, tile_left(g->n_out, o), g->bytes - at, copy);
    return (TileAt){copy, AMX_BYTES};
}

/* Asks for a share of the next pair of outputs, in the order they lie in. */
static inline void tile_fetch(const TileGemm *g, size_t o, size_t step) {
    const char *w = g->w + (o + AMX_PAIR) * g->bytes + step * AMX_PAIR * AMX_BYTES;
    for (size_t l = 0; l < AMX_PAIR; l++) __builtin_prefetch(w + l * AMX_BYTES, 0, 2);
}

/* Asks for where the sums of outputs o.. and rows i.. will go. */
static void tile_fetch_y(const TileGemm *g, size_t i, size_t o) {
    for (size_t r = i; r < MIN(g->n, i + AMX_PAIR); r++)
        for (size_t l = o; l < MIN(g->n_out, o + AMX_PAIR); l += LANES) __builtin_prefetch(g->y + r * g->ldy + l, 1);
}

/* Two tiles of outputs against two of rows, `steps` of them that need no copy. */
static void tile_pair_whole(const TileGemm *g, size_t o, size_t s0, size_t steps, const uint32_t *x, bool fetch) {
    const char *above = g->w + o * g->bytes + s0 * AMX_BYTES, *below = above + AMX_TILE * g->bytes;
    for (size_t step = 0; step < steps; step++) {
        if (fetch) tile_fetch(g, o, s0 + step);
        TILE_LOAD(4, above, g->bytes);
        TILE_LOAD(6, x, AMX_BYTES);
        TILE_DOT_BF16(0, 4, 6);
        TILE_LOAD(7, x + AMX_TILE * AMX_TILE, AMX_BYTES);
        TILE_DOT_BF16(1, 4, 7);
        TILE_LOAD(5, below, g->bytes);
        TILE_DOT_BF16(2, 5, 6);
        TILE_DOT_BF16(3, 5, 7);
        above += AMX_BYTES, below += AMX_BYTES, x += 2 * AMX_TILE * AMX_TILE;
    }
}

/* The same of whatever is there. */
static void tile_pair_step(const TileGemm *g, TileScratch *s, size_t o, size_t step, uint32_t x[2][AMX_TILE][AMX_TILE],
                           bool more_rows) {
    bool more_outs = o + AMX_TILE < g->n_out;
    TileAt w[2] = {tile_of_w(g, o, step, s->w[0])}, rows[2] = {{x[0], AMX_BYTES}, {x[1], AMX_BYTES}};
    if (more_outs) w[1] = tile_of_w(g, o + AMX_TILE, step, s->w[1]);
    tile_square_step(w, rows, more_outs, more_rows);
}

/* Outputs o.. against rows 32 p.. of the block: four tiles of sums. */
static void tile_pair(const TileGemm *g, const TileBlock *b, TileScratch *s, size_t p, size_t o, TileSums *c) {
    bool more_rows = b->rows > p * AMX_PAIR + AMX_TILE, fetch = p == 0 && b->i == 0;
    size_t whole = more_rows && o + AMX_PAIR <= g->n_out ? MIN(b->steps, g->bytes / AMX_BYTES - b->s0) : 0;
    tile_fetch_y(g, b->i + p * AMX_PAIR, o);
    if (b->s0) {
        TILE_LOAD(0, (*c)[0][0], AMX_BYTES);
        TILE_LOAD(1, (*c)[0][1], AMX_BYTES);
        TILE_LOAD(2, (*c)[1][0], AMX_BYTES);
        TILE_LOAD(3, (*c)[1][1], AMX_BYTES);
    } else {
        TILE_ZERO(0);
        TILE_ZERO(1);
        TILE_ZERO(2);
        TILE_ZERO(3);
    }
    tile_pair_whole(g, o, b->s0, whole, s->x[p][0][0][0], fetch);
    for (size_t step = whole; step < b->steps; step++) {
        if (fetch) tile_fetch(g, o, b->s0 + step);
        tile_pair_step(g, s, o, b->s0 + step, s->x[p][step], more_rows);
    }
    TILE_STORE(0, (*c)[0][0], AMX_BYTES);
    TILE_STORE(1, (*c)[0][1], AMX_BYTES);
    TILE_STORE(2, (*c)[1][0], AMX_BYTES);
    TILE_STORE(3, (*c)[1][1], AMX_BYTES);
}

/* Turns the sums of rows i.. and outputs o.. round into y. */
static void tile_unload(const TileGemm *g, size_t i, size_t o, const TileSums *c) {
    for (size_t t = 0; t < 4; t++) {
        size_t outs = tile_left(g->n_out, o + t / 2 * AMX_TILE), rows = tile_left(g->n, i + t % 2 * AMX_TILE);
        float *y = g->y + (i + t % 2 * AMX_TILE) * g->ldy + o + t / 2 * AMX_TILE;
        __m512i r[AMX_TILE];
        if (!outs || !rows) continue;
        for (size_t l = 0; l < AMX_TILE; l++) r[l] = _mm512_load_si512((*c)[t / 2][t % 2][l]);
        ints_transpose(r);
        for (size_t l = 0; l < rows; l++) vec_store_n(y + l * g->ldy, _mm512_castsi512_ps(r[l]), (int)outs);
    }
}

static void tile_block(const TileGemm *g, TileBlock *b, TileScratch *s) {
    for (b->s0 = 0; b->s0 < g->steps; b->s0 += AMX_STEPS) {
        b->steps = MIN(g->steps - b->s0, AMX_STEPS);
        tile_pack(g, b, s);
        for (size_t o = 0; o < b->outs; o += AMX_PAIR)
            for (size_t p = 0; p * AMX_PAIR < b->rows; p++) {
                TileSums *c = g->steps > AMX_STEPS ? &s->sums[p][o / AMX_PAIR] : &s->sums[0][0];
                tile_pair(g, b, s, p, b->o + o, c);
                if (b->s0 + b->steps == g->steps) tile_unload(g, b->i + p * AMX_PAIR, b->o + o, (const TileSums *)c);
            }
    }
}

/* ---- few rows ---- */

/* Memory decides, which is read faster in many places at a time (kernels.h): the outputs of a tile lie apart, and those
 * of the next one right behind them, four of which are turned together. */
enum { STREAM_ROWS = AMX_PAIR, STREAM_OUTS = 4 };

typedef float StreamSums[STREAM_OUTS][AMX_TILE][AMX_TILE]; /* [.., output, row] */

/* Outputs at w, ld bytes apart, against one tile of rows or two. */
static void stream_tile(const TileGemm *g, const char *w, size_t ld, const TileScratch *s, float *c, float *beside) {
    TILE_ZERO(0);
    TILE_ZERO(1);
    for (size_t step = 0; step < g->steps; step++, w += AMX_BYTES) {
        for (size_t l = 0; l < AMX_TILE; l++) __builtin_prefetch(w + l * ld + 2 * AMX_BYTES);
        TILE_LOAD(4, w, ld);
        TILE_LOAD(6, s->x[0][step][0], AMX_BYTES);
        TILE_DOT_BF16(0, 4, 6);
        if (beside) {
            TILE_LOAD(7, s->x[0][step][1], AMX_BYTES);
            TILE_DOT_BF16(1, 4, 7);
        }
    }
    TILE_STORE(0, c, AMX_BYTES);
    if (beside) TILE_STORE(1, beside, AMX_BYTES);
}

/* Four outputs of up to 16 rows from y on. */
static void stream_store(const TileGemm *g, size_t rows, const StreamSums *c, size_t l, float *y) {
    __m512 a = vec_load((*c)[0][l]), b = vec_load((*c)[1][l]), d = vec_load((*c)[2][l]), e = vec_load((*c)[3][l]);
    __m512 ab = _mm512_unpacklo_ps(a, b), ab_high = _mm512_unpackhi_ps(a, b);
    __m512 de = _mm512_unpacklo_ps(d, e), de_high = _mm512_unpackhi_ps(d, e);
    __m512d x = _mm512_castps_pd(ab), x_high = _mm512_castps_pd(ab_high);
    __m512d z = _mm512_castps_pd(de), z_high = _mm512_castps_pd(de_high);
    float turned[STREAM_OUTS][AMX_TILE]; /* row r: lanes 4 (r / 4).. of r % 4 */
    vec_store(turned[0], _mm512_castpd_ps(_mm512_unpacklo_pd(x, z)));
    vec_store(turned[1], _mm512_castpd_ps(_mm512_unpackhi_pd(x, z)));
    vec_store(turned[2], _mm512_castpd_ps(_mm512_unpacklo_pd(x_high, z_high)));
    vec_store(turned[3], _mm512_castpd_ps(_mm512_unpackhi_pd(x_high, z_high)));
    for (size_t r = 0; r < rows; r++)
        memcpy(y + r * g->ldy, turned[r % STREAM_OUTS] + r / STREAM_OUTS * STREAM_OUTS, STREAM_OUTS * sizeof *y);
}

/* Returns how many outputs are done. */
static size_t tile_streams(const TileGemm *g, TileScratch *s) {
    const size_t apart = g->n_out / (STREAM_OUTS * AMX_TILE) * STREAM_OUTS, ld = apart * g->bytes;
    const size_t beside = g->n - MIN(g->n, AMX_TILE);
    if (g->n > STREAM_ROWS || g->steps > AMX_STEPS || g->bytes % AMX_BYTES) return 0;
    StreamSums *c = (StreamSums *)s->sums[0];
    tile_pack(g, &(TileBlock){.rows = g->n, .steps = g->steps}, s);
    for (size_t o = 0; o < apart; o += STREAM_OUTS) {
        for (size_t t = 0; t < STREAM_OUTS; t++)
            stream_tile(g, g->w + (o + t) * g->bytes, ld, s, c[0][t][0], beside ? c[1][t][0] : NULL);
        for (size_t l = 0; l < AMX_TILE; l++) {
            float *y = g->y + o + l * apart;
            stream_store(g, g->n - beside, &c[0], l, y);
            if (beside) stream_store(g, beside, &c[1], l, y + AMX_TILE * g->ldy);
        }
    }
    return apart * AMX_TILE;
}

static void tile_gemm_bf16(int n, int n_out, int k, const uint16_t *x, int ldx, const uint16_t *w, float *y, int ldy) {
    size_t bytes = (size_t)k * sizeof *w;
    TileGemm g = {.n = (size_t)n,
                  .n_out = (size_t)n_out,
                  .bytes = bytes,
                  .steps = (bytes + AMX_BYTES - 1) / AMX_BYTES,
                  .x = (const char *)x,
                  .w = (const char *)w,
                  .ldx = (size_t)ldx * sizeof *x,
                  .y = y,
                  .ldy = (size_t)ldy};
    TileScratch s;
    tiles_open();
    for (TileBlock b = {.o = tile_streams(&g, &s)}; b.o < g.n_out; b.o += AMX_OUTS) {
        b.outs = MIN(g.n_out - b.o, AMX_OUTS);
        for (b.i = 0; b.i < g.n; b.i += AMX_ROWS) {
            b.rows = MIN(g.n - b.i, AMX_ROWS);
            tile_block(&g, &b, &s);
        }
    }
    tiles_close();
}
