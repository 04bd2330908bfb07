#include "tests/support/engines.h"

#include "base/err.h"
#include "base/memory.h"
#include "base/random.h"
#include "tests/support/test.h"

#include <limits.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

Config test_engine_kind(const AttentionKind *kind, const char *variant) {
    Config c = test_variant(kind, variant);
    c.vocab_size = TEST_VOCAB;
    c.max_positions = TEST_CONTEXT;
    c.eos_token_id = TEST_EOS;
    return c;
}

Config test_engine_config(const char *variant) { return test_engine_kind(attention_kind_find("symmetric"), variant); }

EngineOptions test_engine_options(void) {
    return (EngineOptions){.threads = 1, .max_batch = 16, .prefill_chunk = 64, .max_queue = 256, .kv_dtype = DTYPE_F32};
}

void test_engine_open(TestEngine *t, const Config *c, const EngineOptions *o) {
    Err err;
    *t = (TestEngine){0};
    BUG_ON(!test_model_init(&t->model, c, 21));
    BUG_ON(model_init(&t->checkpoint.model, c, &err));
    ParamSet *ps = &t->checkpoint.model.params;
    params_bind_flat(ps, t->model.data, NULL);
    for (int i = 0; i < ps->n; i++)
        if (ps->params[i].frozen) ps->params[i].weight->data = t->model.model.params.params[i].weight->data;
    if (engine_start(&t->engine, &t->checkpoint, o, &err)) test_fail(__FILE__, __LINE__, "%s", err.msg);
    BUG_ON(!t->engine);
}

void test_engine_close(TestEngine *t) {
    engine_stop(t->engine);
    model_free(&t->checkpoint.model);
    test_model_free(&t->model);
}

Job *test_job(int index, int n_prompt, int max_tokens, int n_top, bool score_prompt) {
    int prompt[TEST_CONTEXT + 64];
    Draws d = draws_open(31, DRAW_TEST, (uint32_t)index);
    for (int i = 0; i < n_prompt; i++) prompt[i] = (int)draw_below(&d, TEST_VOCAB);
    Job *job = job_new(prompt, n_prompt, max_tokens, n_top, score_prompt);
    BUG_ON(!job);
    job->sampling.seed = draw_u32(&d);
    job->noise.seed = draw_u32(&d);
    job->noise_prompt.seed = job->noise.seed;
    return job;
}

Job *test_mixed_job(int index) {
    Draws d = draws_open(32, DRAW_TEST, (uint32_t)index);
    int n_prompt = 1 + (int)draw_below(&d, index % 3 ? 40 : 150);
    bool score = draw_below(&d, 3) == 0;
    Job *job = test_job(index, n_prompt, (int)draw_below(&d, 60), (int)draw_below(&d, 7) - 1, score);
    static const LogitBias bias[] = {{3, -INFINITY}, {7, 2.5f}};
    Sampling *s = &job->sampling;
    s->temperature = 0.5f * (float)draw_below(&d, 4);
    s->top_k = draw_below(&d, 2) ? 10 : 0;
    s->top_p = draw_below(&d, 2) ? 0.9f : 1;
    s->min_p = draw_below(&d, 3) ? 0 : 0.02f;
    s->typical_p = draw_below(&d, 4) ? 1 : 0.9f;
    s->repetition_penalty = draw_below(&d, 2) ? 1.2f : 1;
    s->presence_penalty = draw_below(&d, 2) ? 0.3f : 0;
    if (draw_below(&d, 2)) {
        s->bias = memcpy(xmalloc(sizeof bias), bias, sizeof bias);
        s->n_bias = COUNTOF(bias);
    }
    job->noise_prompt.seed = draw_below(&d, 2) ? 12 : job->noise.seed;
    job->noise.scale = job->noise_prompt.scale = 0.5f * (float)draw_below(&d, 4);
    job->ignore_eos = draw_below(&d, 2);
    job->n_stop_ids = (int)draw_below(&d, 2) * 6;
    job->stop_ids = xcalloc(6, sizeof(int));
    for (int i = 0; i < 6; i++) job->stop_ids[i] = (int)draw_below(&d, TEST_VOCAB);
    job->min_tokens = draw_below(&d, 2) ? 8 : 0;
    return job;
}

void test_submit(TestEngine *t, Job *job) {
    double retry_after;
    CHECK(engine_submit(t->engine, &job, 1, &retry_after) == SUBMIT_OK);
}

Finish test_wait(Job *job) {
    for (int i = 0;; i++, usleep(200)) {
        Finish finish = job_progress(job).finish;
        if (finish != FINISH_NONE) return finish;
        BUG_ON(i > 5000 * PATIENCE); /* a minute: it hangs */
    }
}

void test_wait_idle(TestEngine *t) {
    EngineStats s = engine_stats(t->engine);
    for (int i = 0; s.running + s.queued > 0; i++, usleep(200)) {
        BUG_ON(i > 5000 * PATIENCE);
        s = engine_stats(t->engine);
    }
    CHECK_MSG(s.kv_blocks_used == 0, "%d blocks still in use", s.kv_blocks_used);
}

Job *test_run(TestEngine *t, Job *job) {
    test_submit(t, job);
    test_wait(job);
    return job;
}

static bool same_float(float a, float b) { return !memcmp(&a, &b, sizeof a); }

static bool same_slot(const JobToken *a, const JobToken *b, int n_top) {
    if (a->id != b->id || !same_float(a->logprob, b->logprob)) return false;
    for (int k = 0; k < n_top; k++)
        if (a->top[k].id != b->top[k].id || !same_float(a->top[k].logprob, b->top[k].logprob)) return false;
    return true;
}

bool test_same_result(Job *a, Job *b) {
    if (a->progress.finish != b->progress.finish || a->progress.n_tokens != b->progress.n_tokens ||
        a->progress.n_scored != b->progress.n_scored)
        return false;
    for (int i = 0; i < a->progress.n_tokens; i++)
        if (!same_slot(&a->tokens[i], &b->tokens[i], a->n_top)) return false;
    for (int i = 0; i < a->progress.n_scored; i++)
        if (!same_slot(&a->prompt_scores[i], &b->prompt_scores[i], i ? a->n_top : 0)) return false;
    return true;
}

/* ---- gate ---- */

static void gate_wake(void *arg) {
    TestGate *g = arg;
    JobProgress now = job_progress(g->job);
    pthread_mutex_lock(&g->mutex);
    g->missed = now.finish != FINISH_NONE && (now.n_tokens < g->n_tokens || now.n_scored < g->n_scored);
    if (g->missed) pthread_cond_broadcast(&g->changed);
    while (now.n_tokens >= g->n_tokens && now.n_scored >= g->n_scored) {
        g->held = true;
        pthread_cond_broadcast(&g->changed);
        pthread_cond_wait(&g->changed, &g->mutex);
    }
    g->held = false;
    pthread_mutex_unlock(&g->mutex);
}

void test_gate_set(TestGate *g, Job *job, int n_tokens, int n_scored) {
    *g = (TestGate){.job = job,
                    .n_tokens = n_tokens,
                    .n_scored = n_scored,
                    .mutex = PTHREAD_MUTEX_INITIALIZER,
                    .changed = PTHREAD_COND_INITIALIZER};
    job->wake = gate_wake;
    job->wake_arg = g;
}

bool test_gate_comes(TestGate *g) {
    pthread_mutex_lock(&g->mutex);
    while (!g->held && !g->missed) pthread_cond_wait(&g->changed, &g->mutex);
    pthread_mutex_unlock(&g->mutex);
    return g->held;
}

void test_gate_wait(TestGate *g) { CHECK_MSG(test_gate_comes(g), "the job ended before it came to the gate"); }

void test_gate_move(TestGate *g, int n_tokens, int n_scored) {
    pthread_mutex_lock(&g->mutex);
    g->n_tokens = n_tokens;
    g->n_scored = n_scored;
    g->held = false;
    pthread_cond_broadcast(&g->changed);
    pthread_mutex_unlock(&g->mutex);
}

void test_gate_open(TestGate *g) { test_gate_move(g, INT_MAX, INT_MAX); }

void test_job_of_few(Job *job, int n, float bias, float step) {
    LogitBias *few = xmalloc((size_t)n * sizeof *few);
    for (int i = 0; i < n; i++) few[i] = (LogitBias){.id = 10 + i, .bias = bias + step * (float)i};
    free((void *)job->sampling.bias);
    job->sampling.bias = few;
    job->sampling.n_bias = n;
}

/* ---- with tokens that are tried ahead, and without ---- */

enum { AHEAD_JOBS = SANITIZED ? 15 : 48 };

static void run_jobs(const Config *c, EngineOptions o, Job *(*job_of)(int), Metrics *m, Job **jobs) {
    TestEngine t;
    memset(m, 0, sizeof *m);
    o.metrics = m;
    test_engine_open(&t, c, &o);
    for (int i = 0; i < AHEAD_JOBS; i++) test_submit(&t, jobs[i] = job_of(i));
    for (int i = 0; i < AHEAD_JOBS; i++) test_wait(jobs[i]);
    test_wait_idle(&t);
    test_engine_close(&t);
}

static uint64_t count(Metrics *m, Counter c) { return atomic_load(&m->counters[c]); }

void test_ahead_is_not_seen(const Config *c, EngineOptions without, EngineOptions with, Job *(*job_of)(int),
                            const char *what) {
    static Metrics plain, ahead;
    Job *expected[AHEAD_JOBS], *jobs[AHEAD_JOBS];
    run_jobs(c, without, job_of, &plain, expected);
    run_jobs(c, with, job_of, &ahead, jobs);
    for (int i = 0; i < AHEAD_JOBS; i++) {
        CHECK_MSG(test_same_result(expected[i], jobs[i]), "%s: job %d differs", what, i);
        job_release(expected[i]);
        job_release(jobs[i]);
    }
    uint64_t tried = count(&ahead, COUNT_GUESSED), right = count(&ahead, COUNT_GUESSED_RIGHT);
    CHECK_MSG(right > AHEAD_JOBS && tried - right > AHEAD_JOBS / 3, "%s: %d of %d right show little", what, (int)right,
              (int)tried);
    CHECK(count(&ahead, COUNT_STEPS) < count(&plain, COUNT_STEPS) && count(&plain, COUNT_GUESSED) == 0);
}
