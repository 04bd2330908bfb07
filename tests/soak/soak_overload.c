/* Ten times more than the daemon can do: it does as much as before, and says no at once to the rest. */
#include "base/memory.h"
#include "tests/bench/load_report.h"
#include "tests/soak/soak.h"

#include <stdlib.h>
#include <string.h>

enum { KINDS = 20, TOKENS = 100, BATCH = 32 };

/* Answers a second of as many clients as the daemon has room for. */
static double full_rate(const Daemon *d, const KnownSet *known) {
    KnownRun run;
    known_run_start(&run, known, d, 6 * BATCH, BATCH, true);
    known_run_join(&run);
    Figures f = figures_of(run.answers, run.n, run.seconds, (Slo){.first = 1e9, .gap = 1e9});
    CHECK(f.n_errors == 0);
    printf("  %d clients: %.1f answers/s, first text p99 %.0f ms\n", BATCH, f.requests, 1e3 * f.first.p99);
    known_run_free(&run);
    return f.requests;
}

TEST(soak_overload) {
    Daemon d;
    KnownSet known;
    char url[64];
    soak_raise_limits();
    REQUIRE(daemon_start(&d, CHECKPOINT_SLOW, "--max-batch 32 --max-queue 32"));
    known_open(&known, &d, KINDS, TOKENS, NULL);
    Vitals before = soak_vitals(&d);
    double before_it = full_rate(&d, &known), rate = 10 * before_it, seconds;
    int n = soak_count((int)(rate * 20)), good = 0, refused = 0, wrong = 0;
    snprintf(url, sizeof url, "http://127.0.0.1:%d/v1/completions", d.port);
    LoadRequest *requests = xcalloc((size_t)n, sizeof *requests);
    LoadAnswer *answers = xcalloc((size_t)n, sizeof *answers);
    for (int i = 0; i < n; i++)
        requests[i] = (LoadRequest){.url = url, .body = known.streamed[i % KINDS], .at = i / rate};
    seconds = load_run(requests, answers, n, n);
    double best = (before_it + full_rate(&d, &known)) / 2; /* the machine may not be what it was */
    double *no = xcalloc((size_t)n, sizeof *no);
    for (int i = 0; i < n; i++) {
        char *essence = answer_essence(&answers[i]);
        good += answers[i].status == 200;
        wrong += answers[i].status == 200 && (!essence || strcmp(essence, known.essences[i % KINDS]));
        free(essence);
        if (answers[i].status == 429) no[refused++] = answers[i].ended - answers[i].sent;
    }
    Spread wait = spread_of(no, refused);
    printf("  %.0f requests/s for %.1f s: %.1f answers/s (%.0f%% of that), %d refused, after %.2f ms (p50), %.2f "
           "(p90), %.2f (p99)\n",
           rate, n / rate, good / seconds, 100 * good / seconds / best, refused, 1e3 * wait.p50, 1e3 * wait.p90,
           1e3 * wait.p99);
    CHECK_MSG(good + refused == n, "%d of %d neither answered nor refused", n - good - refused, n);
    CHECK_MSG(wrong == 0, "%d answers are not what they are alone", wrong);
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
