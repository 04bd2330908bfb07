#include "base/err.h"
#include "base/team.h"
#include "model/kernels/kernels.h"
#include "model/ops/op.h"

#include <math.h>

typedef struct LossContext {
    Mat *logits, *loss;
    const int *targets;
    float *log_sum; /* [n] log sum exp of each row */
} LossContext;

/* dlogits = (softmax - onehot) dloss / n. The logits have no other reader, so their gradient takes their place. */
static void cross_entropy_backward(void *context) {
    const LossContext *c = context;
    Mat *x = c->logits;
    float scale = mat_gradient(c->loss)[0] / (float)x->n;
    size_t d = (size_t)x->d;
    BUG_ON(!mat_first(x) || x->of);
    x->dx = x->x;
#pragma omp parallel for
    for (int i = 0; i < x->n; i++) {
        float *row = x->dx + (size_t)i * d;
        kernels->exp_sum_row(x->d, row, row, c->log_sum[i]);
        kernels->train->scale_in_place(x->d, scale, row);
        row[c->targets[i]] -= scale;
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
    float *scratch = tape_alloc(t, (size_t)team_size() * d * sizeof(float));
#pragma omp parallel for
    for (int i = 0; i < logits->n; i++) {
        const float *row = logits->x + (size_t)i * d;
        float max = kernels->max_row(logits->d, row);
        c->log_sum[i] = max + logf(kernels->exp_sum_row(logits->d, row, scratch + (size_t)team_member() * d, max));
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
