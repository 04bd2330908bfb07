/* step_sum: what the micro-batches of a step add up to, their gradient and their loss. A rank computes its share of
 * them (ranks.h), one after the other:
 *
 *     step_sum_begin(s, i, tape)     for i = 0 .. share.n - 1: g = 0
 *     tape_backward                  adds into g
 *     step_sum_add(s, i, loss)
 *     step_sum_end(s, &mean)         g = the sum over all ranks, where this one owns it (slices.h)
 *
 * Gradients are added as integers (fixed_sum.h), so no order of them has to be kept. Ranks meet bucket by bucket while
 * the last micro-batch still runs backwards: layers get their gradients from the last one down, so the buckets at the
 * end of the flat buffer are done first, and a thread adds what is there and talks to the others. Nobody else does
 * meanwhile. */
#ifndef NOISED_STEP_SUM_H
#define NOISED_STEP_SUM_H

#include "model/tape.h"
#include "trainer/ranks/slices.h"

#include <pthread.h>

typedef struct MicroLoss {
    double loss, kl, draws; /* mean cross-entropy, unweighted noise KL, the effective number of noise draws */
} MicroLoss;

/* A number of a gradient that no sum takes (fixed_sum.h). */
typedef struct Misfit {
    int64_t micro_batch; /* INT64_MAX: there is none */
    size_t at;           /* in the flat buffer */
    float value;
} Misfit;

typedef struct SumWay SumWay;
typedef struct StepSum {
    const ParamSet *ps;
    const Slices *slices;
    float *g; /* [slices], flat */
    int64_t micro_batches;
    RankShare share;
    double unit;
    int64_t *sum;          /* [slices], flat */
    MicroLoss *mine, *all; /* [share.n, or one more] of this rank; [that of all ranks] */
    Misfit misfit;         /* the first of the first micro-batch that has any */
    const SumWay *way;     /* alone, or with others: then the rest */
    int64_t *arrived;      /* what this rank owns of a bucket */
    Tape *last;            /* of the last micro-batch */
    pthread_t thread;
    pthread_mutex_t mutex;
    pthread_cond_t changed;
    size_t done; /* floats of g from here on are those of the last micro-batch */
} StepSum;

size_t step_sum_memory(size_t n_params); /* bytes, of this rank */

/* ps, cut into slices, g: borrowed. Must not move in memory. */
void step_sum_init(StepSum *s, const ParamSet *ps, const Slices *slices, float *g, int64_t micro_batches);
void step_sum_free(StepSum *s);

int step_sum_begin(StepSum *s, int64_t i, Tape *tape, Err *err);
void step_sum_add(StepSum *s, int64_t i, MicroLoss loss);
/* Behind it s->misfit is the same on every rank; where there is one g is worth nothing. */
void step_sum_end(StepSum *s, MicroLoss *mean);
const char *step_sum_tensor(const StepSum *s, size_t at); /* the name of what is there in the flat buffer */

#endif
