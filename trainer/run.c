#include "trainer/run.h"

#include "base/files.h"
#include "base/json/json_reader.h"
#include "base/machine.h"
#include "model/shape.h"
#include "trainer/micro_batch.h"
#include "trainer/ranks/agree.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/statvfs.h>

/* ---- resume ---- */

/* A run may be made longer or shorter. A decay that was as long as the run stays as long as it was, so that no learning
 * rate of the past would have been another. */
static int restore_settings(Run *r, Err *err) {
    Settings *s = r->settings;
    const cJSON *steps = json_field(r->state.settings, "steps");
    if (settings_restore(r->line, r->state.settings, "steps", err)) return -1;
    int64_t had = cJSON_IsString(steps) ? strtoll(steps->valuestring, NULL, 10) : s->steps;
    if (s->decay_steps > 0 || s->recipe.schedule == SCHEDULE_CONSTANT || had == s->steps) return 0;
    s->decay_steps = had;
    printf("steps: %lld, the run had %lld: the learning rate falls as it would have until step %lld%s\n",
           (long long)s->steps, (long long)had, (long long)MIN(had, s->steps),
           s->steps > had ? ", and stays at --min-lr from there" : "");
    return 0;
}

static int open_settings(Run *r, Err *err) {
    Settings *s = r->settings;
    if (agree_program(err)) return -1; /* a run refused by then leaves no folder */
    if (!ranks->rank && run_open(&r->folder, s->out, s->resume, err)) return -1;
    if (agree_folder(s->out, &r->folder.saved, err)) return -1;
    if (r->folder.saved && run_state_load(&r->state, s->out, err)) return -1;
    recipe_choose_precision(&s->recipe, r->state.settings);
    if (r->folder.saved && restore_settings(r, err)) return -1;
    recipe_compare_arithmetic(&s->recipe, r->state.arithmetic);
    if (!r->folder.saved && s->data.n == 0)
        return err_set(err, "--data is missing: %s holds no run to be resumed", s->out);
    if (settings_finish(s, err) || agree_options(r->line, err) || ranks_check(s->accumulate, ranks->n, err)) return -1;
    r->saved_settings = settings_save(r->line->command, s);
    return 0;
}

/* ---- weights ---- */

static int init_from(Run *r, const char *dir, Err *err) {
    Training *t = &r->training;
    Checkpoint c;
    if (checkpoint_open(&c, dir, err)) return -1;
    const ParamSet *from = &c.model.params;
    int rc = 0;
    for (int i = 0; i < from->n && rc == 0; i++)
        if (!param_is_noise(&from->params[i]) && !params_find(&t->model.params, from->params[i].name))
            rc = err_set(err, "--init %s has %s, which the config has not", dir, from->params[i].name);
    if (rc == 0) rc = training_start(t, &c, dir, err);
    checkpoint_close(&c);
    return rc;
}

static int check_memory(Run *r, Err *err) {
    const Settings *s = r->settings;
    int64_t rows = s->batch * micro_batch_copies(s, &r->config) * r->window;
    const char *less = s->recompute
                           ? "a smaller --batch with a larger --accumulate takes less, and so does a shorter --window"
                           : "--recompute takes less, and so do a smaller --batch with a larger --accumulate and a "
                             "shorter --window";
    bool saves = s->save_every > 0 && s->save_every < s->steps;
    return training_check_memory(&r->training, rows, s->recompute, saves, less, err);
}

/* Told, and refused where the first save would fail: what a run that goes on has saved is there already. */
static int check_disk(const Run *r, Err *err) {
    const Settings *s = r->settings;
    bool best = r->corpora->val.n >= 2 && s->eval_every > 0 && s->eval_every < s->steps;
    CostDisk need = cost_disk(&r->training.model, 1 + best, s->save_dtype == PRECISION_BF16 ? 2 : 4);
    if (r->training.in_slices) need.more += params_count(&r->training.model.params) * sizeof(float); /* training.h */
    size_t wanted = need.more + (r->folder.saved ? 0 : need.kept);
    struct statvfs disk;
    char kept[MEMORY_TEXT], more[MEMORY_TEXT], left[MEMORY_TEXT];
    printf("disk: %s for the last checkpoint%s, %s more while it is written", memory_text(need.kept, kept),
           best ? " and the best" : "", memory_text(need.more, more));
    size_t room = statvfs(s->out, &disk) == 0 ? (size_t)disk.f_bavail * disk.f_frsize : SIZE_MAX;
    if (room < SIZE_MAX) printf("; %s has %s left", s->out, memory_text(room, left));
    putchar('\n');
    fflush(stdout);
    if (wanted <= room) return 0;
    return err_set(err, "%s has %s left, but the run takes %s", s->out, left, memory_text(wanted, more));
}

static int resume(Run *r, Err *err) {
    if (training_resume(&r->training, err)) return -1;
    if (r->training.step <= r->settings->steps) return 0;
    return err_set(err, "--steps is %lld, the run has already done %lld", (long long)r->settings->steps,
                   (long long)r->training.step);
}

/* A window is seen under all components at once, or under none but its own. */
static int check_components(const Settings *s, const Config *c, Err *err) {
    if (s->noise_draws > 1)
        return err_set(err,
                       "--noise-draws is %lld, but the sequences of the config have components, for which "
                       "--noise-assign says what a window learns under",
                       (long long)s->noise_draws);
    if (s->recipe.perturb != PERTURB_NONE && s->noise_assign != ASSIGN_DRAW && s->noise_assign != ASSIGN_SOURCE)
        return err_set(
            err,
            "--perturb %s cannot be had with noise components but with --noise-assign draw or source: they are "
            "judged by weights without noise",
            recipe_perturbs[s->recipe.perturb]);
    if (s->noise_assign == ASSIGN_SOFT && s->batch * c->noise.components > MOST_WINDOWS)
        return err_set(err, "--batch %lld times the %d noise.components of the config is above %d", (long long)s->batch,
                       c->noise.components, MOST_WINDOWS);
    return 0;
}

/* What is tried before a micro-batch, and weights that are moved off, need them in f32 and all. */
static bool held_in_slices(const Settings *s, const Config *c) {
    return ranks->n > 1 && s->recipe.precision == PRECISION_BF16 && s->recipe.perturb == PERTURB_NONE &&
           !micro_batch_tries(s, c);
}

static int prepare_weights(Run *r, Err *err) {
    const Settings *s = r->settings;
    Training *t = &r->training;
    if (s->noise_draws > 1 && r->config.noise.scope == NOISE_NONE)
        return err_set(err, "--noise-draws is %lld, but the config has no noise", (long long)s->noise_draws);
    if (config_noise_components(&r->config) && check_components(s, &r->config, err)) return -1;
    *t = (Training){.dir = s->out,
                    .recipe = &s->recipe,
                    .schedule = recipe_schedule(&s->recipe, s->warmup, s->decay_steps > 0 ? s->decay_steps : s->steps),
                    .seed = (uint64_t)s->seed,
                    .accumulate = s->accumulate,
                    .in_slices = held_in_slices(s, &r->config)};
    if (model_init(&t->model, &r->config, err) || check_memory(r, err) || check_disk(r, err)) return -1;
    training_bind(t, false);
    if (r->folder.saved) return resume(r, err);
    if (s->init ? init_from(r, s->init, err) : training_start(t, NULL, NULL, err)) return -1;
    return training_start_sigmas(t, s->sigma_start, err);
}

/* ---- all ---- */

int run_prepare(Run *r, Err *err) {
    const Optimizer *o = &r->training.optimizer;
    if (open_settings(r, err) == 0 && run_data(r, err) == 0 && prepare_weights(r, err) == 0 &&
        agree_weights(o->held, o->at[o->slices.n], err) == 0)
        return 0;
    if (r->folder.lock >= 0) run_withdraw(&r->folder);
    return -1;
}

void run_free(Run *r) {
    windows_free(&r->windows);
    training_free(&r->training);
    for (int i = 0; i < r->n_corpora; i++) corpus_close(&r->corpora[i]);
    free(r->corpora);
    free(r->weights);
    if (r->tokenizer) tokenizer_free(r->tokenizer);
    cJSON_Delete(r->saved_settings);
    run_state_free(&r->state);
    run_close(&r->folder);
}
