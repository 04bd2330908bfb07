/* Tokens that a draft tries ahead: that they are those which would be drawn, and that nobody sees it in an answer. */
#include "base/err.h"
#include "base/memory.h"
#include "model/shape.h"
#include "server/engine/draft.h"
#include "tests/support/engines.h"
#include "tests/support/test.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- how many ---- */

/* By hand: (1 + a + ... + a^n) / (1 + n c). */
TEST(draft_tries_as_many_as_pay) {
    Draft d = {.context = 1000, .cost = 0.25};
    DraftTrust t = {.right = 0.5}; /* 1.5 / 1.25, 1.75 / 1.5, 1.875 / 1.75 */
    CHECK(draft_plan(&d, &t, 10, 7) == 1);
    t.right = 0.8; /* 1.44, 1.627, 1.687, 1.681 */
    CHECK(draft_plan(&d, &t, 10, 7) == 3 && draft_plan(&d, &t, 10, 2) == 2);
    CHECK(draft_plan(&d, &t, 999, 7) == 2 && draft_plan(&d, &t, 1001, 7) == 0); /* the last is not read */
    t.right = 1;
    CHECK(draft_plan(&d, &t, 10, 7) == 7 && draft_plan(&d, &t, 10, 0) == 0 && draft_plan(&d, &t, 10, -3) == 0);
}

TEST(draft_that_does_not_pay_is_asked_now_and_then) {
    Draft d = {.context = 1000, .cost = 0.25};
    DraftTrust t = {.right = 0.2};
    int asked = 0;
    for (int i = 0; i < 320; i++) asked += draft_plan(&d, &t, 10, 7);
    CHECK_MSG(asked == 10, "%d", asked);
}

TEST(draft_learns_how_often_it_is_right) {
    Draft d = {.right = 0.5};
    DraftTrust t = {.right = 0.5};
    for (int i = 0; i < 200; i++) draft_learn(&d, &t, 4, 1); /* one right, one wrong, two that tell nothing */
    CHECK_MSG(fabs(t.right - 0.5) < 0.05 && fabs(d.right - 0.5) < 0.05, "%g %g", t.right, d.right);
    for (int i = 0; i < 200; i++) draft_learn(&d, &t, 4, 4);
    CHECK_MSG(t.right > 0.99 && d.right > 0.99, "%g %g", t.right, d.right);
    for (int i = 0; i < 200; i++) draft_learn(&d, &t, 4, 0);
    CHECK_MSG(t.right < 0.01 && d.right < 0.1, "%g %g", t.right, d.right);
}

/* ---- what ---- */

/* What the engine draws behind the prompt: the job, that is done. */
static Job *drawn(const Config *c, int n_prompt, int n, float temperature) {
    TestEngine t;
    EngineOptions o = test_engine_options();
    Job *job = test_job(1, n_prompt, n, -1, false);
    job->sampling.temperature = temperature;
    job->ignore_eos = true;
    test_engine_open(&t, c, &o);
    CHECK(test_wait(test_run(&t, job)) == FINISH_LENGTH);
    test_wait_idle(&t);
    test_engine_close(&t);
    return job;
}

typedef struct Text {
    int tokens[TEST_CONTEXT + 8], n;
} Text;

static Text text_of(const Job *job, int generated) {
    Text t = {.n = job->n_prompt + generated};
    memcpy(t.tokens, job->prompt, (size_t)job->n_prompt * sizeof(int));
    for (int i = 0; i < generated; i++) t.tokens[job->n_prompt + i] = job->tokens[i].id;
    return t;
}

/* Asks for `most` tokens behind so many that are known; how many came, all of which must be what was drawn. */
static int ask(Draft *d, const Job *job, void *whose, int generated, int most) {
    Text t = text_of(job, generated);
    DraftAsk a = {.whose = whose, .job = job, .tokens = t.tokens, .n_tokens = t.n, .most = most};
    draft_next(d, &a, 1);
    for (int i = 0; i < a.n; i++)
        CHECK_MSG(t.tokens[t.n + i] == job->tokens[generated + i].id, "token %d behind %d is %d, drawn was %d", i,
                  generated, t.tokens[t.n + i], job->tokens[generated + i].id);
    return a.n;
}

/* A draft that is the model itself says what is drawn, whatever it was asked before. */
static void check_itself(const char *variant, int n_prompt, float temperature) {
    enum { TOKENS = 40 };
    Config c = test_engine_config(variant);
    TestModel m;
    Draft d;
    Err err;
    Job *job = drawn(&c, n_prompt, TOKENS, temperature);
    int other;
    REQUIRE(test_model_init(&m, &c, 21) && draft_init(&d, &m.model, &m.model, &err) == 0);
    draft_warm_up(&d);
    CHECK(d.cost > 1);
    size_t blocks = d.tape.arena.grown;
    for (int at = 0; n_prompt > DRAFT_ROWS && at < n_prompt / DRAFT_ROWS; at++)
        CHECK(ask(&d, job, job, 0, 7) == 0);                             /* a long text comes in over several steps */
    CHECK(ask(&d, job, job, 0, 7) == 7 && ask(&d, job, job, 3, 2) == 2); /* four of the seven were not drawn */
    CHECK(ask(&d, job, job, 20, 5) == 5 && ask(&d, job, job, 1, 1) == 1);
    if (n_prompt <= DRAFT_ROWS) CHECK(ask(&d, job, &other, 5, 7) == 7 && ask(&d, job, job, 30, 7) == 7);
    CHECK(d.tape.arena.grown == blocks);
    draft_free(&d);
    test_model_free(&m);
    job_release(job);
}

TEST(draft_says_what_is_drawn) {
    check_itself("plain", 9, 0);
    check_itself("plain", 9, 1);
    check_itself("sas", 9, 0.7f);
    check_itself("plain", 200, 1);
}

/* More texts than it has places for, by turns: the places of those that were asked about last stay. */
TEST(draft_has_places_for_some_texts) {
    enum { TEXTS = DRAFT_TEXTS + 2, ROUNDS = 3 };
    Config c = test_engine_config("plain");
    TestModel m;
    Draft d;
    Err err;
    Job *job = drawn(&c, 12, 40, 1);
    char names[TEXTS];
    REQUIRE(test_model_init(&m, &c, 21) && draft_init(&d, &m.model, &m.model, &err) == 0);
    for (int round = 0; round < ROUNDS; round++)
        for (int first = 0; first < TEXTS; first++) {
            Text texts[DRAFT_TEXTS];
            DraftAsk asks[DRAFT_TEXTS] = {{0}};
            for (int i = 0; i < DRAFT_TEXTS; i++) {
                int which = (first + i) % TEXTS;
                texts[i] = text_of(job, 3 * round + which);
                asks[i] = (DraftAsk){.whose = &names[which], .job = job, .most = 1 + which};
                asks[i].tokens = texts[i].tokens;
                asks[i].n_tokens = texts[i].n;
            }
            draft_next(&d, asks, DRAFT_TEXTS);
            for (int i = 0; i < DRAFT_TEXTS; i++) {
                int which = (first + i) % TEXTS, at = 3 * round + which;
                CHECK(asks[i].n == 1 + which && asks[i].text->whose == &names[which]);
                for (int k = 0; k < asks[i].n; k++) CHECK(texts[i].tokens[texts[i].n + k] == job->tokens[at + k].id);
                for (int k = 0; k < i; k++) CHECK(asks[k].text != asks[i].text);
            }
        }
    draft_free(&d);
    test_model_free(&m);
    job_release(job);
}

/* ---- in the engine ---- */

/* Every kind of setting; half draw from a few tokens of about the same chance, by the same lot as the draft. */
static Job *job_of(int index) {
    Job *job = test_mixed_job(index);
    if (index % 2 == 0) test_job_of_few(job, 4, 40, 2);
    return job;
}

/* The draft has a layer, the model eight; with `guess` it is asked where nothing is looked up. */
static void check_not_seen(const Config *c, EngineOptions o, const char *what) {
    Config small = *c, large = *c;
    TestModel m;
    large.n_layers = 8;
    small.n_layers = 1;
    small.max_positions = TEST_CONTEXT / 2; /* behind it nothing is tried */
    REQUIRE(test_model_init(&m, &small, 5));
    EngineOptions without = o;
    without.guess = false;
    o.draft = &m.model;
    test_ahead_is_not_seen(&large, without, o, job_of, what);
    test_model_free(&m);
}

static EngineOptions few_streams(int n) {
    EngineOptions o = test_engine_options();
    o.max_batch = n;
    return o;
}

TEST(draft_changes_no_answer) {
    for (size_t v = 0; v < COUNTOF(test_variants); v++) {
        Config c = test_engine_config(test_variants[v]);
        check_not_seen(&c, few_streams(2), test_variants[v]);
    }
    for (int k = 0; attention_kinds[k]; k++) {
        EngineOptions o = few_streams(2);
        Config c = test_engine_kind(attention_kinds[k], "noise");
        o.kv_form = config_kv_form(&c);
        check_not_seen(&c, o, attention_kinds[k]->name);
    }
}

TEST(draft_changes_no_answer_whatever_the_engine_is_like) {
    Config c = test_engine_config("all");
    EngineOptions o = few_streams(4);
    o.threads = 2;
    check_not_seen(&c, o, "four streams, two threads");
    o = few_streams(2);
    o.prefill_chunk = 5;
    check_not_seen(&c, o, "small chunks");
    o.guess = true;
    check_not_seen(&c, o, "beside what is looked up");
}

/* What it will take is what it takes, but for the ends of pieces. */
TEST(draft_memory_is_as_told) {
    Config c = test_engine_config("noise"), small = c;
    TestModel m;
    Draft d;
    Err err;
    small.max_positions = 100;
    REQUIRE(test_model_init(&m, &small, 5));
    Model of = {.cfg = c};
    REQUIRE(draft_init(&d, &m.model, &m.model, &err) == 0);
    draft_warm_up(&d);
    size_t cache = (size_t)d.kv.n_blocks * d.kv.block_bytes;
    CHECK(d.kv.n_blocks == DRAFT_TEXTS * 4 &&
          cache == d.kv.n_blocks * (size_t)KV_BLOCK * kv_bytes_per_token(&small, DTYPE_F32, config_kv_form(&c)));
    size_t told = draft_memory(&m.model, &of);
    CHECK_MSG(told > cache && told < cache + (1 << 20), "%zu, the cache takes %zu", told, cache);
    draft_free(&d);
    test_model_free(&m);
}
