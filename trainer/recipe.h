/* recipe: how weights learn from gradients, whatever these are of: what the settings of `pretrain` and `finetune`
 * share. */
#ifndef NOISED_RECIPE_H
#define NOISED_RECIPE_H

#include "trainer/optimizer.h"
#include "trainer/schedule.h"
#include "trainer/weight_noise.h"

typedef enum OptimizerKind { OPTIMIZER_ADAMW, OPTIMIZER_SGD } OptimizerKind;

typedef struct Recipe {
    int optimizer, schedule, perturb; /* OptimizerKind, ScheduleKind, PerturbMode */
    double lr, min_lr, weight_decay, clip, betas[2], momentum, perturb_sigma;
} Recipe;

/* As options name them; each ends with NULL. */
extern const char *const recipe_optimizers[], *const recipe_schedules[], *const recipe_perturbs[];

int recipe_check(const Recipe *r, Err *err);

/* warmup and decay in steps. */
Schedule recipe_schedule(const Recipe *r, int64_t warmup, int64_t decay);
Perturb recipe_perturb(const Recipe *r, uint64_t seed);

/* optimizer_step or optimizer_descend. */
double recipe_update(const Recipe *r, Optimizer *o, double lr, int64_t step, double grad_scale);

#endif
