#include "trainer/train.h"

#include "base/clock.h"
#include "base/err.h"
#include "base/fixed_math.h"
#include "base/memory.h"
#include "base/utf8.h"
#include "trainer/agree.h"
#include "trainer/best.h"
#include "trainer/early_sum.h"
#include "trainer/text/evaluate.h"
#include "trainer/micro_batch.h"
#include "trainer/progress.h"
#include "trainer/runlog.h"
#include "trainer/text/sample.h"
#include "trainer/snapshot.h"
#include "trainer/stop.h"

#include <ctype.h>
#include <math.h>
#include <stdarg.h>
#include <stdlib.h>

static const double MEAN_STEPS = 16, HOPELESS = 1; /* nats */
enum { SAMPLE_WINDOWS = 64 };                      /* evaluated during the run; at its end all are */

/* ---- one step ---- */

typedef struct StepResult {
    double loss, kl, draws, lr, norm, seconds; /* draws: the effective number of them */
} StepResult;

/* A mean of the loss over about MEAN_STEPS steps, and what it was worth to know nothing: the first loss, or that of
 * guessing every token alike. */
typedef struct Health {
    double mean, ignorant;
} Health;

typedef struct Loop {
    const Training *t;
    Health health;
    int64_t saved;   /* step of the last checkpoint */
    RankShare share; /* of the step's micro-batches */
    MicroBatch batch;
    GradientSum sum;
    EarlySum early;
    MicroBatchResult *mine, *results; /* [share.most] of this rank, [that of all ranks] by number */
    int *signals;                     /* [ranks] */
    Perturb perturb;
    RunLog log;
    Best best;
    Progress progress;
} Loop;

static int refuse_ids(const Loop *l, const char *why, Err *err) {
    return err_set(err, "%s/tokens.bin was changed while it was read: %s; the checkpoint of step %lld stands",
                   l->t->settings->out, why, (long long)l->saved);
}

/* Means over the step's micro-batches, summed in their order on every rank. */
static void gather_results(Loop *l, StepResult *r) {
    int64_t n = l->t->settings->accumulate;
    ranks->gather(l->mine, (size_t)l->share.most * sizeof *l->mine, l->results);
    for (const MicroBatchResult *one = l->results; one < l->results + n; one++) {
        r->loss += one->loss / (double)n;
        r->kl += one->kl / (double)n;
        r->draws += one->draws / (double)n;
    }
}

static int read_batch(Loop *l, int64_t step, int64_t i, Err *err) {
    Err why;
    return micro_batch_read(&l->batch, l->t, step, l->share.first + i, &why) ? refuse_ids(l, why.msg, err) : 0;
}

static void add_gradient(Loop *l, int64_t i) {
    optimizer_clear_gradient(l->t->optimizer);
    micro_batch_gradient(&l->batch, l->t, &l->mine[i]);
}

/* The gradients of a step, summed; r's means over it. */
static int add_gradients(Loop *l, int64_t step, StepResult *r, Err *err) {
    int64_t last = l->share.n - 1;
    for (int64_t i = 0; i < last; i++) {
        if (read_batch(l, step, i, err)) return -1;
        add_gradient(l, i);
        gradient_sum_add(&l->sum, l->t->optimizer->g, i);
    }
    if (last >= 0 && read_batch(l, step, last, err)) return -1;
    if (early_sum_start(&l->early, err)) return -1;
    if (ranks->n > 1) l->batch.tape.reached = early_sum_reached;
    if (last >= 0) add_gradient(l, last);
    l->batch.tape.reached = NULL;
    early_sum_end(&l->early);
    gather_results(l, r);
    return 0;
}

/* Returns the gradient's norm. */
static double update(const Training *t, double lr, int64_t step) {
    const Settings *s = t->settings;
    const AdamW adamw = {
        .beta1 = s->betas[0], .beta2 = s->betas[1], .eps = 1e-8, .weight_decay = s->weight_decay, .clip = s->clip};
    const Descent descent = {.momentum = s->momentum, .weight_decay = s->weight_decay, .clip = s->clip};
    double grad_scale = 1 / (double)s->accumulate;
    return s->optimizer == OPTIMIZER_SGD ? optimizer_descend(t->optimizer, &descent, lr, grad_scale)
                                         : optimizer_step(t->optimizer, &adamw, lr, step, grad_scale);
}

/* Every rank sees it; rank 0 says it (agree.h). */
static int refuse_step(Err *err, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
static int refuse_step(Err *err, const char *fmt, ...) {
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(err->msg, sizeof err->msg, ranks->rank ? "" : fmt, ap);
    va_end(ap);
    return -1;
}

static int run_step(Loop *l, int64_t step, StepResult *r, Err *err) {
    const Training *t = l->t;
    const Settings *s = t->settings;
    Schedule schedule = settings_schedule(s);
    double started = now_seconds();
    *r = (StepResult){.lr = schedule_lr(&schedule, step)};
    perturb_apply(&l->perturb, &t->model->params, t->optimizer->w, step);
    if (add_gradients(l, step, r, err)) return -1;
    perturb_restore(&l->perturb, &t->model->params, t->optimizer->w);
    r->norm = update(t, r->lr, step + 1);
    r->seconds = now_seconds() - started;
    if (isfinite(r->norm)) return 0;
    return refuse_step(
        err,
        "step %lld: the gradient is not finite (loss %g, learning rate %g); the checkpoint of step %lld stands: "
        "try a lower --lr or a longer --warmup",
        (long long)(step + 1), r->loss, r->lr, (long long)l->saved);
}

/* ---- divergence ---- */

static void health_update(Health *h, double loss, int vocab) {
    if (h->ignorant == 0) *h = (Health){.mean = loss, .ignorant = fmax(loss, fixed_log(vocab))};
    h->mean += (loss - h->mean) / MEAN_STEPS;
}

/* In nats worse than a model that knows nothing. */
static double ignorance(const Health *h) { return h->mean - h->ignorant; }

static int check_health(const Loop *l, int64_t step, const StepResult *r, Err *err) {
    if (ignorance(&l->health) < HOPELESS) return 0;
    return refuse_step(
        err,
        "step %lld: the training diverges, its loss of %.2f is worse than the %.2f of knowing nothing (learning "
        "rate %g); the checkpoint of step %lld stands: try a lower --lr or a longer --warmup",
        (long long)step, l->health.mean, l->health.ignorant, r->lr, (long long)l->saved);
}

/* ---- evaluation and log ---- */

static bool is_due(int64_t step, int64_t every) { return every > 0 && step % every == 0; }

static void add_sigma(cJSON *line, const Model *m) {
    if (m->cfg.noise.scope == NOISE_NONE || m->cfg.noise.condition_dim) return;
    cJSON *layers = cJSON_AddArrayToObject(line, "sigma");
    for (int l = 0; l < m->cfg.n_layers; l++) {
        const Weight *sigma = &m->blocks[l].attention.noise.sigma;
        cJSON_AddItemToArray(layers, cJSON_CreateFloatArray(weight_f32(sigma), (int)weight_count(sigma)));
    }
}

/* The noise is the one that a server draws for noise_seed 0. */
static int evaluate_windows(const Loop *l, size_t most, Evaluation *e, Err *err) {
    const Training *t = l->t;
    Err why;
    NoiseKey noise = {.scale = 1};
    return evaluate(t->model, t->corpus->val, t->windows->length, most, noise, stop_signal, e, &why)
               ? refuse_ids(l, why.msg, err)
               : 0;
}

/* The last evaluation is of all windows: it is compared by a sample, if there is anything to compare with. */
static int add_best(Loop *l, cJSON *line, int64_t step, Evaluation e, Err *err) {
    if (step == l->t->settings->steps) {
        if (isinf(l->best.loss)) return 0;
        if (evaluate_windows(l, SAMPLE_WINDOWS, &e, err)) return -1;
    }
    return e.complete ? best_keep(&l->best, l->t, step, e.nats / (double)e.tokens, line, err) : 0;
}

static int add_evaluation(Loop *l, cJSON *line, int64_t step, Err *err) {
    const Training *t = l->t;
    const TokenSpan *val = &t->corpus->val;
    Evaluation e;
    if (val->n < 2) return 0;
    if (evaluate_windows(l, step < t->settings->steps ? SAMPLE_WINDOWS : 0, &e, err)) return -1;
    if (!e.complete || e.tokens == 0) return 0;
    double loss = e.nats / (double)e.tokens, tokens_per_byte = (double)val->n / (double)t->corpus->val_bytes;
    cJSON_AddNumberToObject(line, "val_loss", loss);
    cJSON_AddNumberToObject(line, "val_tokens", (double)e.tokens);
    add_sigma(line, t->model);
    if (add_best(l, line, step, e, err)) return -1;
    if (t->model->cfg.task == TASK_FILL_MASK) {
        progress_note(&l->progress,
                      "step %lld: validation loss %.4f (perplexity %.2f) on %zu masked of %zu held-out tokens",
                      (long long)step, loss, fixed_exp(loss), e.tokens, val->n);
        return 0;
    }
    progress_note(&l->progress,
                  "step %lld: validation loss %.4f (perplexity %.2f, %.4f nats or %.4f bits per byte) on %zu of %zu "
                  "held-out tokens",
                  (long long)step, loss, fixed_exp(loss), loss * tokens_per_byte, loss * tokens_per_byte / M_LN2,
                  e.tokens, val->n - 1);
    return 0;
}

static char *on_one_line(char *text) {
    for (char *p = text; *p; p++)
        if (isspace((unsigned char)*p)) *p = ' ';
    text_make_printable(text);
    return text;
}

/* What the model makes of the first words of the held-out text, or of the training's; the draws are the same each time.
 */
static int add_sample(const Loop *l, cJSON *line, int64_t step, Err *err) {
    enum { WORDS = 8, LENGTH = 60 };
    const Training *t = l->t;
    const TokenSpan *span = t->corpus->val.n >= WORDS ? &t->corpus->val : &t->corpus->train;
    int prompt[WORDS], n = (int)MIN((size_t)MIN(WORDS, t->windows->length / 2), span->n);
    for (int i = 0; i < n; i++) prompt[i] = token_at(span, (size_t)i);
    SampleRun r = {
        .model = t->model,
        .tokenizer = t->tokenizer,
        .prompt = prompt,
        .n_prompt = n,
        .max_tokens = MIN(LENGTH, t->windows->length - n),
        .sampling = {.temperature = 0.8f, .top_k = 50, .top_p = 1, .typical_p = 1, .repetition_penalty = 1},
        .noise = {.scale = 1},
    };
    Buffer text = {0};
    size_t n_words;
    if (sample_text(&r, &text, err)) return buffer_free(&text), -1;
    char *words = tokenizer_decode(t->tokenizer, prompt, (size_t)n, &n_words);
    text.data[sample_sentences(text.data, text.n)] = 0;
    cJSON_AddStringToObject(line, "sample", text.data);
    progress_note(&l->progress, "step %lld: sample: %s|%s", (long long)step, on_one_line(words),
                  on_one_line(text.data));
    free(words);
    buffer_free(&text);
    return 0;
}

static int log_step(Loop *l, int64_t step, const StepResult *r, bool evaluated, Err *err) {
    cJSON *line = cJSON_CreateObject();
    cJSON_AddNumberToObject(line, "step", (double)step);
    cJSON_AddNumberToObject(line, "loss", r->loss);
    cJSON_AddNumberToObject(line, "kl", r->kl);
    if (l->t->settings->noise_draws > 1) cJSON_AddNumberToObject(line, "effective_draws", r->draws);
    cJSON_AddNumberToObject(line, "lr", r->lr);
    cJSON_AddNumberToObject(line, "grad_norm", r->norm);
    cJSON_AddNumberToObject(line, "tokens_per_second", round(l->progress.tokens_per_step / r->seconds));
    bool sampled = is_due(step, l->t->settings->sample_every);
    if ((evaluated && add_evaluation(l, line, step, err)) || (sampled && add_sample(l, line, step, err))) {
        cJSON_Delete(line);
        return -1;
    }
    return runlog_write(&l->log, line, err);
}

/* ---- the loop ---- */

/* Rank 0 evaluates and keeps the log and the best. */
static int open_log(Loop *l, int64_t step, Err *err) {
    const char *dir = l->t->settings->out;
    return ranks->rank ? 0 : runlog_open(&l->log, dir, step, err) || best_load(&l->best, dir, err) ? -1 : 0;
}

/* A signal to any rank stops all of them. */
static int agree_stopped(const Loop *l) {
    int mine = stop_signal(), any = 0;
    ranks->gather(&mine, sizeof mine, l->signals);
    for (int i = 0; i < ranks->n; i++) any = MAX(any, l->signals[i]);
    return any;
}

static int save(Loop *l, int64_t step, Err *err) {
    l->saved = step;
    if (snapshot_save(l->t, step, err)) return -1;
    ranks_wait(); /* whoever ends ends all, so not before rank 0 has written */
    return 0;
}

/* `step` counts finished steps. Returns as train() does. */
static int run_steps(Loop *l, int64_t step, Err *err) {
    const Training *t = l->t;
    const Settings *s = t->settings;
    while (step < s->steps) {
        StepResult r;
        if (run_step(l, step++, &r, err)) return -1;
        progress_step(&l->progress, step, r.loss, r.lr);
        health_update(&l->health, r.loss, t->model->cfg.vocab_size);
        bool last = step == s->steps;
        if (!ranks->rank && log_step(l, step, &r, last || is_due(step, s->eval_every), err)) return -1;
        if (!corpus_intact(t->corpus)) return refuse_ids(l, "its size or time is another", err);
        int stopped = agree_stopped(l);
        if (check_health(l, step, &r, err)) return -1;
        bool due = is_due(step, s->save_every) && fmax(r.loss, l->health.mean) < l->health.ignorant + HOPELESS / 4;
        if ((last || stopped || due) && save(l, step, err)) return -1;
        if (stopped) {
            progress_note(&l->progress, "stopped by signal %d: saved after step %lld, --resume continues", stopped,
                          (long long)step);
            return stopped;
        }
    }
    return 0;
}

static void loop_init(Loop *l, const Training *t) {
    const Settings *s = t->settings;
    *l = (Loop){.t = t,
                .share = ranks_share(s->accumulate, ranks->rank, ranks->n),
                .perturb = {.mode = (PerturbMode)s->perturb, .sigma = s->perturb_sigma, .seed = (uint64_t)s->seed}};
    micro_batch_init(&l->batch, t);
    gradient_sum_init(&l->sum, t->optimizer->n, l->share.most);
    l->early = (EarlySum){.o = t->optimizer,
                          .ps = &t->model->params,
                          .sum = &l->sum,
                          .leaves = l->share.n,
                          .micro_batches = s->accumulate};
    l->batch.tape.reached_context = &l->early;
    l->mine = xcalloc((size_t)l->share.most, sizeof *l->mine);
    l->results = xcalloc((size_t)(l->share.most * ranks->n), sizeof *l->results);
    l->signals = xcalloc((size_t)ranks->n, sizeof *l->signals);
}

static void loop_free(Loop *l) {
    micro_batch_free(&l->batch);
    gradient_sum_free(&l->sum);
    free(l->mine);
    free(l->results);
    free(l->signals);
    perturb_free(&l->perturb);
}

int train(const Training *t, int64_t step, Err *err) {
    const Settings *s = t->settings;
    Loop l;
    loop_init(&l, t);
    int rc = save(&l, step, err) || open_log(&l, step, err) ? -1 : 0;
    if (rc == 0) {
        progress_start(&l.progress, step, s->steps, (double)(s->batch * s->accumulate * t->windows->length));
        rc = run_steps(&l, step, err);
        progress_end(&l.progress);
        if (rc == 0 && l.best.step)
            printf("best: step %lld of those evaluated, in %s/" BEST_FOLDER "\n", (long long)l.best.step, s->out);
    }
    if (runlog_close(&l.log, rc < 0 ? NULL : err) && rc >= 0) rc = -1;
    loop_free(&l);
    return rc;
}
