/* amx_train_body: training's products of pairs of bf16 in tiles. Operand A is rows, 16 of them x 16 units, as
 * Panels.row says or as pack_tile_rows leaves them; operand B is 16 units x 16 columns of a panel as pack_columns
 * leaves it, or of taps. Both are loaded where they lie; what is not whole, at an edge or of taps, is copied and filled
 * up with zeros.
 *
 * An element of C is the sum, over steps of 16 units in order, of what one instruction makes of a step (isa.h), so its
 * bits depend on the units alone. Include lanes_avx512.h, train_body.h and amx_body.h before this. */

enum { AMX_PANEL_ROWS = AMX_PAIR, AMX_PANEL_COLUMNS = TILE_COLUMNS, AMX_FETCH_UNITS = 8 * AMX_UNITS };

/* A panel of rows: whole steps of units one after another, [units / 16][32][16], and then [32][units % 16]. */
static void pack_tile_rows(const PackSource *s, uint32_t *out) {
    int units = (s->k + 1) / 2;
    UnitBlock b = {{0}};
    for (int u = 0; u < units; u += AMX_UNITS)
        for (int i = 0; i < s->n; i += AMX_TILE) {
            int rows = MIN(AMX_TILE, s->n - i), some = MIN(AMX_UNITS, units - u), first = i % AMX_PANEL_ROWS;
            block_load(true, AMX_TILE, s, i, rows, u, some, b);
            block_transpose(b);
            uint32_t *to = out + (size_t)(i - first) * (size_t)units + AMX_PANEL_ROWS * u + first * some;
            for (int r = 0; r < rows; r++) words_copy(some, b[r], to + r * some);
        }
}

typedef struct TrainTiles {
    int m, n, units;
    Panels a, b;
    float *c;
    size_t ldc;
    bool add;
    /* copies of what is not whole; of C an element's place is [row tile][column tile][row][column] */
    _Alignas(64) uint32_t rows[2][AMX_TILE][AMX_TILE], columns[2][AMX_TILE][AMX_TILE];
    _Alignas(64) float sums[2][2][AMX_TILE][AMX_TILE];
} TrainTiles;

/* n rows of `some` words, ld words apart. */
static TileAt words_copied(const uint32_t *from, size_t ld, int n, int some, uint32_t copy[AMX_TILE][AMX_TILE]) {
    tile_copy(from, ld * sizeof *from, (size_t)n, (size_t)some * sizeof *from, copy);
    return (TileAt){copy, AMX_BYTES};
}

/* Sixteen rows of A, or columns of B, of which `n` are there, none or less where nothing is. */
typedef struct TileSide {
    const uint32_t *at; /* of unit 0 */
    size_t ld, step;    /* words from row to row, and from one step of units to the next */
    int first, n;       /* first: of the panel's rows */
    uint32_t (*copy)[AMX_TILE];
} TileSide;

/* From row i on. */
static TileSide side_of_rows(TrainTiles *g, int i) {
    const Panels *a = &g->a;
    TileSide s = {.first = i % AMX_PANEL_ROWS, .n = MIN(AMX_TILE, g->m - i)};
    s.copy = g->rows[i / AMX_TILE % 2];
    s.ld = a->row ? a->row : AMX_UNITS;
    s.at = a->at + (size_t)(i / AMX_PANEL_ROWS) * a->words + (size_t)s.first * s.ld;
    s.step = a->row ? AMX_UNITS : AMX_PANEL_ROWS * AMX_UNITS;
    return s;
}

/* From column j on. */
static TileSide side_of_columns(TrainTiles *g, int j) {
    const Panels *b = &g->b;
    return (TileSide){.at = b->at + (size_t)(j / AMX_PANEL_COLUMNS) * b->words + j % AMX_PANEL_COLUMNS,
                      .ld = AMX_PANEL_COLUMNS,
                      .step = AMX_UNITS * AMX_PANEL_COLUMNS,
                      .n = MIN(AMX_TILE, g->n - j),
                      .copy = g->columns[j / AMX_TILE % 2]};
}

/* Units u.. of rows, of which the last step's are packed closer. */
static TileAt rows_copied(const TrainTiles *g, const TileSide *s, int u) {
    int some = MIN(AMX_UNITS, g->units - u);
    const uint32_t *at = s->at + (size_t)(u / AMX_UNITS) * s->step;
    if (g->a.row || some == AMX_UNITS) return words_copied(at, s->ld, s->n, some, s->copy);
    return words_copied(at - s->first * (AMX_UNITS - some), (size_t)some, s->n, some, s->copy);
}

static TileAt columns_copied(const TrainTiles *g, const TileSide *s, int u) {
    int some = MIN(AMX_UNITS, g->units - u);
    if (!g->b.taps) return words_copied(s->at + (size_t)u * s->ld, s->ld, some, AMX_TILE, s->copy);
    for (int l = 0; l < AMX_TILE; l++) {
        const uint32_t *from = s->at + (l < some ? g->b.taps[u + l] : 0);
        _mm512_store_si512(s->copy[l], l < some ? _mm512_loadu_si512(from) : _mm512_setzero_si512());
    }
    return (TileAt){s->copy, AMX_BYTES};
}

/* Where the sums of rows i.. and columns j.. are to be loaded from and stored to. */
static SumsAt tile_of_sums(TrainTiles *g, int i, int j) {
    return sums_place(g->c + (size_t)i * g->ldc + j, g->ldc, (size_t)(g->m - i), (size_t)(g->n - j), g->add,
                      g->sums[i / AMX_TILE % 2][j / AMX_TILE % 2]);
}

static void tile_sums_back(const TrainTiles *g, int i, int j) {
    sums_return(g->c + (size_t)i * g->ldc + j, g->ldc, (size_t)(g->m - i), (size_t)(g->n - j),
                g->sums[i / AMX_TILE % 2][j / AMX_TILE % 2]);
}

#define TILE_BEGIN(t, c)                                                                                               \
    do {                                                                                                               \
        if (g->add)                                                                                                    \
            TILE_LOAD(t, (c).at, (c).ld);                                                                              \
        else                                                                                                           \
            TILE_ZERO(t);                                                                                              \
    } while (0)

/* Two rows and two columns of tiles, `steps` of them, where they lie. */
static void tile_whole_steps(const TileSide rows[2], const TileSide columns[2], int steps) {
    const uint32_t *a0 = rows[0].at, *a1 = rows[1].at, *b0 = columns[0].at, *b1 = columns[1].at;
    size_t lda = rows->ld * sizeof *a0, ldb = columns->ld * sizeof *b0;
    for (int s = 0; s < steps; s++) {
        TILE_LOAD(4, a0, lda);
        TILE_LOAD(6, b0, ldb);
        TILE_DOT_BF16(0, 4, 6);
        TILE_LOAD(7, b1, ldb);
        TILE_DOT_BF16(1, 4, 7);
        TILE_LOAD(5, a1, lda);
        TILE_DOT_BF16(2, 5, 6);
        TILE_DOT_BF16(3, 5, 7);
        a0 += rows->step, a1 += rows->step, b0 += columns->step, b1 += columns->step;
    }
}

/* Units u.., whatever is missing. */
static void tile_step(const TrainTiles *g, const TileSide rows[2], const TileSide columns[2], int u) {
    TileAt a[2] = {rows_copied(g, &rows[0], u)}, b[2] = {columns_copied(g, &columns[0], u)};
    bool below = rows[1].n > 0, beside = columns[1].n > 0;
    if (below) a[1] = rows_copied(g, &rows[1], u);
    if (beside) b[1] = columns_copied(g, &columns[1], u);
    tile_square_step(a, b, below, beside);
}

/* Asks for where the sums will go, where k is long enough for it to take no time. */
INLINE void tile_sums_fetch(const TrainTiles *g, int i, int j) {
    const float *c = g->c + (size_t)i * g->ldc + j;
    for (int r = 0; r < MIN(AMX_PAIR, g->m - i); r++, c += g->ldc)
        for (int l = 0; l < MIN(AMX_PAIR, g->n - j); l += AMX_TILE) __builtin_prefetch(c + l, 1);
}

/* Rows i.. and columns j..: up to four tiles of sums. */
static void tile_square(TrainTiles *g, int i, int j) {
    TileSide rows[2] = {side_of_rows(g, i), side_of_rows(g, i + AMX_TILE)};
    TileSide columns[2] = {side_of_columns(g, j), side_of_columns(g, j + AMX_TILE)};
    bool below = rows[1].n > 0, beside = columns[1].n > 0;
    if (g->units >= AMX_FETCH_UNITS) tile_sums_fetch(g, i, j);
    SumsAt c[2][2] = {{tile_of_sums(g, i, j)}};
    if (beside) c[0][1] = tile_of_sums(g, i, j + AMX_TILE);
    if (below) c[1][0] = tile_of_sums(g, i + AMX_TILE, j);
    if (below && beside) c[1][1] = tile_of_sums(g, i + AMX_TILE, j + AMX_TILE);
    TILE_BEGIN(0, c[0][0]);
    if (beside) TILE_BEGIN(1, c[0][1]);
    if (below) TILE_BEGIN(2, c[1][0]);
    if (below && beside) TILE_BEGIN(3, c[1][1]);
    int whole = rows[1].n == AMX_TILE && beside && !g->b.taps ? g->units / AMX_UNITS : 0;
    tile_whole_steps(rows, columns, whole);
    for (int u = whole * AMX_UNITS; u < g->units; u += AMX_UNITS) tile_step(g, rows, columns, u);
    TILE_STORE(0, c[0][0].at, c[0][0].ld);
    if (beside) TILE_STORE(1, c[0][1].at, c[0][1].ld);
    if (below) TILE_STORE(2, c[1][0].at, c[1][0].ld);
    if (below && beside) TILE_STORE(3, c[1][1].at, c[1][1].ld);
    tile_sums_back(g, i, j);
    if (beside) tile_sums_back(g, i, j + AMX_TILE);
    if (below) tile_sums_back(g, i + AMX_TILE, j);
    if (below && beside) tile_sums_back(g, i + AMX_TILE, j + AMX_TILE);
}

/* Rows first, so that what is written of C lies in as few pages as can be. */
static void tile_multiply(int m, int n, int units, Panels a, Panels b, float *c, size_t ldc, bool add) {
    TrainTiles g;
    g.m = m, g.n = n, g.units = units, g.a = a, g.b = b, g.c = c, g.ldc = ldc, g.add = add;
    tiles_open();
    for (int i = 0; i < m; i += AMX_PAIR)
        for (int j = 0; j < n; j += AMX_PAIR) tile_square(&g, i, j);
    tiles_close();
}
