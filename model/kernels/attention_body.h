/* attention_body: one block of keys. Columns (keys in scores, value elements in mix) lie across lanes, and each is a
 * chain of fused multiply-adds of its own, so nothing is ever added across lanes. A step of a chain is one element or,
 * of bf16 pairs, two (gemm_body.h): the odd one first. */

enum { KEYS = 32 };

/* What a step multiplies: f32 elements, bf16 elements widened to f32, pairs of bf16, or pairs that are widened. */
typedef enum Factors { FACTORS_F32, FACTORS_BF16, FACTORS_PAIRS, FACTORS_WIDE } Factors;

INLINE int factors_parts(Factors f) { return f >= FACTORS_PAIRS ? BF16_PARTS : 1; }

/* Where no instruction takes pairs, widening them is half as much work as multiplying them. So for PAIRS_FROM rows and
 * more it is done once for all of them, and not in ref, which is what this is held against. */
enum { PAIRS_FROM = 8, PAIRS_MOST = 64 * KEYS };

typedef struct WidePairs {
    _Alignas(64) float part[2][PAIRS_MOST]; /* odd elements, even ones */
} WidePairs;

INLINE bool widens(int rows, size_t pairs) {
    return BF16_PARTS > 1 && SCORE_ROWS > 1 && rows >= PAIRS_FROM && pairs <= PAIRS_MOST;
}

/* n pairs to places i.. of both parts, and zeros up to a whole vector. */
INLINE void widen(size_t n, const uint16_t *pairs, WidePairs *w, size_t i) {
    for (; n >= LANES; n -= LANES, pairs += 2 * LANES, i += LANES)
        for (int part = 0; part < 2; part++) vec_store(w->part[part] + i, vec_load_pairs(pairs, part));
    if (!n) return;
    for (int part = 0; part < 2; part++) vec_store(w->part[part] + i, vec_load_pairs_n(pairs, 2 * (int)n, part));
}

/* Steps i .. i + LANES - 1 of a row of columns, and step i of one row for all lanes. */
INLINE Vec columns_load(Factors f, int part, const void *base, size_t i) {
    if (f == FACTORS_PAIRS) return vec_load_pairs((const uint16_t *)base + 2 * i, part);
    if (f == FACTORS_WIDE) i += (size_t)part * PAIRS_MOST, f = FACTORS_F32;
    return f == FACTORS_F32 ? vec_load((const float *)base + i) : vec_load_bf16((const uint16_t *)base + i);
}

INLINE Vec row_set1(Factors f, int part, const void *base, size_t i) {
    if (f == FACTORS_WIDE) i += (size_t)part * PAIRS_MOST;
    return f == FACTORS_PAIRS ? vec_set1_pair((const uint16_t *)base + 2 * i, part)
                              : vec_set1(((const float *)base)[i]);
}

INLINE Vec step_fma(Factors f, Vec a, Vec b, Vec c) {
    return f == FACTORS_PAIRS ? vec_fma_pairs(a, b, c) : vec_fma(a, b, c);
}

INLINE const void *row_at(Factors f, const void *base, size_t i) {
    return f == FACTORS_PAIRS ? (const void *)((const uint16_t *)base + 2 * i)
                              : (const void *)((const float *)base + i);
}

/* Rows of s = q k. */
INLINE void scores_tile(Factors f, int rows, int steps, const void *q, const void *k, float *s, size_t lds) {
    Vec lo[SCORE_ROWS], hi[SCORE_ROWS];
#pragma GCC unroll 8
    for (int r = 0; r < rows; r++) lo[r] = hi[r] = vec_set1(0);
    for (int d = 0; d < steps; d++)
#pragma GCC unroll 2
        for (int part = 0; part < factors_parts(f); part++) {
            Vec k_lo = columns_load(f, part, k, (size_t)d * KEYS),
                k_hi = columns_load(f, part, k, (size_t)d * KEYS + LANES);
#pragma GCC unroll 8
            for (int r = 0; r < rows; r++) {
                Vec qv = row_set1(f, part, q, (size_t)r * (size_t)steps + (size_t)d);
                lo[r] = step_fma(f, qv, k_lo, lo[r]);
                hi[r] = step_fma(f, qv, k_hi, hi[r]);
            }
        }
#pragma GCC unroll 8
    for (int r = 0; r < rows; r++) {
        vec_store(s + (size_t)r * lds, lo[r]);
        vec_store(s + (size_t)r * lds + LANES, hi[r]);
    }
}

INLINE void scores(Factors f, int n, int steps, const void *q, const void *k, float *s, int lds) {
    enum { FEW = MAX(SCORE_ROWS / 2, 1) };
    size_t dim = (size_t)steps, ld = (size_t)lds, i = 0, rows = (size_t)n;
    for (; i + SCORE_ROWS <= rows; i += SCORE_ROWS)
        scores_tile(f, SCORE_ROWS, steps, row_at(f, q, i * dim), k, s + i * ld, ld);
    for (; i + FEW <= rows; i += FEW) scores_tile(f, FEW, steps, row_at(f, q, i * dim), k, s + i * ld, ld);
    for (; i < rows; i++) scores_tile(f, 1, steps, row_at(f, q, i * dim), k, s + i * ld, ld);
}

static void scores_f32(int n, int k_dim, const float *q, const float *k, float *s, int lds) {
    scores(FACTORS_F32, n, k_dim, q, k, s, lds);
}

static void scores_wide(int n, int pairs, const uint16_t *q, const uint16_t *k, float *s, int lds) {
    WidePairs rows, keys;
    const int most = PAIRS_MOST / pairs;
    widen((size_t)pairs * KEYS, k, &keys, 0);
    for (int i = 0; i < n; i += most) {
        int some = MIN(n - i, most);
        widen((size_t)some * (size_t)pairs, q + 2 * (size_t)i * (size_t)pairs, &rows, 0);
        scores(FACTORS_WIDE, some, pairs, rows.part[0], keys.part[0], s + (size_t)i * (size_t)lds, lds);
    }
}

static void scores_pairs(int n, int pairs, const uint16_t *q, const uint16_t *k, float *s, int lds) {
    if (widens(n, (size_t)pairs * KEYS))
        scores_wide(n, pairs, q, k, s, lds);
    else
        scores(FACTORS_PAIRS, n, pairs, q, k, s, lds);
}

typedef struct Mix {
    int steps;
    size_t v_dim, ldp; /* ldp in steps */
    const void *v;
} Mix;

/* Element i of v and of what is counted like it. */
INLINE const void *value_at(Factors f, const void *v, size_t i) {
    return (const char *)v + i * (f == FACTORS_BF16 ? sizeof(uint16_t) : sizeof(float));
}

/* Columns 0 .. LANES vecs - 1 of v and acc, counted from the pointers given. */
INLINE void mix_tile(Factors f, int rows, int vecs, const Mix *m, const void *p, const void *v, float *acc) {
    Vec a[MIX_ROWS * MIX_VECS];
#pragma GCC unroll 16
    for (int t = 0; t < rows * vecs; t++)
        a[t] = vec_load(acc + (size_t)(t / vecs) * m->v_dim + (size_t)(t % vecs * LANES));
    for (int j = 0; j < m->steps; j++)
#pragma GCC unroll 2
        for (int part = 0; part < factors_parts(f); part++)
#pragma GCC unroll 4
            for (int c = 0; c < vecs; c++) {
                Vec vv = columns_load(f, part, v, (size_t)j * m->v_dim + (size_t)(c * LANES));
#pragma GCC unroll 4
                for (int r = 0; r < rows; r++)
                    a[r * vecs + c] =
                        step_fma(f, row_set1(f, part, p, (size_t)r * m->ldp + (size_t)j), vv, a[r * vecs + c]);
            }
#pragma GCC unroll 16
    for (int t = 0; t < rows * vecs; t++)
        vec_store(acc + (size_t)(t / vecs) * m->v_dim + (size_t)(t % vecs * LANES), a[t]);
}

/* One row, fewer than LANES columns. */
INLINE void mix_tail(Factors f, int columns, const Mix *m, const void *p, const void *v, float *acc) {
    Vec a = vec_load_n(acc, columns);
    for (int j = 0; j < m->steps; j++)
        for (int part = 0; part < factors_parts(f); part++) {
            const void *at = value_at(f, v, (size_t)j * m->v_dim);
            Vec vv = f == FACTORS_PAIRS  ? vec_load_pairs_n(at, 2 * columns, part)
                     : f == FACTORS_BF16 ? vec_load_bf16_n(at, columns)
                                         : vec_load_n(at, columns);
            a = step_fma(f, row_set1(f, part, p, (size_t)j), vv, a);
        }
    vec_store_n(acc, a, columns);
}

INLINE void mix_rows(Factors f, int rows, const Mix *m, const void *p, float *acc) {
    size_t c = 0;
    for (; c + MIX_VECS * LANES <= m->v_dim; c += MIX_VECS * LANES)
        mix_tile(f, rows, MIX_VECS, m, p, value_at(f, m->v, c), acc + c);
    for (; c + LANES <= m->v_dim; c += LANES) mix_tile(f, rows, 1, m, p, value_at(f, m->v, c), acc + c);
    for (int r = 0; r < rows && c < m->v_dim; r++)
        mix_tail(f, (int)(m->v_dim - c), m, row_at(f, p, (size_t)r * m->ldp), value_at(f, m->v, c),
                 acc + (size_t)r * m->v_dim + c);
}

INLINE void mix(Factors f, int n, const Mix *m, const void *p, float *acc) {
    size_t i = 0, rows = (size_t)n;
    for (; i + MIX_ROWS <= rows; i += MIX_ROWS) mix_rows(f, MIX_ROWS, m, row_at(f, p, i * m->ldp), acc + i * m->v_dim);
    for (; i < rows; i++) mix_rows(f, 1, m, row_at(f, p, i * m->ldp), acc + i * m->v_dim);
}

static void mix_f32(int n, int n_keys, int v_dim, const float *p, int ldp, const float *v, float *acc) {
    Mix m = {.steps = n_keys, .v_dim = (size_t)v_dim, .ldp = (size_t)ldp, .v = v};
    mix(FACTORS_F32, n, &m, p, acc);
}

static void mix_bf16(int n, int n_keys, int v_dim, const float *p, int ldp, const uint16_t *v, float *acc) {
    Mix m = {.steps = n_keys, .v_dim = (size_t)v_dim, .ldp = (size_t)ldp, .v = v};
    mix(FACTORS_BF16, n, &m, p, acc);
}

/* A last single key is a pair with a key of zeros. */
INLINE void mix_single(int n, const Mix *m, const uint16_t *p, float *acc) {
    for (size_t c = 0; c < m->v_dim; c += LANES) {
        size_t columns = MIN(m->v_dim - c, LANES);
        uint16_t v[2 * LANES] = {0};
        for (size_t l = 0; l < columns; l++) v[2 * l] = ((const uint16_t *)m->v)[2 * (c + l)];
        for (int r = 0; r < n; r++) {
            const uint16_t pair[2] = {p[2 * (size_t)r * m->ldp]};
            float *at = acc + (size_t)r * m->v_dim + c;
            Vec a = vec_load_n(at, (int)columns);
            for (int part = 0; part < BF16_PARTS; part++)
                a = vec_fma_pairs(vec_set1_pair(pair, part), vec_load_pairs(v, part), a);
            vec_store_n(at, a, (int)columns);
        }
    }
}

static void mix_wide(int n, const Mix *m, const uint16_t *p, float *acc) {
    enum { STEPS = KEYS / 2, ROWS = PAIRS_MOST / STEPS };
    WidePairs rows, values;
    Mix wide = {.steps = m->steps, .v_dim = m->v_dim, .ldp = STEPS, .v = values.part[0]};
    widen((size_t)m->steps * m->v_dim, m->v, &values, 0);
    for (int i = 0; i < n; i += ROWS) {
        int some = MIN(n - i, ROWS);
        for (int r = 0; r < some; r++)
            widen((size_t)m->steps, p + 2 * (size_t)(i + r) * m->ldp, &rows, (size_t)(r * STEPS));
        mix(FACTORS_WIDE, some, &wide, rows.part[0], acc + (size_t)i * m->v_dim);
    }
}

static void mix_pairs(int n, int n_keys, int v_dim, const uint16_t *p, int ldp, const uint16_t *v, float *acc) {
    Mix m = {.steps = n_keys / 2, .v_dim = (size_t)v_dim, .ldp = (size_t)ldp / 2, .v = v};
    if (v_dim % LANES == 0 && n_keys <= KEYS && widens(n, (size_t)m.steps * m.v_dim))
        mix_wide(n, &m, p, acc);
    else
        mix(FACTORS_PAIRS, n, &m, p, acc);
    if (n_keys % 2 == 0) return;
    m.v = v + (size_t)(n_keys - 1) * m.v_dim;
    mix_single(n, &m, p + n_keys - 1, acc);
}
