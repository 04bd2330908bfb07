/* training: a network that learns, and all that a run of it stands on, whatever it learns (objective.h).
 *
 *     training_bind, and then training_start or training_resume      the weights
 *     training_open_log                                              log.jsonl, and what was the best until now
 *     training_loop (train.h)
 *     training_free                                                  takes it in any state
 *
 * A save writes optimizer.safetensors first, atomically: its rename is the commit. A resumed run starts from it and
 * writes all else anew, so it does not matter what a kill had left a save behind. It is written while the next steps
 * run (save.h), if there is memory for a copy of it. */
#ifndef NOISED_TRAINING_H
#define NOISED_TRAINING_H

#include "trainer/cost.h"
#include "trainer/objective.h"
#include "trainer/optimizer.h"
#include "trainer/recipe.h"
#include "trainer/save.h"
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
    void *self;     /* the objective's */
    Model model;    /* by model_init */
    bool in_slices; /* the weights of several ranks (optimizer.h): every pass records, and rounds products to bf16 */

    ParamSet trained; /* of the model's parameters, none frozen; names and weights are the model's */
    Optimizer optimizer;
    float *still;        /* weights that are not trained */
    int64_t step, saved; /* finished; by the last save that is over */
    Save save;
    int64_t saving;   /* the step of the one that is open */
    bool saves_alone; /* the steps wait for a save: there is no memory for a copy */
    RunLog log;       /* of rank 0 */
    Best best;        /* by the log, of which rank 0 tells the others as the loop begins */
} Training;

/* Prints what the optimizer and the activations of `rows` will take, of this rank, and refuses where there is not as
 * much: before it is taken, for the kernel's way of saying no is to kill. less: what takes less. saves: before the last
 * step too, for which a copy is kept if there is that much more, for every rank on this host. */
int training_check_memory(Training *t, int64_t rows, bool recompute, bool saves, const char *less, Err *err);

/* Gives the weights their places. head_only: of a classifier the head alone is trained. Must not move in memory. */
void training_bind(Training *t, bool head_only);

/* Noise may be added to a network, or left out of it: it begins and ends as what acts on nothing. */
bool param_is_noise(const Param *p);

/* Draws every weight by the seed, but for those that `from`, opened from the --init `dir`, has; NULL: all. Only noise
 * and a head may be missing there; a noise of another form is left behind, which it says. */
int training_start(Training *t, const Checkpoint *from, const char *dir, Err *err);
/* Every sigma of the noise, which must have some, becomes this; NaN: they stay. */
int training_start_sigmas(Training *t, double sigma, Err *err);
int training_resume(Training *t, Err *err);
int training_open_log(Training *t, Err *err);
/* Whether the weights after `step` are the best now. NaN never is, and of equals the first is. */
bool training_see(Training *t, int64_t step, double figure);
/* By all ranks. beside: while the next steps run; else, and where that cannot be, it is over on return. */
int training_save(Training *t, bool beside, Err *err);
/* What a run begins with, of which the first step has to wait for the optimizer's file alone: it needs no copy. */
int training_save_first(Training *t, Err *err);
int training_look(Training *t, Err *err);   /* behind every step: what became of such a save */
int training_settle(Training *t, Err *err); /* waits until none is open; NULL err: after another failure */
void training_free(Training *t);

/* The model in f32, of weights in slices, for what rank 0 does with all of it. All ranks write the master weights that
 * they own into a file of the folder, which rank 0 maps before it takes the name away; its pages are the kernel's to
 * take back. */
typedef struct Masters {
    Model model; /* of rank 0 */
    float *w;    /* [optimizer.n] mapped */
    size_t bytes;
} Masters;

/* By all ranks: -1 on all if on one. What is open shows the weights as they were then. */
int masters_open(Masters *m, const Training *t, Err *err);
void masters_close(Masters *m);

#endif
