/* Where the engine's time goes: the phases of its steps, and sleep where there is no work. */
#include "base/clock.h"
#include "tests/support/engines.h"
#include "tests/support/test.h"

#include <unistd.h>

static double phases_sum(const Metrics *m) {
    uint64_t sum = 0;
    for (int d = TIME_STEP_WAIT; d <= TIME_STEP_PUBLISH; d++) sum += atomic_load(&m->histograms[d].sum);
    return 1e-9 * (double)sum;
}

static uint64_t phase_count(const Metrics *m, Distribution d) {
    uint64_t n = 0;
    for (int i = 0; i <= METRIC_BOUNDS; i++) n += atomic_load(&m->histograms[d].counts[i]);
    return n;
}

/* Runs a job of so many steps; *ended and *seen are times before and after the end of its last step. */
static void timed_job(TestEngine *t, const Metrics *m, int steps, double *ended, double *seen) {
    uint64_t before = phase_count(m, TIME_STEP_PUBLISH);
    Job *job = test_job(1, 5, steps, -1, false);
    job->ignore_eos = true;
    test_run(t, job);
    while (phase_count(m, TIME_STEP_PUBLISH) < before + (uint64_t)steps) usleep(100);
    *seen = now_seconds();
    *ended = job->progress.last_token;
    job_release(job);
}

TEST(engine_phases_are_all_of_the_time) {
    static Metrics m;
    TestEngine t;
    Config c = test_engine_config("noise");
    EngineOptions o = test_engine_options();
    double ended[2], seen[2], sum[2];
    enum { STEPS = 100 };
    o.metrics = &m;
    test_engine_open(&t, &c, &o);
    timed_job(&t, &m, STEPS, &ended[0], &seen[0]);
    sum[0] = phases_sum(&m);
    usleep(30000); /* which is time between two steps too */
    timed_job(&t, &m, STEPS, &ended[1], &seen[1]);
    sum[1] = phases_sum(&m);
    const double rounding = 1e-9 * STEPS * 5 + 1e-6;
    CHECK_MSG(sum[1] - sum[0] >= ended[1] - seen[0] - rounding && sum[1] - sum[0] <= seen[1] - ended[0] + rounding,
              "%.6f s, but %.6f to %.6f went by", sum[1] - sum[0], ended[1] - seen[0], seen[1] - ended[0]);
    for (int d = TIME_STEP_WAIT; d <= TIME_STEP_PUBLISH; d++)
        CHECK_MSG(phase_count(&m, d) == 2 * STEPS, "phase %d: %d", d, (int)phase_count(&m, d));
    CHECK(1e-9 * (double)atomic_load(&m.histograms[TIME_STEP_WAIT].sum) >= 0.03);
    test_engine_close(&t);
}

/* It looks after its weights once a second, and sleeps in between. */
TEST(engine_sleeps_without_work) {
    Config c = test_engine_config("plain");
    EngineOptions o = test_engine_options();
    TestEngine t;
    test_engine_open(&t, &c, &o);
    test_wait_idle(&t);
    double begin = now_seconds(), age = engine_stats(t.engine).heartbeat_age;
    int beats = 0;
    for (int i = 0; i < 100; i++) {
        double before = age;
        usleep(2000);
        age = engine_stats(t.engine).heartbeat_age;
        beats += age < before;
    }
    CHECK_MSG(beats < now_seconds() - begin + 3, "%d beats", beats);
    test_engine_close(&t);
}
