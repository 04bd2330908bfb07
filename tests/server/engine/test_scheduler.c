/* How many rows of prompts stand beside those of streams. */
#include "base/memory.h"
#include "server/engine/scheduler.h"
#include "tests/support/engines.h"
#include "tests/support/test.h"

#include <stdlib.h>

enum { MOST = 64, PROMPT = 512, CHUNK = 256 };

/* Steps until the prompts are read, `streams` decoding meanwhile; how many rows of them each step has, in rows [max].
 */
static int read_beside(int streams, int prompts, int length, int *rows, int max) {
    static int tokens[PROMPT + 1], blocks[PROMPT / KV_BLOCK + 1];
    static Sequence sequences[MOST];
    Sequence *running[MOST];
    KvPool pool = {0};
    Scheduler p;
    Config c = test_engine_config("noise");
    int n = streams + prompts, steps = 0;
    scheduler_init(&p, &c, MOST, CHUNK);
    for (int i = 0; i < n; i++) {
        bool reads = i >= streams;
        Job *job = job_new(tokens, reads ? length : 1, 1, -1, false);
        sequences[i] = (Sequence){.job = job, .tokens = tokens, .blocks = blocks, .n_prompt = job->n_prompt};
        sequences[i].n_rows = reads ? 0 : 1;
        sequences[i].n_tokens = reads ? length : 2;
        running[i] = &sequences[i];
    }
    while (running[n - 1]->n_rows < length && steps < max) {
        scheduler_step(&p, running, n, &pool);
        CHECK(p.batch.n == streams + p.prompt_rows);
        rows[steps++] = p.prompt_rows;
        for (int i = streams; i < n; i++) sequences[i].n_rows += sequences[i].step_rows;
        for (int i = streams; i < n; i++) sequences[i].rests = sequences[i].n_rows == length; /* they are done */
    }
    for (int i = 0; i < n; i++) job_release(sequences[i].job);
    scheduler_free(&p);
    return steps;
}

TEST(scheduler_reads_prompts_at_once_beside_nobody) {
    int rows[8];
    CHECK(read_beside(0, 2, PROMPT, rows, 8) == 4);
    for (int i = 0; i < 4; i++) CHECK_MSG(rows[i] == CHUNK, "%d", rows[i]);
}

/* Few rows that wait are not worth a long step. */
TEST(scheduler_spreads_a_newcomer_beside_streams) {
    int rows[8];
    CHECK(read_beside(8, 1, 64, rows, 8) == 2);
    CHECK_MSG(rows[0] == 48 && rows[1] == 16, "%d %d", rows[0], rows[1]);
    CHECK(read_beside(1, 1, 64, rows, 8) == 2);
    CHECK_MSG(rows[0] == 34 && rows[1] == 30, "%d %d", rows[0], rows[1]);
    CHECK(read_beside(32, 2, 64, rows, 8) == 2);
    CHECK_MSG(rows[0] == 96 && rows[1] == 32, "%d %d", rows[0], rows[1]);
}

/* Many get on as fast as streams end, by steps of many rows as long as many wait. */
TEST(scheduler_lets_long_prompts_get_on) {
    int rows[64];
    int n = read_beside(8, 8, PROMPT, rows, 64), first = 0;
    while (first < n && rows[first] == PROMPT_ROWS) first++;
    CHECK_MSG(first == (8 * PROMPT - PROMPT_STEPS * PROMPT_ROWS) / PROMPT_ROWS + 1, "%d steps of %d rows", first,
              PROMPT_ROWS);
    CHECK_MSG(rows[n - 2] < PROMPT_ROWS, "%d rows behind them", rows[n - 2]);
    CHECK(read_beside(24, 4, PROMPT, rows, 64) > 0);
    CHECK_MSG(rows[0] == 24 * PROMPT_ROWS_EACH, "%d rows", rows[0]);
}

enum { LONG = 2048, KNOWN = 20, SCORED = 2 };

static Sequence sequence_of(Job *job, int *tokens, int *blocks, bool scored) {
    return (Sequence){.job = job,
                      .tokens = tokens,
                      .blocks = blocks,
                      .guess = {.length = GUESS_MOST},
                      .n_prompt = job->n_prompt - scored,
                      .n_tokens = scored ? LONG : KNOWN,
                      .n_rows = scored ? 0 : KNOWN - 1};
}

/* Streams whose text has a period, beside long prompts that are scored: no more logits than there is memory for. */
static void check_logits_beside(int streams) {
    static int tokens[LONG + GUESS_MOST], blocks[LONG / KV_BLOCK + 1];
    int all = streams + SCORED, guessed = streams ? DECODE_ROWS - streams : 0;
    Sequence sequences[DECODE_ROWS + SCORED], *running[DECODE_ROWS + SCORED];
    KvPool pool = {0};
    Scheduler p;
    Config c = test_engine_config("noise");
    scheduler_init(&p, &c, all, CHUNK);
    p.guess = true;
    for (int k = 0; k < LONG; k++) tokens[k] = k % 3;
    for (int i = 0; i < all; i++) {
        bool scored = i >= streams;
        Job *job = job_new(tokens, scored ? LONG : 1, scored ? 0 : LONG, -1, scored);
        sequences[i] = sequence_of(job, tokens, blocks, scored);
        running[i] = &sequences[i];
    }
    scheduler_step(&p, running, all, &pool);
    CHECK_MSG(p.batch.n - p.prompt_rows == streams + guessed, "%d rows of streams", p.batch.n - p.prompt_rows);
    CHECK_MSG(p.prompt_rows == SCORED_ROWS - guessed && p.n_logit_rows <= all + SCORED_ROWS, "%d rows, %d of logits",
              p.prompt_rows, p.n_logit_rows);
    for (int i = 0; i < all; i++) job_release(sequences[i].job);
    scheduler_free(&p);
}

TEST(scheduler_bounds_the_rows_of_logits) {
    check_logits_beside(0);
    check_logits_beside(2);
}

/* Forms that take 40 and 30 of the 64 visits a byte do not draw in one step; small ones and those without always do. */
TEST(scheduler_lets_hard_forms_draw_one_by_one) {
    enum { N = 6 };
    static const int64_t visits[N] = {0, 4000, 3000, 2400, 100, 0};
    static const bool rests[N] = {false, false, true, false, false, false};
    const Vocabulary v = {.n_bytes = 100};
    FormWalk *walk = (FormWalk *)&v; /* looked at by nobody */
    Sequence sequences[N], *running[N];
    int tokens[1] = {0};
    for (int i = 0; i < N; i++) {
        Job *job = job_new(tokens, 1, 1, -1, false);
        job->walk = i < N - 1 ? walk : NULL;
        job->vocabulary = &v;
        sequences[i] = (Sequence){.job = job, .form_visits = visits[i]};
        running[i] = &sequences[i];
    }
    scheduler_share(running, N, MOST);
    for (int i = 0; i < N; i++) CHECK_MSG(running[i]->rests == rests[i], "%d", i);
    sequences[1].form_visits = 9000; /* the first of them draws, come what may */
    scheduler_share(running, N, MOST);
    CHECK(!sequences[1].rests && sequences[2].rests && sequences[3].rests && !sequences[4].rests);
    for (int i = 0; i < N; i++) {
        sequences[i].job->walk = NULL;
        job_release(sequences[i].job);
    }
}
