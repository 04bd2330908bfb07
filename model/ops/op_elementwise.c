#include "base/err.h"
#include "base/team.h"
#include "model/kernels/kernels.h"
#include "model/ops/op.h"

#include <string.h>

static inline float *row_of(float *base, const Mat *m, int i) { return base + (size_t)i * (size_t)m->d; }

/* ---- sums ---- */

typedef struct AddContext {
    Mat *a, *b, *y;
    float scale;
} AddContext;

/* dx (+)= scale dy */
static void add_into(Mat *x, const float *dy, float scale) {
    size_t n = (size_t)x->n * (size_t)x->d;
    bool first = mat_first(x);
    float *dx = x->dx;
#pragma omp parallel for if (team_pays(n, TEAM_ELEMENTS))
    for (size_t i = 0; i < n; i++) dx[i] = first ? scale * dy[i] : dx[i] + scale * dy[i];
}

static void add_backward(void *context) {
    const AddContext *c = context;
    const float *dy = mat_gradient(c->y);
    add_into(c->a, dy, 1);
    if (c->scale == 1)
        mat_pass_on(c->y, c->b);
    else
        add_into(c->b, dy, c->scale);
}

Mat *op_add_scaled(Tape *t, Mat *a, Mat *b, float scale) {
    BUG_ON(a->n != b->n || a->d != b->d);
    Mat *y = tape_mat(t, a->n, a->d);
    size_t n = (size_t)a->n * (size_t)a->d;
#pragma omp parallel for if (team_pays(n, TEAM_ELEMENTS))
    for (size_t i = 0; i < n; i++) y->x[i] = a->x[i] + scale * b->x[i];
    if (t->recording) {
        AddContext *c = tape_alloc(t, sizeof *c);
        *c = (AddContext){.a = a, .b = b, .y = y, .scale = scale};
        tape_push(t, add_backward, c);
    }
    return y;
}

typedef struct ScaleContext {
    Mat *x, *y;
    float a;
} ScaleContext;

static void scale_backward(void *context) {
    const ScaleContext *c = context;
    add_into(c->x, mat_gradient(c->y), c->a);
}

Mat *op_scale(Tape *t, Mat *x, float a) {
    Mat *y = tape_mat(t, x->n, x->d);
    for (int i = 0; i < x->n; i++) kernels->scale_row(x->d, a, row_of(x->x, x, i), row_of(y->x, y, i));
    if (t->recording) {
        ScaleContext *c = tape_alloc(t, sizeof *c);
        *c = (ScaleContext){.x = x, .y = y, .a = a};
        tape_push(t, scale_backward, c);
    }
    return y;
}

Mat *op_residual(Tape *t, Mat *x, Mat *y) {
    if (t->recording) return op_add_scaled(t, x, y, 1);
    BUG_ON(x->n != y->n || x->d != y->d);
#pragma omp parallel for if (team_pays((size_t)x->n * (size_t)x->d, TEAM_ELEMENTS))
    for (int i = 0; i < x->n; i++) kernels->add_row(x->d, row_of(y->x, y, i), row_of(x->x, x, i));
    return x;
}

/* ---- activations ---- */

void activation_row(Activation a, int d, const float *x, float *y) {
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
    case ACT_SIGMOID:
        kernels->sigmoid_row(d, x, y);
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

typedef struct ActivationContext {
    Mat *x, *y;
    Activation activation;
    float *slope; /* [threads, d] scratch */
} ActivationContext;

static void activation_backward(void *context) {
    const ActivationContext *c = context;
    int d = c->x->d;
    float *dy = mat_gradient(c->y);
    bool add = !mat_first(c->x);
#pragma omp parallel for if (team_pays((size_t)c->x->n * (size_t)d, TEAM_ELEMENTS))
    for (int i = 0; i < c->x->n; i++) {
        float *slope = c->slope + (size_t)team_member() * (size_t)d;
        kernels->train->slope_row(c->activation, d, row_of(c->x->x, c->x, i), row_of(c->y->x, c->y, i), slope);
        kernels->train->product_row(d, row_of(dy, c->y, i), slope, add, row_of(c->x->dx, c->x, i));
    }
}

Mat *op_activation(Tape *t, Mat *x, Activation a) {
    Mat *y = tape_mat(t, x->n, x->d);
#pragma omp parallel for if (team_pays((size_t)x->n * (size_t)x->d, TEAM_ELEMENTS))
    for (int i = 0; i < x->n; i++) activation_row(a, x->d, row_of(x->x, x, i), row_of(y->x, y, i));
    if (t->recording) {
        ActivationContext *c = tape_alloc(t, sizeof *c);
        *c = (ActivationContext){
            .x = x, .y = y, .activation = a, .slope = tape_alloc(t, (size_t)(team_size() * x->d) * sizeof(float))};
        tape_push(t, activation_backward, c);
    }
    return y;
}

/* ---- gate ---- */

typedef struct GateContext {
    Mat *x, *y;
    Activation activation;
    float *activated; /* [n, h] a(gate) */
    float *slope;     /* [threads, h] scratch */
} GateContext;

static void gate_backward(void *context) {
    const GateContext *c = context;
    int h = c->y->d;
    float *dy = mat_gradient(c->y);
    bool add = !mat_first(c->x);
#pragma omp parallel for if (team_pays((size_t)c->x->n * (size_t)c->x->d, TEAM_ELEMENTS))
    for (int i = 0; i < c->x->n; i++) {
        const float *gate = row_of(c->x->x, c->x, i), *activated = c->activated + (size_t)i * (size_t)h;
        float *slope = c->slope + (size_t)team_member() * (size_t)h, *dgate = row_of(c->x->dx, c->x, i);
        kernels->train->slope_row(c->activation, h, gate, activated, slope);
        kernels->train->gate_slope_row(h, row_of(dy, c->y, i), gate + h, activated, slope, add, dgate, dgate + h);
    }
}

Mat *op_gate(Tape *t, Mat *x, Activation a) {
    int h = x->d / 2;
    Mat *y = tape_mat(t, x->n, h);
    float *activated = tape_alloc(t, (size_t)x->n * (size_t)h * sizeof(float));
#pragma omp parallel for if (team_pays((size_t)x->n * (size_t)x->d, TEAM_ELEMENTS))
    for (int i = 0; i < x->n; i++) {
        const float *row = row_of(x->x, x, i);
        float *act = activated + (size_t)i * (size_t)h, *out = row_of(y->x, y, i);
        activation_row(a, h, row, act);
        kernels->train->product_row(h, act, row + h, false, out);
    }
    if (t->recording) {
        GateContext *c = tape_alloc(t, sizeof *c);
        *c = (GateContext){.x = x,
                           .y = y,
                           .activation = a,
                           .activated = activated,
                           .slope = tape_alloc(t, (size_t)(team_size() * h) * sizeof(float))};
        tape_push(t, gate_backward, c);
    }
    return y;
}

/* ---- CosNet ---- */

/* Rows are dealt to a fixed number of chunks and the chunks' sums added in order: the same bits on any team. */
enum { CHUNKS = 16 };

typedef struct CosContext {
    Mat *x, *y;
    const float *freq, *phase; /* [d] */
    float *d_freq, *d_phase;   /* [d], NULL when they are not trained */
    float *scratch;            /* [d] phases of the sine, [CHUNKS, 3, d] sums of d_freq, of d_phase, a row of sines */
} CosContext;

static void cos_backward_chunk(const CosContext *c, int chunk, const float *dy, bool add, const float *sine_phase,
                               float *sums) {
    int d = c->x->d, end = (int)((int64_t)c->x->n * (chunk + 1) / CHUNKS);
    float *d_freq = sums, *d_phase = sums + d, *sine = sums + 2 * d;
    memset(sums, 0, 2 * (size_t)d * sizeof *sums);
    for (int i = (int)((int64_t)c->x->n * chunk / CHUNKS); i < end; i++) {
        const float *x = row_of(c->x->x, c->x, i);
        kernels->cos_row(d, x, c->freq, sine_phase, sine);
        kernels->train->cos_slope_row(d, x, c->freq, sine, dy + (size_t)i * (size_t)d, add, row_of(c->x->dx, c->x, i),
                                      c->d_freq ? d_freq : NULL, d_phase);
    }
}

static void cos_backward(void *context) {
    const CosContext *c = context;
    int d = c->x->d;
    float *sine_phase = c->scratch, *sums = sine_phase + d; /* sin u = cos(u - pi/2) */
    const float *dy = mat_gradient(c->y);
    bool add = !mat_first(c->x);
    for (int k = 0; k < d; k++) sine_phase[k] = c->phase[k] - 1.5707963268f;
#pragma omp parallel for schedule(static) if (team_pays((size_t)c->x->n * (size_t)d, TEAM_ELEMENTS))
    for (int chunk = 0; chunk < CHUNKS; chunk++)
        cos_backward_chunk(c, chunk, dy, add, sine_phase, sums + (size_t)(3 * chunk) * (size_t)d);
    for (int chunk = 0; chunk < CHUNKS && c->d_freq; chunk++) {
        kernels->add_row(d, sums + (size_t)(3 * chunk) * (size_t)d, c->d_freq);
        kernels->add_row(d, sums + (size_t)(3 * chunk + 1) * (size_t)d, c->d_phase);
    }
}

Mat *op_cos(Tape *t, Mat *x, const Weight *freq, const Weight *phase) {
    BUG_ON(freq->dims[0] != x->d || phase->dims[0] != x->d);
    Mat *y = tape_mat(t, x->n, x->d);
    CosContext *c = tape_alloc(t, sizeof *c);
    *c = (CosContext){.x = x,
                      .y = y,
                      .freq = weight_f32(freq),
                      .phase = weight_f32(phase),
                      .d_freq = freq->grad,
                      .d_phase = phase->grad};
#pragma omp parallel for if (team_pays((size_t)x->n * (size_t)x->d, TEAM_ELEMENTS))
    for (int i = 0; i < x->n; i++) kernels->cos_row(x->d, row_of(x->x, x, i), c->freq, c->phase, row_of(y->x, y, i));
    if (t->recording) {
        c->scratch = tape_alloc(t, (size_t)((1 + 3 * CHUNKS) * x->d) * sizeof(float));
        tape_push(t, cos_backward, c);
    }
    return y;
}
