/* step_sum: what the micro-batches of a step add up to, their gradient and their loss. A rank computes its share of
 * them (ranks.h), one after the other:
 *
 *     step_sum_begin(s, i, tape)     for i = 0 .. share.n - 1: g = 0
 *     tape_backward                  adds into g
 *     step_sum_add(s, i, loss)
 *     step_sum_end(s, &mean)         g = the sum over all ranks, where this one owns it (slices.h)
 *
 * A machine alone adds them in a tree (gradient_sum.h). Of many ranks each has a subtree, and the trees meet bucket by
 * bucket while the last micro-batch still runs backwards: layers get their gradients from the last one down, so the
 * buckets at the end of the flat buffer are done first, and a thread adds what waits there and talks to the others.
 * Nobody else does meanwhile. */
#ifndef NOISED_STEP_SUM_H
#define NOISED_STEP_SUM_H

#include "model/tape.h"
#include "trainer/ranks/gradient_sum.h"
#include "trainer/ranks/slices.h"

#include <pthread.h>

typedef struct MicroLoss {
    double loss, kl, draws; /* mean cross-entropy, unweighted noise KL, the effective number of noise draws */
} MicroLoss;

typedef struct SumWay SumWay;
typedef struct StepSum {
    const ParamSet *ps;
    const Slices *slices;
    float *g; /* [slices], flat */
    int64_t micro_batches;
    RankShare share;
    GradientSum tree;
    MicroLoss *mine, *all; /* [share.most] of this rank; [that of all ranks] by number */
    const SumWay *way;     /* alone, or with others: then the rest */
    Tape *last;            /* of the last micro-batch */
    pthread_t thread;
    pthread_mutex_t mutex;
    pthread_cond_t changed;
    size_t done; /* floats of g from here on are those of the last micro-batch */
} StepSum;

/* ps, cut into slices, g: borrowed. Must not move in memory. */
void step_sum_init(StepSum *s, const ParamSet *ps, const Slices *slices, float *g, int64_t micro_batches);
void step_sum_free(StepSum *s);

int step_sum_begin(StepSum *s, int64_t i, Tape *tape, Err *err);
void step_sum_add(StepSum *s, int64_t i, MicroLoss loss);
int step_sum_end(StepSum *s, MicroLoss *mean, Err *err);

#endif
