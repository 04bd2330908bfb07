/* amx_attention_body: attention over blocks of the cache in tiles. The cache keeps pairs as operand B wants them: keys
 * [pairs, KV_BLOCK, 2] are a step of 16 pairs after the other, two tiles wide; values [KV_BLOCK / 2, v_dim, 2] are one
 * step, v_dim / 16 tiles wide. Queries and probabilities are operand A where they lie. What is not whole is copied, and
 * filled up with zeros.
 *
 * A row's bits depend on its own operands alone: an element is the sum, over steps in order, of what one instruction
 * makes of a step (isa.h). For few rows the same is made of vectors, with chains of even and odd elements of their own,
 * and subnormals as zeros, as tiles have them. Include lanes_avx512.h, tiles.h, or a model of it, and amx_body.h before
 * this. */

enum { BLOCK_KEYS = AMX_PAIR }; /* KV_BLOCK */
_Static_assert((int)BLOCK_KEYS == 2 * (int)AMX_UNITS, "a block of values is one step");

typedef struct TileCopies {
    _Alignas(64) uint32_t a[2][AMX_TILE][AMX_TILE], b[2][AMX_TILE][AMX_TILE];
    _Alignas(64) float c[2][2][AMX_TILE][AMX_TILE];
} TileCopies;

/* `rows` rows of `words` words, ld words apart: in place where they are a whole tile. */
static TileAt tile_place(const uint32_t *from, size_t ld, size_t rows, size_t words, void *copy) {
    if (rows >= AMX_TILE && words >= AMX_UNITS) return (TileAt){from, ld * sizeof *from};
    tile_copy(from, ld * sizeof *from, MIN(rows, AMX_TILE), MIN(words, AMX_UNITS) * sizeof *from, copy);
    return (TileAt){copy, AMX_BYTES};
}

/* Of `rows` rows at q and s, at most two tiles. */
static void tile_scores_rows(size_t rows, size_t pairs, const uint32_t *q, const uint32_t *k, float *s, size_t lds,
                             TileCopies *x) {
    bool below = rows > AMX_TILE;
    TILE_ZERO(0);
    TILE_ZERO(1);
    TILE_ZERO(2);
    TILE_ZERO(3);
    for (size_t u = 0; u < pairs; u += AMX_UNITS) {
        TileAt a[2] = {tile_place(q + u, pairs, rows, pairs - u, x->a[0])}, b[2];
        if (below) a[1] = tile_place(q + AMX_TILE * pairs + u, pairs, rows - AMX_TILE, pairs - u, x->a[1]);
        for (size_t c = 0; c < 2; c++)
            b[c] = tile_place(k + u * BLOCK_KEYS + c * AMX_TILE, BLOCK_KEYS, pairs - u, AMX_TILE, x->b[c]);
        tile_square_step(a, b, below, true);
    }
    float *under = s + AMX_TILE * lds;
    SumsAt to[2][2];
    for (size_t c = 0; c < 2; c++) {
        to[0][c] = sums_place(s + c * AMX_TILE, lds, rows, AMX_TILE, false, x->c[0][c]);
        if (below) to[1][c] = sums_place(under + c * AMX_TILE, lds, rows - AMX_TILE, AMX_TILE, false, x->c[1][c]);
    }
    TILE_STORE(0, to[0][0].at, to[0][0].ld);
    TILE_STORE(1, to[0][1].at, to[0][1].ld);
    if (below) {
        TILE_STORE(2, to[1][0].at, to[1][0].ld);
        TILE_STORE(3, to[1][1].at, to[1][1].ld);
    }
    for (size_t c = 0; c < 2; c++) {
        sums_return(s + c * AMX_TILE, lds, rows, AMX_TILE, x->c[0][c]);
        if (below) sums_return(under + c * AMX_TILE, lds, rows - AMX_TILE, AMX_TILE, x->c[1][c]);
    }
}

/* Values of the first `keys` keys of a block, up to 16 columns from v on. */
static TileAt value_place(const uint32_t *v, size_t v_dim, size_t keys, size_t columns,
                          uint32_t copy[AMX_TILE][AMX_TILE]) {
    if (keys == BLOCK_KEYS) return tile_place(v, v_dim, AMX_TILE, columns, copy);
    tile_copy(v, v_dim * sizeof *v, keys / 2 + keys % 2, MIN(columns, AMX_TILE) * sizeof *v, copy);
    for (size_t d = 0; keys % 2 && d < AMX_TILE; d++) copy[keys / 2][d] &= 0xffff;
    return (TileAt){copy, AMX_BYTES};
}

/* Of `rows` rows at p and acc and `columns` columns at v and acc, at most two tiles of either. */
static void tile_mix_square(const MixBlock *m, size_t row, size_t rows, size_t column, size_t columns, size_t ldp,
                            size_t v_dim, TileCopies *x) {
    const uint32_t *p = (const uint32_t *)m->p + row * ldp, *v = (const uint32_t *)m->v + column;
    float *acc = m->acc + row * v_dim + column, *under = acc + AMX_TILE * v_dim;
    size_t keys = (size_t)m->keys, rows_under = rows - MIN(rows, AMX_TILE),
           columns_beside = columns - MIN(columns, AMX_TILE);
    bool below = rows_under, beside = columns_beside;
    TileAt a[2] = {tile_place(p, ldp, rows, AMX_UNITS, x->a[0])};
    TileAt b[2] = {value_place(v, v_dim, keys, columns, x->b[0])};
    SumsAt c[2][2] = {{sums_place(acc, v_dim, rows, columns, true, x->c[0][0])}};
    if (below) {
        a[1] = tile_place(p + AMX_TILE * ldp, ldp, rows_under, AMX_UNITS, x->a[1]);
        c[1][0] = sums_place(under, v_dim, rows_under, columns, true, x->c[1][0]);
    }
    if (beside) {
        b[1] = value_place(v + AMX_TILE, v_dim, keys, columns_beside, x->b[1]);
        c[0][1] = sums_place(acc + AMX_TILE, v_dim, rows, columns_beside, true, x->c[0][1]);
    }
    if (below && beside) c[1][1] = sums_place(under + AMX_TILE, v_dim, rows_under, columns_beside, true, x->c[1][1]);
    TILE_LOAD(0, c[0][0].at, c[0][0].ld);
    if (beside) TILE_LOAD(1, c[0][1].at, c[0][1].ld);
    if (below) TILE_LOAD(2, c[1][0].at, c[1][0].ld);
    if (below && beside) TILE_LOAD(3, c[1][1].at, c[1][1].ld);
    tile_square_step(a, b, below, beside);
    TILE_STORE(0, c[0][0].at, c[0][0].ld);
    if (beside) TILE_STORE(1, c[0][1].at, c[0][1].ld);
    if (below) TILE_STORE(2, c[1][0].at, c[1][0].ld);
    if (below && beside) TILE_STORE(3, c[1][1].at, c[1][1].ld);
    sums_return(acc, v_dim, rows, columns, x->c[0][0]);
    if (beside) sums_return(acc + AMX_TILE, v_dim, rows, columns_beside, x->c[0][1]);
    if (below) sums_return(under, v_dim, rows_under, columns, x->c[1][0]);
    if (below && beside) sums_return(under + AMX_TILE, v_dim, rows_under, columns_beside, x->c[1][1]);
}

/* Up to so many rows of which most of a tile would be empty. */
enum { ATTENTION_FEW = 2 };

typedef struct FewSums {
    Vec even[4], odd[4];
} FewSums;

/* One unit of a row, and of `tiles` tiles of columns at b. */
INLINE void few_unit(uint32_t a, const uint32_t *b, uint32_t seen, int tiles, FewSums *s) {
    Vec unit = _mm512_castsi512_ps(_mm512_set1_epi32((int)a)), even = vec_lower(unit), odd = vec_upper(unit);
    __m512i mask = _mm512_set1_epi32((int)seen);
    for (int t = 0; t < tiles; t++) {
        __m512i masked = _mm512_and_si512(_mm512_loadu_si512(b + (size_t)t * AMX_TILE), mask);
        Vec pair = _mm512_castsi512_ps(masked);
        s->even[t] = _mm512_fmadd_ps(even, vec_lower(pair), s->even[t]);
        s->odd[t] = _mm512_fmadd_ps(odd, vec_upper(pair), s->odd[t]);
    }
}

/* c += what one instruction makes of the first n elements, 32 at most, of a row and of the columns, whose units are ld
 * words apart. */
INLINE void few_step(size_t n, const uint32_t *a, const uint32_t *b, size_t ld, int tiles, Vec c[4]) {
    FewSums s;
    for (int t = 0; t < tiles; t++) s.even[t] = s.odd[t] = _mm512_setzero_ps();
    for (size_t u = 0; u < n / 2; u++) few_unit(a[u], b + u * ld, ~(uint32_t)0, tiles, &s);
    if (n % 2) few_unit(a[n / 2], b + n / 2 * ld, 0xffff, tiles, &s);
    for (int t = 0; t < tiles; t++) c[t] = _mm512_add_ps(c[t], _mm512_add_ps(s.even[t], s.odd[t]));
}

static void few_scores_row(size_t pairs, const uint32_t *q, const uint32_t *k, float *s) {
    Vec c[4] = {_mm512_setzero_ps(), _mm512_setzero_ps()};
    for (size_t u = 0; u < pairs; u += AMX_UNITS)
        few_step(2 * MIN(pairs - u, AMX_UNITS), q + u, k + u * BLOCK_KEYS, BLOCK_KEYS, 2, c);
    vec_store(s, c[0]);
    vec_store(s + AMX_TILE, c[1]);
}

/* The last columns, less than a tile. */
static void few_mix_rest(const MixBlock *m, const uint32_t *p, size_t first, float *acc, size_t v_dim) {
    size_t columns = v_dim - first, keys = (size_t)m->keys;
    _Alignas(64) uint32_t copy[AMX_TILE][AMX_TILE];
    Vec c[4] = {vec_load_n(acc + first, (int)columns)};
    tile_copy((const uint32_t *)m->v + first, v_dim * sizeof(uint32_t), keys / 2 + keys % 2, columns * sizeof(uint32_t),
              copy);
    few_step(keys, p, copy[0], AMX_TILE, 1, c);
    vec_store_n(acc + first, c[0], (int)columns);
}

static void few_mix_row(const MixBlock *m, size_t row, size_t ldp, size_t v_dim) {
    const uint32_t *p = (const uint32_t *)m->p + row * ldp, *v = m->v;
    float *acc = m->acc + row * v_dim;
    size_t d = 0;
    for (; d + 4 * AMX_TILE <= v_dim; d += 4 * AMX_TILE) {
        Vec c[4];
        for (size_t t = 0; t < 4; t++) c[t] = vec_load(acc + d + t * AMX_TILE);
        few_step((size_t)m->keys, p, v + d, v_dim, 4, c);
        for (size_t t = 0; t < 4; t++) vec_store(acc + d + t * AMX_TILE, c[t]);
    }
    for (; d + AMX_TILE <= v_dim; d += AMX_TILE) {
        Vec c[4] = {vec_load(acc + d)};
        few_step((size_t)m->keys, p, v + d, v_dim, 1, c);
        vec_store(acc + d, c[0]);
    }
    if (d < v_dim) few_mix_rest(m, p, d, acc, v_dim);
}

static void few_scores(int n_blocks, const ScoresBlock *blocks, size_t n, size_t pairs, size_t lds) {
    unsigned before = denormals_are_zero();
    for (const ScoresBlock *b = blocks; b < blocks + n_blocks; b++)
        for (size_t i = 0; i < n; i++) few_scores_row(pairs, (const uint32_t *)b->q + i * pairs, b->k, b->s + i * lds);
    denormals_are_back(before);
}

static void few_mix(int n_blocks, const MixBlock *blocks, size_t n, size_t v_dim, size_t ldp) {
    unsigned before = denormals_are_zero();
    for (const MixBlock *b = blocks; b < blocks + n_blocks; b++)
        for (size_t i = 0; i < n; i++) few_mix_row(b, i, ldp, v_dim);
    denormals_are_back(before);
}

static void tiles_scores(int n_blocks, const ScoresBlock *blocks, size_t n, size_t pairs, size_t lds) {
    TileCopies x;
    tiles_open();
    for (const ScoresBlock *b = blocks; b < blocks + n_blocks; b++)
        for (size_t i = 0; i < n; i += AMX_PAIR)
            tile_scores_rows(MIN(n - i, AMX_PAIR), pairs, (const uint32_t *)b->q + i * pairs, b->k, b->s + i * lds, lds,
                             &x);
    tiles_close();
}

static void tiles_mix(int n_blocks, const MixBlock *blocks, size_t n, size_t v_dim, size_t ldp) {
    TileCopies x;
    tiles_open();
    for (const MixBlock *b = blocks; b < blocks + n_blocks; b++)
        for (size_t i = 0; i < n; i += AMX_PAIR)
            for (size_t d = 0; d < v_dim; d += AMX_PAIR)
                tile_mix_square(b, i, MIN(n - i, AMX_PAIR), d, MIN(v_dim - d, AMX_PAIR), ldp, v_dim, &x);
    tiles_close();
}

static void scores_blocks(int n_blocks, const ScoresBlock *blocks, int n, int pairs, int lds) {
    (n <= ATTENTION_FEW ? few_scores : tiles_scores)(n_blocks, blocks, (size_t)n, (size_t)pairs, (size_t)lds);
}

static void mix_blocks(int n_blocks, const MixBlock *blocks, int n, int v_dim, int ldp) {
    (n <= ATTENTION_FEW ? few_mix : tiles_mix)(n_blocks, blocks, (size_t)n, (size_t)v_dim, (size_t)ldp / 2);
}
