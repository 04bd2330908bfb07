/* micro_batch: --batch windows, forwards and backwards. What it holds is a pure function of the settings and its
 * number. A window stands in it once for every noise that it learns under: --noise-draws times, or once for each
 * component that its sequence may have, where all of them count, and once where the likeliest alone does, which is
 * found before, forwards only; ASSIGN_BALANCED favours components that few windows of the micro-batch would have. One
 * window in ten learns without a component, so that noise_scale 0 is a network too.
 *
 * With --pieces every other window of the run stands in it as sequences of so many tokens, all under the window's
 * noise: what a beginning sounds like is learned where little else tells, and chosen by all of the window. */
#ifndef NOISED_MICRO_BATCH_H
#define NOISED_MICRO_BATCH_H

#include "model/transformer.h"
#include "trainer/ranks/step_sum.h"
#include "trainer/settings.h"
#include "trainer/text/windows.h"

typedef struct MicroBatch {
    const Settings *settings;
    const Model *model;
    Windows *windows;
    Tape choice;           /* of the search for the likeliest noise */
    int *tokens, *targets; /* [batch copies T] */
    float *weights;        /* [batch copies T] of the targets; NULL: all 1 */
    uint64_t first;        /* the number of its first window in the run */
    NoiseKey *noise;       /* [batch copies] */
    Segment *segments;     /* what is computed next; room for all */
} MicroBatch;

int micro_batch_copies(const Settings *s, const Config *c); /* of a window */
bool micro_batch_tries(const Settings *s, const Config *c); /* noises before the gradient, forwards only */
void micro_batch_init(MicroBatch *b, const Settings *s, const Model *m, Windows *w);
void micro_batch_free(MicroBatch *b);

/* What the windows hold and their noise; micro counts those of the step. Where the likeliest noise counts alone, a
 * window's is the first of its draws. */
int micro_batch_read(MicroBatch *b, int64_t step, int64_t micro, Err *err);
/* Adds to the weights' grad, by a tape that records. */
MicroLoss micro_batch_gradient(MicroBatch *b, Tape *tape);

#endif
