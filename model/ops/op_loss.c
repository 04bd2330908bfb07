#include "base/err.h"
#include "base/fixed_math.h"
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
    float *dx = mat_gradient_in_place(x);
#pragma omp parallel for
    for (int i = 0; i < x->n; i++) {
        float *row = dx + (size_t)i * d, w = scale * weight_of(c, i);
        if (weight_of(c, i) == 0) {
            memset(row, 0, d * sizeof *row);
            continue;
        }
        kernels->exp_sum_row(x->d, row, row, c->log_sum[i]);
        kernels->train->scale_in_place(x->d, w, row);
        row[c->targets[i]] -= w;
    }
}

/* With the log_sum of every row that has a weight. */
static LossContext *loss_open(Tape *t, Mat *logits, const int *targets, const float *weights) {
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
        c->log_sum[i] = max + (float)fixed_log((double)kernels->exp_sum_row(logits->d, row,
                                                                            scratch + (size_t)team_member() * d, max));
    }
    return c;
}

static Mat *loss_close(Tape *t, LossContext *c, double sum) {
    c->loss->x[0] = c->total > 0 ? (float)(sum / c->total) : 0;
    if (t->recording) tape_push(t, cross_entropy_backward, c);
    return c->loss;
}

/* -log p of the target of row i */
static double surprise(const LossContext *c, int i) {
    BUG_ON(c->targets[i] < 0 || c->targets[i] >= c->logits->d);
    return (double)c->log_sum[i] - c->logits->x[(size_t)i * (size_t)c->logits->d + (size_t)c->targets[i]];
}

Mat *op_cross_entropy(Tape *t, Mat *logits, const int *targets, const float *weights) {
    LossContext *c = loss_open(t, logits, targets, weights);
    double sum = 0;
    for (int i = 0; i < logits->n; i++) {
        float w = weight_of(c, i);
        BUG_ON(!(w >= 0));
        if (w == 0) continue;
        sum += w * surprise(c, i);
        c->total += w;
    }
    return loss_close(t, c, sum);
}

/* share[k] = p_k / sum p of the draws of the window that begins at row `first`. Returns the window's loss. */
static double share_window(const LossContext *c, const NoiseDraws *draws, int first, double *share) {
    double least = INFINITY, sum = 0;
    for (int k = 0; k < draws->n; k++) {
        share[k] = 0;
        for (int row = first + k * draws->length; row < first + (k + 1) * draws->length; row++)
            if (weight_of(c, row) > 0) share[k] += weight_of(c, row) * surprise(c, row);
        least = fmin(least, share[k]);
    }
    for (int k = 0; k < draws->n; k++) sum += share[k] = fixed_exp(least - share[k]);
    for (int k = 0; k < draws->n; k++) share[k] /= sum;
    return least - fixed_log(sum / draws->n);
}

Mat *op_cross_entropy_draws(Tape *t, Mat *logits, const int *targets, const float *weights, const NoiseDraws *draws,
                            double *effective) {
    int rows = draws->n * draws->length, n_windows = logits->n / rows;
    BUG_ON(draws->n < 1 || draws->n > NOISE_DRAWS_MAX || n_windows * rows != logits->n);
    LossContext *c = loss_open(t, logits, targets, weights);
    float *shares = tape_alloc(t, (size_t)logits->n * sizeof *shares);
    double sum = 0, drawn = 0, share[NOISE_DRAWS_MAX];
    for (int w = 0; w < n_windows; w++) {
        double squares = 0;
        sum += share_window(c, draws, w * rows, share);
        for (int k = 0; k < draws->n; k++) squares += share[k] * share[k];
        drawn += 1 / squares;
        for (int i = 0; i < rows; i++)
            shares[w * rows + i] = weight_of(c, w * rows + i) * (float)share[i / draws->length];
        for (int i = 0; i < draws->length; i++) c->total += weight_of(c, w * rows + i);
    }
    c->weights = shares;
    if (effective) *effective = drawn / n_windows;
    return loss_close(t, c, sum);
}
