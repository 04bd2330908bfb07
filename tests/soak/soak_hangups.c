/* Ten thousand clients hang up wherever they are: nothing of them stays. */
#include "base/clock.h"
#include "tests/soak/soak.h"

#include <unistd.h>

/* A client that stays, as monitoring does: nothing may depend on its leaving. */
static int stay(const Daemon *d) {
    static const char get[] = "GET /health HTTP/1.1\r\nHost: x\r\n\r\n";
    int fd = raw_connect(d);
    CHECK(fd >= 0 && raw_send(fd, get, sizeof get - 1) && raw_expect(fd, "kv_blocks_used"));
    return fd;
}

TEST(soak_hangups) {
    enum { PARTS = 10 };
    int n = soak_count(10000);
    Daemon d;
    HangUps h;
    soak_raise_limits();
    REQUIRE(daemon_start(&d, CHECKPOINT_SMALL, "--max-batch 16 --max-queue 64"));
    int monitor = stay(&d);
    Vitals before = soak_vitals(&d), after = before, first = before;
    hang_ups_open(&h, &d, 51, NULL);
    double slowest = 0, t0 = now_seconds();
    for (int part = 0; part < PARTS; part++) {
        while (h.n < (part + 1) * n / PARTS) hang_ups_next(&h);
        hang_ups_close(&h);
        hang_ups_open(&h, &d, 52 + (uint64_t)part, NULL);
        h.n = (part + 1) * n / PARTS;
        double t = soak_settle(&d, &before);
        slowest = t > slowest ? t : slowest;
        after = soak_vitals(&d);
        if (part == 0) first = after;
    }
    printf("  %d hang-ups in %.1f s; all is free again after at most %.3f s; memory %.1f MB after a tenth, %.1f MB at "
           "the end\n",
           n, now_seconds() - t0, slowest, first.rss_mb, after.rss_mb);
    CHECK_MSG(after.rss_mb < first.rss_mb + 4, "memory grew from %.1f to %.1f MB", first.rss_mb, after.rss_mb);
    Answer a = http_post(&d, "/v1/completions", "{\"max_tokens\":2}");
    CHECK_MSG(a.status == 200, "%d %s", a.status, a.body);
    answer_free(&a);
    close(monitor);
    daemon_stop(&d);
}
