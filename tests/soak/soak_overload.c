/* Ten times more than the daemon can do: it does as much as before, and says no at once to the rest. */
#include "soak.h"

#include "../bench/load_report.h"

#include <stdlib.h>

enum { KINDS = 20, TOKENS = 100, QUEUE = 32 };

static double best_rate(const Daemon *d, const KnownSet *known) {
    double best = 0;
    for (int clients = 8; clients <= 32; clients *= 2) {
        KnownRun run;
        known_run_start(&run, known, d, 6 * clients, clients, true);
        known_run_join(&run);
        Figures f = figures_of(run.answers, run.n, run.seconds, (Slo){.first = 1e9, .gap = 1e9});
        CHECK(f.n_errors == 0);
        printf("  %d clients: %.1f answers/s, first text p99 %.0f ms\n", clients, f.requests, 1e3 * f.first.p99);
        best = MAX(best, f.requests);
        known_run_free(&run);
    }
    return best;
}

TEST(soak_overload) {
    Daemon d;
    KnownSet known;
    char url[64];
    soak_raise_limits();
    REQUIRE(daemon_start(&d, CHECKPOINT_SLOW, "--max-batch 32 --max-queue 32"));
    known_open(&known, &d, KINDS, TOKENS);
    Vitals before = soak_vitals(&d);
    double best = best_rate(&d, &known), seconds;
    int n = soak_count((int)(10 * best * 20)), good = 0, refused = 0;
    snprintf(url, sizeof url, "http://127.0.0.1:%d/v1/completions", d.port);
    LoadRequest *requests = xcalloc((size_t)n, sizeof *requests);
    LoadAnswer *answers = xcalloc((size_t)n, sizeof *answers);
    for (int i = 0; i < n; i++)
        requests[i] = (LoadRequest){.url = url, .body = known.streamed[i % KINDS], .at = i / (10 * best)};
    seconds = load_run(requests, answers, n, n);
    double *no = xcalloc((size_t)n, sizeof *no);
    for (int i = 0; i < n; i++) {
        good += answers[i].status == 200;
        if (answers[i].status == 429) no[refused++] = answers[i].ended - answers[i].sent;
    }
    Spread wait = spread_of(no, refused);
    printf("  %.0f requests/s for %.1f s: %.1f answers/s (%.0f%% of the best), %d refused, after %.2f ms (p50), %.2f "
           "(p90), %.2f (p99)\n",
           10 * best, n / (10 * best), good / seconds, 100 * good / seconds / best, refused, 1e3 * wait.p50,
           1e3 * wait.p90, 1e3 * wait.p99);
    CHECK_MSG(good + refused == n, "%d of %d neither answered nor refused", n - good - refused, n);
    CHECK(good / seconds >= 0.9 * best);
    CHECK_MSG(wait.p99 <= 0.01, "refused after %.2f ms", 1e3 * wait.p99);
    soak_settle(&d, &before);
    free(no);
    load_answers_free(answers, n);
    free(answers);
    free(requests);
    known_close(&known);
    daemon_stop(&d);
}
