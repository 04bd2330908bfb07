/* attention_body: one block of keys. Columns (keys in scores, value elements in mix) lie across lanes, and each is a
 * chain of fused multiply-adds of its own, so nothing is ever added across lanes. */

enum { KEYS = 32 };

/* Rows r0.. of s = q k. */
INLINE void scores_tile(Dtype kt, int rows, int k_dim, const float *q, const void *k, float *s, size_t lds) {
    Vec lo[SCORE_ROWS], hi[SCORE_ROWS];
#pragma GCC unroll 8
    for (int r = 0; r < rows; r++) lo[r] = hi[r] = vec_set1(0);
    for (int d = 0; d < k_dim; d++) {
        Vec k_lo = element_load(kt, element_at(kt, k, (size_t)d * KEYS));
        Vec k_hi = element_load(kt, element_at(kt, k, (size_t)d * KEYS + LANES));
#pragma GCC unroll 8
        for (int r = 0; r < rows; r++) {
            Vec qv = vec_set1(q[(size_t)r * (size_t)k_dim + (size_t)d]);
            lo[r] = vec_fma(qv, k_lo, lo[r]);
            hi[r] = vec_fma(qv, k_hi, hi[r]);
        }
    }
#pragma GCC unroll 8
    for (int r = 0; r < rows; r++) {
        vec_store(s + (size_t)r * lds, lo[r]);
        vec_store(s + (size_t)r * lds + LANES, hi[r]);
    }
}

INLINE void scores(Dtype kt, int n, int k_dim, const float *q, const void *k, float *s, int lds) {
    size_t dim = (size_t)k_dim, ld = (size_t)lds, i = 0, rows = (size_t)n;
    for (; i + SCORE_ROWS <= rows; i += SCORE_ROWS) scores_tile(kt, SCORE_ROWS, k_dim, q + i * dim, k, s + i * ld, ld);
    for (; i < rows; i++) scores_tile(kt, 1, k_dim, q + i * dim, k, s + i * ld, ld);
}

static void scores_f32(int n, int k_dim, const float *q, const float *k, float *s, int lds) {
    scores(DTYPE_F32, n, k_dim, q, k, s, lds);
}

static void scores_bf16(int n, int k_dim, const float *q, const uint16_t *k, float *s, int lds) {
    scores(DTYPE_BF16, n, k_dim, q, k, s, lds);
}

typedef struct Mix {
    int n_keys;
    size_t v_dim, ldp;
    const void *v;
} Mix;

/* Columns 0 .. LANES vecs - 1 of v and acc, counted from the pointers given. */
INLINE void mix_tile(Dtype vt, int rows, int vecs, const Mix *m, const float *p, const void *v, float *acc) {
    Vec a[MIX_ROWS * MIX_VECS];
#pragma GCC unroll 16
    for (int t = 0; t < rows * vecs; t++)
        a[t] = vec_load(acc + (size_t)(t / vecs) * m->v_dim + (size_t)(t % vecs * LANES));
    for (int j = 0; j < m->n_keys; j++) {
#pragma GCC unroll 4
        for (int c = 0; c < vecs; c++) {
            Vec vv = element_load(vt, element_at(vt, v, (size_t)j * m->v_dim + (size_t)(c * LANES)));
#pragma GCC unroll 4
            for (int r = 0; r < rows; r++)
                a[r * vecs + c] = vec_fma(vec_set1(p[(size_t)r * m->ldp + (size_t)j]), vv, a[r * vecs + c]);
        }
    }
#pragma GCC unroll 16
    for (int t = 0; t < rows * vecs; t++)
        vec_store(acc + (size_t)(t / vecs) * m->v_dim + (size_t)(t % vecs * LANES), a[t]);
}

/* One row, fewer than LANES columns. */
INLINE void mix_tail(Dtype vt, int columns, const Mix *m, const float *p, const void *v, float *acc) {
    Vec a = vec_load_n(acc, columns);
    for (int j = 0; j < m->n_keys; j++)
        a = vec_fma(vec_set1(p[j]), element_load_n(vt, element_at(vt, v, (size_t)j * m->v_dim), columns), a);
    vec_store_n(acc, a, columns);
}

INLINE void mix_rows(Dtype vt, int rows, const Mix *m, const float *p, float *acc) {
    size_t c = 0;
    for (; c + MIX_VECS * LANES <= m->v_dim; c += MIX_VECS * LANES)
        mix_tile(vt, rows, MIX_VECS, m, p, element_at(vt, m->v, c), acc + c);
    for (; c + LANES <= m->v_dim; c += LANES) mix_tile(vt, rows, 1, m, p, element_at(vt, m->v, c), acc + c);
    for (int r = 0; r < rows && c < m->v_dim; r++)
        mix_tail(vt, (int)(m->v_dim - c), m, p + (size_t)r * m->ldp, element_at(vt, m->v, c),
                 acc + (size_t)r * m->v_dim + c);
}

INLINE void mix(Dtype vt, int n, const Mix *m, const float *p, float *acc) {
    size_t i = 0, rows = (size_t)n;
    for (; i + MIX_ROWS <= rows; i += MIX_ROWS) mix_rows(vt, MIX_ROWS, m, p + i * m->ldp, acc + i * m->v_dim);
    for (; i < rows; i++) mix_rows(vt, 1, m, p + i * m->ldp, acc + i * m->v_dim);
}

static void mix_f32(int n, int n_keys, int v_dim, const float *p, int ldp, const float *v, float *acc) {
    Mix m = {.n_keys = n_keys, .v_dim = (size_t)v_dim, .ldp = (size_t)ldp, .v = v};
    mix(DTYPE_F32, n, &m, p, acc);
}

static void mix_bf16(int n, int n_keys, int v_dim, const float *p, int ldp, const uint16_t *v, float *acc) {
    Mix m = {.n_keys = n_keys, .v_dim = (size_t)v_dim, .ldp = (size_t)ldp, .v = v};
    mix(DTYPE_BF16, n, &m, p, acc);
}
