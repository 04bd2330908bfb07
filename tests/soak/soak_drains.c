/* SIGTERM in the middle of everything: what was begun is finished, the rest is refused, the exit status is 0. */
#include "base/clock.h"
#include "base/err.h"
#include "base/random.h"
#include "tests/soak/soak.h"

#include <unistd.h>

TEST(soak_drains) {
    enum { KINDS = 10, TOKENS = 120, REQUESTS = 60, CLIENTS = 12 };
    int n = soak_count(100), finished = 0, refused = 0, late = 0, broken = 0;
    Draws draws = draws_open(61, DRAW_TEST, 0);
    double slowest = 0;
    soak_raise_limits();
    for (int cycle = 0; cycle < n; cycle++) {
        Daemon d;
        KnownSet known;
        KnownRun run;
        REQUIRE(daemon_start(&d, CHECKPOINT_SMALL, NULL));
        known_open(&known, &d, KINDS, TOKENS, NULL);
        known_run_start(&run, &known, &d, REQUESTS, CLIENTS, false);
        usleep((unsigned)draw_below(&draws, 100000));
        double t0 = now_seconds();
        CHECK(daemon_stop(&d) == 0); /* one SIGTERM; a second one would mean: at once */
        slowest = MAX(slowest, now_seconds() - t0);
        known_run_join(&run);
        for (int i = 0; i < REQUESTS; i++) {
            const LoadAnswer *a = &run.answers[i];
            bool right = a->status == 200 && known_run_is_right(&run, i);
            finished += right;
            refused += a->status == 503;
            late += a->status == 0 && a->n_body == 0; /* the daemon was gone */
            bool lost = !right && a->status != 503 && !(a->status == 0 && a->n_body == 0);
            broken += lost;
            CHECK_MSG(!lost, "cycle %d: status %d %s, ... %s", cycle, a->status, a->error ? a->error : "",
                      a->body + (a->n_body > 300 ? a->n_body - 300 : 0));
        }
        known_run_free(&run);
        known_close(&known);
    }
    printf("  %d drains: %d answers finished, %d refused with 503, %d came after the end, %d broken; %.2f s at most\n",
           n, finished, refused, late, broken, slowest);
    CHECK(broken == 0);
}
