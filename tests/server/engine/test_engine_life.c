/* How jobs come in, end and go: limits, cancellation, deadlines, stopping. */
#include "base/clock.h"
#include "base/err.h"
#include "base/memory.h"
#include "base/team.h"
#include "tests/support/engines.h"
#include "tests/support/test.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* An engine for one sequence that stands in `clock`, so that whatever is submitted next waits in the queue. */
typedef struct Standstill {
    TestEngine t;
    TestGate gate;
    Job *clock;
} Standstill;

/* False when the clock was cut before its third token. */
static bool standstill_comes(Standstill *s, EngineOptions o) {
    Config c = test_engine_config("noise");
    test_engine_open(&s->t, &c, &o);
    s->clock = test_job(900, 1, 200, -1, false);
    s->clock->ignore_eos = true;
    test_gate_set(&s->gate, s->clock, 3, 0);
    test_submit(&s->t, s->clock);
    return test_gate_comes(&s->gate);
}

static void standstill(Standstill *s, EngineOptions o) { CHECK(standstill_comes(s, o)); }

static void standstill_end(Standstill *s) {
    test_gate_open(&s->gate);
    job_cancel(s->clock);
    test_wait(s->clock);
    test_wait_idle(&s->t);
    test_engine_close(&s->t);
    job_release(s->clock);
}

static EngineOptions one_at_a_time(void) {
    EngineOptions o = test_engine_options();
    o.max_batch = 1;
    o.max_queue = 3;
    return o;
}

/* ---- limits ---- */

TEST(engine_refuses_what_it_cannot_hold) {
    Standstill s;
    EngineOptions o = one_at_a_time();
    o.kv_tokens = 200; /* rounded up to 224 */
    standstill(&s, o);
    double retry_after = 0;
    static const struct {
        int n_prompt, max_tokens;
        Submit expected;
    } cases[] = {{200, 26, SUBMIT_TOO_LONG}, {257, 0, SUBMIT_TOO_LONG}, {1, 2000000, SUBMIT_TOO_LONG},
                 {200, 25, SUBMIT_OK},       {224, 0, SUBMIT_OK},       {1, 1, SUBMIT_OK},
                 {1, 1, SUBMIT_QUEUE_FULL}};
    Job *jobs[COUNTOF(cases)];
    for (size_t k = 0; k < COUNTOF(cases); k++) {
        jobs[k] = test_job((int)k, cases[k].n_prompt, cases[k].max_tokens, -1, false);
        Submit got = engine_submit(s.t.engine, &jobs[k], 1, &retry_after);
        CHECK_MSG(got == cases[k].expected, "case %zu: %d", k, (int)got);
    }
    CHECK_MSG(retry_after >= 0.1 && retry_after <= 60, "retry after %g", retry_after);
    CHECK(engine_stats(s.t.engine).queued == 3);
    standstill_end(&s);
    for (size_t k = 0; k < COUNTOF(cases); k++) {
        CHECK((jobs[k]->progress.finish != FINISH_NONE) == (cases[k].expected == SUBMIT_OK));
        job_release(jobs[k]);
    }
}

TEST(engine_takes_a_request_whole_or_not_at_all) {
    enum { N = 40 };
    Standstill s;
    EngineOptions o = one_at_a_time();
    o.max_queue = N;
    standstill(&s, o);
    Job *jobs[N + 1];
    double retry_after;
    for (int i = 0; i <= N; i++) jobs[i] = test_job(i, 5, i < N ? 3 : 5000, -1, false);
    CHECK(engine_submit(s.t.engine, jobs, N + 1, &retry_after) == SUBMIT_TOO_LONG);
    CHECK(engine_stats(s.t.engine).queued == 0);
    /* A queue of N jobs holds N jobs, not N - 1 and whatever comes next. */
    Job *before = test_job(N + 1, 5, 3, -1, false);
    CHECK(engine_submit(s.t.engine, &before, 1, &retry_after) == SUBMIT_OK);
    CHECK(engine_submit(s.t.engine, jobs, N, &retry_after) == SUBMIT_QUEUE_FULL);
    CHECK(engine_stats(s.t.engine).queued == 1);
    CHECK(engine_submit(s.t.engine, jobs, N - 1, &retry_after) == SUBMIT_OK);
    CHECK(engine_stats(s.t.engine).queued == N);
    standstill_end(&s);
    for (int i = 0; i <= N; i++) {
        CHECK((jobs[i]->progress.n_tokens == 3 || jobs[i]->progress.finish == FINISH_STOP) == (i < N - 1));
        job_release(jobs[i]);
    }
    job_release(before);
}

TEST(engine_start_refuses_bad_options) {
    Checkpoint c = {0};
    EngineOptions o = test_engine_options();
    Engine *e;
    Err err;
    o.max_batch = 0;
    CHECK(engine_start(&e, &c, &o, &err) && !e && !strcmp(err.msg, "max_batch is 0, must be 1 to 4096"));
    o = test_engine_options();
    o.kv_dtype = DTYPE_I8;
    CHECK(engine_start(&e, &c, &o, &err) && !e && strstr(err.msg, "I8"));
    engine_stop(NULL);
}

/* ---- cancellation ---- */

TEST(engine_cancels_in_the_queue) {
    Standstill s;
    standstill(&s, one_at_a_time());
    Job *waiting = test_job(1, 10, 10, -1, false), *dead = test_job(2, 10, 10, -1, false);
    job_cancel(dead);
    test_submit(&s.t, waiting);
    test_submit(&s.t, dead);
    job_cancel(waiting);
    test_gate_move(&s.gate, 5, 0); /* pushing token 4, the engine had not looked at the queue yet; now it has */
    test_gate_wait(&s.gate);
    CHECK(test_wait(waiting) == FINISH_CANCELLED && waiting->progress.started == 0 && waiting->progress.n_tokens == 0);
    CHECK(test_wait(dead) == FINISH_CANCELLED);
    CHECK(engine_stats(s.t.engine).queued == 0);
    standstill_end(&s);
    job_release(waiting);
    job_release(dead);
}

/* Prefill shows itself by its scores: with chunks of 4 the job stands still in the middle of its prompt. */
TEST(engine_cancels_in_prefill_and_decode) {
    Config c = test_engine_config("noise");
    EngineOptions o = test_engine_options();
    o.prefill_chunk = 4;
    TestEngine t;
    test_engine_open(&t, &c, &o);
    for (int decode = 0; decode < 2; decode++) {
        TestGate gate;
        Job *job = test_job(1, 100, 100, 2, true);
        job->ignore_eos = true;
        test_gate_set(&gate, job, decode ? 7 : 0, decode ? 0 : 20);
        test_submit(&t, job);
        test_gate_wait(&gate);
        job_cancel(job);
        test_gate_open(&gate);
        CHECK(test_wait(job) == FINISH_CANCELLED);
        CHECK_MSG(job->progress.n_tokens == (decode ? 7 : 0) && job->progress.n_scored == (decode ? 100 : 21),
                  "%d tokens, %d scores after the cut", job->progress.n_tokens, job->progress.n_scored);
        test_wait_idle(&t);
        job_release(job);
    }
    CHECK(engine_stats(t.engine).jobs_cancelled == 2);
    test_engine_close(&t);
}

/* ---- deadlines ---- */

TEST(engine_keeps_deadlines) {
    Standstill s;
    EngineOptions o = one_at_a_time();
    o.max_batch = 2;
    o.kv_tokens = 2 * TEST_CONTEXT;
    standstill(&s, o);
    Job *late = test_job(1, 10, 200, -1, false), *running = test_job(2, 10, 200, -1, false);
    late->deadline = now_seconds() - 1;
    running->ignore_eos = true;
    running->deadline = now_seconds() + 0.05;
    test_submit(&s.t, late);
    test_submit(&s.t, running);
    while (now_seconds() < running->deadline) test_gate_move(&s.gate, 4, 0), test_gate_wait(&s.gate);
    test_gate_open(&s.gate);
    CHECK(test_wait(late) == FINISH_DEADLINE && late->progress.started == 0);
    CHECK(test_wait(running) == FINISH_DEADLINE && running->progress.finished >= running->deadline);
    CHECK(running->progress.n_tokens < 200);
    standstill_end(&s);
    job_release(late);
    job_release(running);
}

TEST(engine_limits_queueing_and_streaming) {
    Standstill s;
    EngineOptions o = one_at_a_time();
    o.queue_limit = 0.5;
    o.stream_limit = 1;
    bool there = false; /* where the machine does not stall for as long */
    for (int try = 0; try < TRIES && !there; try++) {
        if (try) standstill_end(&s);
        there = standstill_comes(&s, o);
    }
    CHECK(there);
    Job *job = test_job(1, 10, 10, -1, false);
    test_submit(&s.t, job);
    double both = fmax(job->progress.submitted + o.queue_limit, s.clock->progress.started + o.stream_limit);
    while (now_seconds() < both + 0.01) usleep(1000);
    test_gate_open(&s.gate);
    CHECK(test_wait(job) == FINISH_ERROR && strstr(job->error, "queue"));
    CHECK(test_wait(s.clock) == FINISH_DEADLINE && s.clock->progress.n_tokens == 3);
    standstill_end(&s);
    job_release(job);
}

/* ---- endings ---- */

TEST(engine_drains) {
    Standstill s;
    standstill(&s, one_at_a_time());
    Job *accepted = test_job(1, 10, 10, -1, false), *refused = test_job(2, 10, 10, -1, false);
    accepted->ignore_eos = true;
    double retry_after;
    test_submit(&s.t, accepted);
    engine_drain(s.t.engine);
    CHECK(engine_submit(s.t.engine, &refused, 1, &retry_after) == SUBMIT_DRAINING);
    CHECK(engine_stats(s.t.engine).running > 0);
    test_gate_open(&s.gate);
    CHECK(test_wait(accepted) == FINISH_LENGTH && accepted->progress.n_tokens == 10);
    CHECK(s.clock->progress.finish == FINISH_LENGTH && s.clock->progress.n_tokens == 200);
    standstill_end(&s);
    job_release(accepted);
    job_release(refused);
}

TEST(engine_stops_with_jobs_in_flight) {
    enum { N = 40 };
    Config c = test_engine_config("noise");
    EngineOptions o = test_engine_options();
    o.prefill_chunk = 8;
    TestEngine t;
    test_engine_open(&t, &c, &o);
    Job *jobs[N];
    TestGate gate;
    for (int i = 0; i < N; i++) {
        jobs[i] = test_job(i, 50, 200, 1, i % 2);
        jobs[i]->ignore_eos = true;
        if (i == 0) test_gate_set(&gate, jobs[0], 5, 0);
        test_submit(&t, jobs[i]);
    }
    test_gate_wait(&gate);
    test_gate_open(&gate);
    test_engine_close(&t);
    int cancelled = 0;
    for (int i = 0; i < N; i++) {
        CHECK(jobs[i]->progress.finish == FINISH_CANCELLED || jobs[i]->progress.finish == FINISH_LENGTH);
        cancelled += jobs[i]->progress.finish == FINISH_CANCELLED;
        job_release(jobs[i]);
    }
    CHECK(cancelled > 0);
}

static void *close_engine(void *t) {
    test_engine_close(t);
    return NULL;
}

/* Of three that wait one gives way to another client's, and before the engine has told it so, it is to stop. */
TEST(engine_stops_with_a_job_displaced) {
    enum { WAITING = 3, ALL = WAITING + 1 };
    Standstill s;
    Job *jobs[ALL], *late = test_job(9, 5, 3, -1, false);
    pthread_t closer;
    double retry_after;
    standstill(&s, one_at_a_time());
    late->client = 1; /* which has the most */
    for (int i = 0; i < ALL; i++) {
        jobs[i] = test_job(i, 5, 3, -1, false);
        jobs[i]->client = i < WAITING ? 1 : 2;
        test_submit(&s.t, jobs[i]);
    }
    REQUIRE(pthread_create(&closer, NULL, close_engine, &s.t) == 0);
    while (engine_submit(s.t.engine, &late, 1, &retry_after) != SUBMIT_DRAINING) usleep(200);
    test_gate_open(&s.gate);
    pthread_join(closer, NULL);
    for (int i = 0; i < ALL; i++) {
        CHECK_MSG(jobs[i]->progress.finish == (i == WAITING - 1 ? FINISH_DISPLACED : FINISH_CANCELLED),
                  "job %d ended as %d", i, (int)jobs[i]->progress.finish);
        job_release(jobs[i]);
    }
    job_release(late);
    job_release(s.clock);
}

static Job *greedy(TestEngine *t, const int *stop_ids, int n_stop_ids, int min_tokens, int max_tokens) {
    Job *job = test_job(8, 20, max_tokens, 0, false);
    job->sampling.temperature = 0;
    job->ignore_eos = n_stop_ids == 0;
    job->stop_ids = xcalloc((size_t)n_stop_ids + 1, sizeof(int));
    for (int i = 0; i < n_stop_ids; i++) job->stop_ids[i] = stop_ids[i];
    job->n_stop_ids = n_stop_ids;
    job->min_tokens = min_tokens;
    return test_run(t, job);
}

TEST(engine_stops_at_ends) {
    Config c = test_engine_config("plain");
    EngineOptions o = test_engine_options();
    TestEngine t;
    test_engine_open(&t, &c, &o);
    Job *free_run = greedy(&t, NULL, 0, 0, 30);
    CHECK(free_run->progress.finish == FINISH_LENGTH && free_run->progress.n_tokens == 30);
    int third = free_run->tokens[2].id, at = 0;
    while (free_run->tokens[at].id != third) at++;
    Job *stopped = greedy(&t, &third, 1, 0, 30), *later = greedy(&t, &third, 1, 10, 30);
    CHECK(stopped->progress.finish == FINISH_STOP && stopped->progress.n_tokens == at + 1 &&
          stopped->tokens[at].id == third);
    for (int i = 0; i < later->progress.n_tokens && i < 10; i++) CHECK(later->tokens[i].id != third);
    Job *exactly = greedy(&t, &third, 1, 0, at + 1);
    CHECK(exactly->progress.finish == FINISH_STOP && exactly->progress.n_tokens == at + 1);
    job_release(free_run);
    job_release(stopped);
    job_release(later);
    job_release(exactly);
    test_engine_close(&t);
}

/* EOS is an end unless ignored, and banned before min_tokens: with a bias that makes it certain, both show. */
TEST(engine_eos_and_min_tokens) {
    Config c = test_engine_config("plain");
    EngineOptions o = test_engine_options();
    TestEngine t;
    test_engine_open(&t, &c, &o);
    for (int k = 0; k < 3; k++) {
        Job *job = test_job(1, 3, 10, -1, false);
        LogitBias bias = {.id = TEST_EOS, .bias = 1000};
        job->sampling.bias = memcpy(xmalloc(sizeof bias), &bias, sizeof bias);
        job->sampling.n_bias = 1;
        job->ignore_eos = k == 1;
        job->min_tokens = k == 2 ? 4 : 0;
        test_run(&t, job);
        CHECK(job->progress.finish == (k == 1 ? FINISH_LENGTH : FINISH_STOP));
        CHECK(job->progress.n_tokens == (k == 0   ? 1
                                         : k == 1 ? 10
                                                  : 5) &&
              job->tokens[job->progress.n_tokens - 1].id == TEST_EOS);
        job_release(job);
    }
    test_engine_close(&t);
}

/* A model may have more ends than its EOS. */
TEST(engine_further_ends) {
    Config c = test_engine_config("plain");
    c.more_ends[c.n_more_ends++] = TEST_EOS + 1;
    EngineOptions o = test_engine_options();
    TestEngine t;
    test_engine_open(&t, &c, &o);
    for (int k = 0; k < 2; k++) {
        Job *job = test_job(1, 3, 10, -1, false);
        LogitBias bias = {.id = TEST_EOS + 1, .bias = 1000};
        job->sampling.bias = memcpy(xmalloc(sizeof bias), &bias, sizeof bias);
        job->sampling.n_bias = 1;
        job->ignore_eos = k == 1;
        test_run(&t, job);
        CHECK(job->progress.finish == (k ? FINISH_LENGTH : FINISH_STOP) && job->progress.n_tokens == (k ? 10 : 1));
        job_release(job);
    }
    test_engine_close(&t);
}

TEST(engine_max_tokens_zero) {
    Config c = test_engine_config("noise");
    EngineOptions o = test_engine_options();
    o.prefill_chunk = 3;
    TestEngine t;
    test_engine_open(&t, &c, &o);
    static const int lengths[] = {1, 2, 33, TEST_CONTEXT};
    for (size_t k = 0; k < COUNTOF(lengths); k++)
        for (int score = 0; score < 2; score++) {
            Job *job = test_run(&t, test_job(1, lengths[k], 0, score ? 1 : -1, score));
            CHECK(job->progress.finish == FINISH_LENGTH && job->progress.n_tokens == 0 &&
                  job->progress.n_scored == (score ? lengths[k] : 0));
            job_release(job);
        }
    test_wait_idle(&t);
    test_engine_close(&t);
}

TEST(engine_reports_broken_weights) {
    Config c = test_engine_config("plain");
    EngineOptions o = test_engine_options();
    TestEngine t;
    test_engine_open(&t, &c, &o);
    engine_stop(t.engine);
    weight_f32(params_find(&t.checkpoint.model.params, "model.norm.weight")->weight)[0] = NAN;
    REQUIRE(engine_start(&t.engine, &t.checkpoint, &o, NULL) == 0);
    Job *job = test_run(&t, test_job(1, 3, 10, 2, false));
    CHECK(job->progress.finish == FINISH_ERROR && job->progress.n_tokens == 0 && strstr(job->error, "logits"));
    job_release(job);
    test_wait_idle(&t);
    test_engine_close(&t);
}

TEST(engine_counts_and_shows_life) {
    Config c = test_engine_config("plain");
    EngineOptions o = test_engine_options();
    TestEngine t;
    test_engine_open(&t, &c, &o);
    Job *job = test_job(1, 30, 10, -1, false);
    job->ignore_eos = true;
    test_run(&t, job);
    test_wait_idle(&t);
    EngineStats s = engine_stats(t.engine);
    CHECK(s.prompt_tokens == 30 && s.generated_tokens == 10 && s.jobs_done == 1 && s.jobs_cancelled == 0);
    CHECK(s.steps == 10 && s.kv_blocks == 16 * TEST_CONTEXT / KV_BLOCK);
    CHECK_MSG(s.heartbeat_age < 5, "heartbeat %g s ago", s.heartbeat_age);
    CHECK(job->progress.submitted > 0 && job->progress.started >= job->progress.submitted &&
          job->progress.first_token >= job->progress.started);
    CHECK(job->progress.finished >= job->progress.first_token);
    job_release(job);
    test_engine_close(&t);
}

TEST(engine_has_as_many_threads_as_it_is_told) {
    Config c = test_engine_config("plain");
    EngineOptions o = test_engine_options();
    TestEngine t;
    EngineStats s;
    int here = team_size();
    o.threads = 3;
    team_resize(o.threads);
    int told = team_size(); /* 1 in a build without OpenMP */
    team_resize(here);
    test_engine_open(&t, &c, &o);
    while (isinf((s = engine_stats(t.engine)).heartbeat_age)) usleep(200);
    CHECK_MSG(s.threads == told, "%d threads, not %d", s.threads, told);
    test_engine_close(&t);
}
