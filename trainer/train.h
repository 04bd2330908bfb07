/* train: the loop, whatever is learnt (objective.h). One step = the gradients of its micro-batches, summed, and one
 * update of the weights. All that it does is a pure function of the weights, the moments, the settings and its number.
 * Of many ranks (ranks.h) each computes its share of the micro-batches; the bits are those of one. */
#ifndef NOISED_TRAIN_H
#define NOISED_TRAIN_H

#include "trainer/training.h"

/* Trains until the objective is done. 0 then; the signal's number when one came; -1 on error. Closes the log. */
int training_loop(Training *t, Err *err);

#endif
