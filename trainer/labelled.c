/* The objective of `finetune`, the labels of examples, and a run of it. A step is --batch examples of an epoch, which
 * has its own order; the last step of one scores, logs and saves. */
#include "base/json/json_reader.h"
#include "base/machine.h"
#include "base/memory.h"
#include "model/ops/op.h"
#include "tokenizer/tokenizer_json.h"
#include "trainer/finetune.h"
#include "trainer/run_folder.h"
#include "trainer/stop.h"
#include "trainer/text/order.h"
#include "trainer/train.h"
#include "weights/carry.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

typedef struct Labelled {
    Finetune *f;
    Training training; /* with this as its objective, accumulate 1 */
    int64_t steps_per_epoch;
    uint32_t *order;        /* [n] of the epoch */
    const uint32_t *chosen; /* of the step, in order */
    int n_chosen;
    TaskBatch batch;
    double share; /* of an image's own label; 1: nothing is mixed */
    double loss;  /* summed over the examples of the epoch */
} Labelled;

static NoiseKey scored_noise(const Finetune *f) {
    return (NoiseKey){.seed = (uint64_t)f->settings->noise_seed, .scale = (float)f->settings->noise_scale};
}

/* ---- a batch ---- */

static int read_batch(void *self, int64_t step, int64_t micro, Err *err) {
    Labelled *l = self;
    const FinetuneSettings *s = l->f->settings;
    const TaskData *d = &l->f->data[SPLIT_TRAIN];
    uint64_t seed = l->training.seed;
    int64_t n = d->examples->n, at = step % l->steps_per_epoch * s->batch;
    NoiseKey noise = {.seed = seed, .stream = (uint32_t)(1 + (uint64_t)step % UINT32_MAX), .scale = 1};
    (void)micro, (void)err; /* there is one, and it cannot fail */
    if (at == 0) {
        order_shuffle(l->order, (size_t)n, seed, (uint64_t)(step / l->steps_per_epoch));
        l->loss = 0;
    }
    l->chosen = l->order + at;
    l->n_chosen = (int)MIN(s->batch, n - at);
    task_batch_fill(&l->batch, d, l->chosen, l->n_chosen, noise, false);
    l->share = l->batch.images ? mix_images(&s->mixing, &l->batch, &l->training.model.cfg, seed, step) : 1;
    return 0;
}

/* The rows that the head reads, of the units of the chosen. */
static Mat *gather_features(Labelled *l, Tape *tape) {
    const Examples *e = &l->f->examples[SPLIT_TRAIN];
    size_t d = (size_t)l->training.model.cfg.hidden_size;
    Mat *x = tape_mat(tape, l->batch.n_units, (int)d);
    float *to = x->x;
    for (int i = 0; i < l->n_chosen; i++) {
        size_t first = (size_t)e->first[l->chosen[i]], units = (size_t)e->first[l->chosen[i] + 1] - first;
        memcpy(to, l->f->features[SPLIT_TRAIN] + first * d, units * d * sizeof *to);
        to += units * d;
    }
    return x;
}

/* share of the own label's cross-entropy and 1 - share of that of the partner's. */
static Mat *mixed_loss(Labelled *l, Tape *tape, Mat *logits, double *kl) {
    int n = logits->n;
    size_t twice = 2 * (size_t)n;
    int *row = tape_alloc(tape, twice * sizeof *row), *target = tape_alloc(tape, twice * sizeof *target);
    float *share = tape_alloc(tape, twice * sizeof *share);
    for (int i = 0; i < 2 * n; i++) {
        row[i] = i % n;
        target[i] = l->batch.targets[i < n ? i : 2 * n - 1 - i];
        share[i] = (float)(i < n ? l->share : 1 - l->share);
    }
    return model_loss(tape, op_rows(tape, logits, row, 2 * n), target, share, (float)l->f->settings->kl_weight, kl);
}

static MicroLoss add_gradient(void *self, Tape *tape) {
    Labelled *l = self;
    const FinetuneSettings *s = l->f->settings;
    const Model *m = &l->training.model;
    MicroLoss r = {.draws = 1};
    tape_reset(tape);
    Mat *logits =
        s->freeze ? model_logits(m, tape, gather_features(l, tape)) : model_forward(m, tape, &l->batch.batch, NULL);
    Mat *loss = l->share < 1 ? mixed_loss(l, tape, logits, &r.kl)
                             : model_loss(tape, logits, l->batch.targets, NULL, (float)s->kl_weight, &r.kl);
    tape_backward(tape, loss);
    r.loss = loss->x[0] - s->kl_weight * r.kl;
    return r;
}

/* ---- the end of an epoch ---- */

static void print_epoch(const Labelled *l, const Step *s, double loss, const TaskScore *dev) {
    printf("epoch %d of %lld: loss %.4f", (int)(s->number / l->steps_per_epoch), (long long)l->f->settings->epochs,
           loss);
    if (dev) {
        printf("; dev: loss %.4f", dev->loss);
        for (int k = 0; k < METRICS; k++)
            if (!isnan(dev->metric[k])) printf(", %s %.4f", task_metrics[k], dev->metric[k]);
        printf(" (majority %.4f)%s", dev->majority, l->training.best.step == s->number ? ", best so far" : "");
    }
    putchar('\n');
    fflush(stdout);
}

/* Without --dev the last epoch is the best. A signal that ends the scoring leaves the epoch undone. */
static int end_epoch(Labelled *l, const Step *s, bool *save, Err *err) {
    const Finetune *f = l->f;
    const FinetuneSettings *settings = f->settings;
    Training *t = &l->training;
    TaskScore dev = {0};
    double loss = l->loss / f->examples[SPLIT_TRAIN].n;
    bool judged = settings->dev != NULL;
    if (judged && task_score(&t->model, &f->data[SPLIT_DEV], f->features[SPLIT_DEV], scored_noise(f), f->majority,
                             stop_signal, &dev))
        return 0;
    /* Before the commit: a run that is killed here does this epoch again, and writes the same. */
    if (training_see(t, s->number, judged ? dev.metric[f->metric] : (double)s->number) &&
        checkpoint_save(t->dir, &t->model, &f->labels, DTYPE_F32, (uint64_t)s->number, err))
        return -1;
    Buffer line = runlog_line(s->number);
    json_put_int(&line, "epoch", s->number / l->steps_per_epoch);
    json_put_double(&line, "loss", loss);
    json_put_double(&line, "lr", s->lr);
    if (judged) {
        json_put_double(&line, "val_loss", dev.loss);
        json_open(&line, "dev", '{');
        task_score_put(&line, &dev);
        json_close(&line, '}');
    }
    if (runlog_write(&t->log, &line, err)) return -1;
    print_epoch(l, s, loss, judged ? &dev : NULL);
    *save = true;
    return 0;
}

static int read_figure(void *self, const RunLogLine *line, double *figure, Err *err) {
    const Labelled *l = self;
    const cJSON *score = json_field(json_field(line->fields, "dev"), task_metric_keys[l->f->metric]);
    *figure = cJSON_IsNumber(score) ? score->valuedouble : line->step;
    if (!l->f->settings->dev || cJSON_IsNumber(score)) return 0;
    return err_set(err, "%s: line %d has no %s on dev", l->training.log.path, line->i + 1, task_metrics[l->f->metric]);
}

/* ---- the objective ---- */

static int finish_step(void *self, const Step *s, bool *save, Err *err) {
    Labelled *l = self;
    l->loss += s->mean.loss * l->n_chosen;
    return s->number % l->steps_per_epoch || stop_signal() ? 0 : end_epoch(l, s, save, err);
}

static bool is_done(void *self, int64_t step) {
    const Labelled *l = self;
    const FinetuneSettings *s = l->f->settings;
    int64_t best = l->training.best.step;
    return step >= s->epochs * l->steps_per_epoch ||
           (s->patience && best && step - best >= s->patience * l->steps_per_epoch);
}

static const Objective objective = {
    .read = read_batch, .gradient = add_gradient, .finish = finish_step, .done = is_done, .figure = read_figure};

/* ---- weights ---- */

/* What the frozen part makes of the data is the same for every seed. */
static int make_features(const Labelled *l) {
    Finetune *f = l->f;
    for (int k = 0; k < SPLIT_TEST; k++) {
        const TaskData *d = &f->data[k];
        if (!d->examples || f->features[k]) continue;
        float *x = xcalloc((size_t)d->examples->n_units * (size_t)f->config.hidden_size, sizeof *x);
        if (task_features(&l->training.model, d, scored_noise(f), stop_signal, x)) return free(x), stop_signal();
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

/* By the checkpoint that is kept, as it is when opened again. */
static int score_result(const Labelled *l, FinetuneResult *out, Err *err) {
    const Finetune *f = l->f;
    Checkpoint c;
    if (checkpoint_open(&c, l->training.dir, err)) return -1;
    int rc = 0;
    for (int k = SPLIT_DEV; k < SPLITS && rc == 0; k++) {
        if (!f->data[k].examples) continue;
        rc = task_score(&c.model, &f->data[k], NULL, scored_noise(f), f->majority, stop_signal, &out->score[k]);
        if (rc == 0 && finetune_has_noise(f))
            rc = task_score(&c.model, &f->data[k], NULL, (NoiseKey){0}, f->majority, stop_signal, &out->quiet[k]);
    }
    if (rc == 0) rc = shards_check_intact(&c.shards, err);
    checkpoint_close(&c);
    return rc > 0 ? stop_signal() : rc;
}

int finetune_run(Finetune *f, uint64_t seed, const char *dir, FinetuneResult *result, Err *err) {
    const FinetuneSettings *s = f->settings;
    int64_t n = f->examples[SPLIT_TRAIN].n, epoch = (n + s->batch - 1) / s->batch;
    Labelled *l = xcalloc(1, sizeof *l);
    Training *t = &l->training;
    *l = (Labelled){.f = f,
                    .training = {.dir = dir,
                                 .recipe = &s->recipe,
                                 .schedule = recipe_schedule(&s->recipe, s->warmup_epochs * epoch, s->epochs * epoch),
                                 .seed = seed,
                                 .accumulate = 1,
                                 .objective = &objective,
                                 .self = l},
                    .steps_per_epoch = epoch,
                    .order = xcalloc((size_t)n, sizeof *l->order)};
    int rc = open_weights(l, err);
    if (rc == 0) rc = restore(l, err) || accompany(l, err) ? -1 : training_loop(t, err);
    *result = (FinetuneResult){.seed = seed, .epoch = (int)(t->best.step / l->steps_per_epoch)};
    if (rc == 0) {
        result->epochs = (int)(t->step / l->steps_per_epoch);
        rc = score_result(l, result, err);
    }
    training_free(t);
    task_batch_free(&l->batch);
    free(l->order);
    free(l);
    return rc;
}
