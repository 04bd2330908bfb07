#include "trainer/recipe.h"

#include "base/json/json_reader.h"
#include "model/kernels/kernels.h"
#include "trainer/ranks/ranks.h"

#include <stdio.h>
#include <string.h>

const char *const recipe_optimizers[] = {"adamw", "sgd", NULL};
const char *const recipe_schedules[] = {"cosine", "linear", "constant", NULL};
const char *const recipe_perturbs[] = {"none", "all-before", "all-after", "layer-before", "layer-after", NULL};
const char *const recipe_precisions[] = {"f32", "bf16", NULL};

int recipe_check(const Recipe *r, Err *err) {
    if (r->lr == 0) return err_set(err, "--lr is 0: nothing would be learnt");
    if (r->min_lr > r->lr) return err_set(err, "--min-lr is %g, above --lr %g", r->min_lr, r->lr);
    return 0;
}

int recipe_check_given(const Recipe *r, const CommandLine *line, Err *err) {
    if (r->optimizer != OPTIMIZER_SGD || !command_line_given(line, "betas")) return 0;
    return err_set(err, "--betas %g,%g belong to --optimizer adamw, not sgd", r->betas[0], r->betas[1]);
}

void recipe_choose_precision(Recipe *r, const cJSON *saved) {
    bool pays = ranks_most(kernels->train->pairs_pay);
    if (r->precision != PRECISION_BF16 || pays) return;
    if (saved && json_is_text(json_field(saved, "precision"), recipe_precisions[PRECISION_BF16])) return;
    printf("precision: f32, which is faster than bf16 on this processor (level %s)\n", kernels->name);
    r->precision = PRECISION_F32;
}

const char *recipe_arithmetic(const Recipe *r) {
    return r->precision == PRECISION_BF16 ? kernels->arithmetic_bf16 : kernels->arithmetic;
}

void recipe_compare_arithmetic(const Recipe *r, const char *had) {
    const char *has = recipe_arithmetic(r);
    if (!had || !strcmp(had, has)) return;
    printf("arithmetic: %s, the run had %s: it will not end in the bits of a run on one kind of processor\n", has, had);
}

Schedule recipe_schedule(const Recipe *r, int64_t warmup, int64_t decay) {
    return (Schedule){
        .kind = (ScheduleKind)r->schedule, .lr = r->lr, .min_lr = r->min_lr, .warmup = warmup, .decay = decay};
}
