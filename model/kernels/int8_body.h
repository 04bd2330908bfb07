/* int8_body: rows to int8 codes, and products of them (docs/spec.md 2.3). The sum over a group is an exact integer and
 * the groups are added in order, so no instruction set has a say in the result. */

/* Nearest, ties to even, for |x| < 2^22: adding pushes the fraction out of the mantissa. */
INLINE float round_small(float x) { return (x + ROUND_MAGIC) - ROUND_MAGIC; }

/* Magnitudes compare as their bits do; those of Inf and NaN are the largest. */
INLINE float int8_scale(const float *x) {
    uint32_t largest = 0;
    for (int i = 0; i < INT8_GROUP; i++) largest = MAX(largest, bits_of_float(x[i]) & 0x7fffffff);
    return largest < 0x7f800000 ? float_of_bits(largest) / 127 : NAN;
}

static void to_int8(int n, const float *x, int8_t *code, float *scale) {
    for (int g = 0; g < n / INT8_GROUP; g++) {
        const float *from = x + g * INT8_GROUP;
        int8_t *to = code + g * INT8_GROUP;
        float s = scale[g] = int8_scale(from);
        if (!(s > 0)) {
            memset(to, 0, INT8_GROUP);
            continue;
        }
        /* A subnormal scale is coarse: it may leave quotients above 127. */
        for (int i = 0; i < INT8_GROUP; i++)
            to[i] = (int8_t)(int32_t)round_small(MIN(MAX(from[i] / s, -127.0f), 127.0f));
    }
}

/* ---- products ---- */

enum { INT8_FEW = 3, INT8_SOON = 4 }; /* rows; groups */

typedef struct Int8Gemm {
    size_t n, n_out, k, groups;
    const int8_t *x, *w;
    const float *x_scale, *w_scale;
    float *y;
    size_t ldy;
} Int8Gemm;

/* scale[l] = that of group g of output o + l, 0 beyond the last of `outs`. */
INLINE void int8_scales(const Int8Gemm *a, size_t o, size_t outs, size_t g, float *scale) {
    for (size_t l = 0; l < LANES; l++) scale[l] = l < outs ? a->w_scale[(o + l) * a->groups + g] : 0;
}

/* sum + the products of group g of row i, scaled. */
INLINE Vec int8_add(const Int8Gemm *a, size_t i, size_t g, Ints dots, const float *scale, Vec sum) {
    return vec_fma(ints_to_vec(dots), vec_mul(vec_set1(a->x_scale[i * a->groups + g]), vec_load(scale)), sum);
}

/* ---- few rows: outputs across lanes, W read in place, for a panel would cost more than it saves ---- */

/* Memory brings lines faster that follow each other. So the next outputs' weights are fetched in the order they lie in:
 * to the first level where they stay in it, else to the second, and to the first what is soon multiplied. */
INLINE void int8_fetch(const Int8Gemm *a, size_t o, size_t g) {
    const int8_t *next = a->w + (o + LANES) * a->k + g * LANES * INT8_GROUP;
    const int8_t *soon = a->w + o * a->k + (g + INT8_SOON) * INT8_GROUP;
    __builtin_prefetch(a->w_scale + (o + LANES) * a->groups + g * LANES);
    if (stays_near(LANES * a->k)) {
        for (int l = 0; l < LANES; l++) __builtin_prefetch(next + l * INT8_GROUP);
        return;
    }
    for (int l = 0; l < LANES; l++) {
        __builtin_prefetch(next + l * INT8_GROUP, 0, 2);
        __builtin_prefetch(soon);
        soon += a->k;
    }
}

/* Outputs o.. */
INLINE void int8_few_outs(const Int8Gemm *a, size_t o, size_t outs) {
    Vec sums[INT8_FEW];
    for (size_t i = 0; i < a->n; i++) sums[i] = vec_set1(0);
    for (size_t g = 0; g < a->groups; g++) {
        float scale[LANES];
        int8_scales(a, o, outs, g, scale);
        int8_fetch(a, o, g);
        for (size_t i = 0; i < a->n; i++) {
            const int8_t *x = a->x + i * a->k + g * INT8_GROUP, *w = a->w + o * a->k + g * INT8_GROUP;
            sums[i] = int8_add(a, i, g, ints_dots(x, w, a->k, (int)outs), scale, sums[i]);
        }
    }
    for (size_t i = 0; i < a->n; i++) vec_store_n(a->y + i * a->ldy + o, sums[i], (int)outs);
}

static void int8_few(const Int8Gemm *a) {
    size_t o = 0;
    for (; o + LANES <= a->n_out; o += LANES) int8_few_outs(a, o, LANES);
    if (o < a->n_out) int8_few_outs(a, o, a->n_out - o);
}

#ifdef INT8_ACROSS
/* ---- rows of x across lanes, ACROSS_VECS LANES of them at a time ---- */

/* Only those, which are little, are packed for it. W is read in place, a unit for all lanes at a time, and once for all
 * rows of a panel. Sums lie across lanes too, and are turned where they meet y. */

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

static void int8_many(const Int8Gemm *a) {
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
#else
/* ---- outputs across lanes, INT8_VECS LANES of them at a time ---- */

enum { INT8_BLOCK = 6, INT8_OUTS = INT8_VECS * LANES }; /* groups and outputs of a panel */

/* Some groups of some outputs, as lanes take them. */
typedef struct Int8Panel {
    _Alignas(64) uint32_t w[INT8_BLOCK][INT8_UNITS][INT8_OUTS], x[INT8_ROWS][INT8_BLOCK][INT8_UNITS];
    uint32_t start[INT8_BLOCK][INT8_OUTS];
    float scale[INT8_BLOCK][INT8_OUTS];
    size_t o, outs, g0, groups;
} Int8Panel;

static void int8_pack(const Int8Gemm *a, Int8Panel *p) {
    for (size_t c = 0; c < p->outs; c += LANES) {
        size_t o = p->o + c, outs = MIN(p->outs - c, LANES);
        for (size_t g = 0; g < p->groups; g++) {
            const int8_t *w = a->w + o * a->k + (p->g0 + g) * INT8_GROUP;
            ints_store(p->start[g] + c, ints_pack_w(w, a->k, (int)outs, p->w[g][0] + c, INT8_OUTS));
            int8_scales(a, o, outs, p->g0 + g, p->scale[g] + c);
            for (size_t l = 0; l < LANES; l++) __builtin_prefetch(w + (INT8_OUTS + l) * a->k); /* the next panel's */
        }
    }
}

/* The products of group g of `rows` packed rows with the panel, which has `vecs` vectors of outputs. */
INLINE void int8_group(int rows, int vecs, const Int8Panel *p, size_t g, Ints *dots) {
#ifdef INT8_PAIRS
    (void)vecs;
    ints_pairs(rows, p->x[0][g], sizeof p->x[0] / sizeof(uint32_t), p->w[g][0], INT8_OUTS, dots);
#else
#pragma GCC unroll 32
    for (int t = 0; t < rows * vecs; t++) dots[t] = ints_load(p->start[g] + t % vecs * LANES);
    for (int u = 0; u < INT8_UNITS; u++) {
        Ints w[INT8_VECS];
#pragma GCC unroll 4
        for (int c = 0; c < vecs; c++) w[c] = ints_keep(ints_load(p->w[g][u] + c * LANES));
#pragma GCC unroll 8
        for (int r = 0; r < rows; r++) {
            Ints x = ints_set1(p->x[r][g][u]);
#pragma GCC unroll 4
            for (int c = 0; c < vecs; c++) dots[r * vecs + c] = ints_dot(dots[r * vecs + c], x, w[c]);
        }
    }
#endif
}

/* `rows` rows of x from i on against the panel, which has `vecs` vectors of outputs. */
INLINE void int8_tile(int rows, int vecs, const Int8Gemm *a, Int8Panel *p, size_t i) {
    Vec sums[INT8_ROWS * INT8_VECS];
    float *y = a->y + i * a->ldy + p->o;
    const int last = (int)p->outs - (vecs - 1) * LANES; /* outputs of the last vector */
#pragma GCC unroll 32
    for (int t = 0; t < rows * vecs; t++) {
        const float *at = y + (size_t)(t / vecs) * a->ldy + t % vecs * LANES;
        sums[t] = !p->g0 ? vec_set1(0) : t % vecs < vecs - 1 ? vec_load(at) : vec_load_n(at, last);
    }
    for (size_t g = 0; g < p->groups; g++) {
        Ints dots[INT8_ROWS * INT8_VECS];
        int8_group(rows, vecs, p, g, dots);
#pragma GCC unroll 32
        for (int t = 0; t < rows * vecs; t++)
            sums[t] = int8_add(a, i + (size_t)(t / vecs), p->g0 + g, dots[t], p->scale[g] + t % vecs * LANES, sums[t]);
    }
#pragma GCC unroll 32
    for (int t = 0; t < rows * vecs; t++) {
        float *at = y + (size_t)(t / vecs) * a->ldy + t % vecs * LANES;
        if (t % vecs < vecs - 1)
            vec_store(at, sums[t]);
        else
            vec_store_n(at, sums[t], last);
    }
}

INLINE void int8_rows(int rows, const Int8Gemm *a, Int8Panel *p, size_t i) {
#pragma GCC unroll 8
    for (int r = 0; r < rows; r++) {
        const int8_t *x = a->x + (i + (size_t)r) * a->k + p->g0 * INT8_GROUP;
        if (p->groups == INT8_BLOCK)
#pragma GCC unroll 8
            for (int g = 0; g < INT8_BLOCK; g++) ints_pack_x(x + g * INT8_GROUP, p->x[r][g]);
        else
            for (size_t g = 0; g < p->groups; g++) ints_pack_x(x + g * INT8_GROUP, p->x[r][g]);
    }
    if (p->outs > (INT8_VECS - 1) * LANES)
        int8_tile(rows, INT8_VECS, a, p, i);
    else
        int8_tile(rows, 1, a, p, i);
}

/* Not inlined: beside anything else gcc 12 no longer keeps the sums of the tiles in registers. */
static __attribute__((noinline)) void int8_panel(const Int8Gemm *a, Int8Panel *p) {
    int8_pack(a, p);
    for (size_t i = 0, rows; i < a->n; i += rows) {
        size_t left = a->n - i, tiles = (left + INT8_ROWS - 1) / INT8_ROWS;
        rows = (left + tiles - 1) / tiles;
#ifdef INT8_PAIRS
        rows += rows % 2 && rows < left;
#endif
        switch (rows) {
        case 1:
            int8_rows(1, a, p, i);
            break;
        case 2:
            if (INT8_ROWS >= 2) int8_rows(MIN(2, INT8_ROWS), a, p, i);
            break;
        case 3:
            if (INT8_ROWS >= 3) int8_rows(MIN(3, INT8_ROWS), a, p, i);
            break;
        case 4:
            if (INT8_ROWS >= 4) int8_rows(MIN(4, INT8_ROWS), a, p, i);
            break;
        case 5:
            if (INT8_ROWS >= 5) int8_rows(MIN(5, INT8_ROWS), a, p, i);
            break;
        case 6:
            if (INT8_ROWS >= 6) int8_rows(MIN(6, INT8_ROWS), a, p, i);
            break;
        }
    }
}

static void int8_many(const Int8Gemm *a) {
    Int8Panel p;
    for (p.o = 0; p.o < a->n_out; p.o += p.outs) {
        size_t left = a->n_out - p.o;
        p.outs = left > INT8_OUTS - LANES ? MIN(left, INT8_OUTS) : MIN(left, LANES);
        p.g0 = 0;
        do {
            p.groups = MIN(a->groups - p.g0, INT8_BLOCK);
            int8_panel(a, &p);
            p.g0 += p.groups;
        } while (p.g0 < a->groups);
    }
}
#endif

static void gemm_i8(int n, int n_out, int k, const int8_t *x, const float *x_scale, const int8_t *w,
                    const float *w_scale, float *y, int ldy) {
    Int8Gemm a = {.n = (size_t)n,
                  .n_out = (size_t)n_out,
                  .k = (size_t)k,
                  .groups = (size_t)(k / INT8_GROUP),
                  .x = x,
                  .w = w,
                  .x_scale = x_scale,
                  .w_scale = w_scale,
                  .y = y,
                  .ldy = (size_t)ldy};
    if (n <= INT8_FEW)
        int8_few(&a);
    else
        int8_many(&a);
}
