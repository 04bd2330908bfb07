/* The promise: same checkpoint, same request, same bits. Alone or in a crowd, whatever the prefill chunk, the thread
 * count and what the cache holds, and whoever else comes, goes or is cut off meanwhile. */
#include "base/err.h"
#include "base/memory.h"
#include "base/quantiles.h"
#include "base/random.h"
#include "base/sha256.h"
#include "model/kernels/kernels.h"
#include "tests/support/engines.h"
#include "tests/support/test.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Teams of one thread and of two, where there is OpenMP. */
#ifdef _OPENMP
enum { TEAMS = 2 };
#else
enum { TEAMS = 1 };
#endif

enum { REQUESTS = FEWER(1000), MOST_CHOICES = 3, CROWD = 64, TEXTS = 3, DECOYS = 4 };

/* Request `index`, one job a choice. Two thirds begin with one of a few texts, so that they share blocks. */
static int make_request(int index, uint64_t tenant, Job **jobs) {
    Draws d = draws_open(33, DRAW_TEST, (uint32_t)index);
    int n = draw_below(&d, 8) ? 1 : MOST_CHOICES, text = (int)draw_below(&d, TEXTS + 1);
    for (int c = 0; c < n; c++) {
        Job *job = jobs[c] = test_mixed_job(index);
        Draws words = draws_open(34, DRAW_TEST, (uint32_t)text);
        for (int i = 0; i < job->n_prompt && text < TEXTS; i++) job->prompt[i] = (int)draw_below(&words, TEST_VOCAB);
        job->sampling.seed = choice_seed(job->sampling.seed, c);
        job->noise.seed = choice_seed(job->noise.seed, c);
        job->tenant = tenant;
    }
    return n;
}

typedef struct Results {
    Job *jobs[REQUESTS * MOST_CHOICES];
    int n, cached; /* cached: prompt tokens that came from shared blocks */
    int stops;     /* jobs that ended by themselves */
} Results;

static void results_close(Results *r) {
    for (int i = 0; i < r->n; i++) job_release(r->jobs[i]);
    free(r);
}

static void results_count(Results *r) {
    for (int i = 0; i < r->n; i++)
        r->cached += r->jobs[i]->progress.cached_tokens, r->stops += r->jobs[i]->progress.finish == FINISH_STOP;
}

/* One job at a time, each of a tenant of its own, which finds nothing in the cache. */
static Results *run_solo(const Config *c) {
    EngineOptions o = test_engine_options();
    Results *r = xcalloc(1, sizeof *r);
    TestEngine t;
    test_engine_open(&t, c, &o);
    for (int index = 0; index < REQUESTS; index++)
        for (int n = make_request(index, 0, &r->jobs[r->n]); n > 0; n--, r->n++) {
            r->jobs[r->n]->tenant = 1 + (uint64_t)r->n;
            test_run(&t, r->jobs[r->n]);
        }
    test_wait_idle(&t);
    test_engine_close(&t);
    results_count(r);
    return r;
}

/* What is in the engine at the moment: jobs of the requests and decoys, which are there to be cancelled. */
typedef struct Crowd {
    TestEngine t;
    Draws draws;
    Job *jobs[CROWD + MOST_CHOICES + 1], *decoys[DECOYS]; /* decoys: NULL where there is none */
    int n, next_decoy;
} Crowd;

static void crowd_shrink(Crowd *k, int most) {
    for (int i = 0;; i++) {
        int left = 0;
        for (int j = 0; j < k->n; j++)
            if (job_progress(k->jobs[j]).finish == FINISH_NONE) k->jobs[left++] = k->jobs[j];
        k->n = left;
        if (left <= most) return;
        BUG_ON(i > 600000 * SLOWNESS); /* a minute: it hangs */
        usleep(100);
    }
}

static void crowd_submit(Crowd *k, Job **jobs, int n) {
    double retry_after;
    CHECK(engine_submit(k->t.engine, jobs, n, &retry_after) == SUBMIT_OK);
    for (int i = 0; i < n; i++) k->jobs[k->n++] = jobs[i];
}

/* One that was there for a while goes, a new one takes its place; half of them before they even begin. */
static void crowd_change_decoy(Crowd *k) {
    Job **place = &k->decoys[draw_below(&k->draws, DECOYS)];
    if (*place) {
        job_cancel(*place);
        test_wait(*place);
        crowd_shrink(k, CROWD); /* which forgets it */
        job_release(*place);
    }
    *place = test_mixed_job(REQUESTS + k->next_decoy++);
    if (draw_below(&k->draws, 2)) job_cancel(*place);
    crowd_submit(k, place, 1);
}

static Results *run_crowd(const Config *c, int chunk, int threads) {
    EngineOptions o = test_engine_options();
    o.prefill_chunk = chunk;
    o.threads = threads;
    o.max_batch = CROWD;
    Results *r = xcalloc(1, sizeof *r);
    Crowd *k = xcalloc(1, sizeof *k);
    k->draws = draws_open(35, DRAW_TEST, (uint32_t)(10 * chunk + threads));
    test_engine_open(&k->t, c, &o);
    for (int index = 0, others = 0; index < REQUESTS; index++) {
        if (index % 40 == 0) others = (int)draw_below(&k->draws, CROWD);
        if (draw_below(&k->draws, 4) == 0) crowd_change_decoy(k);
        crowd_shrink(k, others);
        int n = make_request(index, 1, &r->jobs[r->n]);
        crowd_submit(k, &r->jobs[r->n], n);
        r->n += n;
    }
    crowd_shrink(k, 0);
    EngineStats stats = engine_stats(k->t.engine);
    double rows = (double)(stats.prompt_tokens + stats.generated_tokens) / (double)stats.steps;
    CHECK_MSG(rows > 4, "%.1f rows a step are no crowd", rows);
    CHECK_MSG(stats.jobs_cancelled > REQUESTS / 20, "%d cancelled", (int)stats.jobs_cancelled);
    test_wait_idle(&k->t);
    test_engine_close(&k->t);
    for (int i = 0; i < DECOYS; i++) job_release(k->decoys[i]);
    free(k);
    results_count(r);
    return r;
}

TEST(determinism_1000_requests_in_every_crowd) {
    static const int chunks[] = {16, 64, 512};
    Config c = test_engine_config("all");
    Results *solo = run_solo(&c);
    CHECK_MSG(solo->cached == 0 && solo->stops > REQUESTS / 10 && solo->stops < solo->n - REQUESTS / 10,
              "%d cached, %d stops of %d", solo->cached, solo->stops, solo->n);
    for (int k = 0; k < TEAMS * (int)COUNTOF(chunks); k++) {
        int chunk = chunks[k / TEAMS], threads = 1 + k % TEAMS, different = 0;
        Results *crowd = run_crowd(&c, chunk, threads);
        CHECK(crowd->n == solo->n);
        for (int i = 0; i < solo->n; i++) different += !test_same_result(solo->jobs[i], crowd->jobs[i]);
        CHECK_MSG(different == 0, "chunk %d, %d threads: %d of %d answers differ", chunk, threads, different, solo->n);
        CHECK_MSG(crowd->cached > REQUESTS, "%d prompt tokens from the cache show little", crowd->cached);
        results_close(crowd);
    }
    results_close(solo);
}

TEST(noise_quantile_table) {
    Sha256 s;
    char hex[65];
    kernels_init(NULL);
    sha256_init(&s);
    sha256_add(&s, gaussian_quantiles, sizeof gaussian_quantiles);
    sha256_hex(&s, hex);
    CHECK_MSG(strcmp(hex, "e8eb444f05726695700203a75ec7530b3f40d467ad7dfe220ba549b4e3000556") == 0, "%s", hex);
}
