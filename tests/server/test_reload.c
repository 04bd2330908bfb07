/* SIGHUP: another checkpoint takes over while requests run, and bad ones are refused. */
#include "base/clock.h"
#include "base/err.h"
#include "base/memory.h"
#include "tests/support/checkpoints.h"
#include "tests/support/http_client.h"
#include "tests/support/pictures.h"

#include <math.h>
#include <png.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { VERSIONS = 2 };
#define REQUEST "\"prompt\":\"The river\",\"max_tokens\":24,\"seed\":5,\"noise_seed\":6,\"ignore_eos\":true"

/* The folder `live` is a link to one of several. */
typedef struct Site {
    const char *dir;
    char live[300];
    Daemon daemon;
} Site;

static void site_path(const Site *s, char path[300], const char *name) { snprintf(path, 300, "%s/%s", s->dir, name); }

static void shell(const char *fmt, const char *a, const char *b) {
    const char *command = test_text(fmt, a, b);
    CHECK_MSG(system(command) == 0, "%s", command);
}

/* As an operator would: a new link, renamed over the old one. */
static void site_point(Site *s, const char *name) {
    char fresh[300];
    site_path(s, fresh, "fresh");
    CHECK(symlink(name, fresh) == 0 && rename(fresh, s->live) == 0);
}

static bool site_open(Site *s, TestCheckpoint kind, const char *options) {
    char a[300], b[300];
    *s = (Site){.dir = test_dir()};
    site_path(s, s->live, "live");
    site_path(s, a, "a");
    site_path(s, b, "b");
    if (!test_checkpoint_write(a, kind, 1) || !test_checkpoint_write(b, kind, 2)) return false;
    site_point(s, "a");
    return daemon_start_at(&s->daemon, s->live, options);
}

static void site_close(Site *s) { daemon_stop(&s->daemon); }

static int reloads(const Daemon *d, const char *result) {
    const char *series = test_text("noised_reloads_total{result=\"%s\"} ", result);
    Answer a = metrics_now(d);
    const char *at = strstr(a.body, series);
    int n = at ? atoi(at + strlen(series)) : -1;
    return n;
}

static void hang_up(const Daemon *d, const char *result) {
    int before = reloads(d, result);
    kill(d->pid, SIGHUP);
    double t0 = now_seconds();
    while (reloads(d, result) == before && now_seconds() - t0 < PATIENCE) usleep(2000);
    CHECK_MSG(now_seconds() - t0 < PATIENCE, "no reload was %s", result);
}

/* Points to a folder and loads it. */
static void site_swap(Site *s, const char *name, const char *result) {
    site_point(s, name);
    hang_up(&s->daemon, result);
}

/* ---- under load ---- */

/* What one version says: of a completion its text, of a task's route the whole answer. */
typedef struct Expected {
    char *text, *fingerprint;
} Expected;

typedef struct Question {
    const char *path, *body;
    bool is_task, stream;
} Question;

static const Question completion = {.path = "/v1/completions", .body = "{" REQUEST "}"},
                      streamed = {.path = "/v1/completions", .body = "{" REQUEST ",\"stream\":true}", .stream = true};

static Expected expect_of(const Daemon *d, const Question *q) {
    Answer a = http_post(d, q->path, q->body);
    const char *fingerprint = json_text(a.json, "system_fingerprint");
    CHECK_MSG(a.status == 200 && fingerprint, "%s: %d %s", q->path, a.status, a.body);
    Expected e = {xstrdup(q->is_task ? a.body : answer_text(&a, 0)), xstrdup(fingerprint ? fingerprint : "")};
    return e;
}

static Expected expect(const Daemon *d) { return expect_of(d, &completion); }

static void expected_free(Expected *e) {
    free(e->text);
    free(e->fingerprint);
}

typedef struct Client {
    pthread_t thread;
    const Daemon *daemon;
    const Question *question;
    const Expected *expected; /* [VERSIONS] */
    const atomic_bool *stop;
    int seen[VERSIONS], failed;
    char first_failure[512];
} Client;

static void check_one(Client *c) {
    const Question *q = c->question;
    Answer a = http_post(c->daemon, q->path, q->body);
    Events e = events_parse(q->stream ? a.body : "");
    char *text = q->stream ? events_text(&e, 0) : xstrdup(q->is_task ? a.body : answer_text(&a, 0));
    bool right = false;
    for (int v = 0; v < VERSIONS && !right; v++) {
        const char *want = c->expected[v].fingerprint;
        right = a.status == 200 && !strcmp(text, c->expected[v].text) && strstr(a.body, want);
        for (int i = 0; i < e.n; i++) right = right && !strcmp(json_text(e.data[i], "system_fingerprint"), want);
        c->seen[v] += right;
    }
    if (!right && c->failed++ == 0) snprintf(c->first_failure, sizeof c->first_failure, "%d %s", a.status, a.body);
    free(text);
    events_free(&e);
}

static void *run_client(void *arg) {
    Client *c = arg;
    while (!atomic_load(c->stop)) check_one(c);
    return NULL;
}

static void clients_start(Client *clients, const Client *like, int n) {
    for (int i = 0; i < n; i++) {
        clients[i] = *like;
        if (like->question == &completion && i % 2) clients[i].question = &streamed;
        pthread_create(&clients[i].thread, NULL, run_client, &clients[i]);
    }
}

/* After *stop is set. Each was told one version's answer or the other's, whole. */
static void clients_join(Client *clients, int n) {
    int seen[VERSIONS] = {0};
    for (int i = 0; i < n; i++) {
        pthread_join(clients[i].thread, NULL);
        for (int v = 0; v < VERSIONS; v++) seen[v] += clients[i].seen[v];
        CHECK_MSG(clients[i].failed == 0, "%d failed: %s", clients[i].failed, clients[i].first_failure);
    }
    CHECK_MSG(seen[0] > 0 && seen[1] > 0, "%d answers of a, %d of b", seen[0], seen[1]);
}

static long resident_kb(const Daemon *d) {
    FILE *f = fopen(test_text("/proc/%d/statm", (int)d->pid), "r");
    long pages = 0;
    if (f) CHECK(fscanf(f, "%*d %ld", &pages) == 1);
    if (f) fclose(f);
    return pages * (sysconf(_SC_PAGESIZE) / 1024);
}

/* With no client there, once connections and old versions are gone: the fewest of twenty looks. */
static int settled_files(const Daemon *d) {
    int least = daemon_files(d);
    for (int i = 0; i < 20; i++, usleep(10000)) least = MIN(least, daemon_files(d));
    return least;
}

static void check_files(const Daemon *d, int were) {
    int n = daemon_files(d);
    for (double t0 = now_seconds(); n > were && now_seconds() - t0 < PATIENCE; usleep(10000)) n = daemon_files(d);
    CHECK_MSG(n <= were, "%d open files, were %d", n, were);
}

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__) /* memory about memory */
enum { MOST_KB = 1 << 20 };
#else
enum { MOST_KB = 4096 };
#endif

/* RELOADS in the environment: how many (12, in a sanitizer's build 6). */
TEST(reload_under_load) {
    enum { CLIENTS = 3 };
    const char *wanted = getenv("RELOADS");
    int n = wanted ? atoi(wanted) : SANITIZED ? 6 : 12;
    if (wanted) test_takes_long();
    Site s;
    Client clients[CLIENTS];
    Expected expected[VERSIONS];
    atomic_bool stop = false;
    REQUIRE(site_open(&s, CHECKPOINT_SMALL, NULL));
    expected[0] = expect(&s.daemon);
    site_swap(&s, "b", "done");
    expected[1] = expect(&s.daemon);
    CHECK(strcmp(expected[0].text, expected[1].text) && strcmp(expected[0].fingerprint, expected[1].fingerprint));
    int files = settled_files(&s.daemon);
    long kb = 0;
    clients_start(clients, &(Client){.daemon = &s.daemon, .question = &completion, .expected = expected, .stop = &stop},
                  CLIENTS);
    for (int i = 0; i < n; i++) {
        site_swap(&s, i % 2 ? "b" : "a", "done");
        Expected now = expect(&s.daemon);
        CHECK_MSG(!strcmp(now.text, expected[i % 2].text), "reload %d is not in force", i);
        expected_free(&now);
        if (i == n / 2) kb = resident_kb(&s.daemon);
    }
    long more = resident_kb(&s.daemon) - kb;
    atomic_store(&stop, true);
    clients_join(clients, CLIENTS);
    CHECK_MSG(more < MOST_KB, "%ld kB more after %d reloads", more, n / 2);
    check_files(&s.daemon, files);
    for (int v = 0; v < VERSIONS; v++) expected_free(&expected[v]);
    site_close(&s);
}

/* ---- the tasks under load ---- */

static void reload_task(TestCheckpoint kind, const Question *q) {
    enum { CLIENTS = 3, RELOADS = 2 };
    Site s;
    Client clients[CLIENTS];
    Expected expected[VERSIONS];
    atomic_bool stop = false;
    REQUIRE(site_open(&s, kind, NULL));
    expected[0] = expect_of(&s.daemon, q);
    site_swap(&s, "b", "done");
    expected[1] = expect_of(&s.daemon, q);
    CHECK_MSG(strcmp(expected[0].text, expected[1].text), "%s answers as before", q->path);
    clients_start(clients, &(Client){.daemon = &s.daemon, .question = q, .expected = expected, .stop = &stop}, CLIENTS);
    for (int i = 0; i < RELOADS; i++) {
        site_swap(&s, i % 2 ? "b" : "a", "done");
        Expected now = expect_of(&s.daemon, q);
        CHECK_MSG(!strcmp(now.text, expected[i % 2].text), "%s: reload %d is not in force", q->path, i);
        expected_free(&now);
    }
    atomic_store(&stop, true);
    clients_join(clients, CLIENTS);
    for (int v = 0; v < VERSIONS; v++) expected_free(&expected[v]);
    site_close(&s);
}

TEST(reload_tasks_under_load) {
#define SAMPLED ",\"noise_samples\":5,\"noise_seed\":6}"
    static const struct {
        TestCheckpoint kind;
        Question question;
    } tasks[] = {
        {CHECKPOINT_CLASSES, {"/v1/classify", "{\"input\":[\"The river\",\"a word\"]" SAMPLED, .is_task = true}},
        {CHECKPOINT_TAGS, {"/v1/tag", "{\"input\":\"the miller counts the stones\"" SAMPLED, .is_task = true}},
        {CHECKPOINT_MASKS, {"/v1/fill-mask", "{\"input\":[5,7,9,7,11]" SAMPLED, .is_task = true}},
    };
    for (size_t i = 0; i < COUNTOF(tasks); i++) reload_task(tasks[i].kind, &tasks[i].question);
    unsigned char pixels[24];
    for (int i = 0; i < 24; i++) pixels[i] = (unsigned char)(37 * i);
    char *url = test_picture_url(pixels, 6, 4, PNG_FORMAT_GRAY, 0);
    reload_task(CHECKPOINT_IMAGES,
                &(Question){"/v1/classify", test_text("{\"input\":{\"image\":\"%s\"}" SAMPLED, url), .is_task = true});
    free(url);
}

/* ---- a long answer goes on ---- */

/* Whether /metrics says so. */
static bool comes_to(const Daemon *d, const char *series) {
    bool there = false;
    for (double t0 = now_seconds(); !there && now_seconds() - t0 < PATIENCE; usleep(5000)) {
        Answer m = http_get(d, "/metrics");
        there = strstr(m.body, series);
    }
    return there;
}

/* One choice at a time: the answer lasts long enough, however fast the machine is. */
TEST(reload_keeps_running_answers) {
    Site s;
    REQUIRE(site_open(&s, CHECKPOINT_SMALL, "--max-batch 1 --max-n 500 --max-queue 600"));
    Expected a = expect(&s.daemon);
    int fd = raw_completion(&s.daemon, "{\"max_tokens\":500,\"ignore_eos\":true,\"stream\":true,\"n\":500}");
    CHECK(raw_expect(fd, "data: "));
    site_swap(&s, "b", "done");
    Expected b = expect(&s.daemon);
    CHECK(strcmp(a.fingerprint, b.fingerprint));
    CHECK(comes_to(&s.daemon, "\nnoised_running 1\n") && comes_to(&s.daemon, "\nnoised_versions 2\n"));
    free(raw_read(fd, 0.05, NULL)); /* what was on its way */
    char *later = raw_read_until(fd, a.fingerprint);
    CHECK_MSG(strstr(later, a.fingerprint) && !strstr(later, b.fingerprint), "%.1000s", later);
    free(later);
    close(fd);
    CHECK_MSG(comes_to(&s.daemon, "\nnoised_versions 1\n"), "the old version stays");
    expected_free(&a);
    expected_free(&b);
    site_close(&s);
}

/* Nobody waits for one that is on its way, and its thread is left to nobody either: a sanitizer saw it unjoined. */
TEST(reload_beside_the_end) {
    Site s;
    char log[300];
    const char *dir = test_dir();
    snprintf(log, sizeof log, "%s/log", dir);
    daemon_log_to(log);
    bool up = site_open(&s, CHECKPOINT_SMALL, NULL);
    daemon_log_to(NULL);
    REQUIRE(up);
    kill(s.daemon.pid, SIGHUP);
    CHECK(daemon_log_says(log, " again\n", 1) == 1);
    site_close(&s);
}

/* ---- bad ones ---- */

static void flip_byte(const char *path) {
    size_t n;
    char *data = test_read_file(path, &n);
    REQUIRE(data && n > 1000);
    data[n - 1000] ^= 1;
    test_write_file(path, data, n);
    free(data);
}

/* A gain of the final norm that makes logits without end out of every hidden state. */
static void fill_norm(const char *dir, float value) {
    Edit e;
    float gain[64];
    edit_open(&e, dir);
    SafeOut *norm = edit_find(&e, "model.norm.weight");
    BUG_ON(norm->n_dims != 1 || norm->dims[0] > 64);
    for (int i = 0; i < norm->dims[0]; i++) gain[i] = value;
    norm->data = gain;
    edit_save(&e, dir);
}

static void make_bad(const char *dir, int kind) {
    const char *path = test_text("%s/%s", dir, kind < 4 ? "model.safetensors" : "config.json");
    size_t n;
    char *data = test_read_file(path, &n);
    if (kind == 0) test_write_file(path, data, n - 4);
    if (kind == 1) flip_byte(path);
    if (kind == 2) test_write_file(path, "", 0);
    if (kind == 3) CHECK(unlink(path) == 0);
    if (kind == 4) test_write_file(path, data, n / 2);
    if (kind == 5) shell("sed -i 's/\"hidden_size\": *32/\"hidden_size\": 64/' %s%s", path, "");
    if (kind == 6) CHECK(unlink(path) == 0);
    if (kind == 7) shell("echo '{}' > %s/tokenizer.json%s", dir, "");
    if (kind == 8) shell("ln -sf /nowhere/tokenizer.json %s/tokenizer.json%s", dir, "");
    if (kind == 9) shell("rm %s/tokenizer.json%s", dir, "");
    if (kind == 10) fill_norm(dir, NAN);
    if (kind == 11) fill_norm(dir, 3e38f);
    free(data);
}

TEST(reload_refuses_bad_checkpoints) {
    enum { KINDS = 12 };
    Site s;
    char a[300], bad[300];
    REQUIRE(site_open(&s, CHECKPOINT_SMALL, NULL));
    site_path(&s, a, "a");
    Expected before = expect(&s.daemon);
    int files = settled_files(&s.daemon);
    for (int kind = 0; kind < KINDS; kind++) {
        const char *name = test_text("bad%d", kind);
        site_path(&s, bad, name);
        shell("cp -r %s %s", a, bad);
        make_bad(bad, kind);
        site_swap(&s, name, "refused");
    }
    site_swap(&s, "nowhere", "refused");
    Expected after = expect(&s.daemon);
    CHECK(!strcmp(before.text, after.text) && !strcmp(before.fingerprint, after.fingerprint));
    CHECK(reloads(&s.daemon, "refused") == KINDS + 1 && reloads(&s.daemon, "done") == 0);
    check_files(&s.daemon, files);
    Answer health = http_get(&s.daemon, "/health");
    CHECK(health.status == 200);
    expected_free(&before);
    expected_free(&after);
    site_close(&s);
}

/* What no reload lets in is not healthy at the start either. */
TEST(health_of_a_model_without_finite_logits) {
    Daemon d;
    const char *dir = test_dir();
    char *errors;
    REQUIRE(test_checkpoint_write(dir, CHECKPOINT_SMALL, 1));
    fill_norm(dir, 3e38f);
    REQUIRE(daemon_listen_at(&d, dir, NULL));
    Answer health = {0};
    for (double t0 = now_seconds(); now_seconds() - t0 < PATIENCE; usleep(5000)) {
        health = http_get(&d, "/health");
        if (!strstr(health.body, "loading")) break;
    }
    CHECK_MSG(health.status == 503 && strstr(health.body, "\"status\":\"broken\""), "%d %s", health.status,
              health.body);
    daemon_stop(&d);
    fill_norm(dir, NAN);
    int status = daemon_run(test_text("--port 0 --model %s", dir), &errors);
    CHECK_MSG(status == 1 && strstr(errors, "model.norm.weight holds NaN or infinity, first at element 0 of 32"),
              "%d %s", status, errors);
    free(errors);
}
