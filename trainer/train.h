/* train: the loop. One step = accumulate micro-batches of --batch windows, clip, AdamW, log; now and then evaluate and
 * save. Everything that a step does is a pure function of the weights, the moments, the settings and its number. Of
 * many ranks (ranks.h) each computes its share of the micro-batches; the bits are those of one. */
#ifndef NOISED_TRAIN_H
#define NOISED_TRAIN_H

#include "base/err.h"
#include "trainer/training.h"

/* Trains from `step` finished steps to --steps, after saving once, so that a folder that cannot be written is noticed
 * first. 0 when done, the signal's number when one came (the run is saved then), -1 on error. */
int train(const Training *t, int64_t step, Err *err);

#endif
