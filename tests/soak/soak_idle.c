/* Ten thousand clients that are connected and say nothing: none is refused, they cost little, others do not notice. */
#include "base/clock.h"
#include "base/err.h"
#include "base/memory.h"
#include "tests/bench/load_report.h"
#include "tests/soak/soak.h"

#include <stdlib.h>
#include <unistd.h>

static const char question[] = "GET /health/live HTTP/1.1\r\nHost: x\r\n\r\n";

static bool ask(int fd) { return raw_send(fd, question, sizeof question - 1) && raw_expect(fd, "\"ok\""); }

/* How long new clients wait for an answer. */
static Spread answer_times(const Daemon *d) {
    enum { ASKED = 500 };
    double times[ASKED];
    for (int i = 0; i < ASKED; i++) {
        double t0 = now_seconds();
        int fd = raw_connect(d);
        CHECK(ask(fd));
        times[i] = now_seconds() - t0;
        close(fd);
    }
    return spread_of(times, ASKED);
}

TEST(soak_idle) {
    enum { SECONDS = 3 };
    int n = soak_count(10000), there = 0;
    Daemon d;
    soak_raise_limits();
    REQUIRE(daemon_start(&d, CHECKPOINT_SMALL, "--header-seconds 600 --idle-seconds 600"));
    Vitals before = soak_vitals(&d);
    Spread alone = answer_times(&d);
    int *fds = xcalloc((size_t)n, sizeof *fds);
    for (int i = 0; i < n; i++) fds[i] = raw_connect(&d);
    double silent_mb = soak_vitals(&d).rss_mb, cpu = daemon_cpu_seconds(&d);
    sleep(SECONDS);
    cpu = (daemon_cpu_seconds(&d) - cpu) / SECONDS;
    Spread crowded = answer_times(&d);
    for (int i = 0; i < n; i++) there += ask(fds[i]);
    double asked_mb = soak_vitals(&d).rss_mb;
    printf("  %d of %d silent connections answer in the end; %.1f%% of a core; memory %.1f MB, with them %.1f MB, kept "
           "after an answer %.1f MB; new clients' p99 %.2f ms, with them %.2f ms\n",
           there, n, 100 * cpu, before.rss_mb, silent_mb, asked_mb, 1e3 * alone.p99, 1e3 * crowded.p99);
    CHECK(there == n);
    CHECK(cpu < 0.05);
    CHECK(silent_mb < before.rss_mb + 64);
    CHECK(asked_mb < before.rss_mb + 64);
    CHECK(crowded.p99 < MAX(0.005, 3 * alone.p99));
    for (int i = 0; i < n; i++) close(fds[i]);
    free(fds);
    soak_settle(&d, &before);
    daemon_stop(&d);
}
