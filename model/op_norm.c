#include "op.h"

#include "kernels/kernels.h"

#include <math.h>

typedef struct NormContext {
    Mat *x, *y;
    const Weight *w, *b;
    float eps;
    bool center; /* layernorm */
    float *mean; /* [n], zero for rmsnorm */
    float *rstd; /* [n] */
} NormContext;

/* y = xh w + b with xh = (x - mean) rstd:
 * dx += rstd (g - mean_d(g)[layernorm] - xh mean_d(g xh)), g = dy w; also fills mean and rstd for the column sums. */
static void norm_backward_row(const NormContext *c, int i) {
    int d = c->x->d;
    const float *x = c->x->x + (size_t)i * (size_t)d, *dy = c->y->dx + (size_t)i * (size_t)d, *w = weight_f32(c->w);
    float *dx = c->x->dx + (size_t)i * (size_t)d;
    double sum = 0, squares = 0;
    if (c->center)
        for (int k = 0; k < d; k++) sum += x[k];
    float mean = (float)(sum / d);
    for (int k = 0; k < d; k++) squares += (double)(x[k] - mean) * (x[k] - mean);
    float rstd = (float)(1 / sqrt(squares / d + (double)c->eps));
    double g_sum = 0, gx_sum = 0;
    for (int k = 0; k < d; k++) {
        float g = dy[k] * w[k];
        g_sum += g;
        gx_sum += g * (x[k] - mean) * rstd;
    }
    float g_mean = c->center ? (float)(g_sum / d) : 0, gx_mean = (float)(gx_sum / d);
    for (int k = 0; k < d; k++) dx[k] += rstd * (dy[k] * w[k] - g_mean - (x[k] - mean) * rstd * gx_mean);
    c->mean[i] = mean;
    c->rstd[i] = rstd;
}

static void norm_backward(void *context) {
    const NormContext *c = context;
    const Mat *x = c->x, *y = c->y;
    int n = x->n, d = x->d;
#pragma omp parallel for if ((size_t)n * (size_t)d > 1 << 14)
    for (int i = 0; i < n; i++) norm_backward_row(c, i);
    enum { WIDTH = 64 };
#pragma omp parallel for if ((size_t)n * (size_t)d > 1 << 14)
    for (int c0 = 0; c0 < d; c0 += WIDTH) {
        int c1 = MIN(c0 + WIDTH, d);
        for (int i = 0; i < n; i++) {
            const float *dy = y->dx + (size_t)i * (size_t)d, *row = x->x + (size_t)i * (size_t)d;
            if (c->w->grad)
                for (int k = c0; k < c1; k++) c->w->grad[k] += dy[k] * (row[k] - c->mean[i]) * c->rstd[i];
            if (c->b && c->b->grad)
                for (int k = c0; k < c1; k++) c->b->grad[k] += dy[k];
        }
    }
}

static Mat *norm_forward(Tape *t, Mat *x, const Weight *w, const Weight *b, float eps, bool center) {
    BUG_ON(w->dims[0] != x->d);
    Mat *y = tape_mat(t, x->n, x->d);
    size_t d = (size_t)x->d;
#pragma omp parallel for if ((size_t)x->n * d > 1 << 14)
    for (int i = 0; i < x->n; i++) {
        const float *row = x->x + (size_t)i * d;
        float *out = y->x + (size_t)i * d;
        if (center)
            kernels->layernorm_row(x->d, row, weight_f32(w), b ? weight_f32(b) : NULL, eps, out);
        else
            kernels->rmsnorm_row(x->d, row, weight_f32(w), eps, out);
    }
    if (t->recording) {
        NormContext *c = tape_alloc(t, sizeof *c);
        float *stats = tape_alloc(t, 2 * (size_t)x->n * sizeof(float));
        *c = (NormContext){
            .x = x, .y = y, .w = w, .b = b, .eps = eps, .center = center, .mean = stats, .rstd = stats + x->n};
        tape_push(t, norm_backward, c);
    }
    return y;
}

Mat *op_layernorm(Tape *t, Mat *x, const Weight *w, const Weight *b, float eps) {
    return norm_forward(t, x, w, b, eps, true);
}

Mat *op_rmsnorm(Tape *t, Mat *x, const Weight *w, float eps) { return norm_forward(t, x, w, NULL, eps, false); }
