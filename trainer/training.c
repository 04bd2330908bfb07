#include "trainer/training.h"

#include "base/machine.h"
#include "base/memory.h"
#include "trainer/ranks/ranks.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Of ranks on one host, all of which look before one takes any. */
static bool has_room(size_t bytes) {
    size_t available = machine_memory().available;
    return !ranks_most(bytes > available / (size_t)ranks_on_host());
}

int training_check_memory(Training *t, int64_t rows, bool recompute, bool saves, const char *less, Err *err) {
    CostMemory need = cost_memory(&t->model, rows, recompute, t->in_slices, t->accumulate);
    char text[3][MEMORY_TEXT];
    if (t->recipe->perturb != PERTURB_NONE) need.weights += params_count(&t->model.params) * sizeof(float);
    size_t all = need.weights + need.activations;
    t->saves_alone = saves && !has_room(all + need.copy);
    printf("memory: %s for weights and optimizer, %s for activations", memory_text(need.weights, text[0]),
           memory_text(need.activations, text[1]));
    if (saves)
        printf(t->saves_alone ? "; steps wait for saves, there is no %s more for a copy"
                              : ", %s for a copy that is saved while steps run",
               memory_text(need.copy, text[2]));
    putchar('\n');
    fflush(stdout);
    return memory_check(all, "the training", less, err);
}

/* ---- weights ---- */

static bool is_head(const Model *m, const Param *p) { return p->weight == &m->score || p->weight == &m->score_bias; }

void training_bind(Training *t, bool head_only) {
    const ParamSet *all = &t->model.params;
    t->trained.params = xcalloc((size_t)all->n, sizeof *t->trained.params);
    t->still = xcalloc(params_count(all), sizeof *t->still);
    float *at = t->still;
    for (int i = 0; i < all->n; i++) {
        const Param *p = &all->params[i];
        if (!p->frozen && (!head_only || is_head(&t->model, p))) {
            t->trained.params[t->trained.n++] = *p;
            continue;
        }
        p->weight->data = at;
        at += weight_count(p->weight);
    }
    optimizer_init(&t->optimizer, &t->trained, t->in_slices, t->accumulate);
}

bool param_is_noise(const Param *p) { return strstr(p->name, ".noise.") != NULL; }

static bool same_shape(const Weight *a, const Weight *b) {
    return a->n_dims == b->n_dims && !memcmp(a->dims, b->dims, sizeof a->dims);
}

/* A noise of another form cannot go on, so the one of the config starts anew. */
static const Param *find_in(const ParamSet *from, const Param *to) {
    const Param *found = params_find(from, to->weight->name);
    return found && param_is_noise(to) && !same_shape(found->weight, to->weight) ? NULL : found;
}

static int read_weight(const Training *t, const Param *to, const Checkpoint *from, const char *dir, float *values,
                       Err *err) {
    const Weight *w = to->weight;
    const Param *found = from ? find_in(&from->model.params, to) : NULL;
    bool own = !from || is_head(&t->model, to) || param_is_noise(to);
    if (!found && !own) return err_set(err, "--init %s has no %s", dir, w->name);
    if (!found) return param_init(to, t->seed, values), 0;
    const Weight *x = found->weight;
    if (!same_shape(x, w))
        return err_set(err, "--init %s: %s is [%d,%d,%d], config wants [%d,%d,%d]", dir, w->name, x->dims[0],
                       x->dims[1], x->dims[2], w->dims[0], w->dims[1], w->dims[2]);
    if (x->dtype >= DTYPE_I8)
        return err_set(err, "--init %s: %s is I%d, which cannot be trained on", dir, w->name,
                       x->dtype == DTYPE_I8 ? 8 : 4);
    weight_read(x, 0, weight_count(w), values);
    return 0;
}

/* Of the trained parameter that is from `first` to end - 1 in the flat order. */
static void put_weight(const Optimizer *o, size_t first, size_t end, const float *values) {
    for (int i = 0; i < o->slices.n; i++) {
        size_t at = o->slices.all[i].first;
        if (at >= first && at < end) optimizer_take(o, i, values + (at - first));
    }
}

static int take_in_slices(const Training *t, const Checkpoint *from, const char *dir, Err *err) {
    const ParamSet *ps = &t->trained;
    size_t first = 0;
    int rc = 0;
    for (int i = 0; i < ps->n && rc == 0; i++) {
        size_t n = weight_count(ps->params[i].weight);
        float *values = xmalloc(n * sizeof *values);
        rc = read_weight(t, &ps->params[i], from, dir, values, err);
        if (rc == 0) put_weight(&t->optimizer, first, first + n, values);
        free(values);
        first += n;
    }
    return rc;
}

static void tell_of_noise(const Training *t, const ParamSet *from, const char *dir) {
    for (int i = 0; i < from->n; i++) {
        const Param *p = &from->params[i], *to = params_find(&t->model.params, p->name);
        if (!param_is_noise(p) || (to && same_shape(p->weight, to->weight))) continue;
        printf("left behind in %s: its noise, %s\n", dir,
               t->model.cfg.noise.scope == NOISE_NONE ? "for the config has none"
                                                      : "for that of the config has another form");
        return;
    }
}

int training_start(Training *t, const Checkpoint *from, const char *dir, Err *err) {
    const ParamSet *all = &t->model.params;
    if (t->in_slices && take_in_slices(t, from, dir, err)) return -1;
    for (int i = 0; i < all->n && !t->in_slices; i++)
        if (read_weight(t, &all->params[i], from, dir, weight_f32(all->params[i].weight), err)) return -1;
    if (!from) return 0;
    if (!ranks->rank) tell_of_noise(t, &from->model.params, dir);
    return shards_check_intact(&from->shards, err);
}

int training_start_sigmas(Training *t, double sigma, Err *err) {
    if (isnan(sigma)) return 0;
    const ParamSet *ps = t->in_slices ? &t->trained : &t->model.params;
    size_t first = 0;
    int found = 0;
    for (int i = 0; i < ps->n; i++) {
        const Param *p = &ps->params[i];
        const char *end = strrchr(p->name, '.');
        size_t n = weight_count(p->weight);
        if (param_is_noise(p) && !strcmp(end, ".sigma")) {
            float *values = xmalloc(n * sizeof *values);
            for (size_t k = 0; k < n; k++) values[k] = (float)sigma;
            if (t->in_slices)
                put_weight(&t->optimizer, first, first + n, values);
            else
                memcpy(p->weight->data, values, n * sizeof *values);
            free(values);
            found++;
        }
        first += n;
    }
    return found ? 0 : err_set(err, "--sigma-start is %g, but the config's noise has no sigma of its own", sigma);
}

/* ---- the folder ---- */

int training_resume(Training *t, Err *err) {
    if (optimizer_load(&t->optimizer, &t->trained, t->dir, &t->step, err)) return -1;
    t->saved = t->step;
    return 0;
}

bool training_see(Training *t, int64_t step, double figure) {
    if (!(figure > (t->best.step ? t->best.figure : -INFINITY))) return false;
    t->best = (Best){.figure = figure, .step = step};
    return true;
}

static int read_best(void *context, const RunLogLine *line, Err *err) {
    Training *t = context;
    double figure;
    if (t->objective->figure(t->self, line, &figure, err)) return -1;
    training_see(t, (int64_t)line->step, figure);
    return 0;
}

int training_open_log(Training *t, Err *err) {
    if (ranks->rank) return 0;
    return runlog_open(&t->log, t->dir, t->step, err) || runlog_read(t->dir, read_best, t, err) ? -1 : 0;
}

/* The model as it is in the file that has just been committed: the steps may have gone on. */
static int accompany(void *context, const OptimizerOut *out, Err *err) {
    const Training *t = context;
    const ParamSet *all = &t->model.params;
    Model saved;
    SafeFile file;
    if (!t->objective->save) return 0;
    if (model_init(&saved, &t->model.cfg, err)) return -1;
    for (int i = 0; i < all->n; i++) saved.params.params[i].weight->data = all->params[i].weight->data;
    int rc = optimizer_out_bind(out, &file, &saved.params, err);
    if (rc == 0) {
        rc = t->objective->save(t->self, &saved, (int64_t)out->step, err);
        safe_close(&file);
    }
    model_free(&saved);
    return rc;
}

static int went_on(Training *t, int rc) {
    if (rc == 0 && t->save.phase == SAVE_NONE) t->saved = t->saving;
    return rc;
}

int training_look(Training *t, Err *err) {
    return t->save.phase == SAVE_NONE ? 0 : went_on(t, save_look(&t->save, err));
}

int training_settle(Training *t, Err *err) {
    return t->save.phase == SAVE_NONE ? 0 : went_on(t, save_end(&t->save, err));
}

typedef int BeginSave(Save *s, const Optimizer *o, const ParamSet *ps, const char *dir, int64_t step, Err *err);

/* The log first: a run that goes on from here goes on behind its last line, and knows its best by it. */
static int save_by(Training *t, BeginSave *save, Err *err) {
    if (training_settle(t, err) || runlog_sync(&t->log, err)) return -1;
    t->save.accompany = accompany;
    t->save.context = t;
    t->saving = t->step;
    return went_on(t, save(&t->save, &t->optimizer, &t->trained, t->dir, t->step, err));
}

int training_save(Training *t, bool beside, Err *err) {
    return save_by(t, beside && !t->saves_alone ? save_begin : save_now, err);
}

int training_save_first(Training *t, Err *err) { return save_by(t, save_begin_uncopied, err); }

void training_free(Training *t) {
    save_free(&t->save);
    runlog_close(&t->log, NULL);
    if (t->optimizer.held) optimizer_free(&t->optimizer);
    free(t->trained.params);
    free(t->still);
    model_free(&t->model);
}
