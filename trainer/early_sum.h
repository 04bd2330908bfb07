/* early_sum: the end of a step's gradient, bucket by bucket (slices.h) while the last micro-batch still runs backwards.
 *
 * Layers get their gradients from the last one down, so that the buckets at the end of the flat buffer are done first:
 * a thread adds what waits in the tree (gradient_sum.h), then sums over ranks. Nobody else talks to them meanwhile. One
 * rank needs no thread. */
#ifndef NOISED_EARLY_SUM_H
#define NOISED_EARLY_SUM_H

#include "trainer/ranks/gradient_sum.h"
#include "trainer/optimizer.h"

#include <pthread.h>

typedef struct EarlySum {
    const Optimizer *o;
    const ParamSet *ps;
    const GradientSum *sum;
    int64_t leaves, micro_batches; /* of this rank, which may be 0; of the step */
    pthread_t thread;
    pthread_mutex_t mutex;
    pthread_cond_t changed;
    size_t done; /* floats of g from here on are those of the last leaf */
} EarlySum;

/* Before the last micro-batch of this rank runs backwards; the first five are set. Must not move in memory until
 * early_sum_end, behind which g is the sum, where this rank owns it. */
int early_sum_start(EarlySum *e, Err *err);
void early_sum_end(EarlySum *e);

/* For Tape.reached; context is the EarlySum. */
void early_sum_reached(void *context, int layer);

#endif
