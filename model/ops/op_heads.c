#include "base/arena.h"
#include "base/err.h"
#include "base/team.h"
#include "model/kernels/kernels.h"
#include "model/ops/op.h"
#include "model/ops/train_gemm.h"

#include <string.h>

/* ---- columns, join, repeat, average: linear maps that move features about, described by where each comes from ---- */

typedef struct ColumnsContext {
    Mat *x, *y;
    int heads, first, count;
} ColumnsContext;

static void columns_backward(void *context) {
    const ColumnsContext *c = context;
    mat_gradient(c->x);
    mat_gradient(c->y);
    int dim = c->x->d / c->heads;
#pragma omp parallel for if (team_pays((size_t)c->y->n * (size_t)c->y->d, TEAM_ELEMENTS))
    for (int i = 0; i < c->y->n; i++)
        for (int h = 0; h < c->heads; h++) {
            float *dx = c->x->dx + (size_t)i * (size_t)c->x->d + (size_t)(h * dim + c->first);
            const float *dy = c->y->dx + (size_t)i * (size_t)c->y->d + (size_t)(h * c->count);
            for (int k = 0; k < c->count; k++) dx[k] += dy[k];
        }
}

Mat *op_head_columns(Tape *t, Mat *x, int heads, int first, int count) {
    int dim = x->d / heads;
    BUG_ON(dim * heads != x->d || first < 0 || first + count > dim);
    Mat *y = tape_mat(t, x->n, heads * count);
    for (int i = 0; i < x->n; i++)
        for (int h = 0; h < heads; h++) {
            const float *from = x->x + (size_t)i * (size_t)x->d + (size_t)(h * dim + first);
            float *to = y->x + (size_t)i * (size_t)y->d + (size_t)(h * count);
            for (int k = 0; k < count; k++) to[k] = from[k];
        }
    if (t->recording) {
        ColumnsContext *c = tape_alloc(t, sizeof *c);
        *c = (ColumnsContext){.x = x, .y = y, .heads = heads, .first = first, .count = count};
        tape_push(t, columns_backward, c);
    }
    return y;
}

typedef struct JoinContext {
    Mat *a, *b, *y;
    int da, db, heads;
} JoinContext;

static void join_backward(void *context) {
    const JoinContext *c = context;
    mat_gradient(c->a);
    mat_gradient(c->b);
    mat_gradient(c->y);
    int shared = c->b->d == c->db; /* one head of b for all */
#pragma omp parallel for if (team_pays((size_t)c->y->n * (size_t)c->y->d, TEAM_ELEMENTS))
    for (int i = 0; i < c->y->n; i++)
        for (int h = 0; h < c->heads; h++) {
            const float *dy = c->y->dx + (size_t)i * (size_t)c->y->d + (size_t)(h * (c->da + c->db));
            float *da = c->a->dx + (size_t)i * (size_t)c->a->d + (size_t)(h * c->da);
            float *db = c->b->dx + (size_t)i * (size_t)c->b->d + (size_t)(shared ? 0 : h * c->db);
            for (int k = 0; k < c->da; k++) da[k] += dy[k];
            for (int k = 0; k < c->db; k++) db[k] += dy[c->da + k];
        }
}

Mat *op_head_join(Tape *t, Mat *a, int da, Mat *b, int db, int heads) {
    BUG_ON(a->d != heads * da || (b->d != heads * db && b->d != db) || a->n != b->n);
    int shared = b->d == db;
    Mat *y = tape_mat(t, a->n, heads * (da + db));
    for (int i = 0; i < a->n; i++)
        for (int h = 0; h < heads; h++) {
            float *to = y->x + (size_t)i * (size_t)y->d + (size_t)(h * (da + db));
            const float *from_a = a->x + (size_t)i * (size_t)a->d + (size_t)(h * da);
            const float *from_b = b->x + (size_t)i * (size_t)b->d + (size_t)(shared ? 0 : h * db);
            for (int k = 0; k < da; k++) to[k] = from_a[k];
            for (int k = 0; k < db; k++) to[da + k] = from_b[k];
        }
    if (t->recording) {
        JoinContext *c = tape_alloc(t, sizeof *c);
        *c = (JoinContext){.a = a, .b = b, .y = y, .da = da, .db = db, .heads = heads};
        tape_push(t, join_backward, c);
    }
    return y;
}

typedef struct RepeatContext {
    Mat *x, *y;
    int heads, times;
} RepeatContext;

static void repeat_backward(void *context) {
    const RepeatContext *c = context;
    mat_gradient(c->x);
    mat_gradient(c->y);
    int dim = c->x->d / c->heads;
#pragma omp parallel for if (team_pays((size_t)c->y->n * (size_t)c->y->d, TEAM_ELEMENTS))
    for (int i = 0; i < c->y->n; i++)
        for (int h = 0; h < c->heads * c->times; h++) {
            float *dx = c->x->dx + (size_t)i * (size_t)c->x->d + (size_t)(h / c->times * dim);
            const float *dy = c->y->dx + (size_t)i * (size_t)c->y->d + (size_t)(h * dim);
            for (int k = 0; k < dim; k++) dx[k] += dy[k];
        }
}

Mat *op_head_repeat(Tape *t, Mat *x, int heads, int times) {
    int dim = x->d / heads;
    Mat *y = tape_mat(t, x->n, x->d * times);
    for (int i = 0; i < x->n; i++)
        for (int h = 0; h < heads * times; h++) {
            const float *from = x->x + (size_t)i * (size_t)x->d + (size_t)(h / times * dim);
            float *to = y->x + (size_t)i * (size_t)y->d + (size_t)(h * dim);
            for (int k = 0; k < dim; k++) to[k] = from[k];
        }
    if (t->recording) {
        RepeatContext *c = tape_alloc(t, sizeof *c);
        *c = (RepeatContext){.x = x, .y = y, .heads = heads, .times = times};
        tape_push(t, repeat_backward, c);
    }
    return y;
}

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
