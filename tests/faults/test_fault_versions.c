/* Whatever call of the system fails while the daemon starts: it ends with a reason, or serves. While it loads again:
 * the reload is refused with a reason, or done; what is asked meanwhile and afterwards has the bytes of one version. */
#include "base/clock.h"
#include "base/log.h"
#include "base/macros.h"
#include "base/memory.h"
#include "tests/faults/house.h"

#include <arpa/inet.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

static const Question question = {"completion", "/v1/completions",
                                  "{\"prompt\":\"The river\",\"seed\":1,\"noise_seed\":2,\"max_tokens\":6}"};

/* ---- the start ---- */

typedef struct Start {
    House house; /* its daemon is not yet there */
    char *good;
    long count[FAULT_CALLS];
    int refused, served;
} Start;

static int free_port(void) {
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    BUG_ON(fd < 0 || bind(fd, (struct sockaddr *)&at, sizeof at) ||
           getsockname(fd, (struct sockaddr *)&at, &(socklen_t){sizeof at}));
    close(fd);
    return ntohs(at.sin_port);
}

/* Told on stdout, and that the model is there in the log; one of them may have been lost. */
static bool is_up(const House *h) {
    char *said = test_read_file(h->log, NULL);
    bool up = said && (strstr(said, "listening on ") || strstr(said, " ready\n"));
    free(said);
    return up;
}

static bool has_ended(House *h, int *status) {
    if (!h->daemon.pid || waitpid(h->daemon.pid, status, WNOHANG) != h->daemon.pid) return false;
    h->daemon.pid = 0;
    return true;
}

static void begin(House *h) {
    const char *build = getenv("BUILD");
    char program[300], port[16];
    unlink(h->log);
    h->daemon.port = free_port();
    snprintf(program, sizeof program, "%s/noised", build ? build : "build");
    snprintf(port, sizeof port, "%d", h->daemon.port);
    fault_over_programs(h->dir);
    h->daemon.pid = fork();
    if (h->daemon.pid == 0) {
        if (!freopen(h->log, "a", stdout) || !freopen(h->log, "a", stderr)) _exit(127);
        execl(program, program, "--model", test_checkpoint(CHECKPOINT_SMALL), "--port", port, "--threads", "2",
              "--allowed-host", "x", NULL);
        _exit(127);
    }
    fault_over_programs(NULL);
}

/* The C library aborts where it cannot load what ends a thread. */
static void check_refusal(const Start *s, int status, FaultCall call, const char *when) {
    char *said = test_read_file(s->house.log, NULL);
    bool theirs = WIFSIGNALED(status) && strstr(said, "libgcc_s.so.1 must be installed");
    bool told = strstr(said, "error: ") || strstr(said, "noised: ") || call == FAULT_WRITE || call == FAULT_FLUSH;
    CHECK_MSG(theirs || (WIFEXITED(status) && WEXITSTATUS(status) == 1), "%s: status %x\n%s", when, status, said);
    CHECK_MSG(theirs || told, "%s: no reason\n%s", when, said);
    free(said);
}

/* The fault stays until the daemon ends or listens. */
static void try_start(Start *s, FaultCall call, FaultMode mode, long nth) {
    House *h = &s->house;
    char when[100];
    int status;
    bool ended = false;
    double until = now_seconds() + FAULT_PATIENCE;
    fault_describe(when, "start", call, mode, nth);
    fault_set(h->fault, call, mode, nth);
    begin(h);
    while (!(ended = has_ended(h, &status)) && !is_up(h) && now_seconds() < until) usleep(2000);
    if (call == FAULT_CALLS) memcpy(s->count, (void *)h->fault->counted, sizeof s->count);
    if (!ended && mode == FAULT_EVER && nth == 1) house_check_rest(h, when);
    fault_rest(h->fault);
    while (!ended && !(ended = has_ended(h, &status)) && !house_is_ready(h) && now_seconds() < until) usleep(2000);
    CHECK_MSG(now_seconds() < until, "%s: neither ends nor serves", when);
    s->refused += ended, s->served += !ended;
    if (ended) return check_refusal(s, status, call, when);
    Heard a = house_answer(h, &question);
    CHECK_MSG(heard_right(&a, s->good), "%s: %d %s", when, a.status, a.said);
    if (!s->good) s->good = xstrdup(a.said);
    free(a.said);
    CHECK_MSG(daemon_stop(&h->daemon) == 0, "%s", when);
}

TEST(faults_under_daemon_start) {
    if (SANITIZED) SKIP("sanitizers interpose the same functions");
    test_takes_long();
    Start s = {.house = {.dir = test_dir()}};
    snprintf(s.house.log, sizeof s.house.log, "%s/log", s.house.dir);
    s.house.fault = fault_file(s.house.dir);
    try_start(&s, FAULT_CALLS, FAULT_ONCE, 0);
    REQUIRE(s.good);
    for (FaultCall call = 0; call < FAULT_CALLS; call++)
        for (FaultMode mode = FAULT_ONCE; mode < FAULT_MODES; mode++)
            for (long n = 1; fault_has_mode(call, mode) && n <= s.count[call] && !test_failures();
                 n = fault_next(n, s.count[call]))
                try_start(&s, call, mode, n);
    printf("  %d starts: %d refused, %d served\n", s.refused + s.served, s.refused, s.served);
    munmap(s.house.fault, sizeof *s.house.fault);
    free(s.good);
}

/* ---- reloads ---- */

/* `live` is a link to a or b. */
typedef struct Site {
    House house;
    const char *dir;
    char *good[2]; /* what each of them answers */
    int now;       /* the one that serves */
    double due;    /* when the next reload may be */
    long count[FAULT_CALLS];
    int refused, done;
} Site;

static void point_to(const Site *s, int version) {
    CHECK(system(test_text("ln -s %s %s/fresh && mv -T %s/fresh %s/live", version ? "b" : "a", s->dir, s->dir,
                           s->dir)) == 0);
}

static bool serves(const Site *s, int version) {
    Heard a = house_answer(&s->house, &question);
    bool right = heard_right(&a, s->good[version]);
    free(a.said);
    return right;
}

/* The log tells of the end, unless it is what fails: then the answers do. */
static bool has_loaded(const Site *s, FaultCall call) {
    char *said = test_read_file(s->house.log, NULL);
    bool told = strstr(said, "new requests are served with") || strstr(said, "the reload is refused");
    free(said);
    return told || ((call == FAULT_WRITE || call == FAULT_FLUSH) && serves(s, !s->now));
}

/* Lines of one kind that come too fast for the log are left out: LOG_RATE a second after a burst. */
static void keep_pace(Site *s) {
    s->due = MAX(s->due + 1.0 / LOG_RATE, now_seconds() - 0.5 * LOG_BURST / LOG_RATE);
    while (now_seconds() < s->due) usleep(10000);
}

static void load_other(Site *s, FaultCall call, const char *when) {
    double until = now_seconds() + FAULT_PATIENCE;
    CHECK(truncate(s->house.log, 0) == 0);
    kill(s->house.daemon.pid, SIGHUP);
    while (!has_loaded(s, call) && now_seconds() < until) usleep(5000);
    if (now_seconds() >= until) house_fail(&s->house, when, "the reload does not end");
}

static void try_reload(Site *s, FaultCall call, FaultMode mode, long nth) {
    House *h = &s->house;
    char when[100];
    fault_describe(when, "reload", call, mode, nth);
    keep_pace(s);
    point_to(s, !s->now);
    fault_set(h->fault, call, mode, nth);
    load_other(s, call, when);
    if (call == FAULT_CALLS) memcpy(s->count, (void *)h->fault->counted, sizeof s->count);
    if (mode == FAULT_EVER && nth == 1) house_check_rest(h, when);
    fault_rest(h->fault);
    bool refused = serves(s, s->now);
    if (!refused && !serves(s, !s->now)) house_fail(h, when, "neither version answers");
    s->refused += refused, s->done += !refused;
    if (refused) load_other(s, FAULT_CALLS, when);
    if (!serves(s, !s->now)) house_fail(h, when, "without a fault the version before serves");
    s->now = !s->now;
    house_check_files(h, when);
}

static bool site_open(Site *s) {
    *s = (Site){.dir = test_dir()};
    const char *live = test_text("%s/live", s->dir);
    for (int i = 0; i < 2; i++) {
        if (!test_checkpoint_write(test_text("%s/%s", s->dir, i ? "b" : "a"), CHECKPOINT_SMALL, (uint64_t)i + 1))
            return false;
    }
    point_to(s, 0);
    if (!house_open(&s->house, live, "--threads 2")) return false;
    for (int i = 0; i < 2; i++) {
        Heard a = house_answer(&s->house, &question);
        CHECK(heard_right(&a, NULL));
        s->good[i] = a.said;
        s->now = i;
        point_to(s, !i);
        load_other(s, FAULT_CALLS, "undisturbed");
    }
    s->now = 0;
    return strcmp(s->good[0], s->good[1]) != 0;
}

TEST(faults_under_reload) {
    if (SANITIZED) SKIP("sanitizers interpose the same functions");
    test_takes_long();
    Site s;
    REQUIRE(site_open(&s));
    try_reload(&s, FAULT_CALLS, FAULT_ONCE, 0);
    for (FaultCall call = 0; call < FAULT_LISTEN; call++)
        for (FaultMode mode = FAULT_ONCE; mode < FAULT_MODES; mode++)
            for (long n = 1; fault_has_mode(call, mode) && n <= s.count[call] && !test_failures();
                 n = fault_next(n, s.count[call]))
                try_reload(&s, call, mode, n);
    printf("  %d reloads: %d refused, %d done\n", s.refused + s.done, s.refused, s.done);
    house_close(&s.house);
    for (int i = 0; i < 2; i++) free(s.good[i]);
}

/* What a reload waits for, the end does not. */
TEST(faults_stop_beside_a_reload_that_hangs) {
    if (SANITIZED) SKIP("sanitizers interpose the same functions");
    House h;
    const char *dir = test_dir();
    REQUIRE(test_checkpoint_write(dir, CHECKPOINT_SMALL, 1) && house_open(&h, dir, NULL));
    fault_set(h.fault, FAULT_READ, FAULT_HANGS, 1);
    kill(h.daemon.pid, SIGHUP);
    for (double until = now_seconds() + FAULT_PATIENCE; !h.fault->counted[FAULT_READ] && now_seconds() < until;)
        usleep(5000);
    CHECK(h.fault->counted[FAULT_READ] == 1);
    house_close(&h);
}

/* ---- what goes on by itself ---- */

/* Weights are read again now and then, and when somebody has touched their file, whether there is memory or not. */
TEST(faults_under_scrub) {
    if (SANITIZED) SKIP("sanitizers interpose the same functions");
    House h;
    const char *dir = test_dir();
    REQUIRE(test_checkpoint_write(dir, CHECKPOINT_SMALL, 1) && house_open(&h, dir, "--scrub-seconds 0.01"));
    Heard good = house_answer(&h, &question);
    const char *path = test_text("%s/model.safetensors", dir);
    fault_set(h.fault, FAULT_MALLOC, FAULT_EVER, 1);
    CHECK(chmod(path, 0600) == 0);
    for (double until = now_seconds() + 1.5; now_seconds() < until && kill(h.daemon.pid, 0) == 0;) usleep(10000);
    fault_rest(h.fault);
    Heard a = house_answer(&h, &question);
    if (!heard_right(&a, good.said)) house_fail(&h, "malloc for ever", a.said);
    free(good.said);
    free(a.said);
    house_close(&h);
}
