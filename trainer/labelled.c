/* The objective of `finetune`, the labels of examples, and a run of it. A step is --accumulate times --batch examples
 * of an epoch, which has its own order; its micro-batches share them evenly, those that are left at the epoch's end
 * too. The last step of one scores, logs and saves. */
#include "base/json/json_reader.h"
#include "base/machine.h"
#include "base/memory.h"
#include "model/ops/op.h"
#include "tokenizer/tokenizer_json.h"
#include "trainer/finetune.h"
#include "trainer/ranks/agree.h"
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
    Training training;                /* with this as its objective */
    int64_t steps_per_epoch, in_step; /* in_step: examples of the step */
    int64_t epoch;                    /* whose order is below; -1: none */
    uint32_t *order;                  /* [n] */
    const uint32_t *chosen;           /* of the micro-batch, in order */
    int n_chosen;                     /* 0: the step has fewer examples than micro-batches */
    TaskBatch batch;
    float weight; /* of the micro-batch in the step's mean over what is labelled, 1 on the average */
    double share; /* of an image's own label; 1: nothing is mixed */
    double loss;  /* summed over the examples of the epoch */
} Labelled;

static NoiseKey scored_noise(const Finetune *f) {
    return (NoiseKey){.seed = (uint64_t)f->settings->noise_seed, .scale = (float)f->settings->noise_scale};
}

/* ---- a batch ---- */

static void open_epoch(Labelled *l, int64_t epoch) {
    if (l->epoch == epoch) return;
    order_shuffle(l->order, (size_t)l->f->examples[SPLIT_TRAIN].n, l->training.seed, (uint64_t)epoch);
    l->epoch = epoch;
    l->loss = 0;
}

static int64_t count_units(const Examples *e, const uint32_t *chosen, int64_t n) {
    int64_t units = 0;
    for (int64_t i = 0; i < n; i++) units += e->first[chosen[i] + 1] - e->first[chosen[i]];
    return units;
}

static int read_batch(void *self, int64_t step, int64_t micro, Err *err) {
    Labelled *l = self;
    const FinetuneSettings *s = l->f->settings;
    const TaskData *d = &l->f->data[SPLIT_TRAIN];
    uint64_t seed = l->training.seed, number = (uint64_t)step * (uint64_t)s->accumulate + (uint64_t)micro;
    int64_t at = step % l->steps_per_epoch * s->batch * s->accumulate;
    NoiseKey noise = {.seed = seed, .stream = (uint32_t)(1 + number % UINT32_MAX), .scale = 1};
    (void)err; /* it cannot fail */
    open_epoch(l, step / l->steps_per_epoch);
    l->in_step = MIN(s->batch * s->accumulate, d->examples->n - at);
    RankShare own = ranks_share(l->in_step, (int)micro, (int)s->accumulate);
    l->chosen = l->order + at + own.first;
    l->n_chosen = (int)own.n;
    l->weight = (float)((double)(s->accumulate * count_units(d->examples, l->chosen, own.n)) /
                        (double)count_units(d->examples, l->order + at, l->in_step));
    if (own.n == 0) return 0;
    task_batch_fill(&l->batch, d, l->chosen, l->n_chosen, noise, false);
    l->share = l->batch.images ? mix_images(&s->mixing, &l->batch, &l->training.model.cfg, seed, number) : 1;
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

static Mat *mixed_loss(Labelled *l, Tape *tape, Mat *logits, double *kl) {
    int n = logits->n;
    size_t twice = 2 * (size_t)n;
    int *row = tape_alloc(tape, twice * sizeof *row), *target = tape_alloc(tape, twice * sizeof *target);
    float *share = tape_alloc(tape, twice * sizeof *share);
    mix_labels(l->share, n, l->batch.targets, row, target, share);
    return model_loss(tape, op_rows(tape, logits, row, 2 * n), target, share, (float)l->f->settings->kl_weight, kl);
}

static MicroLoss add_gradient(void *self, Tape *tape) {
    Labelled *l = self;
    const FinetuneSettings *s = l->f->settings;
    const Model *m = &l->training.model;
    double kl = 0;
    if (l->n_chosen == 0) return (MicroLoss){0};
    tape->bf16 = s->recipe.precision == PRECISION_BF16;
    tape_reset(tape);
    Mat *logits =
        s->freeze ? model_logits(m, tape, gather_features(l, tape)) : model_forward(m, tape, &l->batch.batch, NULL);
    Mat *loss = l->share < 1 ? mixed_loss(l, tape, logits, &kl)
                             : model_loss(tape, logits, l->batch.targets, NULL, (float)s->kl_weight, &kl);
    double weight = (double)l->weight, own = weight * (loss->x[0] - s->kl_weight * kl);
    tape_backward(tape, op_scale(tape, loss, l->weight));
    return (MicroLoss){.loss = own, .kl = weight * kl, .draws = weight};
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
    if (training_see(t, s->number, judged ? dev.metric[f->metric] : (double)s->number) && !ranks->rank &&
        checkpoint_save(t->dir, &t->model, &f->labels, DTYPE_F32, (uint64_t)s->number, err))
        return -1;
    *save = true;
    if (ranks->rank) return 0;
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
    l->loss += s->mean.loss * (double)l->in_step;
    return s->number % l->steps_per_epoch || ranks_most(stop_signal()) ? 0 : end_epoch(l, s, save, err);
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

/* What the frozen part makes of the data is the same for every seed. Each rank makes it for itself. */
static int make_features(const Labelled *l) {
    Finetune *f = l->f;
    for (int k = 0; k < SPLIT_TEST; k++) {
        const TaskData *d = &f->data[k];
        if (!d->examples || f->features[k]) continue;
        float *x = xcalloc((size_t)d->examples->n_units * (size_t)f->config.hidden_size, sizeof *x);
        task_features(&l->training.model, d, scored_noise(f), stop_signal, x);
        f->features[k] = x;
    }
    return ranks_most(stop_signal());
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

static int check_memory(Labelled *l, Err *err) {
    const FinetuneSettings *s = l->f->settings;
    Training *t = &l->training;
    if (s->freeze || t->model.cfg.network) return 0;
    return training_check_memory(t, most_rows(&l->f->data[SPLIT_TRAIN], s->batch), false, s->epochs > 1,
                                 "a smaller --batch with a larger --accumulate takes less", err);
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
    if (training_start(t, s->init ? &f->init : NULL, s->init, err) || training_start_sigmas(t, s->sigma_start, err))
        return -1;
    take_vectors(l);
    return 0;
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
    if (!saved || t->best.step || ranks->rank) return 0;
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
    return rc > 0 ? ranks_most(stop_signal()) : rc;
}

/* All that stands before the first step. As finetune_run. */
static int open_run(Labelled *l, Err *err) {
    const Optimizer *o = &l->training.optimizer;
    if (open_weights(l, err) || restore(l, err) || (!ranks->rank && accompany(l, err))) return -1;
    if (agree_weights(o->held, o->at[o->slices.n], err)) return -1;
    return l->f->settings->freeze ? make_features(l) : 0;
}

int finetune_run(Finetune *f, uint64_t seed, const char *dir, FinetuneResult *result, Err *err) {
    const FinetuneSettings *s = f->settings;
    int64_t n = f->examples[SPLIT_TRAIN].n, epoch = finetune_steps(f);
    Labelled *l = xcalloc(1, sizeof *l);
    Training *t = &l->training;
    *l = (Labelled){.f = f,
                    .training = {.dir = dir,
                                 .recipe = &s->recipe,
                                 .schedule = recipe_schedule(&s->recipe, s->warmup_epochs * epoch, s->epochs * epoch),
                                 .seed = seed,
                                 .accumulate = s->accumulate,
                                 .objective = &objective,
                                 .self = l},
                    .steps_per_epoch = epoch,
                    .epoch = -1,
                    .order = xcalloc((size_t)n, sizeof *l->order)};
    int rc = open_run(l, err);
    f->begun |= rc == 0;
    if (rc == 0) rc = training_loop(t, err);
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
