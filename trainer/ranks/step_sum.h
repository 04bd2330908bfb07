/* step_sum: what the micro-batches of a step add up to, their gradient and their loss. A rank computes its share of
 * them (ranks.h), one after the other:
 *
 *     step_sum_begin(s, i, tape)     for i = 0 .. share.n - 1
 *     tape_backward                  adds into the weights' grad (layer_gradients.h)
 *     step_sum_add(s, i, loss)
 *     step_sum_end(s, &mean)         sum = that over all ranks, of what this one owns (slices.h)
 *
 * Gradients are added as integers (fixed_sum.h), so no order of them has to be kept. A single one of a machine alone is
 * rounded as they are, where it lies. As the tape leaves a layer, what it has is added and its place is free for the
 * next one. A machine alone does that there and then. Of many ranks each has a thread that makes integers of it, bucket
 * by bucket, and meets the others: each gets the sum of what it owns. The layer below is computed meanwhile. So all
 * ranks have as many micro-batches in a step, of which the last of some are none, and nobody holds more than its share
 * of the sum: ZeRO's second stage. */
#ifndef NOISED_STEP_SUM_H
#define NOISED_STEP_SUM_H

#include "model/tape.h"
#include "trainer/ranks/layer_gradients.h"
#include "trainer/ranks/slices.h"

#include <pthread.h>

typedef struct MicroLoss {
    double loss, kl, draws; /* mean cross-entropy, unweighted noise KL, the effective number of noise draws */
    double chosen; /* where loss is that of all components: what the gradient is of, under the chosen one; else 0 */
} MicroLoss;

/* A number of a gradient that no sum takes (fixed_sum.h). */
typedef struct Misfit {
    int64_t micro_batch; /* INT64_MAX: there is none */
    size_t at;           /* in the flat order */
    float value;
} Misfit;

/* Integers; or, where one machine has a single micro-batch, what would be read of them: then the weights' grad is
 * there, zeros before a step. */
typedef struct GradientSum {
    int64_t *integers; /* [slices.owned] */
    float *floats;     /* [slices.owned] */
    double *squares;   /* [slices.n] with floats: the sum of each slice's squares */
} GradientSum;

bool step_sum_in_floats(int64_t micro_batches);
/* Makes floats that lie in sum what would be read, of slices from..to-1, and sums their squares. Returns the place of
 * the first in sum that does not fit, as fixed_sum_add does. */
size_t gradient_sum_round(const Slices *s, int from, int to, GradientSum sum);

typedef struct SumWay SumWay;
typedef struct StepSum {
    const ParamSet *ps;
    const Slices *slices;
    GradientSum sum;
    LayerGradients gradients;
    int64_t micro_batches, i; /* i: of this rank's, the one that is being added */
    RankShare share;
    double unit;
    MicroLoss *mine, *all; /* [share.n, or one more] of this rank; [that of all ranks] */
    Misfit misfit;         /* the first of the first micro-batch that has any */
    Tape *tape;
    const SumWay *way;           /* alone, by a single one or some; or with others: then the rest but for rounded */
    int64_t *integers, *arrived; /* of a bucket; the sum of what this rank owns of it */
    pthread_t thread;
    pthread_mutex_t mutex;
    pthread_cond_t changed;
    int done, added; /* parts of the gradients from here on are those of the micro-batch; are added, and cleared */
    int rounded;     /* slices from here on are, of a single one */
} StepSum;

/* Bytes of this rank, without the sum. */
size_t step_sum_memory(const ParamSet *ps, int64_t micro_batches);

/* ps, cut into slices, and sum: borrowed. Must not move in memory. */
void step_sum_init(StepSum *s, const ParamSet *ps, const Slices *slices, GradientSum sum, int64_t micro_batches);
void step_sum_free(StepSum *s);

int step_sum_begin(StepSum *s, int64_t i, Tape *tape, Err *err);
void step_sum_add(StepSum *s, int64_t i, MicroLoss loss);
/* Behind it s->misfit is the same on every rank; where there is one the sum is worth nothing. */
void step_sum_end(StepSum *s, MicroLoss *mean);
const char *step_sum_tensor(const StepSum *s, size_t at); /* the name of what is there in the flat order */

/* Sums that ranks meet for in a step: as many as the rank with most of them has micro-batches. */
int64_t step_sum_meetings(int64_t micro_batches);

#endif
