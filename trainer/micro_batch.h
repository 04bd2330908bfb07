/* micro_batch: --batch windows, forwards and backwards. What it holds is a pure function of the settings and its
 * number.
 */
#ifndef NOISED_MICRO_BATCH_H
#define NOISED_MICRO_BATCH_H

#include "base/err.h"
#include "trainer/training.h"

typedef struct MicroBatch {
    Tape tape;
    int *tokens, *targets; /* [batch draws T] */
    float *weights;        /* [batch draws T] of the targets; NULL: all 1 */
    Segment *segments;     /* [batch draws] */
} MicroBatch;

typedef struct MicroBatchResult {
    double loss, kl, draws; /* mean cross-entropy, unweighted noise KL, the effective number of noise draws */
} MicroBatchResult;

void micro_batch_init(MicroBatch *b, const Training *t);
void micro_batch_free(MicroBatch *b);

/* Its segments and their noise, and what the windows hold; micro counts those of the step. */
int micro_batch_read(MicroBatch *b, const Training *t, int64_t step, int64_t micro, Err *err);
/* Adds to the weights' grad. */
void micro_batch_gradient(MicroBatch *b, const Training *t, MicroBatchResult *r);

#endif
