#include "base/fixed_math.h"
#include "base/team.h"
#include "model/ops/op.h"

typedef struct DifferenceContext {
    Mat *x, *y;
    int dim;
    const Weight *vectors;
    float lambda;
    double *partial; /* [n] what each row adds to d lambda */
} DifferenceContext;

static double exp_dot(const Weight *a, const Weight *b) {
    double sum = 0;
    for (int k = 0; k < a->dims[0]; k++) sum += (double)weight_f32(a)[k] * weight_f32(b)[k];
    return fixed_exp(sum);
}

static void row_backward(const DifferenceContext *c, int i, const float *dy) {
    float *dx = c->x->dx + (size_t)i * (size_t)c->x->d;
    const float *x = c->x->x + (size_t)i * (size_t)c->x->d;
    c->partial[i] = 0;
    for (int h = 0; h < c->y->d; h += c->dim, dy += c->dim, dx += 2 * c->dim, x += 2 * c->dim)
        for (int k = 0; k < c->dim; k++) {
            dx[k] += dy[k];
            dx[c->dim + k] -= c->lambda * dy[k];
            c->partial[i] -= (double)dy[k] * x[c->dim + k];
        }
}

/* a and b of exp(a . b), whose own gradient is g */
static void exp_dot_backward(const Weight *a, const Weight *b, double g) {
    if (!a->grad || !b->grad) return;
    g *= exp_dot(a, b);
    for (int k = 0; k < a->dims[0]; k++) {
        a->grad[k] += (float)(g * weight_f32(b)[k]);
        b->grad[k] += (float)(g * weight_f32(a)[k]);
    }
}

/* Rows add to d lambda in their order: the same bits on any team. */
static void difference_backward(void *context) {
    const DifferenceContext *c = context;
    const float *dy = mat_gradient(c->y);
    double d_lambda = 0;
    mat_gradient(c->x);
#pragma omp parallel for if (team_pays((size_t)c->x->n * (size_t)c->x->d, TEAM_ELEMENTS))
    for (int i = 0; i < c->x->n; i++) row_backward(c, i, dy + (size_t)i * (size_t)c->y->d);
    for (int i = 0; i < c->x->n; i++) d_lambda += c->partial[i];
    exp_dot_backward(&c->vectors[0], &c->vectors[1], d_lambda);
    exp_dot_backward(&c->vectors[2], &c->vectors[3], -d_lambda);
}

Mat *op_head_difference(Tape *t, Mat *x, int dim, const Weight vectors[4], float base) {
    BUG_ON(x->d % (2 * dim));
    Mat *y = tape_mat(t, x->n, x->d / 2);
    DifferenceContext *c = tape_alloc(t, sizeof *c);
    *c = (DifferenceContext){.x = x, .y = y, .dim = dim, .vectors = vectors};
    c->lambda = (float)(exp_dot(&vectors[0], &vectors[1]) - exp_dot(&vectors[2], &vectors[3]) + base);
#pragma omp parallel for if (team_pays((size_t)x->n * (size_t)x->d, TEAM_ELEMENTS))
    for (int i = 0; i < x->n; i++)
        for (int h = 0; h < y->d; h += dim) {
            const float *from = x->x + (size_t)i * (size_t)x->d + 2 * h;
            float *to = y->x + (size_t)i * (size_t)y->d + h;
            for (int k = 0; k < dim; k++) to[k] = from[k] - c->lambda * from[dim + k];
        }
    if (t->recording) {
        c->partial = tape_alloc(t, (size_t)x->n * sizeof *c->partial);
        tape_push(t, difference_backward, c);
    }
    return y;
}
