/* recipe: how weights learn from gradients, whatever these are of: what the settings of `pretrain` and `finetune`
 * share. */
#ifndef NOISED_RECIPE_H
#define NOISED_RECIPE_H

#include "base/err.h"
#include "base/options/options.h"
#include "trainer/schedule.h"
#include "trainer/weight_noise.h"

typedef enum OptimizerKind { OPTIMIZER_ADAMW, OPTIMIZER_SGD } OptimizerKind;

typedef struct Recipe {
    int optimizer, schedule, perturb; /* OptimizerKind, ScheduleKind, PerturbMode */
    double lr, min_lr, weight_decay, momentum, perturb_sigma;
    double clip; /* bound on the gradient's norm over all parameters; 0: none */
    double betas[2];
} Recipe;

/* As options name them; each ends with NULL. */
extern const char *const recipe_optimizers[], *const recipe_schedules[], *const recipe_perturbs[];

int recipe_check(const Recipe *r, Err *err);

/* What a default may be, but nobody may ask for. */
int recipe_check_given(const Recipe *r, const CommandLine *line, Err *err);

/* warmup and decay in steps. */
Schedule recipe_schedule(const Recipe *r, int64_t warmup, int64_t decay);

#endif
