/* A flood of preflights, and the page open on fifty tabs: what others feel of it. Quiet rounds and crowded ones take
 * turns, so that whatever else the machine does falls on both. */
#include "base/clock.h"
#include "base/err.h"
#include "tests/bench/load_report.h"
#include "tests/soak/soak.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { TABS = 50, STREAMS = 8, TOKENS = 120, ROUNDS = 5, KINDS = 4, PREFLIGHTS = 1000 /* a second */ };

typedef struct Crowd {
    const Daemon *daemon;
    bool (*act)(struct Crowd *c, int i); /* number i; false when the answer is none */
    double per_second;
    int fds[TABS]; /* open all the time */
    atomic_bool over;
    int done, failed;
    pthread_t thread;
} Crowd;

static bool preflight(Crowd *c, int i) {
    static const char text[] = "OPTIONS /v1/completions HTTP/1.1\r\nHost: localhost\r\nOrigin: https://app.example\r\n"
                               "Access-Control-Request-Method: POST\r\n"
                               "Access-Control-Request-Headers: authorization,content-type\r\n\r\n";
    int fd = c->fds[i % TABS];
    return raw_send(fd, text, sizeof text - 1) && raw_expect(fd, "HTTP/1.1 200");
}

/* What the page asks for when it is opened, while all other tabs stay connected. */
static bool open_tab(Crowd *c, int i) {
    static const char *const paths[] = {"/", "/noise", "/v1/models"};
    bool good = true;
    (void)i;
    for (size_t k = 0; k < COUNTOF(paths); k++) {
        Answer a = http_get(c->daemon, paths[k]);
        good &= a.status == 200;
        answer_free(&a);
    }
    return good;
}

static void *crowd(void *arg) {
    Crowd *c = arg;
    double start = now_seconds();
    for (int i = 0; !atomic_load(&c->over); i++) {
        double wait = start + i / c->per_second - now_seconds();
        if (wait > 0) usleep((useconds_t)(1e6 * wait));
        c->failed += !c->act(c, i);
        c->done++;
    }
    return NULL;
}

static void crowd_start(Crowd *c) {
    for (int i = 0; i < TABS; i++) c->fds[i] = raw_connect(c->daemon);
    atomic_store(&c->over, false);
    BUG_ON(pthread_create(&c->thread, NULL, crowd, c));
}

static void crowd_end(Crowd *c) {
    atomic_store(&c->over, true);
    pthread_join(c->thread, NULL);
    for (int i = 0; i < TABS; i++) close(c->fds[i]);
}

/* Milliseconds of the daemon's processor time that one act costs when nobody else asks for anything: what others lose
 * by it at most, on a machine of any load. */
static double cost_of(Crowd *c) {
    enum { SECONDS = 2 };
    int before = c->done;
    double cpu = daemon_cpu_seconds(c->daemon);
    crowd_start(c);
    sleep(SECONDS);
    crowd_end(c);
    return 1e3 * (daemon_cpu_seconds(c->daemon) - cpu) / MAX(c->done - before, 1);
}

/* The streams once, with a crowd or (NULL) without. */
static Figures round_of_streams(const Daemon *d, const KnownSet *known, Crowd *c) {
    KnownRun run;
    if (c) crowd_start(c);
    known_run_start(&run, known, d, STREAMS, STREAMS, true);
    known_run_join(&run);
    if (c) crowd_end(c);
    for (int i = 0; i < STREAMS; i++) CHECK(known_run_is_right(&run, i));
    Figures f = figures_of(run.answers, STREAMS, run.seconds, (Slo){.first = 1e9, .gap = 1e9});
    known_run_free(&run);
    return f;
}

static double median(double *values) { return spread_of(values, ROUNDS).p50; }

static void report(const char *who, const Figures *f) {
    double first[ROUNDS], gap[ROUNDS], worst[ROUNDS], tokens[ROUNDS];
    for (int i = 0; i < ROUNDS; i++) {
        first[i] = f[i].first.p50;
        gap[i] = f[i].gap.p50;
        worst[i] = f[i].gap.p99;
        tokens[i] = f[i].tokens;
    }
    printf("  %-10s %5.0f tokens/s, first text %6.1f ms, gap p50 %6.2f ms, p99 %6.2f ms\n", who, median(tokens),
           1e3 * median(first), 1e3 * median(gap), 1e3 * median(worst));
}

TEST(soak_browsers) {
    Daemon d;
    KnownSet known;
    Figures quiet[ROUNDS], flooded[ROUNDS], tabbed[ROUNDS];
    Crowd flood = {.daemon = &d, .act = preflight, .per_second = PREFLIGHTS},
          tabs = {.daemon = &d, .act = open_tab, .per_second = TABS};
    soak_raise_limits();
    REQUIRE(daemon_start(&d, CHECKPOINT_SLOW, "--threads 1 --cors-origin https://app.example"));
    known_open(&known, &d, KINDS, TOKENS, NULL);
    Vitals before = soak_vitals(&d);
    for (int i = 0; i < ROUNDS; i++) {
        quiet[i] = round_of_streams(&d, &known, NULL);
        flooded[i] = round_of_streams(&d, &known, &flood);
        tabbed[i] = round_of_streams(&d, &known, &tabs);
    }
    printf("  %d streams of %d tokens, medians of %d rounds by turns; %d preflights, %d tabs opened\n", STREAMS, TOKENS,
           ROUNDS, flood.done, tabs.done);
    report("quiet", quiet);
    report("preflights", flooded);
    report("tabs", tabbed);
    printf("  a preflight costs the daemon %.3f ms of processor time, a tab that is opened %.3f ms\n", cost_of(&flood),
           cost_of(&tabs));
    CHECK_MSG(flood.done > 0 && flood.failed == 0, "%d of %d preflights failed", flood.failed, flood.done);
    CHECK_MSG(tabs.done > 0 && tabs.failed == 0, "%d of %d tabs failed", tabs.failed, tabs.done);
    soak_settle(&d, &before);
    known_close(&known);
    daemon_stop(&d);
}
