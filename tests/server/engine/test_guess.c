/* Tokens that are tried ahead: what is looked up, and that nobody sees it in an answer. */
#include "base/err.h"
#include "base/memory.h"
#include "model/shape.h"
#include "server/engine/guess.h"
#include "tests/support/engines.h"
#include "tests/support/test.h"

#include <stdlib.h>
#include <string.h>

enum { ROOM = 64 };

/* Of the text [n], what is guessed in `out`; -1 when something before it was written. */
static int guess_of(const Guess *g, const int *text, int n, int most, int out[GUESS_MOST]) {
    int tokens[ROOM] = {0};
    memcpy(tokens, text, (size_t)n * sizeof *text);
    int found = guess_next(g, tokens, n, most);
    memcpy(out, tokens + n, (size_t)found * sizeof *out);
    return memcmp(tokens, text, (size_t)n * sizeof *text) ? -1 : found;
}

static const Guess longest = {.length = GUESS_MOST};

TEST(guess_is_what_followed_the_longest_beginning_in_common) {
    static const int text[] = {9, 2, 3, 4, 50, 2, 3, 4, 60, 1, 3, 4, 70, 2, 3, 4};
    int out[GUESS_MOST];
    CHECK(guess_of(&longest, text, COUNTOF(text), 4, out) == 4);
    CHECK_MSG(out[0] == 60 && out[1] == 1 && out[2] == 3 && out[3] == 4, "%d %d %d %d", out[0], out[1], out[2], out[3]);
}

TEST(guess_of_a_period_goes_on_with_it) {
    static const int text[] = {1, 2, 3, 1, 2, 3, 1};
    int out[GUESS_MOST];
    CHECK(guess_of(&longest, text, COUNTOF(text), GUESS_MOST, out) == GUESS_MOST);
    for (int i = 0; i < GUESS_MOST; i++) CHECK(out[i] == 1 + (i + 1) % 3);
}

TEST(guess_needs_something_in_common) {
    static const int text[] = {1, 2, 3, 4, 2, 9, 1, 2}, none[] = {1, 2, 3, 2};
    int out[GUESS_MOST];
    CHECK(guess_of(&longest, text, COUNTOF(text), 1, out) == 1 && out[0] == 3);
    CHECK(guess_of(&longest, none, COUNTOF(none), 1, out) == 0); /* one token is not enough */
    CHECK(guess_of(&longest, text, 0, 1, out) == 0 && guess_of(&longest, text, 1, 1, out) == 0);
    CHECK(guess_of(&longest, text, COUNTOF(text), 0, out) == 0 &&
          guess_of(&longest, text, COUNTOF(text), -1, out) == 0);
}

TEST(guess_that_fails_asks_for_more_in_common) {
    static const int text[] = {1, 2, 3, 50, 1, 2, 3};
    int out[GUESS_MOST];
    Guess g = {0};
    CHECK(guess_of(&g, text, COUNTOF(text), GUESS_MOST, out) == 1); /* the first is short */
    guess_learn(&g, 1, 0);
    CHECK(guess_of(&g, text, COUNTOF(text), GUESS_MOST, out) == 1); /* three in common are enough */
    guess_learn(&g, 1, 0);
    CHECK(guess_of(&g, text, COUNTOF(text), GUESS_MOST, out) == 0);
    guess_learn(&g, 1, 1);
    CHECK(guess_of(&g, text, COUNTOF(text), GUESS_MOST, out) == 2); /* and now it may be longer */
    for (int i = 0; i < 2 * GUESS_DISTRUST; i++) guess_learn(&g, 1, 0);
    int loop[40] = {0};
    CHECK(guess_of(&g, loop, COUNTOF(loop), GUESS_MOST, out) == 1); /* a loop is always believed */
    guess_learn(&g, GUESS_MOST, GUESS_MOST);
    CHECK(g.distrust == GUESS_DISTRUST - 1); /* trust comes back one by one, however long a guess was right */
}

TEST(guess_grows_while_it_is_right) {
    Guess g = {0};
    guess_learn(&g, 1, 1);
    CHECK(g.length == 2);
    guess_learn(&g, 2, 2);
    guess_learn(&g, 4, 4);
    CHECK(g.length == GUESS_MOST);
    guess_learn(&g, GUESS_MOST, 3);
    CHECK(g.length == 3 && g.distrust == 0);
    guess_learn(&g, 3, 0);
    CHECK(g.length == 1 && g.distrust == 1);
}

/* ---- in the engine ---- */

/* Every kind of setting, and a prompt with a period. A third is greedy and falls into loops; a third draws from four
 * tokens, so that guesses are found and half of them are wrong. */
static Job *repeating_job(int index) {
    Job *job = test_mixed_job(index);
    int period = 2 + index % 5;
    for (int i = period; i < job->n_prompt; i++) job->prompt[i] = job->prompt[i % period];
    if (index % 3 == 0) job->sampling.temperature = 0;
    if (index % 3 == 1) test_job_of_few(job, 4, 12, 0);
    return job;
}

static void check_guesses_are_not_seen(const Config *c, EngineOptions o, const char *what) {
    EngineOptions with = o;
    with.guess = true;
    test_ahead_is_not_seen(c, o, with, repeating_job, what);
}

static EngineOptions few_streams(void) {
    EngineOptions o = test_engine_options();
    o.max_batch = 2;
    return o;
}

TEST(guess_changes_no_answer) {
    for (size_t v = 0; v < COUNTOF(test_variants); v++) {
        Config c = test_engine_config(test_variants[v]);
        check_guesses_are_not_seen(&c, few_streams(), test_variants[v]);
    }
    for (int k = 0; attention_kinds[k]; k++) {
        EngineOptions o = few_streams();
        Config c = test_engine_kind(attention_kinds[k], "noise");
        o.kv_form = config_kv_form(&c);
        check_guesses_are_not_seen(&c, o, attention_kinds[k]->name);
    }
}

TEST(guess_changes_no_answer_whatever_the_engine_is_like) {
    Config c = test_engine_config("all");
    EngineOptions o = few_streams();
    o.kv_dtype = DTYPE_BF16;
    check_guesses_are_not_seen(&c, o, "a cache in bf16");
    o = few_streams();
    for (int chunk = 4; chunk <= 8; chunk++) {
        o.prefill_chunk = chunk;
        check_guesses_are_not_seen(&c, o, "small chunks");
    }
    o = few_streams();
    o.max_batch = 4;
    o.threads = 2;
    check_guesses_are_not_seen(&c, o, "four streams, two threads");
}

/* Room for its own tokens and no more: what is guessed behind the last one has none. */
TEST(guess_ends_with_the_context) {
    Config c = test_engine_config("noise");
    EngineOptions o = few_streams();
    o.guess = true;
    o.kv_tokens = TEST_CONTEXT;
    TestEngine t;
    test_engine_open(&t, &c, &o);
    Job *job = test_job(1, 8, TEST_CONTEXT - 7, -1, false);
    for (int i = 0; i < 8; i++) job->prompt[i] = i % 2;
    job->sampling.temperature = 0;
    job->ignore_eos = true;
    CHECK(test_wait(test_run(&t, job)) == FINISH_LENGTH && job->progress.n_tokens == TEST_CONTEXT - 7);
    job_release(job);
    test_wait_idle(&t);
    test_engine_close(&t);
}

/* ---- what it learns ---- */

/* A job that draws nothing but these n tokens, all alike. */
static Job *job_of_few(int n, int tokens) {
    Job *job = test_job(3, 4, tokens, -1, false);
    test_job_of_few(job, n, 100, 0);
    job->sampling.temperature = 2;
    job->ignore_eos = true;
    return job;
}

static uint64_t count(Metrics *m, Counter c) { return atomic_load(&m->counters[c]); }

static void run_alone(Job *job, Metrics *m) {
    Config c = test_engine_config("noise");
    EngineOptions o = few_streams();
    TestEngine t;
    memset(m, 0, sizeof *m);
    o.guess = true;
    o.metrics = m;
    test_engine_open(&t, &c, &o);
    CHECK(test_wait(test_run(&t, job)) == FINISH_LENGTH);
    job_release(job);
    test_wait_idle(&t);
    test_engine_close(&t);
}

/* Guesses that are right become longer, those that are wrong are made no more. */
TEST(guess_learns_in_the_engine) {
    enum { TOKENS = TEST_CONTEXT - 8 };
    static Metrics m;
    run_alone(job_of_few(1, TOKENS), &m);
    CHECK_MSG(count(&m, COUNT_STEPS) < TOKENS / 3, "%d steps of %d tokens", (int)count(&m, COUNT_STEPS), TOKENS);
    run_alone(job_of_few(4, TOKENS), &m);
    CHECK_MSG(count(&m, COUNT_GUESSED) < TOKENS / 2, "%d guesses in %d tokens", (int)count(&m, COUNT_GUESSED), TOKENS);
}
