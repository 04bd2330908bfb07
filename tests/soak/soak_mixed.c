/* Everything at once for a long time: streams, plain answers, chats and classifications that must stay right while
 * others hang up, send nonsense and take more than is theirs, and while the machine reloads, replaces files, changes
 * keys, sets its clock, takes memory away and does not read the log. Nothing may grow. */
#include "base/clock.h"
#include "base/err.h"
#include "base/memory.h"
#include "tests/soak/soak_world.h"

#include <fcntl.h>
#include <math.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { KINDS = 40, TOKENS = 60, REQUESTS = 200, ACTS = 100, DAEMONS = 2, VERSIONS = 2, QUESTIONS = 4 };
enum { TEXTS, CLASSES }; /* the daemons */

static const char *const nonsense[] = {"{\"prompt\":[[]]}", "{\"max_tokens\":-2}", "{\"n\":1000000}",
                                       "[[[[[[[[[[",        "{\"stop\":\"\"}",     "{\"seed\":1e99}",
                                       "\xFF\xFE",          "{\"unknown\":1}"};

#define SEEDED "\"seed\":3,\"noise_seed\":4"
#define TURN "\"messages\":[{\"role\":\"user\",\"content\":\"Where is the mill?\"}],\"max_tokens\":20," SEEDED
static const struct {
    int daemon;
    const char *path, *body, *said;
} questions[QUESTIONS] = {
    {TEXTS, "/v1/chat/completions", "{" TURN "}", "choices"},
    {TEXTS, "/v1/completions", "{\"prompt\":\"The river\",\"n\":3,\"max_tokens\":20," SEEDED "}", "choices"},
    {CLASSES, "/v1/classify", "{\"input\":[\"The mill\",\"The river runs\"],\"noise_seed\":3}", "data"},
    {CLASSES, "/v1/classify", "{\"input\":\"The mill\",\"noise_seed\":9,\"noise_samples\":5}", "data"},
};

typedef struct Soak {
    const char *dir;
    char keys[256];
    char key[64], header[80]; /* the one that clients have now */
    Site sites[DAEMONS];
    KnownSet known[VERSIONS];
    char *said[QUESTIONS][VERSIONS];
    LogReader log;
    Pressure pressure;
    Clock clock;
    int64_t answers, wrong;
    int round, hang_ups, refused, limited, full, too_long, rotations;
} Soak;

/* ---- keys ---- */

/* Those of this round and of the one before, and of two who take all there is: of requests a minute, and of the queue.
 */
static void write_keys(Soak *s) {
    char text[256];
    int n = snprintf(text, sizeof text, "key-of-round-%d\nkey-of-round-%d\nkey-of-greed\nkey-of-crowd\n", s->round - 1,
                     s->round);
    test_write_file(s->keys, text, (size_t)n);
    chmod(s->keys, 0600);
}

static void have_key(Soak *s, int round) {
    snprintf(s->key, sizeof s->key, "key-of-round-%d", round);
    snprintf(s->header, sizeof s->header, "X-Api-Key: %s", s->key);
    for (int v = 0; v < VERSIONS; v++) s->known[v].key = s->key;
}

static int status_of(const Daemon *d, const char *path, const char *header, const char *body) {
    Answer a = http_request(d, NULL, path, header, body);
    int status = a.status;
    answer_free(&a);
    return status;
}

static void check_old_key(Soak *s) {
    char header[80];
    snprintf(header, sizeof header, "X-Api-Key: key-of-round-%d", s->round - 2);
    for (int i = 0; i < DAEMONS; i++) {
        int status = status_of(&s->sites[i].daemon, "/v1/models", header, NULL);
        CHECK_MSG(status == 401, "a key of two rounds ago: %d", status);
        s->rotations += status == 401;
    }
}

/* ---- versions ---- */

/* What was answered, and by which checkpoint. */
static char *ask(const Soak *s, int q) {
    Answer a =
        http_request(&s->sites[questions[q].daemon].daemon, NULL, questions[q].path, s->header, questions[q].body);
    char *said = json_raw(a.json, questions[q].said), *text = xcalloc(1, strlen(a.body) + 256);
    const char *fingerprint = json_text(a.json, "system_fingerprint");
    sprintf(text, "%d %s %s", a.status, fingerprint ? fingerprint : a.body, said ? said : "");
    free(said);
    answer_free(&a);
    return text;
}

static bool is_said(const Soak *s, int q, int version) {
    char *text = ask(s, q);
    bool same = !strcmp(text, s->said[q][version]);
    free(text);
    return same;
}

static void reload(Soak *s) {
    for (int i = 0; i < DAEMONS; i++) {
        site_point(&s->sites[i], !s->sites[i].at);
        kill(s->sites[i].daemon.pid, SIGHUP);
    }
}

/* Until both serve what they were pointed to. */
static void wait_for_versions(Soak *s) {
    static const int first[DAEMONS] = {0, 2};
    for (int i = 0; i < DAEMONS; i++) {
        double until = now_seconds() + 10;
        while (!is_said(s, first[i], s->sites[i].at) && now_seconds() < until) usleep(20000);
        CHECK_MSG(now_seconds() < until, "daemon %d does not get to version %d", i, s->sites[i].at);
    }
}

/* Asks everything of both checkpoints. */
static void learn(Soak *s) {
    for (int v = 0; v < VERSIONS; v++) {
        for (int q = 0; q < QUESTIONS; q++) s->said[q][v] = ask(s, q);
        known_open(&s->known[v], &s->sites[TEXTS].daemon, KINDS, TOKENS, s->key);
        if (v == 1) break;
        reload(s);
        for (int i = 0, q = 0; i < DAEMONS; i++, q = 2)
            for (double until = now_seconds() + 30; is_said(s, q, 0) && now_seconds() < until;) usleep(20000);
    }
    for (int q = 0; q < QUESTIONS; q++)
        CHECK_MSG(!strncmp(s->said[q][0], "200 ", 4) && strcmp(s->said[q][0], s->said[q][1]), "%s", s->said[q][0]);
    for (int v = 0; v < VERSIONS; v++) s->known[v].other = &s->known[!v];
}

/* ---- who takes too much ---- */

static void be_greedy(Soak *s) {
    enum { BURST = 1000 }; /* more than a minute's worth */
    static const char request[] = "POST /tokenize HTTP/1.1\r\nHost: x\r\nX-Api-Key: key-of-greed\r\n"
                                  "Content-Length: 14\r\n\r\n{\"prompt\":\"a\"}";
    const Daemon *d = &s->sites[TEXTS].daemon;
    int fd = raw_connect(d), served = 0, limited = 0;
    for (int i = 0; i < BURST; i++) {
        raw_send(fd, request, sizeof request - 1);
        char *text = raw_read_until(fd, "}");
        served += strstr(text, " 200 OK") != NULL;
        limited += strstr(text, " 429 ") && strstr(text, "Retry-After: ") && strstr(text, "x-ratelimit-remaining-");
        free(text);
    }
    close(fd);
    CHECK_MSG(served + limited == BURST, "%d served and %d limited of %d", served, limited, BURST);
    s->limited += limited;
}

/* All places of the queue, twice; who has less waiting gets its places nevertheless. */
static void fill_queue(Soak *s) {
    static const char body[] = "{\"prompt\":[\"a\",\"b\",\"c\",\"d\"],\"n\":64,\"max_tokens\":50}";
    static const char crowd[] = "X-Api-Key: key-of-crowd";
    const Daemon *d = &s->sites[TEXTS].daemon;
    char text[512];
    int fd = raw_connect(d);
    snprintf(text, sizeof text, "POST /v1/completions HTTP/1.1\r\nHost: x\r\n%s\r\nContent-Length: %zu\r\n\r\n%s",
             crowd, sizeof body - 1, body);
    raw_send(fd, text, strlen(text));
    int status = status_of(d, "/v1/completions", crowd, body);
    CHECK_MSG(status == 200 || status == 429, "%d", status);
    s->full += status == 429;
    close(fd);
}

static void send_too_much(Soak *s) {
    enum { BYTES = 300000 };
    char *body = xcalloc(1, BYTES + 1);
    memset(body, ' ', BYTES);
    int status = status_of(&s->sites[TEXTS].daemon, "/v1/completions", s->header, body);
    CHECK_MSG(status == 413, "%d", status);
    s->too_long += status == 413;
    free(body);
}

/* ---- a round ---- */

/* Copies of what a log was are taken away under the daemon that writes it, as logrotate's copytruncate does. */
static void rotate_log(const char *path) {
    char first = 0;
    int fd = open(path, O_RDWR | O_CLOEXEC);
    CHECK(fd >= 0 && read(fd, &first, 1) == 1 && first != 0 && ftruncate(fd, 0) == 0);
    close(fd);
}

static void act(Soak *s, HangUps *h, int i) {
    const Daemon *d = &s->sites[TEXTS].daemon;
    hang_ups_next(h);
    if (i % 10 == 0) {
        const char *body = nonsense[(i / 10 + s->round) % (int)COUNTOF(nonsense)];
        int status = status_of(d, "/v1/completions", s->header, body);
        CHECK_MSG(status == 400, "%d for %s", status, body);
        s->refused++;
    }
    if (i % 5 == 1) {
        int q = i / 5 % QUESTIONS;
        char *text = ask(s, q);
        bool right = !strcmp(text, s->said[q][0]) || !strcmp(text, s->said[q][1]);
        CHECK_MSG(right, "round %d, %s: %.300s", s->round, questions[q].path, text);
        s->answers++;
        s->wrong += !right;
        free(text);
    }
    if (i == 15) be_greedy(s);
    if (i == 95) fill_queue(s);
    if (i == 25) clock_jump(&s->clock, s->round);
    if (i == 35) write_keys(s), reload(s);
    if (i == 55) send_too_much(s);
    if (i == 65) pressure_round(&s->pressure);
    if (i == 75) site_replace(&s->sites[s->round % DAEMONS]);
}

static void do_round(Soak *s) {
    KnownRun run;
    HangUps h;
    hang_ups_open(&h, &s->sites[TEXTS].daemon, (uint64_t)s->round, s->key);
    known_run_start(&run, &s->known[0], &s->sites[TEXTS].daemon, REQUESTS, 16, false);
    for (int i = 0; i < ACTS; i++, usleep(3000)) act(s, &h, i);
    known_run_join(&run);
    hang_ups_close(&h);
    s->hang_ups += h.n;
    for (int i = 0; i < REQUESTS; i++) {
        bool right = known_run_is_right(&run, i);
        CHECK_MSG(right, "round %d, request %d: status %d, %.300s", s->round, i, run.answers[i].status,
                  run.answers[i].body);
        s->wrong += !right;
    }
    s->answers += REQUESTS;
    known_run_free(&run);
    wait_for_versions(s);
    if (s->round > 2) check_old_key(s);
}

/* ---- from start to end ---- */

static bool start(Soak *s) {
    char options[512], second[256];
    s->dir = test_dir();
    s->round = 1;
    snprintf(s->keys, sizeof s->keys, "%s/keys", s->dir);
    snprintf(second, sizeof second, "%s/second-log", s->dir);
    snprintf(options, sizeof options,
             "--api-key-file %s --access-log --max-batch 64 --threads 2 --chat-template plain --requests-per-minute "
             "900 --scrub-seconds 5",
             s->keys);
    write_keys(s);
    have_key(s, 0);
    log_reader_start(&s->log, s->dir);
    if (!pressure_open(&s->pressure, s->dir)) printf("  no control group can be made here: nobody takes memory away\n");
    clock_open(&s->clock, s->dir);
    if (!*s->clock.path) printf("  libfaketime is not installed: the clock is not set\n");
    daemon_log_to(s->log.path);
    bool up = site_open(&s->sites[TEXTS], CHECKPOINT_SMALL, options);
    daemon_log_to(second);
    up = up && site_open(&s->sites[CLASSES], CHECKPOINT_CLASSES, options);
    daemon_log_to(NULL);
    clock_close();
    return up;
}

static double own_memory(const Vitals *v) { return v->own_mb; }
static double descriptors(const Vitals *v) { return v->fds; }
static double threads(const Vitals *v) { return v->threads; }

/* From a fifth of the time on: until then arenas and caches get as large as they have to be. */
static void report_trends(const char *who, const Sample *samples, int n) {
    static const struct {
        const char *what;
        double (*of)(const Vitals *v);
        double most; /* growth over the whole run that is none: allocators take memory in steps of megabytes */
    } rows[] = {{"MB of its own", own_memory, 8}, {"descriptors", descriptors, 0.5}, {"threads", threads, 0.5}};
    const Sample *from = samples + n / 5;
    int used = n - n / 5;
    double hours = samples[n - 1].hours - from->hours;
    for (size_t i = 0; i < COUNTOF(rows); i++) {
        Trend t = trend_of(from, used, rows[i].of);
        printf("  | %s: %s | %.2f, %+.3f ± %.3f an hour |\n", who, rows[i].what, t.mean, t.slope, t.interval);
        CHECK_MSG((t.slope - t.interval) * hours < rows[i].most, "%s: %s grow by %.3f ± %.3f an hour", who,
                  rows[i].what, t.slope, t.interval);
    }
}

static void report(const Soak *s, double seconds, int64_t lost, const Sample *const samples[DAEMONS], int n) {
    printf("  | what | in %.0f s, %d rounds |\n  |---|---|\n", seconds, s->round - 1);
    printf("  | answers compared, wrong | %lld, %lld |\n", (long long)s->answers, (long long)s->wrong);
    printf("  | clients that hung up, nonsense refused, bodies too long | %d, %d, %d |\n", s->hang_ups, s->refused,
           s->too_long);
    printf("  | 429 by the key's quota, by the queue | %d, %d |\n", s->limited, s->full);
    printf("  | reloads of another checkpoint, files replaced, keys retired | %d, %d, %d |\n", DAEMONS * (s->round - 1),
           s->sites[0].replaced + s->sites[1].replaced, s->rotations);
    printf("  | log: lines read, lost while it stalled, stalls, rotations | %lld, %lld, %d, %d |\n",
           (long long)s->log.lines, (long long)lost, s->log.stalls, s->round - 1);
    printf("  | clock set, memory taken (group of %.0f MB) | %d, %d times |\n", s->pressure.limit_mb, s->clock.jumps,
           s->pressure.rounds);
    report_trends("completions and chats", samples[TEXTS], n);
    report_trends("classes", samples[CLASSES], n);
}

static int64_t lost_lines(const Soak *s) {
    sleep(2); /* what /metrics told last is too old then */
    Answer a = http_request(&s->sites[TEXTS].daemon, NULL, "/metrics", s->header, NULL);
    const char *at = strstr(a.body, "\nnoised_log_lost_lines_total ");
    int64_t n = at ? atoll(strchr(at + 1, ' ')) : -1;
    answer_free(&a);
    return n;
}

TEST(soak_mixed) {
    enum { SPARE_MB = 96 };
    double start_at, reported, seconds = soak_seconds();
    static Soak s;
    Sample *samples[DAEMONS] = {0};
    Vitals before[DAEMONS];
    int n = 0;
    char second[300];
    soak_raise_limits();
    REQUIRE(start(&s));
    pressure_leave(&s.pressure, SPARE_MB);
    learn(&s);
    snprintf(second, sizeof second, "%s/second-log", s.dir);
    for (int i = 0; i < DAEMONS; i++) before[i] = soak_vitals(&s.sites[i].daemon);
    start_at = reported = now_seconds();
    for (; now_seconds() < start_at + seconds || n < 4; n++) {
        have_key(&s, s.round++);
        do_round(&s);
        rotate_log(second);
        for (int i = 0; i < DAEMONS; i++) {
            soak_settle(&s.sites[i].daemon, &before[i]);
            samples[i] = xrealloc(samples[i], (size_t)(n + 1) * sizeof(Sample));
            samples[i][n] = (Sample){(now_seconds() - start_at) / 3600, soak_vitals(&s.sites[i].daemon)};
        }
        if (now_seconds() - reported < 60) continue;
        reported = now_seconds();
        printf("  %.0f s: %lld answers, %lld wrong, %d hang-ups, %.1f and %.1f MB of their own\n", reported - start_at,
               (long long)s.answers, (long long)s.wrong, s.hang_ups, samples[0][n].vitals.own_mb,
               samples[1][n].vitals.own_mb);
        fflush(stdout);
    }
    int64_t lost = lost_lines(&s);
    for (int i = 0; i < DAEMONS; i++) site_close(&s.sites[i]);
    log_reader_end(&s.log);
    pressure_close(&s.pressure);
    report(&s, now_seconds() - start_at, lost, (const Sample *const *)samples, n);
    CHECK(s.limited > 0);
    for (int i = 0; i < DAEMONS; i++) free(samples[i]);
    for (int v = 0; v < VERSIONS; v++) known_close(&s.known[v]);
    for (int q = 0; q < QUESTIONS * VERSIONS; q++) free(s.said[q / VERSIONS][q % VERSIONS]);
}
