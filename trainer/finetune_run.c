#include "base/files.h"
#include "base/json/json.h"
#include "base/json/json_look.h"
#include "base/memory.h"
#include "tokenizer/tokenizer_json.h"
#include "trainer/finetune_learner.h"
#include "trainer/optimizer_file.h"
#include "trainer/run_folder.h"
#include "trainer/runlog.h"
#include "trainer/stop.h"
#include "weights/carry.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* What the log says of the epochs that are done. */
typedef struct Best {
    int epoch; /* of the kept weights; 0: none */
    double value;
} Best;

typedef struct FinetuneRun {
    Finetune *f;
    const char *dir;
    Learner learner;
    RunLog log;
    Best best;
} FinetuneRun;

static int epochs_done(const Learner *l) { return (int)(l->step / l->steps_per_epoch); }

static void see_epoch(Best *b, int epoch, double value, bool judged) {
    if (judged && b->epoch && value <= b->value) return;
    *b = (Best){.epoch = epoch, .value = value};
}

/* ---- resume ---- */

/* The log of a resumed run, once runlog_open has cut off what comes behind its step. */
static int read_best(FinetuneRun *r, Err *err) {
    enum { LINE_DEPTH = 4, LINE_VALUES = 256 };
    size_t size;
    char *text = file_read(r->log.path, (size_t)1 << 30, &size, err), *rest = text;
    int rc = text ? 0 : -1;
    for (char *line; rc == 0 && (line = strtok_r(rest, "\n", &rest));) {
        cJSON *o = json_parse(line, strlen(line), LINE_DEPTH, LINE_VALUES, NULL);
        const cJSON *value = json_field(json_field(o, "dev"), task_metric_keys[r->f->metric]);
        int64_t epoch;
        if (!json_integer(json_field(o, "epoch"), 1, INT32_MAX, &epoch) || (r->f->settings->dev && !value))
            rc = err_set(err, "%s: a line is no epoch: %.80s", r->log.path, line);
        else
            see_epoch(&r->best, (int)epoch, value ? value->valuedouble : 0, value);
        cJSON_Delete(o);
    }
    free(text);
    if (rc == 0 && r->best.epoch == 0)
        rc = err_set(err, "%s is empty, but the run has done %d epochs", r->log.path, epochs_done(&r->learner));
    return rc;
}

static int restore(FinetuneRun *r, Err *err) {
    Learner *l = &r->learner;
    char path[PATH_BYTES];
    if (path_join(path, r->dir, RUN_OPTIMIZER, err)) return -1;
    bool saved = access(path, F_OK) == 0;
    if (saved && optimizer_load(&l->optimizer, &l->trained, r->dir, &l->step, err)) return -1;
    if (l->step % l->steps_per_epoch)
        return err_set(err, "%s: %lld steps are no whole epochs of %lld", path, (long long)l->step,
                       (long long)l->steps_per_epoch);
    if (runlog_open(&r->log, r->dir, l->step, err)) return -1;
    return saved ? read_best(r, err) : 0;
}

/* ---- the end of an epoch ---- */

static void print_epoch(const FinetuneRun *r, double loss, const TaskScore *dev) {
    const FinetuneSettings *s = r->f->settings;
    int epoch = epochs_done(&r->learner);
    printf("epoch %d of %lld: loss %.4f", epoch, (long long)s->epochs, loss);
    if (dev) {
        printf("; dev: loss %.4f", dev->loss);
        for (int k = 0; k < METRICS; k++)
            if (!isnan(dev->metric[k])) printf(", %s %.4f", task_metrics[k], dev->metric[k]);
        printf(" (majority %.4f)%s", dev->majority, r->best.epoch == epoch ? ", best so far" : "");
    }
    putchar('\n');
    fflush(stdout);
}

static int end_epoch(FinetuneRun *r, Err *err) {
    Finetune *f = r->f;
    Learner *l = &r->learner;
    const FinetuneSettings *s = f->settings;
    NoiseKey noise = {.seed = (uint64_t)s->noise_seed, .scale = (float)s->noise_scale};
    TaskScore dev = {0};
    double loss = l->loss / f->examples[SPLIT_TRAIN].n;
    int epoch = epochs_done(l);
    if (s->dev &&
        task_score(&l->model, &f->data[SPLIT_DEV], f->features[SPLIT_DEV], noise, f->majority, stop_signal, &dev))
        return stop_signal();
    see_epoch(&r->best, epoch, dev.metric[f->metric], s->dev);
    /* Before the commit: whoever is killed here does this epoch again, and writes the same. */
    if (r->best.epoch == epoch && checkpoint_save(r->dir, &l->model, DTYPE_F32, (uint64_t)l->step, err)) return -1;
    cJSON *line = cJSON_CreateObject();
    cJSON_AddNumberToObject(line, "step", (double)l->step);
    cJSON_AddNumberToObject(line, "epoch", epoch);
    cJSON_AddNumberToObject(line, "loss", loss);
    cJSON_AddNumberToObject(line, "lr", l->lr);
    if (s->dev) cJSON_AddNumberToObject(line, "val_loss", dev.loss);
    if (s->dev) cJSON_AddItemToObject(line, "dev", task_score_json(&dev));
    if (runlog_write(&r->log, line, err)) return -1;
    print_epoch(r, loss, s->dev ? &dev : NULL);
    return optimizer_save(&l->optimizer, &l->trained, r->dir, l->step, err);
}

static bool is_done(const FinetuneRun *r) {
    const FinetuneSettings *s = r->f->settings;
    int epochs = epochs_done(&r->learner);
    return epochs >= s->epochs || (s->patience && r->best.epoch && epochs - r->best.epoch >= s->patience);
}

/* ---- the result ---- */

/* By the checkpoint that is kept, as whoever opens it finds it. */
static int score_result(const FinetuneRun *r, FinetuneResult *out, Err *err) {
    const Finetune *f = r->f;
    NoiseKey noise = {.seed = (uint64_t)f->settings->noise_seed, .scale = (float)f->settings->noise_scale}, none = {0};
    Checkpoint c;
    if (checkpoint_open(&c, r->dir, err)) return -1;
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

static int train(FinetuneRun *r, Err *err) {
    Learner *l = &r->learner;
    char path[PATH_BYTES];
    int rc = learner_open(l, r->f, l->seed, err);
    if (rc == 0) rc = restore(r, err);
    if (rc == 0 && l->step == 0 && r->f->settings->init)
        rc = carry_over(r->f->settings->init, r->dir, &r->f->config, stdout, err);
    if (rc == 0 && r->f->tokenizer)
        rc = path_join(path, r->dir, "tokenizer.json", err) ? -1 : tokenizer_json_save(r->f->tokenizer, path, err);
    while (rc == 0 && !is_done(r)) {
        rc = learner_epoch(l, err);
        if (rc == 0) rc = end_epoch(r, err);
    }
    if (runlog_close(&r->log, rc < 0 ? NULL : err) && rc >= 0) rc = -1;
    return rc;
}

int finetune_run(Finetune *f, uint64_t seed, const char *dir, FinetuneResult *result, Err *err) {
    FinetuneRun *r = xcalloc(1, sizeof *r);
    *r = (FinetuneRun){.f = f, .dir = dir, .learner = {.seed = seed}};
    int rc = train(r, err);
    *result = (FinetuneResult){.seed = seed, .epoch = r->best.epoch, .epochs = 0};
    if (rc == 0) {
        result->epochs = epochs_done(&r->learner);
        rc = score_result(r, result, err);
    }
    learner_free(&r->learner);
    free(r);
    return rc;
}
