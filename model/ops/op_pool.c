#include "base/err.h"
#include "model/kernels/kernels.h"
#include "model/ops/op.h"

#include <string.h>

typedef struct PoolContext {
    Mat *x, *y;
    const Batch *batch;
} PoolContext;

static void mean_backward(void *context) {
    const PoolContext *c = context;
    size_t d = (size_t)c->x->d;
    const float *dy = mat_gradient(c->y);
    float *dx = mat_gradient(c->x);
    for (int s = 0; s < c->batch->n_segments; s++) {
        const Segment *seg = &c->batch->segments[s];
        for (int i = 0; i < seg->n; i++)
            kernels->add_affine_row(c->x->d, 0, 1 / (float)seg->n, dy + (size_t)s * d,
                                    dx + (size_t)(seg->row0 + i) * d);
    }
}

Mat *op_mean(Tape *t, Mat *x, const Batch *batch) {
    size_t d = (size_t)x->d;
    Mat *y = tape_mat(t, batch->n_segments, x->d);
    BUG_ON(batch->n != x->n);
    for (int s = 0; s < batch->n_segments; s++) {
        const Segment *seg = &batch->segments[s];
        float *mean = y->x + (size_t)s * d;
        memset(mean, 0, d * sizeof *mean);
        for (int i = 0; i < seg->n; i++) kernels->add_row(x->d, x->x + (size_t)(seg->row0 + i) * d, mean);
        kernels->scale_row(x->d, 1 / (float)seg->n, mean, mean);
    }
    if (t->recording) {
        PoolContext *c = tape_alloc(t, sizeof *c);
        *c = (PoolContext){.x = x, .y = y, .batch = batch};
        tape_push(t, mean_backward, c);
    }
    return y;
}
