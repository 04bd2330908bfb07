/* A thousand streams at once: no event lost, doubled or out of order, one [DONE] each. */
#include "base/err.h"
#include "tests/bench/load_report.h"
#include "tests/soak/soak.h"

/* The most streams that had begun and not ended at the same moment, as their clients saw it. */
static int most_at_once(const LoadAnswer *a, int n) {
    int most = 0;
    for (int i = 0; i < n; i++) {
        int open = 0;
        for (int j = 0; j < n && a[i].n_events; j++)
            open += a[j].n_events && a[j].events[0] <= a[i].events[0] && a[i].events[0] < a[j].ended;
        most = MAX(most, open);
    }
    return most;
}

TEST(soak_streams) {
    enum { KINDS = 50, TOKENS = 200 };
    int n = soak_count(1000), wrong = 0;
    char options[64];
    Daemon d;
    KnownSet known;
    KnownRun run;
    soak_raise_limits();
    snprintf(options, sizeof options, "--max-batch %d --max-queue %d --threads 2", n, n);
    REQUIRE(daemon_start(&d, CHECKPOINT_SMALL, options));
    known_open(&known, &d, KINDS, TOKENS, NULL);
    Vitals before = soak_vitals(&d);
    known_run_start(&run, &known, &d, n, n, true);
    known_run_join(&run);
    for (int i = 0; i < n; i++) {
        bool right = known_run_is_right(&run, i);
        CHECK_MSG(right, "stream %d: status %d %s", i, run.answers[i].status,
                  run.answers[i].error ? run.answers[i].error : "");
        wrong += !right;
    }
    soak_settle(&d, &before);
    int most = most_at_once(run.answers, n);
    Figures f = figures_of(run.answers, n, run.seconds, (Slo){.first = 1e9, .gap = 1e9});
    printf("  %d streams of %d tokens in %.1f s, %d at once, %.0f events/s; first text p99 %.0f ms, gap "
           "p50 %.1f, p99 %.1f ms\n",
           n, TOKENS, run.seconds, most, f.tokens, 1e3 * f.first.p99, 1e3 * f.gap.p50, 1e3 * f.gap.p99);
    CHECK_MSG(wrong == 0, "%d of %d streams are not what they are alone", wrong, n);
    CHECK_MSG(most >= n / 2, "only %d of %d at once", most, n);
    known_run_free(&run);
    known_close(&known);
    daemon_stop(&d);
}
