/* train_rows_body: the rows of training; see train_kernels.h. Sums as in rows_body.h. */

static float dot_row(int d, const float *a, const float *b) {
    Vec s[SUM_VECS] = {vec_set1(0), vec_set1(0), vec_set1(0), vec_set1(0)};
    int i = 0;
    for (; i + SUM_VECS * LANES <= d; i += SUM_VECS * LANES)
#pragma GCC unroll 4
        for (int v = 0; v < SUM_VECS; v++)
            s[v] = vec_fma(vec_load(a + i + v * LANES), vec_load(b + i + v * LANES), s[v]);
#pragma GCC unroll 4
    for (int v = 0; v < SUM_VECS; v++, i += LANES)
        if (i < d) {
            int n = MIN(d - i, LANES);
            s[v] = vec_fma(vec_load_n(a + i, n), vec_load_n(b + i, n), s[v]);
        }
    return vecs_sum(s);
}

static void scale_in_place(int d, float scale, float *x) {
    for (int i = 0; i < d; i++) x[i] *= scale;
}

static void product_row(int d, const float *a, const float *b, bool add, float *y) {
    if (add)
#pragma GCC ivdep
        for (int i = 0; i < d; i++) y[i] = FMA(a[i], b[i], y[i]);
    else
#pragma GCC ivdep
        for (int i = 0; i < d; i++) y[i] = a[i] * b[i];
}

static void gate_slope_row(int d, const float *dy, const float *up, const float *activated, const float *slope,
                           bool add, float *dgate, float *dup) {
    product_row(d, dy, activated, add, dup);
    if (add)
#pragma GCC ivdep
        for (int i = 0; i < d; i++) dgate[i] = FMA(dy[i] * up[i], slope[i], dgate[i]);
    else
#pragma GCC ivdep
        for (int i = 0; i < d; i++) dgate[i] = dy[i] * up[i] * slope[i];
}

/* For gelu and silu y / x is Phi(x), sigmoid(x): no second erf or exp. */
static void slope_row(Activation a, int d, const float *x, const float *y, float *slope) {
    const float root = 0.7978845608f; /* sqrt(2 / pi) */
    switch (a) {
    case ACT_GELU:
#pragma GCC ivdep
        for (int k = 0; k < d; k++) {
            float phi = x[k] != 0 ? y[k] / x[k] : 0.5f;
            slope[k] = FMA(0.3989422804f * x[k], exp_of(-0.5f * x[k] * x[k]), phi);
        }
        break;
    case ACT_GELU_TANH:
#pragma GCC ivdep
        for (int k = 0; k < d; k++) {
            float th = tanh_of(root * (x[k] + 0.044715f * x[k] * x[k] * x[k]));
            float du = root * (1 + 3 * 0.044715f * x[k] * x[k]);
            slope[k] = 0.5f * (1 + th) + 0.5f * x[k] * (1 - th * th) * du;
        }
        break;
    case ACT_SILU:
#pragma GCC ivdep
        for (int k = 0; k < d; k++) {
            float s = x[k] != 0 ? y[k] / x[k] : 0.5f;
            slope[k] = s * (1 + x[k] * (1 - s));
        }
        break;
    case ACT_SIGMOID:
#pragma GCC ivdep
        for (int k = 0; k < d; k++) slope[k] = y[k] * (1 - y[k]);
        break;
    case ACT_TANH:
#pragma GCC ivdep
        for (int k = 0; k < d; k++) slope[k] = 1 - y[k] * y[k];
        break;
    case ACT_RELU:
#pragma GCC ivdep
        for (int k = 0; k < d; k++) slope[k] = x[k] > 0 ? 1 : 0;
        break;
    case ACT_LEAKY_RELU:
#pragma GCC ivdep
        for (int k = 0; k < d; k++) slope[k] = x[k] > 0 ? 1 : 0.01f;
        break;
    }
}

static void softmax_slope_row(int d, const float *p, float dot, float *ds) {
#pragma GCC ivdep
    for (int i = 0; i < d; i++) ds[i] = p[i] * (ds[i] - dot);
}

static void cos_slope_row(int d, const float *x, const float *freq, const float *sine, const float *dy, bool add,
                          float *dx, float *d_freq, float *d_phase) {
    if (add)
#pragma GCC ivdep
        for (int i = 0; i < d; i++) dx[i] = FMA(-sine[i] * freq[i], dy[i], dx[i]);
    else
#pragma GCC ivdep
        for (int i = 0; i < d; i++) dx[i] = -sine[i] * freq[i] * dy[i];
    if (!d_freq) return;
#pragma GCC ivdep
    for (int i = 0; i < d; i++) d_freq[i] = FMA(-sine[i] * x[i], dy[i], d_freq[i]);
#pragma GCC ivdep
    for (int i = 0; i < d; i++) d_phase[i] = FMA(-sine[i], dy[i], d_phase[i]);
}

static void lstm_slope_row(int n, const float *z, const float *c_before, const float *c, const float *dh, float *dc,
                           float *dz) {
    const float *i = z, *f = z + n, *g = z + 2 * n, *o = z + 3 * n;
#pragma GCC ivdep
    for (int k = 0; k < n; k++) {
        float t = tanh_of(c[k]), d = FMA(dh[k] * o[k], 1 - t * t, dc[k]);
        dz[k] = d * g[k] * i[k] * (1 - i[k]);
        dz[n + k] = d * c_before[k] * f[k] * (1 - f[k]);
        dz[2 * n + k] = d * i[k] * (1 - g[k] * g[k]);
        dz[3 * n + k] = dh[k] * t * o[k] * (1 - o[k]);
        dc[k] = d * f[k];
    }
}

/* With g = dy w: dx += rstd (g - mean_d(g) [center] - xh mean_d(g xh)). */
static void norm_slope_row(bool center, int d, const float *x, const float *w, float eps, const float *dy, bool add,
                           float *dx, float *dw, float *db, float *xh) {
    float mean = center ? row_sum(d, x) / (float)d : 0;
#pragma GCC ivdep
    for (int i = 0; i < d; i++) xh[i] = x[i] - mean;
    float rstd = 1.0f / sqrtf(row_sum_squares(d, xh) / (float)d + eps);
#pragma GCC ivdep
    for (int i = 0; i < d; i++) {
        xh[i] *= rstd;
        dw[i] = FMA(dy[i], xh[i], dw[i]);
    }
    if (db) add_row(d, dy, db);
    Vec g_sum = vec_set1(0), gx_sum = vec_set1(0);
    for (int i = 0; i < d; i += LANES) {
        int n = MIN(d - i, LANES);
        Vec wv = vec_load_n(w + i, n), g = vec_fma(vec_load_n(dy + i, n), wv, vec_set1(0));
        g_sum = vec_add(g_sum, g);
        gx_sum = vec_fma(g, vec_load_n(xh + i, n), gx_sum);
    }
    float g_mean = center ? vec_sum(g_sum) / (float)d : 0, gx_mean = vec_sum(gx_sum) / (float)d;
    if (add)
#pragma GCC ivdep
        for (int i = 0; i < d; i++) dx[i] = FMA(rstd, FMA(-xh[i], gx_mean, dy[i] * w[i] - g_mean), dx[i]);
    else
#pragma GCC ivdep
        for (int i = 0; i < d; i++) dx[i] = rstd * FMA(-xh[i], gx_mean, dy[i] * w[i] - g_mean);
}

/* The double FIXED_MAGIC + k has k in its last bits, rounded, where |k| < 2^51. */
#define FIXED_MAGIC 0x1.8p52

static inline uint64_t fixed_integer(double magic_and) {
    static const double magic = FIXED_MAGIC;
    uint64_t bits, base;
    memcpy(&bits, &magic_and, sizeof bits);
    memcpy(&base, &magic, sizeof base);
    return bits - base;
}

/* No processor here converts vectors of doubles to 64 bits before AVX-512, so in two halves: what the first leaves the
 * second has exactly, and rounds. Unsigned, for what does not fit wraps round before it is refused. */
static inline uint64_t fixed_round(double x) {
    double upper = x * 0x1p-32 + FIXED_MAGIC, lower = (x - (upper - FIXED_MAGIC) * 0x1p32) + FIXED_MAGIC;
    return (fixed_integer(upper) << 32) + fixed_integer(lower);
}

/* |x| as an integer, by which floats are in order, and NaN behind all of them. */
static inline int32_t magnitude_bits(float x) {
    int32_t bits;
    memcpy(&bits, &x, sizeof bits);
    return bits & INT32_MAX;
}

/* Below 2^51 the second half is all of it, and the same integer: half of the work. */
INLINE void fixed_piece(int n, const float *x, double scale, bool below, bool first, int64_t *sum) {
#pragma GCC ivdep
    for (int i = 0; i < n; i++) {
        double u = (double)x[i] * scale;
        uint64_t rounded = below ? fixed_integer(u + FIXED_MAGIC) : fixed_round(u);
        sum[i] = (int64_t)((first ? 0 : (uint64_t)sum[i]) + rounded);
    }
}

static bool fixed_add(int n, const float *x, double scale, float limit, bool first, int64_t *sum) {
    enum { PIECE = 1024 };
    int32_t most = 0, small = magnitude_bits((float)(0x1p51 / scale));
    for (int at = 0, here; at < n; at += here) {
        here = MIN(n - at, PIECE);
        int32_t largest = 0;
        for (int i = 0; i < here; i++) largest = MAX(largest, magnitude_bits(x[at + i]));
        most = MAX(most, largest);
        if (largest < small && first)
            fixed_piece(here, x + at, scale, true, true, sum + at);
        else if (largest < small)
            fixed_piece(here, x + at, scale, true, false, sum + at);
        else if (first)
            fixed_piece(here, x + at, scale, false, true, sum + at);
        else
            fixed_piece(here, x + at, scale, false, false, sum + at);
    }
    return most < magnitude_bits(limit);
}

static void fixed_read(int n, const int64_t *sum, float unit, float *x) {
    /* Before AVX-512 one by one; as a loop of one it takes twice as long where it straddles a line of code. */
#pragma GCC ivdep
#pragma GCC unroll 8
    for (int i = 0; i < n; i++) x[i] = (float)sum[i] * unit;
}

/* By the float that has a unit as its last place; what is no smaller has no more places than that. */
static bool fixed_single(int n, float unit, float limit, float *x) {
    float whole = 0x1p23f * unit;
    int32_t most = 0, places = magnitude_bits(whole);
#pragma GCC ivdep
    for (int i = 0; i < n; i++) {
        int32_t magnitude = magnitude_bits(x[i]);
        float magic = copysignf(whole, x[i]), rounded = (x[i] + magic) - magic;
        most = MAX(most, magnitude);
        x[i] = magnitude < places ? rounded : x[i];
    }
    return most < magnitude_bits(limit);
}

static double squares(int n, const float *g) {
    enum { SUMS = 32 };
    double sums[SUMS] = {0}, sum = 0;
    int i = 0;
    for (; i + SUMS <= n; i += SUMS)
        for (int k = 0; k < SUMS; k++) sums[k] += (double)g[i + k] * (double)g[i + k];
    for (; i < n; i++) sums[0] += (double)g[i] * (double)g[i];
    for (int k = 0; k < SUMS; k++) sum += sums[k];
    return sum;
}

static void adamw(const AdamwRow *u, int n, float *w, const float *g, float *m, float *v) {
    AdamwRow c = *u;
#pragma GCC ivdep
    for (int i = 0; i < n; i++) {
        float d = g[i] * c.grad_scale;
        float mi = c.beta1 * m[i] + (1 - c.beta1) * d, vi = c.beta2 * v[i] + (1 - c.beta2) * d * d;
        m[i] = mi;
        v[i] = vi;
        w[i] = w[i] * c.keep - c.step * mi / (sqrtf(vi) * c.correction2 + c.eps);
    }
}

#define TRAIN_TABLE                                                                                                    \
    {                                                                                                                  \
        .tile_rows = {TILE_ROWS, TILE_ROWS}, .tile_columns = TILE_COLUMNS, .pairs_pay = BF16_PARTS == 1,               \
        .pack_rows = pack_rows, .pack_columns = pack_columns, .pair_row = pair_row, .pair_with = pair_with,            \
        .transpose = transpose, .multiply = multiply, .dot_row = dot_row, .scale_in_place = scale_in_place,            \
        .product_row = product_row, .gate_slope_row = gate_slope_row, .slope_row = slope_row,                          \
        .softmax_slope_row = softmax_slope_row, .cos_slope_row = cos_slope_row, .lstm_slope_row = lstm_slope_row,      \
        .norm_slope_row = norm_slope_row, .fixed_add = fixed_add, .fixed_read = fixed_read,                            \
        .fixed_single = fixed_single, .squares = squares, .adamw = adamw,                                              \
    }
