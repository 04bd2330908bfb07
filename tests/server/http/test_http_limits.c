/* More clients than places, or than file descriptors: they are told so, and places that free are filled again. */
#include "base/clock.h"
#include "base/memory.h"
#include "tests/support/http_client.h"
#include "tests/support/models.h"

#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

static const char question[] = "GET /version HTTP/1.1\r\nHost: x\r\n\r\n";

static int ask(const Daemon *d) {
    int fd = raw_connect(d);
    if (fd >= 0) raw_send(fd, question, sizeof question - 1);
    return fd;
}

/* The status, 0 when none came. */
static int hear(int fd) {
    char *text = raw_read_until(fd, "}");
    int status = strlen(text) > 12 ? atoi(text + 9) : 0;
    if (status == 503)
        CHECK_MSG(strstr(text, "Retry-After: 1\r\n") && strstr(text, "Connection: close\r\n") &&
                      strstr(text, "{\"error\":{"),
                  "%s", text);
    free(text);
    return status;
}

static bool serves_again(const Daemon *d) {
    for (double t0 = now_seconds(); now_seconds() - t0 < PATIENCE; usleep(20000)) {
        int fd = ask(d), status = hear(fd);
        close(fd);
        if (status == 200) return true;
    }
    return false;
}

/* One GET each, all answered; then they are closed one by one. The number of 200s. */
static int crowd(const Daemon *d, int n) {
    int *fds = xcalloc((size_t)n, sizeof *fds), taken = 0, refused = 0;
    for (int i = 0; i < n; i++) fds[i] = ask(d);
    for (int i = 0; i < n; i++) {
        int status = hear(fds[i]);
        taken += status == 200;
        refused += status == 503;
    }
    CHECK_MSG(taken + refused == n, "%d taken and %d refused of %d", taken, refused, n);
    for (int i = 0; i < n; i++) close(fds[i]);
    free(fds);
    return taken;
}

static void raise_limits(void) {
    struct rlimit limit;
    getrlimit(RLIMIT_NOFILE, &limit);
    limit.rlim_cur = limit.rlim_max;
    setrlimit(RLIMIT_NOFILE, &limit);
}

TEST(http_connection_limit) {
    static const int limits[] = {8, 64, 256, 1000};
    raise_limits();
    for (size_t i = 0; i < COUNTOF(limits); i++) {
        Daemon d;
        REQUIRE(daemon_start(&d, CHECKPOINT_SMALL, test_text("--max-connections %d", limits[i])));
        for (int trial = 0; trial < 4; trial++) {
            int taken = crowd(&d, limits[i] + limits[i] / 4 + 20);
            CHECK_MSG(taken <= limits[i] && taken >= limits[i] / 2, "%d taken, the limit is %d", taken, limits[i]);
            CHECK_MSG(serves_again(&d), "unreachable after %d connections", limits[i]);
        }
        daemon_stop(&d);
    }
}

/* A folder with a `noised` in it that starts the real one with so few descriptors. */
static void few_files(int n) {
    static char original[512];
    const char *dir = test_dir();
    char text[1100], path[512], *real;
    if (!*original) snprintf(original, sizeof original, "%s", getenv("BUILD") ? getenv("BUILD") : "build");
    if (n > 0) {
        real = realpath(original, NULL);
        snprintf(path, sizeof path, "%s/noised", dir);
        snprintf(text, sizeof text, "#!/bin/sh\nulimit -n %d\nexec '%s/noised' \"$@\"\n", n, real);
        test_write_file(path, text, strlen(text));
        chmod(path, 0755);
        free(real);
    }
    setenv("BUILD", n > 0 ? dir : original, 1);
}

TEST(http_few_file_descriptors) {
    static const int files[] = {64, 72, 90};
    CHECK(test_checkpoint(CHECKPOINT_SMALL));
    for (size_t i = 0; i < COUNTOF(files); i++) {
        Daemon d;
        few_files(files[i]);
        bool up = daemon_start(&d, CHECKPOINT_SMALL, NULL);
        few_files(0);
        REQUIRE(up);
        for (int trial = 0; trial < 4; trial++) {
            int taken = crowd(&d, 120);
            CHECK_MSG(taken >= 10 && taken < files[i], "%d taken with %d descriptors", taken, files[i]);
            CHECK_MSG(serves_again(&d), "unreachable with %d descriptors", files[i]);
        }
        daemon_stop(&d);
    }
}

/* The descriptor that the process would get next: with this limit it gets none. */
static rlim_t next_file(pid_t pid) {
    char path[64];
    rlim_t fd = 0;
    do snprintf(path, sizeof path, "/proc/%d/fd/%d", (int)pid, (int)fd);
    while (access(path, F_OK) == 0 && ++fd);
    return fd;
}

/* The rest of the process has taken all descriptors: the loop does not spin, and it recovers. While it still has the
 * one that it spares for that, clients are told at once. */
TEST(http_no_file_descriptors_left) {
    enum { CLIENTS = 40, WAIT = 1, TRIALS = 4 };
    Daemon d;
    struct rlimit before, few;
    int fds[CLIENTS];
    REQUIRE(daemon_start(&d, CHECKPOINT_SMALL, NULL));
    REQUIRE(prlimit(d.pid, RLIMIT_NOFILE, NULL, &before) == 0);
    few = before;
    for (int trial = 0; trial < TRIALS; trial++) {
        bool spared = trial % 2;
        few.rlim_cur = spared ? next_file(d.pid) : 4;
        REQUIRE(prlimit(d.pid, RLIMIT_NOFILE, &few, NULL) == 0);
        double cpu = daemon_cpu_seconds(&d);
        for (int i = 0; i < CLIENTS; i++) fds[i] = ask(&d);
        sleep(WAIT);
        cpu = daemon_cpu_seconds(&d) - cpu;
        CHECK_MSG(cpu < 0.5 * WAIT, "%.2f s of processor time in %d s", cpu, WAIT);
        int last = spared ? hear(fds[CLIENTS - 1]) : 503;
        CHECK_MSG(last == 503, "status %d, not 503, with %d descriptors", last, (int)few.rlim_cur);
        REQUIRE(prlimit(d.pid, RLIMIT_NOFILE, &before, NULL) == 0);
        for (int i = 0; i < CLIENTS - spared; i++) {
            int status = hear(fds[i]);
            CHECK_MSG(status == 200 || status == 503, "status %d", status);
        }
        for (int i = 0; i < CLIENTS; i++) close(fds[i]);
        CHECK(serves_again(&d));
    }
    daemon_stop(&d);
}

/* A prompt as long as the context fits into a request by itself, as text and as ids; a 413 says what the limit is. */
TEST(limits_grow_with_the_context) {
    enum { CONTEXT = 32768, LIMIT = 16 * CONTEXT };
    Daemon d;
    const char *dir = test_dir();
    Config c = test_config(attention_kind_find("symmetric"));
    c.vocab_size = TEST_VOCAB;
    c.max_positions = CONTEXT;
    c.bos_token_id = c.eos_token_id = TEST_EOS;
    REQUIRE(test_checkpoint_write_as(dir, &c, DTYPE_F32, 1));
    REQUIRE(daemon_start_at(&d, dir, "--max-batch 1"));
    Answer a;
    char *ids = xmalloc(64 + 4 * CONTEXT), *at = ids;
    at += sprintf(at, "{\"truncate_prompt_tokens\":4,\"max_tokens\":1,\"prompt\":[299");
    for (int i = 1; i < CONTEXT - 1; i++) at += sprintf(at, ",299");
    sprintf(at, "]}");
    a = http_post(&d, "/v1/completions", ids);
    CHECK_MSG(a.status == 200, "ids: %d %s", a.status, a.body);
    for (int over = 0; over < 2; over++) {
        char *text = xcalloc(1, LIMIT + 2);
        memset(text, ' ', (size_t)(LIMIT + over));
        memcpy(text, "{\"max_tokens\":1}", 16);
        a = http_post(&d, "/v1/completions", text);
        CHECK_MSG(a.status == (over ? 413 : 200), "%d: %d %s", over, a.status, a.body);
        CHECK_MSG(!over || strstr(a.body, "longer than the 524288 bytes of --max-body"), "%s", a.body);
        free(text);
    }
    free(ids);
    daemon_stop(&d);
}
