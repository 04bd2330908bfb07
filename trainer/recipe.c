#include "trainer/recipe.h"

#include "base/err.h"

#include <stddef.h>

const char *const recipe_optimizers[] = {"adamw", "sgd", NULL};
const char *const recipe_schedules[] = {"cosine", "linear", "constant", NULL};
const char *const recipe_perturbs[] = {"none", "all-before", "all-after", "layer-before", "layer-after", NULL};

int recipe_check(const Recipe *r, Err *err) {
    if (r->lr == 0) return err_set(err, "--lr is 0: nothing would be learnt");
    if (r->min_lr > r->lr) return err_set(err, "--min-lr is %g, above --lr %g", r->min_lr, r->lr);
    return 0;
}

Schedule recipe_schedule(const Recipe *r, int64_t warmup, int64_t decay) {
    return (Schedule){
        .kind = (ScheduleKind)r->schedule, .lr = r->lr, .min_lr = r->min_lr, .warmup = warmup, .decay = decay};
}

Perturb recipe_perturb(const Recipe *r, uint64_t seed) {
    return (Perturb){.mode = (PerturbMode)r->perturb, .sigma = r->perturb_sigma, .seed = seed};
}

double recipe_update(const Recipe *r, Optimizer *o, double lr, int64_t step, double grad_scale) {
    const AdamW adamw = {
        .beta1 = r->betas[0], .beta2 = r->betas[1], .eps = 1e-8, .weight_decay = r->weight_decay, .clip = r->clip};
    const Descent descent = {.momentum = r->momentum, .weight_decay = r->weight_decay, .clip = r->clip};
    return r->optimizer == OPTIMIZER_SGD ? optimizer_descend(o, &descent, lr, grad_scale)
                                         : optimizer_step(o, &adamw, lr, step, grad_scale);
}
