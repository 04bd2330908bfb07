/* recipe: how weights learn from gradients, whatever these are of: what the settings of `pretrain` and `finetune`
 * share. */
#ifndef NOISED_RECIPE_H
#define NOISED_RECIPE_H

#include "base/err.h"
#include "base/options/options.h"
#include "trainer/schedule.h"
#include "trainer/weight_noise.h"

#include <cjson/cJSON.h>

typedef enum OptimizerKind { OPTIMIZER_ADAMW, OPTIMIZER_SGD } OptimizerKind;

enum { PRECISION_F32, PRECISION_BF16 };

typedef struct Recipe {
    int optimizer, schedule, perturb; /* OptimizerKind, ScheduleKind, PerturbMode */
    int precision;                    /* PRECISION_*, of the operands of matrix products; all else is f32 */
    double lr, min_lr, weight_decay, momentum, perturb_sigma;
    double clip; /* bound on the gradient's norm over all parameters; 0: none */
    double betas[2];
} Recipe;

/* As options name them; each ends with NULL. */
extern const char *const recipe_optimizers[], *const recipe_schedules[], *const recipe_perturbs[],
                                                                             *const recipe_precisions[];

int recipe_check(const Recipe *r, Err *err);

/* What a default may be, but nobody may ask for. */
int recipe_check_given(const Recipe *r, const CommandLine *line, Err *err);

/* Where no rank's processor is faster at bf16 products, f32 is, and more exact. A new run is then one in f32, which is
 * said, and stays that wherever it is resumed; one that began in bf16 stays that, and keeps its bits on every processor
 * of its arithmetic (kernels.h). saved: the settings of a run that goes on; NULL: a new one. By all ranks. */
void recipe_choose_precision(Recipe *r, const cJSON *saved);
const char *recipe_arithmetic(const Recipe *r); /* of its products on this processor (kernels.h) */
/* Says where the steps before had the bits of another arithmetic; NULL: of which, is not known. */
void recipe_compare_arithmetic(const Recipe *r, const char *had);

/* warmup and decay in steps. */
Schedule recipe_schedule(const Recipe *r, int64_t warmup, int64_t decay);

#endif
