#include "trainer/finetune_learner.h"

#include "base/machine.h"
#include "base/memory.h"
#include "model/ops/op.h"
#include "trainer/cost.h"
#include "trainer/text/order.h"
#include "trainer/stop.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- weights ---- */

static bool is_head(const Model *m, const Weight *w) { return w == &m->score || w == &m->score_bias; }

static int take_weight(const Learner *l, const Param *p, Err *err) {
    const Finetune *f = l->f;
    const Weight *w = p->weight;
    const char *dir = f->settings->init;
    param_init(p, l->seed, weight_f32(w));
    if (p->frozen && l->f->vectors.values) memcpy(w->data, l->f->vectors.values, weight_count(w) * sizeof(float));
    if (!dir) return 0;
    const Param *found = params_find(&f->init.model.params, w->name);
    if (!found && is_head(&l->model, w)) return 0;
    if (!found) return err_set(err, "--init %s has no %s", dir, w->name);
    const Weight *x = found->weight;
    if (x->n_dims != w->n_dims || memcmp(x->dims, w->dims, sizeof w->dims))
        return err_set(err, "--init %s: %s is [%d,%d,%d], the config wants [%d,%d,%d]", dir, w->name, x->dims[0],
                       x->dims[1], x->dims[2], w->dims[0], w->dims[1], w->dims[2]);
    if (x->dtype == DTYPE_I8) return err_set(err, "--init %s: %s is I8, which cannot be trained on", dir, w->name);
    weight_read(x, 0, weight_count(w), weight_f32(w));
    return 0;
}

static void choose_trained(Learner *l) {
    const ParamSet *all = &l->model.params;
    l->trained.params = xcalloc((size_t)all->n, sizeof *l->trained.params);
    for (int i = 0; i < all->n; i++)
        if (!l->f->settings->freeze || is_head(&l->model, all->params[i].weight))
            l->trained.params[l->trained.n++] = all->params[i];
}

/* Behind the flat ones. */
static void bind_frozen(Learner *l) {
    float *at = l->weights + params_trained(&l->model.params);
    for (int i = 0; i < l->model.params.n; i++) {
        const Param *p = &l->model.params.params[i];
        if (!p->frozen) continue;
        p->weight->data = at;
        at += weight_count(p->weight);
    }
}

static int open_weights(Learner *l, Err *err) {
    ParamSet *all = &l->model.params;
    l->weights = xcalloc(params_count(all), sizeof *l->weights);
    params_bind_flat(all, l->weights, NULL);
    bind_frozen(l);
    choose_trained(l);
    optimizer_init(&l->optimizer, &l->trained);
    for (int i = 0; i < all->n; i++)
        if (take_weight(l, &all->params[i], err)) return -1;
    return l->f->settings->init ? shards_check_intact(&l->f->init.shards, err) : 0;
}

/* What the frozen part makes of the data is the same for every seed. */
static int make_features(Learner *l) {
    Finetune *f = l->f;
    const FinetuneSettings *s = f->settings;
    NoiseKey noise = {.seed = (uint64_t)s->noise_seed, .scale = (float)s->noise_scale};
    for (int k = 0; k < SPLIT_TEST; k++) {
        const TaskData *d = &f->data[k];
        if (!d->examples || f->features[k]) continue;
        float *x = xcalloc((size_t)d->examples->n_units * (size_t)f->config.hidden_size, sizeof *x);
        if (task_features(&l->model, d, noise, stop_signal, x)) return free(x), stop_signal();
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

/* Told before it is taken: the kernel's way of saying no is to kill. */
static int check_memory(const Learner *l, Err *err) {
    const FinetuneSettings *s = l->f->settings;
    if (s->freeze || l->model.cfg.network) return 0;
    CostMemory need = cost_memory(&l->model, most_rows(&l->f->data[SPLIT_TRAIN], s->batch), false);
    return memory_check(need.weights + need.activations, "the training", "a smaller --batch takes less", err);
}

int learner_open(Learner *l, Finetune *f, uint64_t seed, Err *err) {
    const FinetuneSettings *s = f->settings;
    int64_t n = f->examples[SPLIT_TRAIN].n;
    *l = (Learner){.f = f, .seed = seed, .steps_per_epoch = (n + s->batch - 1) / s->batch};
    l->perturb = (Perturb){.mode = (PerturbMode)s->perturb, .sigma = s->perturb_sigma, .seed = seed};
    if (model_init(&l->model, &f->config, err) || check_memory(l, err)) return -1;
    tape_init(&l->tape, true);
    l->order = xcalloc((size_t)n, sizeof *l->order);
    l->both = xcalloc(2 * (size_t)s->batch, sizeof *l->both);
    l->targets = xcalloc(2 * (size_t)s->batch, sizeof *l->targets);
    l->shares = xcalloc(2 * (size_t)s->batch, sizeof *l->shares);
    if (open_weights(l, err)) return -1;
    return s->freeze ? make_features(l) : 0;
}

void learner_free(Learner *l) {
    if (l->order) tape_free(&l->tape);
    task_batch_free(&l->batch);
    perturb_free(&l->perturb);
    if (l->optimizer.w) optimizer_free(&l->optimizer);
    free(l->trained.params);
    free(l->weights);
    free(l->order);
    free(l->both);
    free(l->targets);
    free(l->shares);
    model_free(&l->model);
}

/* ---- a step ---- */

/* The rows that the head reads, of the units of chosen[0..n). */
static Mat *gather_features(Learner *l, const uint32_t *chosen, int n) {
    const Examples *e = &l->f->examples[SPLIT_TRAIN];
    size_t d = (size_t)l->model.cfg.hidden_size;
    Mat *x = tape_mat(&l->tape, l->batch.n_units, (int)d);
    float *to = x->x;
    for (int i = 0; i < n; i++) {
        size_t first = (size_t)e->first[chosen[i]], units = (size_t)e->first[chosen[i] + 1] - first;
        memcpy(to, l->f->features[SPLIT_TRAIN] + first * d, units * d * sizeof *to);
        to += units * d;
    }
    return x;
}

/* share of the own label's cross-entropy and 1 - share of that of the partner's. */
static Mat *mixed_loss(Learner *l, Mat *logits, double share, double *kl) {
    int n = logits->n;
    for (int i = 0; i < 2 * n; i++) {
        l->both[i] = i % n;
        l->targets[i] = l->batch.targets[i < n ? i : 2 * n - 1 - i];
        l->shares[i] = (float)(i < n ? share : 1 - share);
    }
    Mat *twice = op_rows(&l->tape, logits, l->both, 2 * n);
    return model_loss(&l->tape, twice, l->targets, l->shares, (float)l->f->settings->kl_weight, kl);
}

/* The gradient of chosen[0..n), and their mean loss without the noise KL. */
static double add_gradient(Learner *l, const uint32_t *chosen, int n) {
    const FinetuneSettings *s = l->f->settings;
    NoiseKey noise = {.seed = l->seed, .stream = (uint32_t)(1 + (uint64_t)l->step % UINT32_MAX), .scale = 1};
    double kl, share = 1;
    tape_reset(&l->tape);
    task_batch_fill(&l->batch, &l->f->data[SPLIT_TRAIN], chosen, n, noise, false);
    if (l->batch.images) share = mix_images(&s->mixing, &l->batch, &l->model.cfg, l->seed, l->step);
    Mat *logits = s->freeze ? model_logits(&l->model, &l->tape, gather_features(l, chosen, n))
                            : model_forward(&l->model, &l->tape, &l->batch.batch, NULL);
    Mat *loss = share < 1 ? mixed_loss(l, logits, share, &kl)
                          : model_loss(&l->tape, logits, l->batch.targets, NULL, (float)s->kl_weight, &kl);
    tape_backward(&l->tape, loss);
    return loss->x[0] - s->kl_weight * kl;
}

static Schedule schedule_of(const Learner *l) {
    const FinetuneSettings *s = l->f->settings;
    return (Schedule){.kind = (ScheduleKind)s->schedule,
                      .lr = s->lr,
                      .min_lr = s->min_lr,
                      .warmup = s->warmup_epochs * l->steps_per_epoch,
                      .decay = s->epochs * l->steps_per_epoch};
}

static double update(Learner *l) {
    const FinetuneSettings *s = l->f->settings;
    AdamW adamw = {
        .beta1 = s->betas[0], .beta2 = s->betas[1], .eps = 1e-8, .weight_decay = s->weight_decay, .clip = s->clip};
    Descent descent = {.momentum = s->momentum, .weight_decay = s->weight_decay, .clip = s->clip};
    if (s->optimizer == OPTIMIZER_SGD) return optimizer_descend(&l->optimizer, &descent, l->lr, 1);
    return optimizer_step(&l->optimizer, &adamw, l->lr, l->step + 1, 1);
}

static int run_step(Learner *l, const uint32_t *chosen, int n, Err *err) {
    Schedule schedule = schedule_of(l);
    l->lr = schedule_lr(&schedule, l->step);
    perturb_apply(&l->perturb, &l->trained, l->optimizer.w, l->step);
    optimizer_clear_gradient(&l->optimizer);
    double loss = add_gradient(l, chosen, n);
    perturb_restore(&l->perturb, &l->trained, l->optimizer.w);
    double norm = update(l);
    l->loss += loss * n;
    l->step++;
    if (isfinite(norm)) return 0;
    return err_set(err, "step %lld: the gradient is not finite (loss %g, learning rate %g): try a lower --lr",
                   (long long)l->step, loss, l->lr);
}

int learner_epoch(Learner *l, Err *err) {
    int64_t n = l->f->examples[SPLIT_TRAIN].n, batch = l->f->settings->batch;
    order_shuffle(l->order, (size_t)n, l->seed, (uint64_t)(l->step / l->steps_per_epoch));
    l->loss = 0;
    for (int64_t at = 0; at < n; at += batch) {
        if (run_step(l, l->order + at, (int)MIN(batch, n - at), err)) return -1;
        if (stop_signal()) return stop_signal();
    }
    return 0;
}
