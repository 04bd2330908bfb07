/* int8_body: rows to int8 codes, and products of them (spec 2.3). The sum over a group is an exact integer and the
 * groups are added in order, so no instruction set has a say in the result. */

/* Nearest, ties to even, for |x| < 2^22: adding pushes the fraction out of the mantissa. */
INLINE float round_small(float x) { return (x + ROUND_MAGIC) - ROUND_MAGIC; }

static void to_int8(int n, const float *x, int8_t *code, float *scale) {
    for (int g = 0; g < n / INT8_GROUP; g++) {
        const float *from = x + g * INT8_GROUP;
        float largest = 0, poison = 0;
        for (int i = 0; i < INT8_GROUP; i++) largest = MAX(largest, fabsf(from[i]));
        for (int i = 0; i < INT8_GROUP; i++) poison += 0 * from[i]; /* NaN as soon as one is not finite */
        float s = scale[g] = largest / 127 + poison;
        for (int i = 0; i < INT8_GROUP; i++) {
            /* A subnormal scale is coarse: it may be 0, or leave quotients above 127. */
            float q = s > 0 ? from[i] / s : 0;
            q = MIN(MAX(q, -127), 127);
            code[g * INT8_GROUP + i] = (int8_t)round_small(q);
        }
    }
}

typedef struct Int8Gemm {
    size_t k, groups;
    const int8_t *x, *w;
    const float *x_scale, *w_scale;
    float *y;
    size_t ldy;
} Int8Gemm;

/* ---- few rows: one integer product at a time, W read once ---- */

INLINE int32_t int8_dot(const int8_t *x, const int8_t *w) {
    int32_t sum = 0;
    for (int k = 0; k < INT8_GROUP; k++) sum += (int16_t)x[k] * (int16_t)w[k];
    return sum;
}

INLINE void int8_row(const Int8Gemm *a, size_t i, size_t o) {
    float sum = 0;
    for (size_t g = 0; g < a->groups; g++) {
        int32_t dot = int8_dot(a->x + i * a->k + g * INT8_GROUP, a->w + o * a->k + g * INT8_GROUP);
        sum += (float)dot * (a->x_scale[i * a->groups + g] * a->w_scale[o * a->groups + g]);
    }
    a->y[i * a->ldy + o] = sum;
}

/* ---- many rows: KEYS outputs at a time in f32, as scores of keys; no sum of a group reaches 2^24, so all are exact */

enum { INT8_PANEL_ROWS = 64, INT8_PANEL_FROM = 12 };

typedef struct Int8Panel {
    _Alignas(64) float w[INT8_GROUP * KEYS], x[INT8_PANEL_ROWS * INT8_GROUP], sums[INT8_PANEL_ROWS * KEYS], scale[KEYS];
} Int8Panel;

/* Group g of outputs o..o+KEYS-1 into y, of all n rows. */
INLINE void int8_panel(const Int8Gemm *a, Int8Panel *p, size_t n, size_t o, size_t g) {
    for (size_t c = 0; c < KEYS; c++) {
        const int8_t *from = a->w + (o + c) * a->k + g * INT8_GROUP;
        for (size_t k = 0; k < INT8_GROUP; k++) p->w[k * KEYS + c] = from[k];
        p->scale[c] = a->w_scale[(o + c) * a->groups + g];
    }
    for (size_t i0 = 0; i0 < n; i0 += INT8_PANEL_ROWS) {
        size_t rows = MIN(n - i0, INT8_PANEL_ROWS);
        for (size_t r = 0; r < rows; r++)
            for (size_t k = 0; k < INT8_GROUP; k++)
                p->x[r * INT8_GROUP + k] = a->x[(i0 + r) * a->k + g * INT8_GROUP + k];
        scores(DTYPE_F32, (int)rows, INT8_GROUP, p->x, p->w, p->sums, KEYS);
        for (size_t r = 0; r < rows; r++) {
            float *y = a->y + (i0 + r) * a->ldy + o, s = a->x_scale[(i0 + r) * a->groups + g];
            for (size_t c = 0; c < KEYS; c++) {
                float before = g ? y[c] : 0;
                y[c] = before + p->sums[r * KEYS + c] * (s * p->scale[c]);
            }
        }
    }
}

static void gemm_i8(int n, int n_out, int k, const int8_t *x, const float *x_scale, const int8_t *w,
                    const float *w_scale, float *y, int ldy) {
    Int8Gemm a = {.k = (size_t)k,
                  .groups = (size_t)(k / INT8_GROUP),
                  .x = x,
                  .w = w,
                  .x_scale = x_scale,
                  .w_scale = w_scale,
                  .y = y,
                  .ldy = (size_t)ldy};
    Int8Panel p;
    size_t o = 0, rows = (size_t)n, outs = (size_t)n_out;
    for (; rows >= INT8_PANEL_FROM && a.groups && o + KEYS <= outs; o += KEYS)
        for (size_t g = 0; g < a.groups; g++) int8_panel(&a, &p, rows, o, g);
    for (; o < outs; o++)
        for (size_t i = 0; i < rows; i++) int8_row(&a, i, o);
}
