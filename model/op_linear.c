#include "op.h"

#include "kernels/kernels.h"

#include <cblas.h>

typedef struct LinearContext {
    Mat *x, *y;
    const Weight *w, *b;
} LinearContext;

/* db += sum over rows of dy. Split by column, so that the order of the sum is that of the rows on any team. */
static void bias_backward(const Mat *y, float *db) {
    enum { WIDTH = 64 };
#pragma omp parallel for if ((size_t)y->n * (size_t)y->d > 1 << 16)
    for (int c0 = 0; c0 < y->d; c0 += WIDTH) {
        int c1 = MIN(c0 + WIDTH, y->d);
        for (int i = 0; i < y->n; i++)
            for (int c = c0; c < c1; c++) db[c] += y->dx[(size_t)i * (size_t)y->d + (size_t)c];
    }
}

/* dx += dy W; dW += dy^T x; db += sum dy */
static void linear_backward(void *context) {
    const LinearContext *c = context;
    const Mat *x = c->x, *y = c->y;
    cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasNoTrans, x->n, x->d, y->d, 1, y->dx, y->d, weight_f32(c->w), x->d, 1,
                x->dx, x->d);
    if (c->w->grad)
        cblas_sgemm(CblasRowMajor, CblasTrans, CblasNoTrans, y->d, x->d, x->n, 1, y->dx, y->d, x->x, x->d, 1,
                    c->w->grad, x->d);
    if (c->b && c->b->grad) bias_backward(y, c->b->grad);
}

static void add_bias(const Mat *y, const float *b, int first, int count) {
    for (int i = 0; i < y->n; i++) kernels->add_row(count, b + first, y->x + (size_t)i * (size_t)y->d + first);
}

/* x as the kernel for the weight's dtype takes it. */
typedef struct Operand {
    const Mat *x;
    uint16_t *bf16; /* [n, in], BF16 only */
    int8_t *codes;  /* [n, in], I8 only */
    float *scales;  /* [n, in / INT8_GROUP] */
} Operand;

static Operand operand_of(Tape *t, const Mat *x, Dtype dtype) {
    size_t n = (size_t)x->n, d = (size_t)x->d, groups = d / INT8_GROUP;
    Operand a = {.x = x};
    if (dtype == DTYPE_BF16) {
        a.bf16 = tape_alloc(t, n * d * sizeof *a.bf16);
        for (size_t i = 0; i < n; i++) kernels->to_bf16(x->d, x->x + i * d, a.bf16 + i * d);
    }
    if (dtype == DTYPE_I8) {
        a.codes = tape_alloc(t, n * d);
        a.scales = tape_alloc(t, n * groups * sizeof *a.scales);
        for (size_t i = 0; i < n; i++) kernels->to_int8(x->d, x->x + i * d, a.codes + i * d, a.scales + i * groups);
    }
    return a;
}

/* Output features first..first+count-1 of every row. */
static void serve_features(const Operand *a, const Weight *w, const Mat *y, int first, int count) {
    const Mat *x = a->x;
    int k = x->d;
    size_t at = (size_t)first * (size_t)k;
    float *out = y->x + first;
    switch (w->dtype) {
    case DTYPE_F32:
        kernels->gemm_f32(x->n, count, k, x->x, k, (const float *)w->data + at, out, y->d);
        break;
    case DTYPE_BF16:
        kernels->gemm_bf16(x->n, count, k, a->bf16, k, (const uint16_t *)w->data + at, out, y->d);
        break;
    case DTYPE_F16:
        kernels->gemm_f16(x->n, count, k, x->x, k, (const uint16_t *)w->data + at, out, y->d);
        break;
    case DTYPE_I8:
        kernels->gemm_i8(x->n, count, k, a->codes, a->scales, (const int8_t *)w->data + at, w->scale + at / INT8_GROUP,
                         out, y->d);
    }
}

static void linear_serve(Tape *t, const Mat *x, const Weight *w, const Weight *b, const Mat *y) {
    enum { FEATURES = 32 }; /* per task: enough work to be worth handing out, small enough to balance */
    ArenaMark mark = arena_mark(&t->arena);
    Operand a = operand_of(t, x, w->dtype);
#pragma omp parallel for schedule(static) if ((size_t)x->n * (size_t)x->d * (size_t)y->d > 1 << 17)
    for (int first = 0; first < y->d; first += FEATURES) {
        int count = MIN(FEATURES, y->d - first);
        serve_features(&a, w, y, first, count);
        if (b) add_bias(y, weight_f32(b), first, count);
    }
    arena_rewind(&t->arena, mark);
}

Mat *op_linear(Tape *t, Mat *x, const Weight *w, const Weight *b) {
    BUG_ON(w->n_dims != 2 || w->dims[1] != x->d);
    Mat *y = tape_mat(t, x->n, w->dims[0]);
    if (!t->recording) {
        linear_serve(t, x, w, b, y);
        return y;
    }
    cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasTrans, x->n, y->d, x->d, 1, x->x, x->d, weight_f32(w), x->d, 0, y->x,
                y->d);
    if (b) add_bias(y, weight_f32(b), 0, y->d);
    LinearContext *c = tape_alloc(t, sizeof *c);
    *c = (LinearContext){.x = x, .y = y, .w = w, .b = b};
    tape_push(t, linear_backward, c);
    return y;
}
