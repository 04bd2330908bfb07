/* labelled: the objective of `finetune`, the labels of examples. A step is --batch examples of an epoch, which has its
 * own order; the last step of one scores, logs and saves. */
#ifndef NOISED_LABELLED_H
#define NOISED_LABELLED_H

#include "trainer/finetune.h"
#include "trainer/training.h"

typedef struct Labelled {
    Finetune *f;
    Training training; /* with this as its objective, accumulate 1 */
    int64_t steps_per_epoch;
    uint32_t *order;        /* [n] of the epoch */
    const uint32_t *chosen; /* of the step, in order */
    int n_chosen;
    TaskBatch batch;
    double share;        /* of an image's own label; 1: nothing is mixed */
    int *both, *targets; /* [2 batch] mixed images: each row of logits twice, with two labels */
    float *shares;       /* [2 batch] */
    double loss;         /* summed over the examples of the epoch */
    int64_t logged;      /* step of the last line of the log */
} Labelled;

/* Of one run: its seed, its folder. Must not move in memory; labelled_free takes it in any state. */
void labelled_init(Labelled *l, Finetune *f, uint64_t seed, const char *dir);
void labelled_free(Labelled *l);

#endif
