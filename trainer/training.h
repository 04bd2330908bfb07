/* training: a network that learns, and all that a run of it stands on, whatever it learns (objective.h).
 *
 *     training_bind, and then training_start or training_resume      the weights
 *     training_open_log                                              log.jsonl, and what was the best until now
 *     training_loop (train.h)
 *     training_free                                                  takes it in any state
 *
 * A save writes optimizer.safetensors first, atomically: its rename is the commit. A resumed run starts from it and
 * writes all else anew, so it does not matter what a kill had left a save behind. */
#ifndef NOISED_TRAINING_H
#define NOISED_TRAINING_H

#include "trainer/cost.h"
#include "trainer/objective.h"
#include "trainer/optimizer.h"
#include "trainer/recipe.h"
#include "weights/checkpoint.h"

/* The weights of the best figure so far. */
typedef struct Best {
    double figure;
    int64_t step; /* 0: there are none */
} Best;

typedef struct Training {
    /* Set before anything else. */
    const char *dir;
    const Recipe *recipe;
    Schedule schedule;
    uint64_t seed;
    int64_t accumulate; /* micro-batches of a step */
    const Objective *objective;
    void *self;  /* the objective's */
    Model model; /* by model_init */

    ParamSet trained; /* of the model's parameters, none frozen; names and weights are the model's */
    Optimizer optimizer;
    float *still;        /* weights that are not trained */
    int64_t step, saved; /* finished; by the last save */
    RunLog log;          /* of rank 0 */
    Best best;           /* by the log, of which rank 0 tells the others as the loop begins */
} Training;

/* Prints what the optimizer and the activations of `rows` will take, of this rank, and refuses where there is not as
 * much: before it is taken, for the kernel's way of saying no is to kill. less: what takes less. */
int training_check_memory(const Training *t, int64_t rows, bool recompute, const char *less, Err *err);

/* Gives the weights their places. head_only: of a classifier the head alone is trained. Must not move in memory. */
void training_bind(Training *t, bool head_only);

/* Noise may be added to a network, or left out of it: it begins and ends as what acts on nothing. */
bool param_is_noise(const Param *p);

/* Draws every weight by the seed, but for those that `from`, opened from the --init `dir`, has; NULL: all. Only noise
 * and a head may be missing there. */
int training_start(Training *t, const Checkpoint *from, const char *dir, Err *err);
/* Every sigma of the noise, which must have some, becomes this; NaN: they stay. */
int training_start_sigmas(Training *t, double sigma, Err *err);
int training_resume(Training *t, Err *err);
int training_open_log(Training *t, Err *err);
/* Whether the weights after `step` are the best now. NaN never is, and of equals the first is. */
bool training_see(Training *t, int64_t step, double figure);
int training_save(Training *t, Err *err);
void training_free(Training *t);

#endif
