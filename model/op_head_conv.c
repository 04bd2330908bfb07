#include "op.h"

#include "kernels/kernels.h"

#include <cblas.h>
#include <string.h>

/* y[o, l] = b[o] + sum_c sum_u W[o, c, u] x[c, l + u - p], p = (k - 1) / 2: a convolution along the features of one
 * row, heads being channels. Each row is one small GEMM over its shifted copies:
 *     columns [C k, D], columns[c k + u, l] = x[c, l + u - p];   y = W [O, C k] columns. */
typedef struct ConvContext {
    Mat *x, *y;
    const Weight *w, *b;
    int in, out, kernel, dim;
    float *partial; /* [CHUNKS, O C k + O] */
    float *columns; /* [CHUNKS, 2 C k D] */
} ConvContext;

/* Rows are dealt to a fixed number of chunks and the chunks' weight gradients added in order: the same bits on any
 * team. */
enum { CHUNKS = 16 };

static int chunk_begin(int n, int chunk) { return (int)((int64_t)n * chunk / CHUNKS); }

static void make_columns(const ConvContext *c, const float *x, float *columns) {
    int pad = (c->kernel - 1) / 2, dim = c->dim;
    for (int head = 0; head < c->in; head++)
        for (int u = 0; u < c->kernel; u++) {
            float *row = columns + (size_t)(head * c->kernel + u) * (size_t)dim;
            for (int l = 0; l < dim; l++) {
                int from = l + u - pad;
                row[l] = from >= 0 && from < dim ? x[head * dim + from] : 0;
            }
        }
}

static void add_columns(const ConvContext *c, const float *columns, float *dx) {
    int pad = (c->kernel - 1) / 2, dim = c->dim;
    for (int head = 0; head < c->in; head++)
        for (int u = 0; u < c->kernel; u++) {
            const float *row = columns + (size_t)(head * c->kernel + u) * (size_t)dim;
            int first = MAX(0, pad - u), last = MIN(dim, dim + pad - u);
            for (int l = first; l < last; l++) dx[head * dim + l + u - pad] += row[l];
        }
}

/* dcolumns = W^T dy, dW += dy columns^T, db += sum dy */
static void conv_backward_row(const ConvContext *c, int i, float *columns, float *partial) {
    int dim = c->dim, taps = c->in * c->kernel;
    const float *dy = c->y->dx + (size_t)i * (size_t)c->y->d;
    float *d_columns = columns + (size_t)taps * (size_t)dim, *db = partial + (size_t)c->out * (size_t)taps;
    make_columns(c, c->x->x + (size_t)i * (size_t)c->x->d, columns);
    cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasTrans, c->out, taps, dim, 1, dy, dim, columns, dim, 1, partial, taps);
    cblas_sgemm(CblasRowMajor, CblasTrans, CblasNoTrans, taps, dim, c->out, 1, weight_f32(c->w), taps, dy, dim, 0,
                d_columns, dim);
    add_columns(c, d_columns, c->x->dx + (size_t)i * (size_t)c->x->d);
    for (int o = 0; o < c->out; o++)
        for (int l = 0; l < dim; l++) db[o] += dy[o * dim + l];
}

static void conv_backward(void *context) {
    const ConvContext *c = context;
    size_t taps = (size_t)(c->in * c->kernel), partial = (size_t)c->out * taps + (size_t)c->out;
    size_t columns = 2 * taps * (size_t)c->dim;
#pragma omp parallel for schedule(static)
    for (int chunk = 0; chunk < CHUNKS; chunk++) {
        float *sums = c->partial + (size_t)chunk * partial;
        memset(sums, 0, partial * sizeof(float));
        for (int i = chunk_begin(c->x->n, chunk); i < chunk_begin(c->x->n, chunk + 1); i++)
            conv_backward_row(c, i, c->columns + (size_t)chunk * columns, sums);
    }
    if (!c->w->grad) return;
    for (int chunk = 0; chunk < CHUNKS; chunk++) {
        const float *sums = c->partial + (size_t)chunk * partial;
        for (size_t k = 0; k < (size_t)c->out * taps; k++) c->w->grad[k] += sums[k];
        for (int o = 0; o < c->out; o++) c->b->grad[o] += sums[(size_t)c->out * taps + (size_t)o];
    }
}

/* Training goes through BLAS, serving through the row-invariant GEMM, which wants the shifted copies as rows. */
static void conv_forward_row(const ConvContext *c, int i, bool recording, float *columns) {
    int dim = c->dim, taps = c->in * c->kernel;
    const float *x = c->x->x + (size_t)i * (size_t)c->x->d, *bias = weight_f32(c->b);
    float *y = c->y->x + (size_t)i * (size_t)c->y->d;
    make_columns(c, x, columns);
    if (recording) {
        cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasNoTrans, c->out, dim, taps, 1, weight_f32(c->w), taps, columns,
                    dim, 0, y, dim);
    } else {
        memset(y, 0, (size_t)(c->out * dim) * sizeof(float));
        kernels->mix_f32(c->out, taps, dim, weight_f32(c->w), taps, columns, y);
    }
    for (int o = 0; o < c->out; o++)
        for (int l = 0; l < dim; l++) y[o * dim + l] += bias[o];
}

Mat *op_head_conv(Tape *t, Mat *x, const Weight *w, const Weight *b, int dim) {
    int out = w->dims[0], in = w->dims[1], kernel = w->dims[2];
    BUG_ON(in * dim != x->d);
    Mat *y = tape_mat(t, x->n, out * dim);
    size_t taps = (size_t)(in * kernel), columns = 2 * taps * (size_t)dim;
    ConvContext *c = tape_alloc(t, sizeof *c);
    *c = (ConvContext){.x = x, .y = y, .w = w, .b = b, .in = in, .out = out, .kernel = kernel, .dim = dim};
    c->columns = tape_alloc(t, CHUNKS * columns * sizeof(float));
#pragma omp parallel for schedule(static) if ((size_t)x->n * taps * (size_t)y->d > 1 << 17)
    for (int chunk = 0; chunk < CHUNKS; chunk++)
        for (int i = chunk_begin(x->n, chunk); i < chunk_begin(x->n, chunk + 1); i++)
            conv_forward_row(c, i, t->recording, c->columns + (size_t)chunk * columns);
    if (t->recording) {
        c->partial = tape_alloc(t, CHUNKS * ((size_t)out * taps + (size_t)out) * sizeof(float));
        tape_push(t, conv_backward, c);
    }
    return y;
}
