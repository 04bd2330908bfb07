/* micro_batch: --batch windows, forwards and backwards. What it holds is a pure function of the settings and its
 * number. A window stands in it once for every noise that it learns under: --noise-draws times where all of them count,
 * and once where the likeliest alone does, which is found before, forwards only.
 */
#ifndef NOISED_MICRO_BATCH_H
#define NOISED_MICRO_BATCH_H

#include "base/err.h"
#include "trainer/training.h"

typedef struct MicroBatch {
    Tape tape, choice;     /* choice: of the search for the likeliest noise */
    int *tokens, *targets; /* [batch copies T] */
    float *weights;        /* [batch copies T] of the targets; NULL: all 1 */
    Segment *segments;     /* [batch copies] */
} MicroBatch;

typedef struct MicroBatchResult {
    double loss, kl, draws; /* mean cross-entropy, unweighted noise KL, the effective number of noise draws */
} MicroBatchResult;

int micro_batch_copies(const Settings *s); /* of a window */
void micro_batch_init(MicroBatch *b, const Training *t);
void micro_batch_free(MicroBatch *b);

/* Its segments and their noise, and what the windows hold; micro counts those of the step. Where the likeliest noise
 * counts alone, a segment's is the first of its draws. */
int micro_batch_read(MicroBatch *b, const Training *t, int64_t step, int64_t micro, Err *err);
/* Adds to the weights' grad. */
void micro_batch_gradient(MicroBatch *b, const Training *t, MicroBatchResult *r);

#endif
