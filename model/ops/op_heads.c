#include "base/arena.h"
#include "base/err.h"
#include "base/team.h"
#include "model/kernels/kernels.h"
#include "model/ops/op.h"
#include "model/ops/train_gemm.h"

#include <string.h>

/* ---- columns, join, repeat: the features of each head of y are taken from somewhere in x ---- */

/* Head h of y gets `width` features of x, from `first` + h / times `step` on, and has them from `place` on. */
typedef struct Take {
    Mat *x, *y;
    int heads, width, first, step, times, place;
} Take;

static size_t taken_from(const Take *c, int i, int h) {
    return (size_t)i * (size_t)c->x->d + (size_t)(c->first + h / c->times * c->step);
}

static size_t taken_to(const Take *c, int i, int h) {
    return (size_t)i * (size_t)c->y->d + (size_t)(h * (c->y->d / c->heads) + c->place);
}

static void take_backward(void *context) {
    const Take *c = context;
    mat_gradient(c->x);
    mat_gradient(c->y);
#pragma omp parallel for if (team_pays((size_t)c->y->n * (size_t)c->y->d, TEAM_ELEMENTS))
    for (int i = 0; i < c->y->n; i++)
        for (int h = 0; h < c->heads; h++) {
            float *dx = c->x->dx + taken_from(c, i, h);
            const float *dy = c->y->dx + taken_to(c, i, h);
            for (int k = 0; k < c->width; k++) dx[k] += dy[k];
        }
}

static void take(Tape *t, Take take) {
    for (int i = 0; i < take.y->n; i++)
        for (int h = 0; h < take.heads; h++) {
            const float *from = take.x->x + taken_from(&take, i, h);
            float *to = take.y->x + taken_to(&take, i, h);
            for (int k = 0; k < take.width; k++) to[k] = from[k];
        }
    if (t->recording) {
        Take *c = tape_alloc(t, sizeof *c);
        *c = take;
        tape_push(t, take_backward, c);
    }
}

Mat *op_head_columns(Tape *t, Mat *x, int heads, int first, int count) {
    int dim = x->d / heads;
    BUG_ON(dim * heads != x->d || first < 0 || first + count > dim);
    Mat *y = tape_mat(t, x->n, heads * count);
    take(t, (Take){.x = x, .y = y, .heads = heads, .width = count, .first = first, .step = dim, .times = 1});
    return y;
}

Mat *op_head_join(Tape *t, Mat *a, int da, Mat *b, int db, int heads) {
    BUG_ON(a->d != heads * da || (b->d != heads * db && b->d != db) || a->n != b->n);
    int shared = b->d == db; /* one head of b for all */
    Mat *y = tape_mat(t, a->n, heads * (da + db));
    take(t, (Take){.x = a, .y = y, .heads = heads, .width = da, .step = da, .times = 1});
    take(t, (Take){.x = b, .y = y, .heads = heads, .width = db, .step = shared ? 0 : db, .times = 1, .place = da});
    return y;
}

Mat *op_head_repeat(Tape *t, Mat *x, int heads, int times) {
    int dim = x->d / heads;
    Mat *y = tape_mat(t, x->n, x->d * times);
    take(t, (Take){.x = x, .y = y, .heads = heads * times, .width = dim, .step = dim, .times = times});
    return y;
}

/* ---- average ---- */

typedef struct AverageContext {
    Mat *x, *y;
    int groups;
} AverageContext;

static void average_backward(void *context) {
    const AverageContext *c = context;
    int d = c->y->d;
    float scale = 1.0f / (float)c->groups;
    const float *gradient = mat_gradient(c->y);
    bool first = mat_first(c->x);
#pragma omp parallel for if (team_pays((size_t)c->x->n * (size_t)c->x->d, TEAM_ELEMENTS))
    for (int i = 0; i < c->x->n; i++)
        for (int g = 0; g < c->groups; g++) {
            float *dx = c->x->dx + (size_t)i * (size_t)c->x->d + (size_t)g * (size_t)d;
            const float *dy = gradient + (size_t)i * (size_t)d;
            for (int k = 0; k < d; k++) dx[k] = first ? scale * dy[k] : dx[k] + scale * dy[k];
        }
}

Mat *op_head_average(Tape *t, Mat *x, int groups) {
    BUG_ON(x->d % groups);
    Mat *y = tape_mat(t, x->n, x->d / groups);
    float scale = 1.0f / (float)groups;
#pragma omp parallel for if (team_pays((size_t)x->n * (size_t)x->d, TEAM_ELEMENTS))
    for (int i = 0; i < x->n; i++) {
        const float *from = x->x + (size_t)i * (size_t)x->d;
        float *to = y->x + (size_t)i * (size_t)y->d;
        memcpy(to, from, (size_t)y->d * sizeof *to);
        for (int g = 1; g < groups; g++) kernels->add_row(y->d, from + g * y->d, to);
        kernels->scale_row(y->d, scale, to, to);
    }
    if (t->recording) {
        AverageContext *c = tape_alloc(t, sizeof *c);
        *c = (AverageContext){.x = x, .y = y, .groups = groups};
        tape_push(t, average_backward, c);
    }
    return y;
}

/* ---- a matrix per head ---- */

typedef struct MatmulContext {
    Tape *tape;
    Mat *x, *y;
    const Weight *f;
} MatmulContext;

/* y_h = x_h F_h: dx_h += dy_h F_h^T, dF_h += x_h^T dy_h */
static void matmul_backward(void *context) {
    const MatmulContext *c = context;
    int dim = c->f->dims[1], d = c->x->d, n = c->x->n;
    const float *dy = mat_gradient(c->y);
    bool add = !mat_first(c->x);
    for (int h = 0; h < c->f->dims[0]; h++) {
        size_t at = (size_t)h * (size_t)dim * (size_t)dim;
        Matrix dyh = {dy + h * dim, d, false}, xh = {c->x->x + h * dim, d, true},
               fh = {weight_f32(c->f) + at, dim, true};
        train_gemm(
            c->tape,
            &(TrainGemm){.m = n, .n = dim, .k = dim, .a = dyh, .b = fh, .c = c->x->dx + h * dim, .ldc = d, .add = add});
        if (c->f->grad)
            train_gemm(
                c->tape,
                &(TrainGemm){
                    .m = dim, .n = dim, .k = n, .a = xh, .b = dyh, .c = c->f->grad + at, .ldc = dim, .add = true});
    }
}

Mat *op_head_matmul(Tape *t, Mat *x, const Weight *f) {
    int heads = f->dims[0], dim = f->dims[1];
    BUG_ON(heads * dim != x->d);
    Mat *y = tape_mat(t, x->n, x->d);
    /* Row times matrix is what mixing values by probabilities is: one row of x weighs the rows of F. */
    size_t floats = (size_t)x->n * (size_t)dim;
    float *acc = arena_calloc(&t->arena, (size_t)heads * floats * sizeof(float));
#pragma omp parallel for if (team_pays(floats * (size_t)(heads * dim), TEAM_PRODUCTS))
    for (int h = 0; h < heads; h++) {
        float *head = acc + (size_t)h * floats;
        kernels->mix_f32(x->n, dim, dim, x->x + h * dim, x->d, weight_f32(f) + (size_t)h * (size_t)(dim * dim), head);
        for (int i = 0; i < x->n; i++)
            memcpy(y->x + (size_t)i * (size_t)y->d + h * dim, head + (size_t)i * (size_t)dim,
                   (size_t)dim * sizeof(float));
    }
    if (t->recording) {
        MatmulContext *c = tape_alloc(t, sizeof *c);
        *c = (MatmulContext){.tape = t, .x = x, .y = y, .f = f};
        tape_push(t, matmul_backward, c);
    }
    return y;
}

/* ---- tensor product: heads from factors ---- */

typedef struct FactorsContext {
    Mat *a, *b, *y;
    int rank, dim;
} FactorsContext;

static void factors_backward(void *context) {
    const FactorsContext *c = context;
    mat_gradient(c->a);
    mat_gradient(c->b);
    mat_gradient(c->y);
    int heads = c->a->d / c->rank, dim = c->dim;
    float scale = 1.0f / (float)c->rank;
#pragma omp parallel for if (team_pays((size_t)c->y->n * (size_t)c->y->d, TEAM_ELEMENTS))
    for (int i = 0; i < c->y->n; i++)
        for (int h = 0; h < heads; h++) {
            const float *dy = c->y->dx + (size_t)i * (size_t)c->y->d + (size_t)(h * dim);
            for (int r = 0; r < c->rank; r++) {
                size_t at_a = (size_t)i * (size_t)c->a->d + (size_t)(h * c->rank + r);
                size_t at_b = (size_t)i * (size_t)c->b->d + (size_t)(r * dim);
                float a = scale * c->a->x[at_a], sum = 0;
                for (int k = 0; k < dim; k++) {
                    sum += dy[k] * c->b->x[at_b + (size_t)k];
                    c->b->dx[at_b + (size_t)k] += a * dy[k];
                }
                c->a->dx[at_a] += scale * sum;
            }
        }
}

Mat *op_head_factors(Tape *t, Mat *a, Mat *b, int rank, int dim) {
    int heads = a->d / rank;
    BUG_ON(heads * rank != a->d || b->d != rank * dim);
    Mat *y = tape_mat(t, a->n, heads * dim);
    float scale = 1.0f / (float)rank;
#pragma omp parallel for if (team_pays((size_t)y->n * (size_t)y->d, TEAM_ELEMENTS))
    for (int i = 0; i < a->n; i++)
        for (int h = 0; h < heads; h++) {
            float *out = y->x + (size_t)i * (size_t)y->d + (size_t)(h * dim);
            for (int k = 0; k < dim; k++) out[k] = 0;
            for (int r = 0; r < rank; r++) {
                float w = scale * a->x[(size_t)i * (size_t)a->d + (size_t)(h * rank + r)];
                const float *row = b->x + (size_t)i * (size_t)b->d + (size_t)(r * dim);
                for (int k = 0; k < dim; k++) out[k] += w * row[k];
            }
        }
    if (t->recording) {
        FactorsContext *c = tape_alloc(t, sizeof *c);
        *c = (FactorsContext){.a = a, .b = b, .y = y, .rank = rank, .dim = dim};
        tape_push(t, factors_backward, c);
    }
    return y;
}
