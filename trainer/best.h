/* best: the weights of the lowest validation loss so far, in --out/best: a folder that can be served, without what a
 * resumed run needs. Losses are of the same 64 windows. The log says of a step that it was the best then:
 *     {"step":400, ..., "best":3.21} */
#ifndef NOISED_BEST_H
#define NOISED_BEST_H

#include "base/err.h"
#include "trainer/training.h"

#define BEST_FOLDER "best"

typedef struct Best {
    double loss; /* INFINITY: nothing was evaluated yet */
    int64_t step;
} Best;

/* What the log of dir says; its steps must be those of the run that goes on. */
int best_load(Best *b, const char *dir, Err *err);
/* Saves the weights after `step`, if their loss is lower, and adds to the step's line of the log. */
int best_keep(Best *b, const Training *t, int64_t step, double loss, cJSON *line, Err *err);

#endif
