#include "op.h"

#include "kernels/kernels.h"

#include <cblas.h>
#include <string.h>

/* y[o, l] = b[o] + sum_c sum_u W[o, c, u] x[c, l + u - p], p = (k - 1) / 2: a convolution along the features of a row,
 * heads being channels. A group of R rows is one GEMM over their shifted copies, side by side:
 *     columns [C k, R D], columns[c k + u, r D + l] = x_r[c, l + u - p];   [y_0 .. y_R-1] = W [O, C k] columns. */
typedef struct ConvContext {
    Mat *x, *y;
    const Weight *w, *b;
    int in, out, kernel, dim, taps; /* taps = in kernel */
    float *partial;                 /* [CHUNKS, O taps + O] */
    float *scratch;                 /* [CHUNKS, scratch_floats] */
    size_t scratch_floats;
} ConvContext;

/* Rows are dealt to a fixed number of chunks and the chunks' weight gradients added in order: the same bits on any
 * team. GROUP rows make a GEMM that is worth its call. */
enum { CHUNKS = 16, GROUP = 16 };

static int chunk_begin(int n, int chunk) { return (int)((int64_t)n * chunk / CHUNKS); }

/* Calls step for every group of rows of a chunk. */
typedef void ConvStep(const ConvContext *c, int first, int rows, float *scratch, float *partial, bool recording);

static void each_group(const ConvContext *c, int chunk, float *partial, bool recording, ConvStep *step) {
    int end = chunk_begin(c->x->n, chunk + 1);
    for (int first = chunk_begin(c->x->n, chunk); first < end; first += GROUP)
        step(c, first, MIN(GROUP, end - first), c->scratch + (size_t)chunk * c->scratch_floats, partial, recording);
}

static void make_columns(const ConvContext *c, int first, int rows, float *columns) {
    int pad = (c->kernel - 1) / 2, dim = c->dim;
    for (int tap = 0; tap < c->taps; tap++) {
        int head = tap / c->kernel, shift = tap % c->kernel - pad;
        int from = MAX(0, -shift), to = dim - MAX(0, shift);
        for (int r = 0; r < rows; r++) {
            const float *x = c->x->x + (size_t)(first + r) * (size_t)c->x->d + head * dim;
            float *out = columns + (size_t)(tap * rows + r) * (size_t)dim;
            for (int l = 0; l < from; l++) out[l] = 0;
            for (int l = from; l < to; l++) out[l] = x[l + shift];
            for (int l = to; l < dim; l++) out[l] = 0;
        }
    }
}

static void add_columns(const ConvContext *c, int first, int rows, const float *columns) {
    int pad = (c->kernel - 1) / 2, dim = c->dim;
    for (int tap = 0; tap < c->taps; tap++) {
        int head = tap / c->kernel, shift = tap % c->kernel - pad;
        int from = MAX(0, -shift), to = dim - MAX(0, shift);
        for (int r = 0; r < rows; r++) {
            float *dx = c->x->dx + (size_t)(first + r) * (size_t)c->x->d + head * dim;
            const float *in = columns + (size_t)(tap * rows + r) * (size_t)dim;
            for (int l = from; l < to; l++) dx[l + shift] += in[l];
        }
    }
}

/* dW += dy columns^T, db += sum dy, dcolumns = W^T dy */
static void backward_group(const ConvContext *c, int first, int rows, float *scratch, float *partial, bool recording) {
    int dim = c->dim, wide = rows * dim;
    float *columns = scratch, *dy = columns + (size_t)c->taps * (size_t)wide,
          *db = partial + (size_t)c->out * (size_t)c->taps;
    (void)recording;
    for (int o = 0; o < c->out; o++)
        for (int r = 0; r < rows; r++) {
            const float *from = c->y->dx + (size_t)(first + r) * (size_t)c->y->d + o * dim;
            float *to = dy + (size_t)(o * rows + r) * (size_t)dim;
            float sum = 0;
            for (int l = 0; l < dim; l++) sum += to[l] = from[l];
            db[o] += sum;
        }
    make_columns(c, first, rows, columns);
    cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasTrans, c->out, c->taps, wide, 1, dy, wide, columns, wide, 1, partial,
                c->taps);
    cblas_sgemm(CblasRowMajor, CblasTrans, CblasNoTrans, c->taps, wide, c->out, 1, weight_f32(c->w), c->taps, dy, wide,
                0, columns, wide);
    add_columns(c, first, rows, columns);
}

static void conv_backward(void *context) {
    const ConvContext *c = context;
    size_t weights = (size_t)c->out * (size_t)c->taps, partial = weights + (size_t)c->out;
#pragma omp parallel for schedule(static)
    for (int chunk = 0; chunk < CHUNKS; chunk++) {
        float *sums = c->partial + (size_t)chunk * partial;
        memset(sums, 0, partial * sizeof(float));
        each_group(c, chunk, sums, true, backward_group);
    }
    if (!c->w->grad) return;
    for (int chunk = 0; chunk < CHUNKS; chunk++) {
        const float *sums = c->partial + (size_t)chunk * partial;
        for (size_t k = 0; k < weights; k++) c->w->grad[k] += sums[k];
        for (int o = 0; o < c->out; o++) c->b->grad[o] += sums[weights + (size_t)o];
    }
}

/* Training goes through BLAS, serving through the kernel that adds the taps in order whatever the group is. */
static void forward_group(const ConvContext *c, int first, int rows, float *scratch, float *partial, bool recording) {
    int dim = c->dim, wide = rows * dim;
    const float *bias = weight_f32(c->b);
    float *columns = scratch, *y = columns + (size_t)c->taps * (size_t)wide;
    (void)partial;
    make_columns(c, first, rows, columns);
    for (int o = 0; o < c->out; o++)
        for (int k = 0; k < wide; k++) y[o * wide + k] = bias[o];
    if (recording)
        cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasNoTrans, c->out, wide, c->taps, 1, weight_f32(c->w), c->taps,
                    columns, wide, 1, y, wide);
    else
        kernels->mix_f32(c->out, c->taps, wide, weight_f32(c->w), c->taps, columns, y);
    for (int r = 0; r < rows; r++)
        for (int o = 0; o < c->out; o++)
            memcpy(c->y->x + (size_t)(first + r) * (size_t)c->y->d + o * dim, y + (size_t)(o * rows + r) * (size_t)dim,
                   (size_t)dim * sizeof(float));
}

Mat *op_head_conv(Tape *t, Mat *x, const Weight *w, const Weight *b, int dim) {
    int out = w->dims[0], in = w->dims[1], kernel = w->dims[2];
    BUG_ON(in * dim != x->d);
    Mat *y = tape_mat(t, x->n, out * dim);
    ConvContext *c = tape_alloc(t, sizeof *c);
    *c = (ConvContext){
        .x = x, .y = y, .w = w, .b = b, .in = in, .out = out, .kernel = kernel, .dim = dim, .taps = in * kernel};
    c->scratch_floats = (size_t)(c->taps + out) * (size_t)(MIN(GROUP, x->n / CHUNKS + 1) * dim);
    c->scratch = tape_alloc(t, CHUNKS * c->scratch_floats * sizeof(float));
#pragma omp parallel for schedule(static) if ((size_t)x->n * (size_t)c->taps * (size_t)y->d > 1 << 17)
    for (int chunk = 0; chunk < CHUNKS; chunk++) each_group(c, chunk, NULL, t->recording, forward_group);
    if (t->recording) {
        c->partial = tape_alloc(t, CHUNKS * ((size_t)out * (size_t)c->taps + (size_t)out) * sizeof(float));
        tape_push(t, conv_backward, c);
    }
    return y;
}
