/* objective: what a training learns, as the loop sees it (train.h): the next token of texts (language.c), or labels of
 * examples (labelled.c). `self` is its own. Steps count from 0; where one is finished, its number is how many are. */
#ifndef NOISED_OBJECTIVE_H
#define NOISED_OBJECTIVE_H

#include "trainer/ranks/step_sum.h"
#include "trainer/runlog.h"

/* A finished step. */
typedef struct Step {
    int64_t number;
    MicroLoss mean;           /* of its micro-batches */
    double lr, norm, seconds; /* norm: the gradient's, before clipping */
} Step;

typedef struct Objective {
    /* Micro-batch `micro` of a step: what is in it is a pure function of both numbers and the settings. */
    int (*read)(void *self, int64_t step, int64_t micro, Err *err);
    /* Adds its gradient to the weights'. */
    MicroLoss (*gradient)(void *self, Tape *tape);
    /* Says, scores and logs the step, keeps the best, and refuses to go on where that is hopeless. *save becomes true
     * where the run is to be saved now. */
    int (*finish)(void *self, const Step *s, bool *save, Err *err);
    bool stops_anywhere; /* a signal saves the run behind any step; else the steps since the last save are lost */
    /* What a save writes behind the optimizer's file, whose rename has committed it (training.h): m is the model as it
     * is there. On another thread than the rest of this, while that goes on. NULL: nothing. */
    int (*save)(void *self, const Model *m, int64_t step, Err *err);
    bool (*done)(void *self, int64_t step);
    /* Learns again what a line of the log tells, in their order: the figure of which the best is kept, NaN where it has
     * none. */
    int (*figure)(void *self, const RunLogLine *line, double *figure, Err *err);
} Objective;

#endif
