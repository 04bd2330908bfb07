/* The objective of `pretrain`, the next token of texts or a masked one (micro_batch.h), and a run of it. Every step is
 * a line of the log (runlog.h); now and then held-out text is evaluated, a text drawn, and the run saved.
 *
 * The weights of the lowest loss on the same 64 held-out windows are kept in --out/best: a folder that can be served,
 * without what a resumed run needs. The log says of a step that it was the best then:
 *     {"step":400, ..., "best":3.21} */
#include "base/files.h"
#include "base/fixed_math.h"
#include "base/utf8.h"
#include "model/shape.h"
#include "tokenizer/tokenizer_json.h"
#include "trainer/micro_batch.h"
#include "trainer/progress.h"
#include "trainer/ranks/ranks.h"
#include "trainer/run.h"
#include "trainer/stop.h"
#include "trainer/text/evaluate.h"
#include "trainer/text/sample.h"
#include "trainer/train.h"
#include "weights/carry.h"

#include <ctype.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

static const double MEAN_STEPS = 16, HOPELESS = 1; /* nats */
enum { SAMPLE_WINDOWS = 64 };                      /* evaluated during the run; at its end all are */
#define BEST_FOLDER "best"

/* A mean of the loss over about MEAN_STEPS steps, and what it was worth to know nothing: the first loss, or that of
 * guessing every token alike. */
typedef struct Health {
    double mean, ignorant;
} Health;

typedef struct Language {
    Run *run;
    MicroBatch batch;
    const Model *model; /* what rank 0 evaluates, draws from and keeps as the best */
    Health health;
    Progress progress;
    bool unfinished; /* a signal cut the evaluation of the last step short */
} Language;

static int refuse_ids(const Language *l, const Corpus *c, const char *why, Err *err) {
    if (ranks->n == 1 && training_settle(&l->run->training, err)) return -1;
    return err_set(err, "%s was changed while it was read: %s; the checkpoint of step %lld stands", c->path, why,
                   (long long)l->run->training.saved);
}

static int check_intact(const Language *l, Err *err) {
    for (const Corpus *c = l->run->corpora; c < l->run->corpora + l->run->n_corpora; c++)
        if (!corpus_intact(c)) return refuse_ids(l, c, "its size or time is another", err);
    return 0;
}

/* ---- a micro-batch ---- */

static int read_batch(void *self, int64_t step, int64_t micro, Err *err) {
    Language *l = self;
    Err why;
    return micro_batch_read(&l->batch, step, micro, &why) ? refuse_ids(l, l->run->corpora, why.msg, err) : 0;
}

static MicroLoss add_gradient(void *self, Tape *tape) { return micro_batch_gradient(&((Language *)self)->batch, tape); }

/* ---- divergence ---- */

static void health_update(Health *h, double loss, int vocab) {
    if (h->ignorant == 0) *h = (Health){.mean = loss, .ignorant = fmax(loss, fixed_log(vocab))};
    h->mean += (loss - h->mean) / MEAN_STEPS;
}

/* In nats worse than a model that knows nothing. */
static double ignorance(const Health *h) { return h->mean - h->ignorant; }

static int check_health(const Language *l, const Step *s, Err *err) {
    if (ignorance(&l->health) < HOPELESS) return 0;
    if (training_settle(&l->run->training, err)) return -1;
    return ranks_refuse(
        err,
        "step %lld: the training diverges, its loss of %.2f is worse than the %.2f of knowing nothing (learning "
        "rate %g); the checkpoint of step %lld stands: try a lower --lr or a longer --warmup",
        (long long)s->number, l->health.mean, l->health.ignorant, s->lr, (long long)l->run->training.saved);
}

/* ---- evaluation and log ---- */

static bool is_due(int64_t step, int64_t every) { return every > 0 && step % every == 0; }

static void add_sigma(Buffer *line, const Model *m) {
    const Noise *z = model_noise(m, 0);
    if (!z || m->cfg.noise.condition_dim) return;
    json_open(line, "sigma", '[');
    for (int l = 0; z; z = model_noise(m, ++l)) {
        json_open(line, NULL, '[');
        for (size_t i = 0; i < weight_count(&z->sigma); i++)
            json_put_double(line, NULL, (double)weight_f32(&z->sigma)[i]);
        json_close(line, ']');
    }
    json_close(line, ']');
}

static int watch_evaluation(void *self, int64_t done, int64_t parts) {
    Language *l = self;
    progress_evaluation(&l->progress, done, parts);
    return stop_signal();
}

/* The noise is the one that a server draws for noise_seed 0. */
static int evaluate_windows(Language *l, size_t most, Evaluation *e, Err *err) {
    const Run *r = l->run;
    EvaluationWatch watch = {.part = watch_evaluation, .self = l};
    Err why;
    NoiseKey noise = {.scale = 1};
    return evaluate(l->model, r->corpora->val, r->window, most, noise, &watch, e, &why)
               ? refuse_ids(l, r->corpora, why.msg, err)
               : 0;
}

static Dtype save_dtype(const Run *r) { return r->settings->save_dtype == PRECISION_BF16 ? DTYPE_BF16 : DTYPE_F32; }

/* A folder that can be served, without what a resumed run needs. */
static int keep_best(const Language *l, int64_t step, Err *err) {
    const Run *r = l->run;
    const char *out = r->settings->out;
    const Model *m = l->model;
    char dir[PATH_BYTES], path[PATH_BYTES];
    if (path_join(dir, out, BEST_FOLDER, err) || path_join(path, dir, "tokenizer.json", err)) return -1;
    if (folder_create(dir, NULL, err) || tokenizer_json_save(r->tokenizer, path, err) ||
        carry_over(out, dir, &m->cfg, NULL, err))
        return -1;
    return checkpoint_save(dir, m, NULL, save_dtype(r), (uint64_t)step, err);
}

/* The last evaluation is of all windows: it is compared by a sample, if there is anything to compare with. */
static int add_best(Language *l, Buffer *line, int64_t step, Evaluation e, Err *err) {
    Training *t = &l->run->training;
    if (step == l->run->settings->steps) {
        if (!t->best.step) return 0;
        if (evaluate_windows(l, SAMPLE_WINDOWS, &e, err)) return -1;
    }
    double loss = e.nats / (double)e.tokens;
    l->unfinished = !e.complete;
    if (l->unfinished || !training_see(t, step, -loss)) return 0;
    json_put_double(line, "best", loss);
    return keep_best(l, step, err);
}

static int read_figure(void *self, const RunLogLine *line, double *figure, Err *err) {
    Language *l = self;
    double loss = runlog_number(line, "loss");
    (void)err;
    if (!isnan(loss)) health_update(&l->health, loss, l->run->config.vocab_size);
    *figure = -runlog_number(line, "best");
    return 0;
}

static size_t val_bytes(const Run *r) {
    size_t bytes = 0;
    for (int i = 0; i < r->n_corpora; i++) bytes += r->corpora[i].val_bytes;
    return bytes;
}

static int add_evaluation(Language *l, Buffer *line, int64_t step, Err *err) {
    const Run *r = l->run;
    const Model *m = l->model;
    const TokenSpan *val = &r->corpora->val;
    Evaluation e;
    if (val->n < 2) return 0;
    if (evaluate_windows(l, step < r->settings->steps ? SAMPLE_WINDOWS : 0, &e, err)) return -1;
    l->unfinished = !e.complete;
    if (l->unfinished || e.tokens == 0) return 0;
    double loss = e.nats / (double)e.tokens, tokens_per_byte = (double)val->n / (double)val_bytes(r);
    json_put_double(line, "val_loss", loss);
    json_put_uint(line, "val_tokens", e.tokens);
    if (config_noise_components(&m->cfg)) {
        json_put_double(line, "component_entropy", e.entropy);
        json_put_double(line, "component_nats", e.information);
    }
    add_sigma(line, m);
    if (add_best(l, line, step, e, err)) return -1;
    if (l->unfinished) return 0;
    if (m->cfg.task == TASK_FILL_MASK) {
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
static int add_sample(const Language *l, Buffer *line, int64_t step, Err *err) {
    enum { WORDS = 8, LENGTH = 60 };
    const Run *run = l->run;
    const TokenSpan *span = run->corpora->val.n >= WORDS ? &run->corpora->val : &run->corpora->train;
    int prompt[WORDS], n = (int)MIN((size_t)MIN(WORDS, run->window / 2), span->n);
    for (int i = 0; i < n; i++) prompt[i] = token_at(span, (size_t)i);
    SampleRun r = {
        .model = l->model,
        .tokenizer = run->tokenizer,
        .prompt = prompt,
        .n_prompt = n,
        .max_tokens = MIN(LENGTH, run->window - n),
        .sampling = {.temperature = 0.8f, .top_k = 50, .top_p = 1, .typical_p = 1, .repetition_penalty = 1},
        .noise = {.scale = 1},
    };
    Buffer text = {0};
    size_t n_words;
    if (sample_text(&r, &text, err)) return buffer_free(&text), -1;
    char *words = tokenizer_decode(run->tokenizer, prompt, (size_t)n, &n_words);
    text.data[sample_sentences(text.data, text.n)] = 0;
    json_put_text(line, "sample", text.data);
    progress_note(&l->progress, "step %lld: sample: %s|%s", (long long)step, on_one_line(words),
                  on_one_line(text.data));
    free(words);
    buffer_free(&text);
    return 0;
}

static bool is_evaluated(const Language *l, int64_t step) {
    const Settings *s = l->run->settings;
    return step == s->steps || is_due(step, s->eval_every);
}

static bool is_sampled(const Language *l, int64_t step) { return is_due(step, l->run->settings->sample_every); }

static int add_looks(Language *l, Buffer *line, int64_t step, Err *err) {
    const size_t before = line->n;
    l->unfinished = false;
    if (is_evaluated(l, step) && add_evaluation(l, line, step, err)) return -1;
    if (l->unfinished) {
        line->n = before;
        return runlog_suspend(line), 0;
    }
    return is_sampled(l, step) ? add_sample(l, line, step, err) : 0;
}

/* By all ranks: rank 0 evaluates, for which it takes the slices of the others. */
static int look(Language *l, Buffer *line, int64_t step, Err *err) {
    Masters masters;
    if (!is_evaluated(l, step) && !is_sampled(l, step)) return 0;
    if (!l->run->training.in_slices) return ranks->rank ? 0 : add_looks(l, line, step, err);
    if (masters_open(&masters, &l->run->training, err)) return -1;
    l->model = &masters.model;
    int rc = ranks->rank ? 0 : add_looks(l, line, step, err);
    l->model = &l->run->training.model;
    masters_close(&masters);
    return rc;
}

static Buffer begin_line(const Language *l, const Step *s) {
    Buffer line = runlog_line(s->number);
    json_put_double(&line, "loss", s->mean.loss);
    json_put_double(&line, "kl", s->mean.kl);
    if (l->run->settings->noise_draws > 1 || config_noise_components(&l->run->config))
        json_put_double(&line, "effective_draws", s->mean.draws);
    if (s->mean.chosen > 0) json_put_double(&line, "chosen_loss", s->mean.chosen);
    json_put_double(&line, "lr", s->lr);
    json_put_double(&line, "grad_norm", s->norm);
    json_put_double(&line, "tokens_per_second", round(l->progress.tokens_per_step / s->seconds));
    return line;
}

static int log_step(Language *l, const Step *s, Err *err) {
    Buffer line = begin_line(l, s);
    if (look(l, &line, s->number, err)) return buffer_free(&line), -1;
    if (!ranks->rank) return runlog_write(&l->run->training.log, &line, err);
    buffer_free(&line);
    return 0;
}

/* What a signal kept from the last step of a run that goes on; another one may keep it again. */
static int finish_last(Language *l, Err *err) {
    Training *t = &l->run->training;
    Buffer line = {0};
    if (!ranks->rank && runlog_unfinished(&t->log, &line, err)) return -1;
    if (!ranks_most(line.n > 0)) return 0;
    if (look(l, &line, t->step, err)) return buffer_free(&line), -1;
    return ranks->rank ? 0 : runlog_replace(&t->log, &line, err);
}

/* ---- the objective ---- */

static int finish_step(void *self, const Step *s, bool *save, Err *err) {
    Language *l = self;
    const Settings *settings = l->run->settings;
    progress_step(&l->progress, s->number, s->mean.loss, s->lr);
    health_update(&l->health, s->mean.loss, l->run->config.vocab_size);
    if (log_step(l, s, err)) return -1;
    if (check_intact(l, err)) return -1;
    bool healthy = fmax(s->mean.loss, l->health.mean) < l->health.ignorant + HOPELESS / 4;
    *save = s->number == settings->steps || (is_due(s->number, settings->save_every) && healthy);
    return check_health(l, s, err);
}

static int save_run(void *self, const Model *m, int64_t step, Err *err) {
    const Run *r = ((const Language *)self)->run;
    const char *out = r->settings->out;
    RunState s = {.settings = r->saved_settings,
                  .arithmetic = recipe_arithmetic(&r->settings->recipe),
                  .tokenizer_hash = r->tokenizer_hash,
                  .config = m->cfg};
    memcpy(s.data_hash, r->data_hash, sizeof s.data_hash);
    if (run_state_save(&s, out, step, err)) return -1;
    return checkpoint_save(out, m, NULL, save_dtype(r), (uint64_t)step, err);
}

static bool is_done(void *self, int64_t step) { return step >= ((Language *)self)->run->settings->steps; }

static const Objective objective = {.read = read_batch,
                                    .gradient = add_gradient,
                                    .finish = finish_step,
                                    .stops_anywhere = true,
                                    .save = save_run,
                                    .done = is_done,
                                    .figure = read_figure};

static int go_on(Language *l, Err *err) {
    Training *t = &l->run->training;
    const Settings *s = l->run->settings;
    if (training_save_first(t, err) || training_open_log(t, err)) return -1;
    ranks_follow(&l->health, sizeof l->health);
    progress_start(&l->progress, t->step, s->steps, (double)(s->batch * s->accumulate * l->run->window));
    if (finish_last(l, err)) return -1;
    int rc = ranks_most(l->unfinished) ? training_settle(t, err) : training_loop(t, err);
    if (rc == 0 && ranks_most(l->unfinished)) rc = ranks_most(stop_signal());
    if (rc > 0)
        progress_note(&l->progress, "stopped by signal %d: saved after step %lld, --resume continues", rc,
                      (long long)t->step);
    progress_end(&l->progress);
    if (rc == 0 && t->best.step)
        printf("best: step %lld of those evaluated, in %s/" BEST_FOLDER "\n", (long long)t->best.step, s->out);
    return rc;
}

int run_train(Run *r, Err *err) {
    Language l = {.run = r, .model = &r->training.model};
    r->training.objective = &objective;
    r->training.self = &l;
    micro_batch_init(&l.batch, r->settings, &r->training.model, &r->windows);
    int rc = go_on(&l, err);
    micro_batch_free(&l.batch);
    return rc;
}
