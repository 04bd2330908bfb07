/* Who has much waiting does not keep others out: turns, places of the queue and of the batch. */
#include "server/engine/queue.h"
#include "server/engine/runner.h"
#include "tests/support/engines.h"
#include "tests/support/test.h"

/* ---- the queue by itself ---- */

static void add(Queue *q, uint64_t client, int n) {
    Job *jobs[16];
    for (int i = 0; i < n; i++) {
        jobs[i] = test_job(0, 1, 1, -1, false);
        jobs[i]->client = client;
    }
    queue_add(q, jobs, n);
}

/* The clients' digits in their order; the jobs are released. */
static uint64_t spell(Job *job) {
    uint64_t order = 0;
    for (Job *next; job; job = next) {
        next = job->next;
        order = order * 10 + job->client;
        job_release(job);
    }
    return order;
}

static bool everybody(const Job *job, const void *arg) {
    (void)job, (void)arg;
    return true;
}

TEST(queue_makes_room_for_who_has_less) {
    Queue q = {0};
    Job *gone = NULL;
    add(&q, 1, 4);
    add(&q, 2, 2);
    add(&q, 1, 3);
    CHECK(!queue_make_room(&q, 1, 1, 9, &gone) && !gone && q.n == 9); /* not for who has most */
    CHECK(!queue_make_room(&q, 3, 7, 9, &gone) && !gone && q.n == 9); /* who would have as much then */
    CHECK(queue_make_room(&q, 3, 1, 9, &gone));
    CHECK(q.n == 6 && q.rows == 12 && spell(gone) == 111); /* the newest request, whole */
    gone = NULL;
    CHECK(queue_make_room(&q, 2, 3, 9, &gone) && !gone && q.n == 6); /* there is room */
    CHECK(queue_make_room(&q, 3, 3, 6, &gone));
    CHECK(q.n == 2 && spell(gone) == 1111);
    gone = NULL;
    add(&q, 1, 4);
    Job *taken = q.first;
    while (taken->client != 1) taken = taken->next;
    queue_take(&q, taken);
    job_release(taken);
    CHECK(!queue_make_room(&q, 3, 1, 3, &gone) && !gone && q.n == 5); /* one of these runs */
    CHECK(spell(queue_sweep(&q, everybody, NULL)) == 22111);
}

static bool all_but_1(uint64_t client, const void *arg) {
    (void)arg;
    return client != 1;
}

/* Client 1 has all that it may have, and the others come and go meanwhile. */
TEST(queue_of_who_waits_for_places_is_the_longest) {
    Queue q = {0};
    Job *gone = NULL;
    add(&q, 1, 6);
    for (int i = 0; i < 10; i++) {
        add(&q, 2, 1);
        Job *job = queue_next(&q, all_but_1, NULL);
        queue_take(&q, job);
        CHECK(job->client == 2);
        job_release(job);
    }
    add(&q, 3, 2);
    CHECK(queue_make_room(&q, 4, 1, 8, &gone));
    CHECK(spell(gone) == 111111);
    CHECK(spell(queue_sweep(&q, everybody, NULL)) == 33);
}

/* ---- the engine ---- */

/* Hands over n jobs of a client as one request. */
static Submit request(TestEngine *t, Job **jobs, int n, uint64_t client, int max_tokens) {
    double retry_after;
    for (int i = 0; i < n; i++) {
        jobs[i] = test_job(i, 5, max_tokens, -1, false);
        jobs[i]->client = client;
        jobs[i]->ignore_eos = true;
    }
    return engine_submit(t->engine, jobs, n, &retry_after);
}

/* An engine whose gate stops it when the clock, a job of client 1, has three tokens. */
static void open_beside_clock(TestEngine *t, const Config *c, const EngineOptions *o, Job *clock, TestGate *gate) {
    test_engine_open(t, c, o);
    clock->ignore_eos = true;
    clock->client = 1;
    test_gate_set(gate, clock, 3, 0);
    test_submit(t, clock);
    test_gate_wait(gate);
}

static void end(Job **jobs, int n, Finish finish) {
    for (int i = 0; i < n; i++) {
        if (finish != FINISH_DISPLACED) job_cancel(jobs[i]);
        Finish got = test_wait(jobs[i]);
        CHECK_MSG((got == FINISH_DISPLACED) == (finish == FINISH_DISPLACED), "job %d ended as %d", i, (int)got);
        job_release(jobs[i]);
    }
}

/* Client 1 has filled the batch and the queue; a job of client 2 starts within two steps nevertheless. */
TEST(engine_starts_a_newcomer_within_two_steps) {
    enum { BATCH = 4, QUEUE = 6, GREEDY = BATCH - 1 + QUEUE };
    TestEngine t;
    TestGate gate;
    Config c = test_engine_config("noise");
    EngineOptions o = test_engine_options();
    Job *greedy[GREEDY + 1], *newcomer, *clock = test_job(900, 1, 200, -1, false);
    o.max_batch = BATCH;
    o.max_queue = QUEUE;
    open_beside_clock(&t, &c, &o, clock, &gate);
    CHECK(request(&t, &newcomer, 1, 2, 1) == SUBMIT_OK); /* now two clients are here */
    CHECK(request(&t, greedy, 3, 1, 200) == SUBMIT_OK);
    test_gate_move(&gate, 5, 0);
    test_gate_wait(&gate);
    end(&newcomer, 1, FINISH_LENGTH);
    CHECK(engine_stats(t.engine).queued == 0); /* all slots are client 1's */
    for (int n = 3; n < GREEDY; n++) CHECK(request(&t, greedy + n, 1, 1, 200) == SUBMIT_OK);
    CHECK(engine_stats(t.engine).queued == QUEUE);
    CHECK(request(&t, greedy + GREEDY, 1, 1, 200) == SUBMIT_QUEUE_FULL);
    job_release(greedy[GREEDY]);
    CHECK(request(&t, &newcomer, 1, 2, 1) == SUBMIT_OK);
    test_gate_move(&gate, 7, 0);
    test_gate_wait(&gate);
    CHECK_MSG(job_progress(newcomer).started > 0, "it still waits after two steps");
    test_gate_open(&gate);
    end(&newcomer, 1, FINISH_LENGTH);
    end(&greedy[GREEDY - 1], 1, FINISH_DISPLACED); /* the newest */
    end(greedy, GREEDY - 1, FINISH_CANCELLED);
    end(&clock, 1, FINISH_CANCELLED);
    test_wait_idle(&t);
    test_engine_close(&t);
}

static int n_published(Job *job) { return job_progress(job).n_tokens; }

/* All slots are taken, also by the long jobs of a third and a fourth client: a newcomer starts within two steps, who
 * came last of the client with the most rests meanwhile, and everything is what it is alone. */
TEST(engine_starts_a_newcomer_beside_long_jobs_of_others) {
    enum { BATCH = 4, GREEDY = 3, LONG = 60 };
    TestEngine t;
    TestGate gate;
    Config c = test_engine_config("noise");
    EngineOptions o = test_engine_options();
    Job *greedy[GREEDY], *third, *fourth, *newcomer, *clock = test_job(900, 1, 200, -1, false);
    o.max_batch = BATCH;
    open_beside_clock(&t, &c, &o, clock, &gate);
    CHECK(request(&t, &third, 1, 3, LONG) == SUBMIT_OK);
    CHECK(request(&t, greedy, GREEDY, 1, LONG) == SUBMIT_OK);
    test_gate_move(&gate, 8, 0);
    test_gate_wait(&gate);
    CHECK(request(&t, &fourth, 1, 4, LONG) == SUBMIT_OK);
    test_gate_move(&gate, 10, 0);
    test_gate_wait(&gate);
    CHECK(request(&t, &newcomer, 1, 2, LONG) == SUBMIT_OK);
    test_gate_move(&gate, 12, 0);
    test_gate_wait(&gate);
    CHECK_MSG(job_progress(newcomer).started > 0, "it still waits after two steps");
    int resting = n_published(greedy[1]), third_had = n_published(third);
    test_gate_move(&gate, 20, 0);
    test_gate_wait(&gate);
    CHECK_MSG(n_published(greedy[1]) == resting, "%d tokens more", n_published(greedy[1]) - resting);
    CHECK(n_published(third) == third_had + 8 && n_published(newcomer) >= 8);
    test_gate_open(&gate);
    Job *all[] = {greedy[0], greedy[1], greedy[2], third, fourth, newcomer};
    for (size_t i = 0; i < COUNTOF(all); i++) {
        Job *alone = test_job(i < GREEDY ? (int)i : 0, 5, LONG, -1, false);
        alone->ignore_eos = true;
        CHECK(test_wait(all[i]) == FINISH_LENGTH);
        CHECK_MSG(test_same_result(all[i], test_run(&t, alone)), "job %zu is another one alone", i);
        job_release(alone);
        job_release(all[i]);
    }
    end(&clock, 1, FINISH_CANCELLED);
    test_wait_idle(&t);
    test_engine_close(&t);
}

/* Where several clients are, the last room of the cache is for who has nothing running: a newcomer that wants a whole
 * context starts within two steps, however much of it another one would fill. */
TEST(engine_keeps_room_of_the_cache_for_newcomers) {
    enum { CONTEXTS = 8, GREEDY = 12, WHOLE = TEST_CONTEXT - 6 };
    TestEngine t;
    TestGate gate;
    Config c = test_engine_config("noise");
    EngineOptions o = test_engine_options();
    Job *greedy[GREEDY], *newcomer, *clock = test_job(900, 1, WHOLE, -1, false);
    o.kv_tokens = CONTEXTS * TEST_CONTEXT;
    open_beside_clock(&t, &c, &o, clock, &gate);
    CHECK(request(&t, &newcomer, 1, 2, 1) == SUBMIT_OK); /* now two clients are here */
    test_gate_move(&gate, 5, 0);
    test_gate_wait(&gate);
    end(&newcomer, 1, FINISH_LENGTH);
    CHECK(request(&t, greedy, GREEDY, 1, WHOLE) == SUBMIT_OK);
    test_gate_move(&gate, 8, 0);
    test_gate_wait(&gate);
    CHECK_MSG(engine_stats(t.engine).queued > GREEDY - CONTEXTS, "%d wait", engine_stats(t.engine).queued);
    CHECK(request(&t, &newcomer, 1, 2, WHOLE) == SUBMIT_OK);
    test_gate_move(&gate, 10, 0);
    test_gate_wait(&gate);
    CHECK_MSG(job_progress(newcomer).started > 0, "it still waits after two steps");
    test_gate_open(&gate);
    end(&newcomer, 1, FINISH_CANCELLED);
    end(greedy, GREEDY, FINISH_CANCELLED);
    end(&clock, 1, FINISH_CANCELLED);
    test_wait_idle(&t);
    test_engine_close(&t);
}

/* Until another one comes. */
TEST(engine_gives_all_of_the_cache_to_a_client_alone) {
    enum { CONTEXTS = 8, WHOLE = TEST_CONTEXT - 6 };
    TestEngine t;
    TestGate gate;
    Config c = test_engine_config("noise");
    EngineOptions o = test_engine_options();
    Job *jobs[CONTEXTS - 1], *clock = test_job(900, 1, WHOLE, -1, false);
    o.kv_tokens = CONTEXTS * TEST_CONTEXT;
    open_beside_clock(&t, &c, &o, clock, &gate);
    CHECK(request(&t, jobs, CONTEXTS - 1, 1, WHOLE) == SUBMIT_OK);
    test_gate_move(&gate, 4, 0);
    test_gate_wait(&gate);
    EngineStats s = engine_stats(t.engine); /* in their first step */
    CHECK_MSG(s.queued == 0 && s.running == CONTEXTS, "%d wait, %d run", s.queued, s.running);
    test_gate_open(&gate);
    end(jobs, CONTEXTS - 1, FINISH_CANCELLED);
    end(&clock, 1, FINISH_CANCELLED);
    test_wait_idle(&t);
    test_engine_close(&t);
}

/* The last of it is two contexts, or a quarter of a small cache. */
TEST(runner_keeps_the_last_of_the_cache_for_others) {
    enum { CONTEXT = TEST_CONTEXT / KV_BLOCK, LARGE = 50 * CONTEXT, SMALL = 4 * CONTEXT };
    static const struct {
        int blocks, used;
        bool spares;
    } cases[] = {{LARGE, LARGE - 2 * CONTEXT - 1, true},
                 {LARGE, LARGE - 2 * CONTEXT, false},
                 {SMALL, SMALL - SMALL / 4 - 1, true},
                 {SMALL, SMALL - SMALL / 4, false}};
    const Model m = {.cfg = test_engine_config("noise")};
    Job *job = test_job(0, 1, 1, -1, false);
    Sequence s = {.job = job}, *running[] = {&s};
    job->client = 1;
    for (size_t i = 0; i < COUNTOF(cases); i++) {
        const Runner r = {
            .model = &m, .pool = {.n = cases[i].blocks, .n_used = cases[i].used}, .running = running, .n_running = 1};
        CHECK_MSG(runner_spares(&r, 1) == cases[i].spares, "%d of %d blocks", cases[i].used, cases[i].blocks);
        CHECK(runner_spares(&r, 2));
    }
    job_release(job);
}
