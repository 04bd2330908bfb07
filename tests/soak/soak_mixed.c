/* Everything at once for a long time: streams and plain answers that must stay right while others hang up, send
 * nonsense or nothing at all. Nothing may grow. */
#include "base/clock.h"
#include "base/err.h"
#include "tests/soak/soak.h"

#include <unistd.h>

static const char *const nonsense[] = {"{\"prompt\":[[]]}", "{\"max_tokens\":-2}", "{\"n\":1000000}",
                                       "[[[[[[[[[[",        "{\"stop\":\"\"}",     "{\"seed\":1e99}",
                                       "\xFF\xFE",          "{\"unknown\":1}"};

TEST(soak_mixed) {
    enum { KINDS = 40, TOKENS = 60, REQUESTS = 400 };
    double until = now_seconds() + soak_seconds(), reported = now_seconds();
    int64_t answers = 0, wrong = 0;
    Daemon d;
    KnownSet known;
    KnownRun run;
    soak_raise_limits();
    REQUIRE(daemon_start(&d, CHECKPOINT_SMALL, "--max-batch 64 --threads 2"));
    known_open(&known, &d, KINDS, TOKENS);
    Vitals before = soak_vitals(&d), first = {0}, last;
    int round = 0, n_hang_ups = 0;
    do {
        HangUps h;
        hang_ups_open(&h, &d, (uint64_t)round);
        known_run_start(&run, &known, &d, REQUESTS, 16, false);
        for (int i = 0; i < 100; i++, usleep(3000)) {
            hang_ups_next(&h);
            if (i % 10) continue;
            Answer a = http_post(&d, "/v1/completions", nonsense[(i / 10 + round) % (int)COUNTOF(nonsense)]);
            CHECK_MSG(a.status == 400, "%d: %s", a.status, a.body);
            answer_free(&a);
        }
        known_run_join(&run);
        hang_ups_close(&h);
        n_hang_ups += h.n;
        for (int i = 0; i < REQUESTS; i++) {
            bool right = known_run_is_right(&run, i);
            CHECK_MSG(right, "round %d, request %d: status %d, %.300s", round, i, run.answers[i].status,
                      run.answers[i].body);
            wrong += !right;
        }
        answers += REQUESTS;
        known_run_free(&run);
        soak_settle(&d, &before);
        last = soak_vitals(&d);
        if (round++ == 4) first = last;
        if (now_seconds() - reported < 60) continue;
        reported = now_seconds();
        printf("  %.0f s to go: %lld answers, %lld wrong, %d hang-ups, %.1f MB\n", until - reported, (long long)answers,
               (long long)wrong, n_hang_ups, last.rss_mb);
    } while (now_seconds() < until || round < 6);
    printf("  %lld answers, %lld wrong, %d hang-ups; memory %.1f MB after %d rounds, %.1f MB after %d; %d descriptors "
           "before, %d after\n",
           (long long)answers, (long long)wrong, n_hang_ups, first.rss_mb, 5, last.rss_mb, round, before.fds, last.fds);
    CHECK_MSG(last.rss_mb < first.rss_mb + 4, "memory grew from %.1f to %.1f MB", first.rss_mb, last.rss_mb);
    known_close(&known);
    daemon_stop(&d);
}
