#include "op.h"

#include "kernels/kernels.h"

#include <math.h>
#include <string.h>

#define PARALLEL_FROM ((size_t)1 << 14) /* elements worth waking the team for */

static inline float *row_of(float *base, const Mat *m, int i) { return base + (size_t)i * (size_t)m->d; }

/* ---- sums ---- */

typedef struct AddContext {
    Mat *a, *b, *y;
    float scale;
} AddContext;

static void add_backward(void *context) {
    const AddContext *c = context;
    size_t n = (size_t)c->y->n * (size_t)c->y->d;
#pragma omp parallel for if (n > PARALLEL_FROM)
    for (size_t i = 0; i < n; i++) {
        float dy = c->y->dx[i];
        c->a->dx[i] += dy;
        c->b->dx[i] += c->scale * dy;
    }
}

Mat *op_add_scaled(Tape *t, Mat *a, Mat *b, float scale) {
    BUG_ON(a->n != b->n || a->d != b->d);
    Mat *y = tape_mat(t, a->n, a->d);
    size_t n = (size_t)a->n * (size_t)a->d;
#pragma omp parallel for if (n > PARALLEL_FROM)
    for (size_t i = 0; i < n; i++) y->x[i] = a->x[i] + scale * b->x[i];
    if (t->recording) {
        AddContext *c = tape_alloc(t, sizeof *c);
        *c = (AddContext){.a = a, .b = b, .y = y, .scale = scale};
        tape_push(t, add_backward, c);
    }
    return y;
}

Mat *op_residual(Tape *t, Mat *x, Mat *y) {
    if (t->recording) return op_add_scaled(t, x, y, 1);
    BUG_ON(x->n != y->n || x->d != y->d);
    for (int i = 0; i < x->n; i++) kernels->add_row(x->d, row_of(y->x, y, i), row_of(x->x, x, i));
    return x;
}

/* ---- activations ---- */

static void activate_row(Activation a, int d, const float *x, float *y) {
    switch (a) {
    case ACT_GELU:
        kernels->gelu_row(d, x, y);
        break;
    case ACT_GELU_TANH:
        kernels->gelu_tanh_row(d, x, y);
        break;
    case ACT_SILU:
        kernels->silu_row(d, x, y);
        break;
    case ACT_TANH:
        kernels->tanh_row(d, x, y);
        break;
    case ACT_RELU:
        for (int k = 0; k < d; k++) y[k] = x[k] > 0 ? x[k] : 0;
        break;
    case ACT_LEAKY_RELU:
        for (int k = 0; k < d; k++) y[k] = x[k] > 0 ? x[k] : 0.01f * x[k];
        break;
    }
}

/* slope[k] = a'(x[k]), y = a(x) given. For gelu and silu y / x is Phi(x), sigmoid(x): no second erf or exp. */
static void slope_row(Activation a, int d, const float *x, const float *y, float *slope) {
    const float root = 0.7978845608f; /* sqrt(2 / pi) */
    switch (a) {
    case ACT_GELU:
        for (int k = 0; k < d; k++) slope[k] = -0.5f * x[k] * x[k];
        kernels->exp_sum_row(d, slope, slope, 0);
        for (int k = 0; k < d; k++) slope[k] = (x[k] != 0 ? y[k] / x[k] : 0.5f) + 0.3989422804f * x[k] * slope[k];
        break;
    case ACT_GELU_TANH:
        for (int k = 0; k < d; k++) slope[k] = root * (x[k] + 0.044715f * x[k] * x[k] * x[k]);
        kernels->tanh_row(d, slope, slope);
        for (int k = 0; k < d; k++) {
            float th = slope[k], du = root * (1 + 3 * 0.044715f * x[k] * x[k]);
            slope[k] = 0.5f * (1 + th) + 0.5f * x[k] * (1 - th * th) * du;
        }
        break;
    case ACT_SILU:
        for (int k = 0; k < d; k++) {
            float s = x[k] != 0 ? y[k] / x[k] : 0.5f;
            slope[k] = s * (1 + x[k] * (1 - s));
        }
        break;
    case ACT_TANH:
        for (int k = 0; k < d; k++) slope[k] = 1 - y[k] * y[k];
        break;
    case ACT_RELU:
        for (int k = 0; k < d; k++) slope[k] = x[k] > 0 ? 1 : 0;
        break;
    case ACT_LEAKY_RELU:
        for (int k = 0; k < d; k++) slope[k] = x[k] > 0 ? 1 : 0.01f;
        break;
    }
}

typedef struct ActivationContext {
    Mat *x, *y;
    Activation activation;
    float *slope; /* [n, h], filled by the backward pass */
} ActivationContext;

static void activation_backward(void *context) {
    const ActivationContext *c = context;
    size_t d = (size_t)c->x->d;
#pragma omp parallel for if ((size_t)c->x->n * d > PARALLEL_FROM)
    for (int i = 0; i < c->x->n; i++) {
        float *slope = c->slope + (size_t)i * d, *dx = row_of(c->x->dx, c->x, i);
        const float *dy = row_of(c->y->dx, c->y, i);
        slope_row(c->activation, c->x->d, row_of(c->x->x, c->x, i), row_of(c->y->x, c->y, i), slope);
        for (size_t k = 0; k < d; k++) dx[k] += dy[k] * slope[k];
    }
}

Mat *op_activation(Tape *t, Mat *x, Activation a) {
    Mat *y = tape_mat(t, x->n, x->d);
#pragma omp parallel for if ((size_t)x->n * (size_t)x->d > PARALLEL_FROM)
    for (int i = 0; i < x->n; i++) activate_row(a, x->d, row_of(x->x, x, i), row_of(y->x, y, i));
    if (t->recording) {
        ActivationContext *c = tape_alloc(t, sizeof *c);
        *c = (ActivationContext){
            .x = x, .y = y, .activation = a, .slope = tape_alloc(t, (size_t)x->n * (size_t)x->d * sizeof(float))};
        tape_push(t, activation_backward, c);
    }
    return y;
}

/* ---- gate ---- */

typedef struct GateContext {
    Mat *x, *y;
    Activation activation;
    float *activated; /* [n, h] a(gate) */
    float *slope;     /* [n, h] */
} GateContext;

/* y = a(g) u: du += dy a(g), dg += dy u a'(g) */
static void gate_backward(void *context) {
    const GateContext *c = context;
    int h = c->y->d;
#pragma omp parallel for if ((size_t)c->x->n * (size_t)c->x->d > PARALLEL_FROM)
    for (int i = 0; i < c->x->n; i++) {
        const float *gate = row_of(c->x->x, c->x, i), *up = gate + h, *dy = row_of(c->y->dx, c->y, i);
        const float *activated = c->activated + (size_t)i * (size_t)h;
        float *slope = c->slope + (size_t)i * (size_t)h, *dgate = row_of(c->x->dx, c->x, i), *dup = dgate + h;
        slope_row(c->activation, h, gate, activated, slope);
        for (int k = 0; k < h; k++) {
            dup[k] += dy[k] * activated[k];
            dgate[k] += dy[k] * up[k] * slope[k];
        }
    }
}

Mat *op_gate(Tape *t, Mat *x, Activation a) {
    int h = x->d / 2;
    Mat *y = tape_mat(t, x->n, h);
    float *activated = tape_alloc(t, (size_t)x->n * (size_t)h * sizeof(float));
#pragma omp parallel for if ((size_t)x->n * (size_t)x->d > PARALLEL_FROM)
    for (int i = 0; i < x->n; i++) {
        const float *row = row_of(x->x, x, i);
        float *act = activated + (size_t)i * (size_t)h, *out = row_of(y->x, y, i);
        activate_row(a, h, row, act);
        for (int k = 0; k < h; k++) out[k] = act[k] * row[h + k];
    }
    if (t->recording) {
        GateContext *c = tape_alloc(t, sizeof *c);
        *c = (GateContext){.x = x,
                           .y = y,
                           .activation = a,
                           .activated = activated,
                           .slope = tape_alloc(t, (size_t)x->n * (size_t)h * sizeof(float))};
        tape_push(t, gate_backward, c);
    }
    return y;
}

/* ---- CosNet ---- */

typedef struct CosContext {
    Mat *x, *y;
    const float *freq, *phase; /* [d] */
    float *d_freq, *d_phase;   /* [d], NULL when they are not trained */
    float *sine;               /* [n, d] sin(freq x + phase), filled by the backward pass, then [d] of scratch */
} CosContext;

/* y = cos(f x + p): dx -= sin f dy, df -= sum sin x dy, dp -= sum sin dy */
static void cos_backward(void *context) {
    const CosContext *c = context;
    int n = c->x->n, d = c->x->d;
    float *shifted = c->sine + (size_t)n * (size_t)d; /* sin u = cos(u - pi/2) */
    for (int k = 0; k < d; k++) shifted[k] = c->phase[k] - 1.5707963268f;
#pragma omp parallel for if ((size_t)n * (size_t)d > PARALLEL_FROM)
    for (int i = 0; i < n; i++) {
        float *sine = c->sine + (size_t)i * (size_t)d, *dx = row_of(c->x->dx, c->x, i);
        const float *dy = row_of(c->y->dx, c->y, i);
        kernels->cos_row(d, row_of(c->x->x, c->x, i), c->freq, shifted, sine);
        for (int k = 0; k < d; k++) dx[k] -= sine[k] * c->freq[k] * dy[k];
    }
    for (int i = 0; i < n && c->d_freq; i++) {
        const float *sine = c->sine + (size_t)i * (size_t)d, *x = row_of(c->x->x, c->x, i);
        const float *dy = row_of(c->y->dx, c->y, i);
        for (int k = 0; k < d; k++) {
            c->d_freq[k] -= sine[k] * x[k] * dy[k];
            c->d_phase[k] -= sine[k] * dy[k];
        }
    }
}

static const float *constant_row(Tape *t, int d, float value) {
    float *row = tape_alloc(t, (size_t)d * sizeof(float));
    for (int k = 0; k < d; k++) row[k] = value;
    return row;
}

Mat *op_cos(Tape *t, Mat *x, const Weight *freq, const Weight *phase) {
    BUG_ON((freq && freq->dims[0] != x->d) || (phase && phase->dims[0] != x->d));
    Mat *y = tape_mat(t, x->n, x->d);
    CosContext *c = tape_alloc(t, sizeof *c);
    *c = (CosContext){.x = x,
                      .y = y,
                      .freq = freq ? weight_f32(freq) : constant_row(t, x->d, 1),
                      .phase = phase ? weight_f32(phase) : constant_row(t, x->d, 0),
                      .d_freq = freq ? freq->grad : NULL,
                      .d_phase = phase ? phase->grad : NULL};
#pragma omp parallel for if ((size_t)x->n * (size_t)x->d > PARALLEL_FROM)
    for (int i = 0; i < x->n; i++) kernels->cos_row(x->d, row_of(x->x, x, i), c->freq, c->phase, row_of(y->x, y, i));
    if (t->recording) {
        c->sine = tape_alloc(t, (size_t)(x->n + 1) * (size_t)x->d * sizeof(float));
        tape_push(t, cos_backward, c);
    }
    return y;
}
