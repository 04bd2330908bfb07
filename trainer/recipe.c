#include "trainer/recipe.h"

#include <stddef.h>

const char *const recipe_optimizers[] = {"adamw", "sgd", NULL};
const char *const recipe_schedules[] = {"cosine", "linear", "constant", NULL};
const char *const recipe_perturbs[] = {"none", "all-before", "all-after", "layer-before", "layer-after", NULL};

int recipe_check(const Recipe *r, Err *err) {
    if (r->lr == 0) return err_set(err, "--lr is 0: nothing would be learnt");
    if (r->min_lr > r->lr) return err_set(err, "--min-lr is %g, above --lr %g", r->min_lr, r->lr);
    return 0;
}

int recipe_check_given(const Recipe *r, const CommandLine *line, Err *err) {
    if (r->optimizer != OPTIMIZER_SGD || !command_line_given(line, "betas")) return 0;
    return err_set(err, "--betas %g,%g belong to --optimizer adamw, not sgd", r->betas[0], r->betas[1]);
}

Schedule recipe_schedule(const Recipe *r, int64_t warmup, int64_t decay) {
    return (Schedule){
        .kind = (ScheduleKind)r->schedule, .lr = r->lr, .min_lr = r->min_lr, .warmup = warmup, .decay = decay};
}
