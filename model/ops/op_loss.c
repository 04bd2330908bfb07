#include "base/err.h"
#include "base/team.h"
#include "model/kernels/kernels.h"
#include "model/ops/op.h"

#include <math.h>
#include <string.h>

typedef struct LossContext {
    Mat *logits, *loss;
    const int *targets;
    const float *weights; /* NULL: all 1 */
    float *log_sum;       /* [n] log sum exp of each row */
    double total;         /* of the weights */
} LossContext;

static float weight_of(const LossContext *c, int i) { return c->weights ? c->weights[i] : 1; }

/* dlogits = w_i (softmax - onehot) dloss / sum of w. The logits have no other reader, so their gradient takes their
 * place. */
static void cross_entropy_backward(void *context) {
    const LossContext *c = context;
    Mat *x = c->logits;
    float scale = c->total > 0 ? mat_gradient(c->loss)[0] / (float)c->total : 0;
    size_t d = (size_t)x->d;
    BUG_ON(!mat_first(x) || x->of);
    x->dx = x->x;
#pragma omp parallel for
    for (int i = 0; i < x->n; i++) {
        float *row = x->dx + (size_t)i * d, w = scale * weight_of(c, i);
        if (weight_of(c, i) == 0) {
            memset(row, 0, d * sizeof *row);
            continue;
        }
        kernels->exp_sum_row(x->d, row, row, c->log_sum[i]);
        kernels->train->scale_in_place(x->d, w, row);
        row[c->targets[i]] -= w;
    }
}

Mat *op_cross_entropy(Tape *t, Mat *logits, const int *targets, const float *weights) {
    Mat *loss = tape_mat(t, 1, 1);
    size_t d = (size_t)logits->d;
    LossContext *c = tape_alloc(t, sizeof *c);
    *c = (LossContext){.logits = logits,
                       .loss = loss,
                       .targets = targets,
                       .weights = weights,
                       .log_sum = tape_alloc(t, (size_t)logits->n * sizeof(float))};
    float *scratch = tape_alloc(t, (size_t)team_size() * d * sizeof(float));
#pragma omp parallel for
    for (int i = 0; i < logits->n; i++) {
        const float *row = logits->x + (size_t)i * d;
        if (weight_of(c, i) == 0) continue;
        float max = kernels->max_row(logits->d, row);
        c->log_sum[i] = max + logf(kernels->exp_sum_row(logits->d, row, scratch + (size_t)team_member() * d, max));
    }
    double sum = 0;
    for (int i = 0; i < logits->n; i++) {
        float w = weight_of(c, i);
        BUG_ON(!(w >= 0));
        if (w == 0) continue;
        BUG_ON(targets[i] < 0 || targets[i] >= logits->d);
        sum += w * ((double)c->log_sum[i] - logits->x[(size_t)i * d + (size_t)targets[i]]);
        c->total += w;
    }
    loss->x[0] = c->total > 0 ? (float)(sum / c->total) : 0;
    if (t->recording) tape_push(t, cross_entropy_backward, c);
    return loss;
}
