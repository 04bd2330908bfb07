/* What a job gives depends on the checkpoint and the job alone, bit for bit. */
#include "base/err.h"
#include "model/shape.h"
#include "server/engine/scheduler.h"
#include "tests/support/engines.h"
#include "tests/support/test.h"

#include <math.h>
#include <string.h>

enum { JOBS = 16 };

/* Each alone, one after the other. */
static void run_alone(const Config *c, const EngineOptions *o, Job **jobs, int n) {
    TestEngine t;
    test_engine_open(&t, c, o);
    for (int i = 0; i < n; i++) jobs[i] = test_run(&t, test_mixed_job(i));
    test_wait_idle(&t);
    test_engine_close(&t);
}

static void run_together(const Config *c, const EngineOptions *o, Job **jobs, int n) {
    TestEngine t;
    test_engine_open(&t, c, o);
    for (int i = 0; i < n; i++) test_submit(&t, jobs[i] = test_mixed_job(i));
    for (int i = 0; i < n; i++) test_wait(jobs[i]);
    test_wait_idle(&t);
    test_engine_close(&t);
}

static void check_same(Job **a, Job **b, int n, const char *what) {
    for (int i = 0; i < n; i++) CHECK_MSG(test_same_result(a[i], b[i]), "%s: job %d differs", what, i);
}

static void release_all(Job **jobs, int n) {
    for (int i = 0; i < n; i++) job_release(jobs[i]);
}

static void compare(const Config *c, const EngineOptions *o, Job **expected, const char *what) {
    Job *jobs[JOBS];
    run_together(c, o, jobs, JOBS);
    check_same(expected, jobs, JOBS, what);
    release_all(jobs, JOBS);
}

static void check_alone_and_together(const Config *c, KvForm form, const char *what) {
    EngineOptions o = test_engine_options();
    o.kv_form = form;
    Job *alone[JOBS];
    run_alone(c, &o, alone, JOBS);
    int tokens = 0, stops = 0;
    for (int i = 0; i < JOBS; i++)
        tokens += alone[i]->progress.n_tokens, stops += alone[i]->progress.finish == FINISH_STOP;
    CHECK_MSG(tokens > 100 && stops > 0 && stops < JOBS, "%s: %d tokens, %d stops show little", what, tokens, stops);
    compare(c, &o, alone, what);
    release_all(alone, JOBS);
}

TEST(engine_batch_equals_each_alone) {
    for (size_t v = 0; v < COUNTOF(test_variants); v++) {
        Config c = test_engine_config(test_variants[v]);
        check_alone_and_together(&c, KV_EXPANDED, test_variants[v]);
    }
    Config sas = test_engine_config("sas");
    check_alone_and_together(&sas, KV_COMPACT, "sas, compact");
    for (int k = 0; attention_kinds[k]; k++) {
        Config c = test_engine_kind(attention_kinds[k], "noise");
        check_alone_and_together(&c, config_kv_form(&c), attention_kinds[k]->name);
    }
}

TEST(engine_chunk_threads_batch_and_cache_size_change_nothing) {
    Config c = test_engine_config("all");
    EngineOptions o = test_engine_options();
    Job *expected[JOBS];
    run_together(&c, &o, expected, JOBS);
    static const int chunks[] = {1, 7, 512};
    for (size_t k = 0; k < COUNTOF(chunks); k++) {
        o.prefill_chunk = chunks[k];
        compare(&c, &o, expected, "prefill chunk");
    }
    o.threads = 2;
    compare(&c, &o, expected, "two threads");
    o.max_batch = 3;
    compare(&c, &o, expected, "three at a time");
    o.kv_tokens = TEST_CONTEXT;
    compare(&c, &o, expected, "a cache of one context");
    release_all(expected, JOBS);
}

TEST(engine_bf16_cache_is_deterministic_too) {
    Config c = test_engine_config("noise");
    EngineOptions o = test_engine_options();
    o.kv_dtype = DTYPE_BF16;
    Job *alone[JOBS];
    run_alone(&c, &o, alone, JOBS);
    o.prefill_chunk = 5;
    compare(&c, &o, alone, "bf16");
    release_all(alone, JOBS);
}

/* Jobs come and go, some are cancelled wherever they are: the others do not notice. */
TEST(engine_neighbours_join_and_leave) {
    enum { N = 48 };
    Config c = test_engine_config("all");
    EngineOptions o = test_engine_options();
    o.prefill_chunk = 9;
    o.max_batch = 5;
    Job *alone[N], *jobs[N];
    run_alone(&c, &o, alone, N);
    TestEngine t;
    test_engine_open(&t, &c, &o);
    for (int i = 0; i < N; i++) {
        test_submit(&t, jobs[i] = test_mixed_job(i));
        if (i % 4 == 3) job_cancel(jobs[i - 2]);
        if (i % 10 == 9) test_wait(jobs[i - 5]);
    }
    for (int i = 0; i < N; i++) {
        Finish finish = test_wait(jobs[i]);
        CHECK(finish != FINISH_CANCELLED || i % 4 == 1);
        if (finish != FINISH_CANCELLED) CHECK_MSG(test_same_result(alone[i], jobs[i]), "job %d differs", i);
    }
    test_wait_idle(&t);
    test_engine_close(&t);
    release_all(alone, N);
    release_all(jobs, N);
}

TEST(engine_decoded_logprobs_equal_scored_ones) {
    Config c = test_engine_config("all");
    EngineOptions o = test_engine_options();
    TestEngine t;
    test_engine_open(&t, &c, &o);
    Job *decoded = test_job(1, 37, 50, 3, true);
    decoded->ignore_eos = true;
    test_run(&t, decoded);
    int text[37 + 50];
    for (int i = 0; i < 37; i++) text[i] = decoded->prompt[i];
    for (int i = 0; i < 50; i++) text[37 + i] = decoded->tokens[i].id;
    for (int max_tokens = 0; max_tokens < 2; max_tokens++) {
        Job *scored = job_new(text, 37 + 50, max_tokens, 3, true);
        scored->noise.seed = scored->noise_prompt.seed = decoded->noise.seed;
        test_run(&t, scored);
        CHECK(scored->progress.finish == FINISH_LENGTH && scored->progress.n_scored == 87 &&
              scored->progress.n_tokens == max_tokens);
        CHECK(isnan(scored->prompt_scores[0].logprob) && scored->prompt_scores[0].id == text[0]);
        for (int i = 1; i < 87; i++) {
            const JobToken *a = i < 37 ? &decoded->prompt_scores[i] : &decoded->tokens[i - 37];
            const JobToken *b = &scored->prompt_scores[i];
            CHECK_MSG(a->id == b->id && !memcmp(&a->logprob, &b->logprob, sizeof(float)) &&
                          !memcmp(a->top, b->top, 3 * sizeof *a->top),
                      "position %d: %.9g against %.9g", i, (double)a->logprob, (double)b->logprob);
        }
        job_release(scored);
    }
    job_release(decoded);
    test_wait_idle(&t);
    test_engine_close(&t);
}

/* ---- noise ---- */

static Job *noisy(TestEngine *t, uint64_t prompt_seed, uint64_t seed, float scale) {
    Job *job = test_job(3, 40, 12, 0, false);
    job->sampling.temperature = 0;
    job->ignore_eos = true;
    job->noise_prompt.seed = prompt_seed;
    job->noise.seed = seed;
    job->noise.scale = job->noise_prompt.scale = scale;
    return test_run(t, job);
}

static bool same_first_logprob(const Job *a, const Job *b) {
    return !memcmp(&a->tokens[0].logprob, &b->tokens[0].logprob, sizeof(float));
}

TEST(engine_noise_follows_its_seeds) {
    Config c = test_engine_config("noise");
    EngineOptions o = test_engine_options();
    TestEngine t;
    test_engine_open(&t, &c, &o);
    Job *a = noisy(&t, 1, 1, 1), *again = noisy(&t, 1, 1, 1), *decode = noisy(&t, 1, 2, 1),
        *prompt = noisy(&t, 2, 1, 1);
    Job *still = noisy(&t, 1, 1, 0), *still_too = noisy(&t, 5, 6, 0), *louder = noisy(&t, 1, 1, 2);
    CHECK(test_same_result(a, again));
    CHECK(same_first_logprob(a, decode) && !test_same_result(a, decode));
    CHECK(!same_first_logprob(a, prompt) && !same_first_logprob(a, louder) && !same_first_logprob(a, still));
    CHECK(test_same_result(still, still_too));
    Job *all[] = {a, again, decode, prompt, still, still_too, louder};
    release_all(all, COUNTOF(all));
    test_engine_close(&t);
}

/* ---- prefix sharing ---- */

static Job *choice(int index, int n_prompt, uint64_t tenant) {
    Job *job = test_job(4, n_prompt, 20, 2, false);
    job->noise_prompt.seed = 77;
    job->noise.seed = job->sampling.seed = 1000 + (uint64_t)index;
    job->tenant = tenant;
    return job;
}

/* Choices of one request, all at once and later again; another tenant and another seed share nothing. */
TEST(engine_shared_prefixes_change_nothing) {
    enum { N = 6 };
    static const int lengths[] = {2, 31, 32, 33, 64, 65, 130};
    Config c = test_engine_config("all");
    EngineOptions o = test_engine_options();
    for (size_t k = 0; k < COUNTOF(lengths); k++) {
        /* At once, whole blocks are shared; later, all rows but the last. */
        int n_prompt = lengths[k], repeated = n_prompt - 1, at_once = MIN(n_prompt / KV_BLOCK * KV_BLOCK, repeated);
        Job *shared[N], *later[N], *apart[N];
        TestEngine t;
        o.prefill_chunk = k % 2 ? 1000 : 50;
        test_engine_open(&t, &c, &o);
        double retry_after;
        for (int i = 0; i < N; i++) shared[i] = choice(i, n_prompt, 1);
        CHECK(engine_submit(t.engine, shared, N, &retry_after) == SUBMIT_OK);
        for (int i = 0; i < N; i++) test_wait(shared[i]);
        for (int i = 0; i < N; i++) later[i] = test_run(&t, choice(i, n_prompt, 1));
        for (int i = 0; i < N; i++) apart[i] = test_run(&t, choice(i, n_prompt, 2 + (uint64_t)i));
        for (int i = 0; i < N; i++) {
            CHECK_MSG(shared[i]->progress.cached_tokens == (i ? at_once : 0), "%d tokens of %d were shared",
                      shared[i]->progress.cached_tokens, n_prompt);
            CHECK(later[i]->progress.cached_tokens == repeated && apart[i]->progress.cached_tokens == 0);
        }
        check_same(apart, shared, N, "shared");
        check_same(apart, later, N, "shared later");
        Job *other = choice(0, n_prompt, 1);
        other->noise_prompt.seed = 78;
        CHECK(test_run(&t, other)->progress.cached_tokens == 0);
        job_release(other);
        for (int quiet = 0; quiet < 3; quiet++) { /* without noise the seed does not matter */
            other = choice(0, n_prompt, 1);
            other->noise.scale = other->noise_prompt.scale = quiet ? 0 : 0.5f;
            other->noise_prompt.seed = quiet ? (uint64_t)quiet : other->noise_prompt.seed;
            CHECK(test_run(&t, other)->progress.cached_tokens == (quiet == 2 ? repeated : 0));
            job_release(other);
        }
        test_wait_idle(&t);
        test_engine_close(&t);
        release_all(shared, N);
        release_all(later, N);
        release_all(apart, N);
    }
}

/* A prompt of `index` that leaves the others after `common` tokens. */
static Job *parting(int n_prompt, int common, uint64_t tenant) {
    Job *job = choice(0, n_prompt, tenant);
    for (int i = common; i < n_prompt; i++) job->prompt[i] = (job->prompt[i] + 1 + common) % TEST_VOCAB;
    return job;
}

/* Prompts that end or part anywhere in a block share all rows in common, whatever the form of the cache. */
TEST(engine_shared_rows_change_nothing) {
    static const char *const kinds[] = {"symmetric", "mla"};
    /* in this order: prompt, tokens in common with those before, rows that are taken over */
    static const int prompts[][3] = {{40, 40, 0},  {40, 40, 39}, {45, 45, 40}, {45, 45, 44},
                                     {70, 39, 39}, {64, 64, 45}, {64, 64, 63}, {65, 1, 1}};
    for (int form = 0; form < 8; form++) {
        Config c = test_engine_kind(attention_kind_find(kinds[form & 1]), "noise");
        EngineOptions o = test_engine_options();
        TestEngine t;
        o.kv_dtype = form & 2 ? DTYPE_BF16 : DTYPE_F32;
        o.kv_form = form & 4 ? KV_COMPACT : KV_EXPANDED;
        Err err;
        if (config_check_kv_form(&c, o.kv_form, &err)) continue;
        test_engine_open(&t, &c, &o);
        for (size_t i = 0; i < COUNTOF(prompts); i++) {
            const int *p = prompts[i];
            Job *job = test_run(&t, parting(p[0], p[1], 1)), *alone = test_run(&t, parting(p[0], p[1], 100 + i));
            CHECK_MSG(job->progress.cached_tokens == p[2] && !alone->progress.cached_tokens,
                      "form %d, prompt %zu: %d rows, not %d", form, i, job->progress.cached_tokens, p[2]);
            CHECK_MSG(test_same_result(job, alone), "form %d, prompt %zu", form, i);
            job_release(job);
            job_release(alone);
        }
        test_wait_idle(&t);
        test_engine_close(&t);
    }
}

/* Whoever computes a shared block may be cancelled in the middle of it: the next one starts it over. */
TEST(engine_shared_prefix_outlives_its_writer) {
    Config c = test_engine_config("noise");
    EngineOptions o = test_engine_options();
    o.prefill_chunk = 5;
    TestEngine t;
    test_engine_open(&t, &c, &o);
    Job *alone = test_run(&t, choice(1, 130, 9)), *jobs[3];
    for (int steps = 1; steps < 16; steps += 3) {
        TestGate gate;
        Job *clock = test_job(50, 1, 200, -1, false);
        clock->ignore_eos = true;
        test_gate_set(&gate, clock, 1, 0);
        test_submit(&t, clock);
        test_gate_wait(&gate);
        for (int i = 0; i < 3; i++) test_submit(&t, jobs[i] = choice(i, 130, (uint64_t)(100 + steps)));
        test_gate_move(&gate, 1 + steps, 0);
        test_gate_wait(&gate);
        job_cancel(jobs[0]);
        test_gate_open(&gate);
        CHECK(test_wait(jobs[0]) == FINISH_CANCELLED && jobs[0]->progress.n_tokens == 0);
        for (int i = 1; i < 3; i++) test_wait(jobs[i]);
        job_cancel(clock);
        CHECK(test_same_result(alone, jobs[1]));
        CHECK_MSG(jobs[1]->progress.cached_tokens == steps * 5 / KV_BLOCK * KV_BLOCK &&
                      jobs[2]->progress.cached_tokens == 128,
                  "after %d steps %d and %d", steps, jobs[1]->progress.cached_tokens, jobs[2]->progress.cached_tokens);
        test_wait_idle(&t);
        release_all(jobs, 3);
        job_release(clock);
    }
    test_engine_close(&t);
    job_release(alone);
}

/* A prompt that would be one step by itself takes its turns beside a running stream. */
TEST(engine_prompts_let_streams_pass) {
    Config c = test_engine_config("noise");
    EngineOptions o = test_engine_options();
    o.prefill_chunk = 128;
    TestEngine t;
    TestGate gate;
    test_engine_open(&t, &c, &o);
    for (int steps = 1; steps < 3; steps++) {
        Job *clock = test_job(50, 1, 200, -1, false), *jobs[2];
        clock->ignore_eos = true;
        test_gate_set(&gate, clock, 1, 0);
        test_submit(&t, clock);
        test_gate_wait(&gate);
        for (int i = 0; i < 2; i++) test_submit(&t, jobs[i] = choice(i, 130, (uint64_t)steps));
        test_gate_move(&gate, 1 + steps, 0);
        test_gate_wait(&gate);
        job_cancel(jobs[0]);
        test_gate_open(&gate);
        test_wait(jobs[1]);
        int rows = steps * (LEAST_ROWS + LEAST_ROWS_EACH), read = jobs[1]->progress.cached_tokens;
        CHECK_MSG(read == rows / KV_BLOCK * KV_BLOCK, "%d tokens in %d steps", read, steps);
        job_cancel(clock);
        test_wait_idle(&t);
        release_all(jobs, 2);
        job_release(clock);
    }
    test_engine_close(&t);
}
