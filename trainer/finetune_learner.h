/* finetune_learner: the network of one run, and a step of its training. */
#ifndef NOISED_FINETUNE_LEARNER_H
#define NOISED_FINETUNE_LEARNER_H

#include "trainer/finetune.h"
#include "trainer/optimizer.h"
#include "trainer/weight_noise.h"

typedef struct Learner {
    Finetune *f;
    uint64_t seed;
    Model model;
    float *weights;   /* all of them; the optimizer has those that are trained */
    ParamSet trained; /* of the model's parameters; names and weights are the model's */
    Optimizer optimizer;
    Tape tape;
    TaskBatch batch;
    Perturb perturb;
    uint32_t *order;               /* [n] of the epoch */
    int *both, *targets;           /* [2 batch] mixed images: each row of logits twice, with two labels */
    float *shares;                 /* [2 batch] */
    int64_t step, steps_per_epoch; /* finished; in each */
    double lr, loss;               /* of the last step; summed over the examples of the epoch */
} Learner;

/* Weights of --init, a new head by the seed; must not move in memory. learner_free takes it in any state. */
int learner_open(Learner *l, Finetune *f, uint64_t seed, Err *err);
void learner_free(Learner *l);

/* The steps of the epoch that l->step stands before. 0, the signal's number when one came, -1 on error. */
int learner_epoch(Learner *l, Err *err);

#endif
