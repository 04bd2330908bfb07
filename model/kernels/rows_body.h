/* rows_body: one row at a time. Reductions run in 64 virtual lanes (four Vec, against the latency of one addition)
 * that are added in one tree; what remains is one element at a time, vectorised by the compiler. The ivdep pragma
 * tells it that y is x or apart from x, which is the contract. */

enum { SUM_VECS = 4 };

INLINE float vecs_sum(const Vec a[SUM_VECS]) { return vec_sum(vec_add(vec_add(a[0], a[1]), vec_add(a[2], a[3]))); }

static float row_sum(int d, const float *x) {
    Vec a[SUM_VECS] = {vec_set1(0), vec_set1(0), vec_set1(0), vec_set1(0)};
    int i = 0;
    for (; i + SUM_VECS * LANES <= d; i += SUM_VECS * LANES)
#pragma GCC unroll 4
        for (int v = 0; v < SUM_VECS; v++) a[v] = vec_add(a[v], vec_load(x + i + v * LANES));
#pragma GCC unroll 4
    for (int v = 0; v < SUM_VECS; v++, i += LANES)
        if (i < d) a[v] = vec_add(a[v], vec_load_n(x + i, MIN(d - i, LANES)));
    return vecs_sum(a);
}

static float row_sum_squares(int d, const float *x) {
    Vec a[SUM_VECS] = {vec_set1(0), vec_set1(0), vec_set1(0), vec_set1(0)};
    int i = 0;
    for (; i + SUM_VECS * LANES <= d; i += SUM_VECS * LANES)
#pragma GCC unroll 4
        for (int v = 0; v < SUM_VECS; v++) {
            Vec t = vec_load(x + i + v * LANES);
            a[v] = vec_fma(t, t, a[v]);
        }
#pragma GCC unroll 4
    for (int v = 0; v < SUM_VECS; v++, i += LANES)
        if (i < d) {
            Vec t = vec_load_n(x + i, MIN(d - i, LANES));
            a[v] = vec_fma(t, t, a[v]);
        }
    return vecs_sum(a);
}

/* The larger; m when equal; NaN when either is. */
INLINE float larger(float m, float x) { return x > m || x != x ? x : m; }

static float max_row(int d, const float *x) {
    Vec m[SUM_VECS];
    int i = 0;
#pragma GCC unroll 4
    for (int v = 0; v < SUM_VECS; v++) m[v] = vec_set1(-INFINITY);
    for (; i + SUM_VECS * LANES <= d; i += SUM_VECS * LANES)
#pragma GCC unroll 4
        for (int v = 0; v < SUM_VECS; v++) m[v] = vec_max(m[v], vec_load(x + i + v * LANES));
    for (; i + LANES <= d; i += LANES) m[0] = vec_max(m[0], vec_load(x + i));
    float largest = vec_largest(vec_max(vec_max(m[0], m[1]), vec_max(m[2], m[3])));
    for (; i < d; i++) largest = larger(largest, x[i]);
    return largest;
}

static float exp_sum_row(int d, const float *x, float *y, float max) {
#pragma GCC ivdep
    for (int i = 0; i < d; i++) y[i] = exp_of(x[i] - max);
    return row_sum(d, y);
}

static float online_softmax_row(int d, const float *x, float *y, float *max, float *sum) {
    float m = larger(*max, max_row(d, x)), factor = m == *max || *max == -INFINITY ? 1 : exp_of(*max - m);
    *sum = FMA(*sum, factor, exp_sum_row(d, x, y, m));
    *max = m;
    return factor;
}

static void softmax_row(int d, float *x) {
    float scale = 1.0f / exp_sum_row(d, x, x, max_row(d, x));
    for (int i = 0; i < d; i++) x[i] *= scale;
}

static void layernorm_row(int d, const float *x, const float *w, const float *b, float eps, float *y) {
    float mean = row_sum(d, x) / (float)d;
#pragma GCC ivdep
    for (int i = 0; i < d; i++) y[i] = x[i] - mean;
    float scale = 1.0f / sqrtf(row_sum_squares(d, y) / (float)d + eps);
    if (b)
#pragma GCC ivdep
        for (int i = 0; i < d; i++) y[i] = FMA(y[i] * scale, w[i], b[i]);
    else
#pragma GCC ivdep
        for (int i = 0; i < d; i++) y[i] = y[i] * scale * w[i];
}

static void rmsnorm_row(int d, const float *x, const float *w, float eps, float *y) {
    float scale = 1.0f / sqrtf(row_sum_squares(d, x) / (float)d + eps);
#pragma GCC ivdep
    for (int i = 0; i < d; i++) y[i] = x[i] * scale * w[i];
}

static void add_row(int d, const float *x, float *y) {
#pragma GCC ivdep
    for (int i = 0; i < d; i++) y[i] += x[i];
}

static void scale_row(int d, float a, const float *x, float *y) {
#pragma GCC ivdep
    for (int i = 0; i < d; i++) y[i] = a * x[i];
}

static void add_affine_row(int d, float a, float b, const float *x, float *y) {
#pragma GCC ivdep
    for (int i = 0; i < d; i++) y[i] += FMA(b, x[i], a);
}

static void gelu_row(int d, const float *x, float *y) {
#pragma GCC ivdep
    for (int i = 0; i < d; i++) y[i] = 0.5f * x[i] * (1.0f + erf_of(0.707106781f * x[i]));
}

/* x / (1 + exp(-2 u)), u = sqrt(2 / pi) (x + 0.044715 x^3): the same function as with tanh, exact in its left tail. */
static void gelu_tanh_row(int d, const float *x, float *y) {
#pragma GCC ivdep
    for (int i = 0; i < d; i++) {
        float u = x[i] * FMA(x[i] * x[i], -0.0713548163f, -1.59576912f);
        y[i] = x[i] / (1.0f + exp_of(u));
    }
}

static void silu_row(int d, const float *x, float *y) {
#pragma GCC ivdep
    for (int i = 0; i < d; i++) y[i] = x[i] / (1.0f + exp_of(-x[i]));
}

static void sigmoid_row(int d, const float *x, float *y) {
#pragma GCC ivdep
    for (int i = 0; i < d; i++) y[i] = 1.0f / (1.0f + exp_of(-x[i]));
}

static void tanh_row(int d, const float *x, float *y) {
#pragma GCC ivdep
    for (int i = 0; i < d; i++) y[i] = tanh_of(x[i]);
}

/* Arguments beyond COS_LIMIT, Inf and NaN take fixed_cos, whichever row they are in. */
static void cos_row(int d, const float *x, const float *freq, const float *phase, float *y) {
    int far = 0;
    for (int i = 0; i < d; i++) far |= !(__builtin_fabsf(FMA(freq[i], x[i], phase[i])) <= COS_LIMIT);
    if (!far)
#pragma GCC ivdep
        for (int i = 0; i < d; i++) y[i] = cos_of(FMA(freq[i], x[i], phase[i]));
    else
        for (int i = 0; i < d; i++) {
            float t = FMA(freq[i], x[i], phase[i]);
            y[i] = __builtin_fabsf(t) <= COS_LIMIT ? cos_of(t) : (float)fixed_cos((double)t);
        }
}

INLINE float logistic_of(float x) { return 1.0f / (1.0f + exp_of(-x)); }

static void lstm_row(int n, float *z, const float *c_before, float *c, float *h) {
    float *i = z, *f = z + n, *g = z + 2 * n, *o = z + 3 * n;
#pragma GCC ivdep
    for (int k = 0; k < n; k++) {
        i[k] = logistic_of(i[k]);
        f[k] = logistic_of(f[k]);
        g[k] = tanh_of(g[k]);
        o[k] = logistic_of(o[k]);
        c[k] = FMA(f[k], c_before[k], i[k] * g[k]);
        h[k] = o[k] * tanh_of(c[k]);
    }
}

static void clean_row(int d, const float *x, float *y) {
#pragma GCC ivdep
    for (int i = 0; i < d; i++) {
        float t = x[i] > -INFINITY ? x[i] : -INFINITY;
        y[i] = t < FLT_MAX ? t : FLT_MAX;
    }
}

/* Below 2^-10, where floats are finer, adding that leaves the nearest multiple of 2^-33. Only the last bucket has
 * weights that this makes 0: the others begin above exp(-23), and half of 2^-33 is exp(-23.57). */
static int weigh_row(int d, const float *x, float max, float temperature, float *w, uint16_t *bucket) {
    const float per_nat = 1024 / 23.0f, fine = 0x1p-10f;
    int positive = 0;
#pragma GCC ivdep
    for (int i = 0; i < d; i++) {
        float y = (x[i] - max) / temperature, place = -per_nat * y, e = exp_of(y);
        e = e < fine ? e + fine - fine : e;
        w[i] = e;
        positive += e > 0;
        int last = BUCKETS_LAST + (i & (BUCKETS_SPREAD - 1));
        bucket[i] = (uint16_t)(place < BUCKETS_LAST ? (int)place : last);
    }
    return positive;
}

static void plain_to_bf16(int n, const float *x, uint16_t *y) {
    for (int i = 0; i < n; i++) y[i] = f32_to_bf16(x[i]);
}

static void to_bf16(int n, const float *x, uint16_t *y) {
    int i = 0;
#ifdef HALVES
    for (; i + HALVES <= n; i += HALVES)
        if (!halves_of(x + i, y + i)) plain_to_bf16(HALVES, x + i, y + i);
#endif
    plain_to_bf16(n - i, x + i, y + i);
}
