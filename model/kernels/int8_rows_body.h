/* int8_rows_body: int8 products of more than INT8_FEW rows where codes have an instruction of their own. The rows of x,
 * which are little, are packed for it; W is read in place. */

/* ---- rows of x across lanes, ACROSS_VECS LANES of them at a time ---- */

/* A unit of W meets all lanes at a time, and all of W the rows of a panel once. Sums lie across lanes too, and are
 * turned where they meet y. */

enum { ACROSS_VECS = 2, ACROSS_ROWS = ACROSS_VECS * LANES, ACROSS_GROUPS = 48 }; /* of a panel */
enum { ACROSS_SUMS = 12, ACROSS_OUTS = 48 }; /* vectors of sums in registers; outputs at a time */
enum { ACROSS_CACHED = 384 << 10 };          /* bytes of W that all panels meet before the next */

/* Groups g0.. of rows i.., of each unit `vecs` vectors; outputs o0..o1-1 meet them. */
typedef struct Int8Across {
    _Alignas(64) uint32_t x[ACROSS_GROUPS * INT8_UNITS * ACROSS_ROWS], start[ACROSS_GROUPS * ACROSS_ROWS];
    float scale[ACROSS_GROUPS * ACROSS_ROWS], sums[ACROSS_OUTS][ACROSS_ROWS];
    size_t i, rows, g0, groups, o0, o1;
} Int8Across;

/* Vector v of `vecs` of the panel; rows that do not exist are the last one again. */
static void across_pack(int vecs, const Int8Gemm *a, Int8Across *p, int v) {
    const size_t step = (size_t)vecs * LANES, at = (size_t)v * LANES;
    size_t row[LANES];
    for (size_t l = 0; l < LANES; l++) row[l] = p->i + MIN(at + l, p->rows - 1);
    for (size_t g = 0; g < p->groups; g++)
        ints_store(p->start + g * step + at, ints_pack_across(a->x + (p->g0 + g) * INT8_GROUP, a->k, row,
                                                              p->x + g * INT8_UNITS * step + at, step));
    for (size_t g = 0; g < p->groups; g += LANES) {
        size_t groups = MIN(p->groups - g, LANES);
        Vec s[LANES];
#pragma GCC unroll 16
        for (size_t l = 0; l < LANES; l++) s[l] = vec_load_n(a->x_scale + row[l] * a->groups + p->g0 + g, (int)groups);
        vecs_transpose(s);
#pragma GCC unroll 16
        for (size_t l = 0; l < LANES; l++)
            if (l < groups) vec_store(p->scale + (g + l) * step + at, s[l]);
    }
}

/* The products of `outs` rows of W, a group of each, and that of the panel. */
INLINE void across_group(int vecs, int outs, const int8_t *const *w, const uint32_t *x, const uint32_t *start,
                         Ints *dots) {
#pragma GCC unroll 16
    for (int t = 0; t < outs * vecs; t++) dots[t] = ints_load(start + t % vecs * LANES);
#pragma GCC unroll 16
    for (int u = 0; u < INT8_UNITS; u++) {
        Ints xs[ACROSS_VECS];
#pragma GCC unroll 4
        for (int v = 0; v < vecs; v++) xs[v] = ints_keep(ints_load(x + (u * vecs + v) * LANES));
#pragma GCC unroll 16
        for (int c = 0; c < outs; c++) {
            Ints ws = ints_set1_w(w[c] + u * (INT8_GROUP / INT8_UNITS));
#pragma GCC unroll 4
            for (int v = 0; v < vecs; v++) dots[c * vecs + v] = ints_dot(dots[c * vecs + v], ws, xs[v]);
        }
    }
}

/* sums [outs, ACROSS_ROWS] of the outputs from o on; beyond the last output it is taken again. */
INLINE void across_tile(int vecs, int outs, const Int8Gemm *a, const Int8Across *p, size_t o, float *sums) {
    const size_t step = (size_t)vecs * LANES;
    const int8_t *w[ACROSS_SUMS], *next = a->w + (o + (size_t)outs) * a->k + p->g0 * INT8_GROUP;
    /* Memory brings lines faster that follow each other: so the next outputs' weights are fetched in the order they lie
     * in, where they are whole rows. */
    const bool whole = p->groups == a->groups;
    const size_t along = whole ? INT8_GROUP : a->k, further = whole ? (size_t)outs * INT8_GROUP : INT8_GROUP;
    const float *w_scale[ACROSS_SUMS];
    Vec s[ACROSS_SUMS];
#pragma GCC unroll 16
    for (int c = 0; c < outs; c++) {
        size_t row = MIN(o + (size_t)c, a->n_out - 1);
        w[c] = a->w + row * a->k + p->g0 * INT8_GROUP;
        w_scale[c] = a->w_scale + row * a->groups + p->g0;
    }
#pragma GCC unroll 16
    for (int t = 0; t < outs * vecs; t++)
        s[t] = p->g0 ? vec_load(sums + t / vecs * ACROSS_ROWS + t % vecs * LANES) : vec_set1(0);
    for (size_t g = 0; g < p->groups; g++) {
        Ints dots[ACROSS_SUMS];
#pragma GCC unroll 16
        for (int c = 0; c < outs; c++) __builtin_prefetch(next + (size_t)c * along);
        next += further;
        across_group(vecs, outs, w, p->x + g * INT8_UNITS * step, p->start + g * step, dots);
#pragma GCC unroll 16
        for (int c = 0; c < outs; c++) w[c] += INT8_GROUP;
#pragma GCC unroll 16
        for (int t = 0; t < outs * vecs; t++) {
            Vec scale = vec_mul(vec_load(p->scale + g * step + t % vecs * LANES), vec_set1(w_scale[t / vecs][g]));
            s[t] = vec_fma(ints_to_vec(dots[t]), scale, s[t]);
        }
    }
#pragma GCC unroll 16
    for (int t = 0; t < outs * vecs; t++) vec_store(sums + t / vecs * ACROSS_ROWS + t % vecs * LANES, s[t]);
}

/* y of 16 rows at most and as many outputs becomes sums [16, ACROSS_ROWS], or is made of them. */
INLINE void across_turn(bool store, float *y, size_t ldy, size_t rows, size_t outs, float *sums) {
    Vec b[LANES];
#pragma GCC unroll 16
    for (size_t l = 0; l < LANES; l++)
        b[l] = store ? vec_load(sums + l * ACROSS_ROWS) : vec_load_n(y + MIN(l, rows - 1) * ldy, (int)outs);
    vecs_transpose(b);
#pragma GCC unroll 16
    for (size_t l = 0; l < LANES; l++)
        if (!store)
            vec_store(sums + l * ACROSS_ROWS, b[l]);
        else if (l < rows)
            vec_store_n(y + l * ldy, b[l], (int)outs);
}

INLINE void across_turn_all(bool store, const Int8Gemm *a, Int8Across *p, size_t o, size_t outs) {
    for (size_t i = 0; i < p->rows; i += LANES)
        for (size_t c = 0; c < outs; c += LANES)
            across_turn(store, a->y + (p->i + i) * a->ldy + o + c, a->ldy, MIN(p->rows - i, LANES),
                        MIN(outs - c, LANES), p->sums[c] + i);
}

/* Not inlined: beside anything else gcc 12 no longer keeps the sums of the tiles in registers. */
static __attribute__((noinline)) void across_panel(int vecs, const Int8Gemm *a, Int8Across *p) {
    for (size_t o = p->o0, outs; o < p->o1; o += outs) {
        outs = MIN(ACROSS_OUTS, p->o1 - o);
        if (p->g0) across_turn_all(false, a, p, o, outs);
        if (vecs == 1)
            for (size_t c = 0; c < outs; c += ACROSS_SUMS) across_tile(1, ACROSS_SUMS, a, p, o + c, p->sums[c]);
        else
            for (size_t c = 0; c < outs; c += ACROSS_SUMS / 2) across_tile(2, ACROSS_SUMS / 2, a, p, o + c, p->sums[c]);
        across_turn_all(true, a, p, o, outs);
    }
}

static void int8_across(const Int8Gemm *a) {
    Int8Across p;
    /* Of few rows all of W passes by once. */
    size_t pieces = a->n > ACROSS_ROWS ? a->n_out * a->k / ACROSS_CACHED + 1 : 1;
    size_t share = (a->n_out / pieces / ACROSS_OUTS + 1) * ACROSS_OUTS;
    for (p.o0 = 0; p.o0 < a->n_out; p.o0 = p.o1) {
        p.o1 = MIN(p.o0 + share, a->n_out);
        for (p.i = 0; p.i < a->n; p.i += p.rows) {
            p.rows = MIN(ACROSS_ROWS, a->n - p.i);
            int vecs = p.rows > LANES ? 2 : 1;
            for (p.g0 = 0; p.g0 < a->groups; p.g0 += p.groups) {
                p.groups = MIN(a->groups - p.g0, ACROSS_GROUPS);
                for (int v = 0; v < vecs; v++) across_pack(vecs, a, &p, v);
                across_panel(vecs, a, &p);
            }
        }
    }
}

/* ---- rows of x too few to lie across lanes ---- */

/* A vector has 16 codes of each of four rows, a block of 128 bits for each, and as many of an output meet them all at a
 * time. Of four outputs the sums become a vector with those rows in its blocks and those outputs in their lanes. */

enum { QUAD = 4, QUADS = 3, QUADS_ROWS = QUADS * QUAD, QUADS_GROUPS = 48 }; /* of a panel */
enum { QUAD_UNITS = 4, QUAD_BYTES = INT8_GROUP / QUAD_UNITS };              /* of a group of a row */

/* Groups g0.. of all rows: of group g, quad q and unit u, x[(g * quads * QUAD_UNITS + u * quads + q) * LANES]. */
typedef struct Int8Quads {
    _Alignas(64) uint32_t x[QUADS_GROUPS * QUAD_UNITS * QUADS * LANES], start[QUADS_GROUPS * QUADS * LANES];
    float scale[QUADS_GROUPS * QUADS * LANES];
    size_t g0, groups;
} Int8Quads;

/* Rows that do not exist are the last one again. */
static void quads_pack(size_t quads, const Int8Gemm *a, Int8Quads *p) {
    for (size_t g = 0; g < p->groups; g++)
        for (size_t q = 0; q < quads; q++) {
            uint32_t *x = p->x + (g * quads * QUAD_UNITS + q) * LANES;
            float *scale = p->scale + (g * quads + q) * LANES;
            Ints start = ints_set1(0);
            for (size_t u = 0; u < QUAD_UNITS; u++, x += quads * LANES) {
                for (size_t r = 0; r < QUAD; r++)
                    memcpy(x + r * QUAD,
                           a->x + MIN(q * QUAD + r, a->n - 1) * a->k + (p->g0 + g) * INT8_GROUP + u * QUAD_BYTES,
                           QUAD_BYTES);
                start = ints_less(start, ints_load(x));
            }
            ints_store(p->start + (g * quads + q) * LANES, start);
            for (size_t l = 0; l < LANES; l++)
                scale[l] = a->x_scale[MIN(q * QUAD + l / QUAD, a->n - 1) * a->groups + p->g0 + g];
        }
}

/* y of the rows of quad q and `outs` outputs, four at most, from o on and so many apart, from or to a vector of sums.
 */
INLINE Vec quads_load(const Int8Gemm *a, size_t q, size_t o, size_t apart, size_t outs) {
    float sums[LANES] = {0};
    for (size_t i = q * QUAD, r = 0; r < QUAD && i < a->n; r++, i++)
        for (size_t c = 0; c < outs; c++) sums[r * QUAD + c] = a->y[i * a->ldy + o + c * apart];
    return vec_load(sums);
}

INLINE void quads_store(const Int8Gemm *a, size_t q, size_t o, size_t apart, size_t outs, Vec s) {
    float sums[LANES];
    vec_store(sums, s);
    for (size_t i = q * QUAD, r = 0; r < QUAD && i < a->n; r++, i++)
        for (size_t c = 0; c < outs; c++) a->y[i * a->ldy + o + c * apart] = sums[r * QUAD + c];
}

/* `outs` outputs from o on, so many apart: QUAD, or one, which takes the place of all. */
INLINE void quads_tile(int quads, const Int8Gemm *a, const Int8Quads *p, size_t o, size_t apart, size_t outs) {
    const size_t step = (size_t)quads * LANES, rows = outs == QUAD ? apart : 0, ld = rows * a->k,
                 scale_ld = rows * a->groups;
    const int8_t *w = a->w + o * a->k + p->g0 * INT8_GROUP;
    const float *w_scale = a->w_scale + o * a->groups + p->g0;
    Vec s[QUADS];
#pragma GCC unroll 4
    for (int q = 0; q < quads; q++) s[q] = p->g0 ? quads_load(a, (size_t)q, o, apart, outs) : vec_set1(0);
    for (size_t g = 0; g < p->groups; g++) {
        const uint32_t *x = p->x + g * QUAD_UNITS * step;
        Ints dots[QUADS * QUAD];
        for (size_t c = 0; apart > 1 && c < QUAD; c++) __builtin_prefetch(w + c * ld + STREAM_AHEAD);
        if (apart == 1) int8_fetch(a, QUAD, o, p->g0 + g);
#pragma GCC unroll 16
        for (int t = 0; t < quads * QUAD; t++) dots[t] = ints_load(p->start + g * step + t / QUAD * LANES);
#pragma GCC unroll 4
        for (int u = 0; u < QUAD_UNITS; u++) {
            Ints xs[QUADS];
#pragma GCC unroll 4
            for (int q = 0; q < quads; q++) xs[q] = ints_keep(ints_load(x + (u * quads + q) * LANES));
#pragma GCC unroll 4
            for (size_t c = 0; c < QUAD; c++) {
                Ints ws = ints_block_w(w + c * ld + u * QUAD_BYTES);
#pragma GCC unroll 4
                for (size_t q = 0; q < (size_t)quads; q++) dots[q * QUAD + c] = ints_dot(dots[q * QUAD + c], ws, xs[q]);
            }
        }
        Vec scale = vec_blocks(w_scale + g, scale_ld);
        w += INT8_GROUP;
#pragma GCC unroll 4
        for (int q = 0; q < quads; q++)
            s[q] = vec_fma(ints_to_vec(ints_sum_blocks(dots + q * QUAD)),
                           vec_mul(vec_load(p->scale + g * step + q * LANES), scale), s[q]);
    }
#pragma GCC unroll 4
    for (int q = 0; q < quads; q++) quads_store(a, (size_t)q, o, apart, outs, s[q]);
}

/* Not inlined: beside anything else gcc 12 no longer keeps the sums of the tiles in registers. */
#define QUADS_PANEL(quads)                                                                                             \
    static __attribute__((noinline)) void quads_panel##quads(const Int8Gemm *a, const Int8Quads *p) {                  \
        const size_t tiles = a->n_out / QUAD, step = reads_in_streams ? 1 : QUAD;                                      \
        const size_t apart = reads_in_streams ? tiles : 1;                                                             \
        for (size_t t = 0; t < tiles; t++) quads_tile(quads, a, p, t *step, apart, QUAD);                              \
        for (size_t o = tiles * QUAD; o < a->n_out; o++) quads_tile(quads, a, p, o, 1, 1);                             \
    }
QUADS_PANEL(1)
QUADS_PANEL(2)
QUADS_PANEL(3)

static void int8_quads(const Int8Gemm *a) {
    static void (*const panels[])(const Int8Gemm *, const Int8Quads *) = {quads_panel1, quads_panel2, quads_panel3};
    const size_t quads = (a->n + QUAD - 1) / QUAD;
    Int8Quads p;
    for (p.g0 = 0; p.g0 < a->groups; p.g0 += p.groups) {
        p.groups = MIN(a->groups - p.g0, QUADS_GROUPS);
        quads_pack(quads, a, &p);
        panels[quads - 1](a, &p);
    }
}

static void int8_many(const Int8Gemm *a) { (a->n <= QUADS_ROWS ? int8_quads : int8_across)(a); }
