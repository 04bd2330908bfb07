#include "op.h"

#include "kernels/kernels.h"

#include <math.h>

typedef struct LossContext {
    Mat *logits, *loss;
    const int *targets;
    float *log_sum; /* [n] log sum exp of each row */
} LossContext;

/* dlogits += (softmax - onehot) dloss / n */
static void cross_entropy_backward(void *context) {
    const LossContext *c = context;
    const Mat *x = c->logits;
    float scale = c->loss->dx[0] / (float)x->n;
    size_t d = (size_t)x->d;
#pragma omp parallel for
    for (int i = 0; i < x->n; i++) {
        const float *row = x->x + (size_t)i * d;
        float *dx = x->dx + (size_t)i * d;
        /* logits have no other reader: their dx is overwritten, and held scratch before */
        kernels->exp_sum_row(x->d, row, dx, c->log_sum[i]);
        for (size_t k = 0; k < d; k++) dx[k] *= scale;
        dx[c->targets[i]] -= scale;
    }
}

Mat *op_cross_entropy(Tape *t, Mat *logits, const int *targets) {
    Mat *loss = tape_mat(t, 1, 1);
    size_t d = (size_t)logits->d;
    LossContext *c = tape_alloc(t, sizeof *c);
    *c = (LossContext){.logits = logits,
                       .loss = loss,
                       .targets = targets,
                       .log_sum = tape_alloc(t, (size_t)logits->n * sizeof(float))};
    float *scratch = t->recording ? logits->dx : tape_alloc(t, (size_t)logits->n * d * sizeof(float));
#pragma omp parallel for
    for (int i = 0; i < logits->n; i++) {
        const float *row = logits->x + (size_t)i * d;
        float max = kernels->max_row(logits->d, row);
        c->log_sum[i] = max + logf(kernels->exp_sum_row(logits->d, row, scratch + (size_t)i * d, max));
    }
    double sum = 0;
    for (int i = 0; i < logits->n; i++) {
        BUG_ON(targets[i] < 0 || targets[i] >= logits->d);
        sum += (double)c->log_sum[i] - logits->x[(size_t)i * d + (size_t)targets[i]];
    }
    loss->x[0] = (float)(sum / logits->n);
    if (t->recording) tape_push(t, cross_entropy_backward, c);
    return loss;
}
