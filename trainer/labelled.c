#include "trainer/labelled.h"

#include "base/json/json_look.h"
#include "base/memory.h"
#include "model/ops/op.h"
#include "trainer/stop.h"
#include "trainer/text/order.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- a batch ---- */

static int read_batch(void *self, int64_t step, int64_t micro, Err *err) {
    Labelled *l = self;
    const FinetuneSettings *s = l->f->settings;
    const TaskData *d = &l->f->data[SPLIT_TRAIN];
    uint64_t seed = l->training.seed;
    int64_t n = d->examples->n, at = step % l->steps_per_epoch * s->batch;
    NoiseKey noise = {.seed = seed, .stream = (uint32_t)(1 + (uint64_t)step % UINT32_MAX), .scale = 1};
    BUG_ON(micro);
    (void)err;
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
    for (int i = 0; i < 2 * n; i++) {
        l->both[i] = i % n;
        l->targets[i] = l->batch.targets[i < n ? i : 2 * n - 1 - i];
        l->shares[i] = (float)(i < n ? l->share : 1 - l->share);
    }
    Mat *twice = op_rows(tape, logits, l->both, 2 * n);
    return model_loss(tape, twice, l->targets, l->shares, (float)l->f->settings->kl_weight, kl);
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
static int end_epoch(Labelled *l, const Step *s, Err *err) {
    const Finetune *f = l->f;
    const FinetuneSettings *settings = f->settings;
    Training *t = &l->training;
    NoiseKey noise = {.seed = (uint64_t)settings->noise_seed, .scale = (float)settings->noise_scale};
    TaskScore dev = {0};
    double loss = l->loss / f->examples[SPLIT_TRAIN].n;
    bool judged = settings->dev != NULL;
    if (judged &&
        task_score(&t->model, &f->data[SPLIT_DEV], f->features[SPLIT_DEV], noise, f->majority, stop_signal, &dev))
        return 0;
    /* Before the commit: whoever is killed here does this epoch again, and writes the same. */
    if (training_see(t, s->number, judged ? dev.metric[f->metric] : (double)s->number) &&
        checkpoint_save(t->dir, &t->model, DTYPE_F32, (uint64_t)s->number, err))
        return -1;
    cJSON *line = cJSON_CreateObject();
    cJSON_AddNumberToObject(line, "step", (double)s->number);
    cJSON_AddNumberToObject(line, "epoch", (double)(s->number / l->steps_per_epoch));
    cJSON_AddNumberToObject(line, "loss", loss);
    cJSON_AddNumberToObject(line, "lr", s->lr);
    if (judged) cJSON_AddNumberToObject(line, "val_loss", dev.loss);
    if (judged) cJSON_AddItemToObject(line, "dev", task_score_json(&dev));
    if (runlog_write(&t->log, line, err)) return -1;
    print_epoch(l, s, loss, judged ? &dev : NULL);
    l->logged = s->number;
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

static int finish_step(void *self, const Step *s, Err *err) {
    Labelled *l = self;
    l->loss += s->mean.loss * l->n_chosen;
    return s->number % l->steps_per_epoch || stop_signal() ? 0 : end_epoch(l, s, err);
}

/* A run goes on behind its last whole epoch. */
static bool is_worth_saving(void *self, const Step *s, bool stopped) {
    (void)stopped;
    return ((Labelled *)self)->logged == s->number;
}

static int save_nothing_else(void *self, int64_t step, Err *err) {
    (void)self, (void)step, (void)err;
    return 0;
}

static bool is_done(void *self, int64_t step) {
    const Labelled *l = self;
    const FinetuneSettings *s = l->f->settings;
    int64_t best = l->training.best.step;
    return step >= s->epochs * l->steps_per_epoch ||
           (s->patience && best && step - best >= s->patience * l->steps_per_epoch);
}

static const Objective objective = {.read = read_batch,
                                    .gradient = add_gradient,
                                    .finish = finish_step,
                                    .worth_saving = is_worth_saving,
                                    .save = save_nothing_else,
                                    .done = is_done,
                                    .figure = read_figure};

void labelled_init(Labelled *l, Finetune *f, uint64_t seed, const char *dir) {
    const FinetuneSettings *s = f->settings;
    int64_t n = f->examples[SPLIT_TRAIN].n, epoch = (n + s->batch - 1) / s->batch;
    *l = (Labelled){.f = f,
                    .training = {.dir = dir,
                                 .recipe = &s->recipe,
                                 .schedule = recipe_schedule(&s->recipe, s->warmup_epochs * epoch, s->epochs * epoch),
                                 .seed = seed,
                                 .accumulate = 1,
                                 .objective = &objective,
                                 .self = l},
                    .steps_per_epoch = epoch,
                    .order = xcalloc((size_t)n, sizeof *l->order),
                    .both = xcalloc(2 * (size_t)s->batch, sizeof *l->both),
                    .targets = xcalloc(2 * (size_t)s->batch, sizeof *l->targets),
                    .shares = xcalloc(2 * (size_t)s->batch, sizeof *l->shares)};
}

void labelled_free(Labelled *l) {
    training_free(&l->training);
    task_batch_free(&l->batch);
    free(l->order);
    free(l->both);
    free(l->targets);
    free(l->shares);
}
