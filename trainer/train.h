/* train: the loop. One step = accumulate micro-batches of --batch windows, clip, AdamW, log; now and then evaluate and
 * save. Everything that a step does is a pure function of the weights, the moments, the settings and its number. */
#ifndef NOISED_TRAIN_H
#define NOISED_TRAIN_H

#include "base/err.h"
#include "trainer/training.h"

/* Gradient of one micro-batch, added to the weights' grad; the step's perturbation is the caller's. Returns the mean
 * cross-entropy, *kl the unweighted noise KL. For tests; train() calls it --accumulate times a step. */
typedef struct MicroBatch {
    Tape tape;
    int *tokens, *targets; /* [batch T] */
    Segment *segments;     /* [batch] */
} MicroBatch;

void micro_batch_init(MicroBatch *b, const Training *t);
void micro_batch_free(MicroBatch *b);
double micro_batch_gradient(MicroBatch *b, const Training *t, int64_t step, int64_t micro, double *kl);

/* Trains from `step` finished steps to --steps, after saving once, so that a folder that cannot be written is noticed
 * first. 0 when done, the signal's number when one came (the run is saved then), -1 on error. */
int train(const Training *t, int64_t step, Err *err);

#endif
