#include "base/machine.h"
#include "base/memory.h"
#include "tokenizer/tokenizer_json.h"
#include "trainer/labelled.h"
#include "trainer/run_folder.h"
#include "trainer/stop.h"
#include "trainer/train.h"
#include "weights/carry.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* ---- weights ---- */

/* What the frozen part makes of the data is the same for every seed. */
static int make_features(const Labelled *l) {
    Finetune *f = l->f;
    const FinetuneSettings *s = f->settings;
    NoiseKey noise = {.seed = (uint64_t)s->noise_seed, .scale = (float)s->noise_scale};
    for (int k = 0; k < SPLIT_TEST; k++) {
        const TaskData *d = &f->data[k];
        if (!d->examples || f->features[k]) continue;
        float *x = xcalloc((size_t)d->examples->n_units * (size_t)f->config.hidden_size, sizeof *x);
        if (task_features(&l->training.model, d, noise, stop_signal, x)) return free(x), stop_signal();
        f->features[k] = x;
    }
    return 0;
}

/* Of a step at most: its examples are the longest. */
static int64_t most_rows(const TaskData *d, int64_t batch) {
    int64_t *count = xcalloc((size_t)d->cfg->max_positions + 1, sizeof *count), rows = 0;
    for (int i = 0; i < d->examples->n; i++) count[task_data_rows(d, i)]++;
    for (int n = d->cfg->max_positions; n > 0 && batch > 0; n--) {
        rows += n * MIN(batch, count[n]);
        batch -= count[n];
    }
    free(count);
    return rows;
}

static int check_memory(const Labelled *l, Err *err) {
    const FinetuneSettings *s = l->f->settings;
    const Training *t = &l->training;
    if (s->freeze || t->model.cfg.network) return 0;
    CostMemory need = training_memory(t, most_rows(&l->f->data[SPLIT_TRAIN], s->batch), false);
    return memory_check(need.weights + need.activations, "the training", "a smaller --batch takes less", err);
}

/* Word vectors are the one parameter that is frozen. */
static void take_vectors(const Labelled *l) {
    const Vectors *v = &l->f->vectors;
    const ParamSet *all = &l->training.model.params;
    for (int i = 0; i < all->n && v->values; i++) {
        const Weight *w = all->params[i].weight;
        if (all->params[i].frozen) memcpy(w->data, v->values, weight_count(w) * sizeof(float));
    }
}

static int open_weights(Labelled *l, Err *err) {
    const Finetune *f = l->f;
    const FinetuneSettings *s = f->settings;
    Training *t = &l->training;
    if (model_init(&t->model, &f->config, err) || check_memory(l, err)) return -1;
    training_bind(t, s->freeze);
    if (training_start(t, s->init ? &f->init : NULL, s->init, err)) return -1;
    take_vectors(l);
    return s->freeze ? make_features(l) : 0;
}

/* ---- resume ---- */

static int restore(Labelled *l, Err *err) {
    Training *t = &l->training;
    char path[PATH_BYTES];
    if (path_join(path, t->dir, RUN_OPTIMIZER, err)) return -1;
    bool saved = access(path, F_OK) == 0;
    if (saved && training_resume(t, err)) return -1;
    if (t->step % l->steps_per_epoch)
        return err_set(err, "%s: %lld steps are no whole epochs of %lld", path, (long long)t->step,
                       (long long)l->steps_per_epoch);
    if (training_open_log(t, err)) return -1;
    if (!saved || t->best.step) return 0;
    return err_set(err, "%s is empty, but the run has done %lld epochs", t->log.path,
                   (long long)(t->step / l->steps_per_epoch));
}

/* What lies beside the weights, so that the folder can be served. */
static int accompany(const Labelled *l, Err *err) {
    const Finetune *f = l->f;
    const char *init = f->settings->init, *dir = l->training.dir;
    char path[PATH_BYTES];
    if (l->training.step == 0 && init && carry_over(init, dir, &f->config, stdout, err)) return -1;
    if (!f->tokenizer) return 0;
    return path_join(path, dir, "tokenizer.json", err) ? -1 : tokenizer_json_save(f->tokenizer, path, err);
}

/* ---- the result ---- */

/* By the checkpoint that is kept, as whoever opens it finds it. */
static int score_result(const Labelled *l, FinetuneResult *out, Err *err) {
    const Finetune *f = l->f;
    NoiseKey noise = {.seed = (uint64_t)f->settings->noise_seed, .scale = (float)f->settings->noise_scale}, none = {0};
    Checkpoint c;
    if (checkpoint_open(&c, l->training.dir, err)) return -1;
    int rc = 0;
    for (int k = SPLIT_DEV; k < SPLITS && rc == 0; k++) {
        if (!f->data[k].examples) continue;
        rc = task_score(&c.model, &f->data[k], NULL, noise, f->majority, stop_signal, &out->score[k]);
        if (rc == 0 && finetune_has_noise(f))
            rc = task_score(&c.model, &f->data[k], NULL, none, f->majority, stop_signal, &out->quiet[k]);
    }
    if (rc == 0) rc = shards_check_intact(&c.shards, err);
    checkpoint_close(&c);
    return rc > 0 ? stop_signal() : rc;
}

int finetune_run(Finetune *f, uint64_t seed, const char *dir, FinetuneResult *result, Err *err) {
    Labelled *l = xcalloc(1, sizeof *l);
    Training *t = &l->training;
    labelled_init(l, f, seed, dir);
    int rc = open_weights(l, err);
    if (rc == 0) rc = restore(l, err) || accompany(l, err) ? -1 : train(t, err);
    *result = (FinetuneResult){.seed = seed, .epoch = (int)(t->best.step / l->steps_per_epoch)};
    if (rc == 0) {
        result->epochs = (int)(t->step / l->steps_per_epoch);
        rc = score_result(l, result, err);
    }
    labelled_free(l);
    free(l);
    return rc;
}
