/* Checkpoint files that are cut short or written to while they are mapped. */
#include "base/clock.h"
#include "base/err.h"
#include "base/memory.h"
#include "tests/support/http_client.h"
#include "weights/map_guard.h"

#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

/* ---- the module ---- */

typedef struct Map {
    char path[300];
    char *data;
    size_t n;
    MapGuard guard;
} Map;

static bool map_open(Map *m, const char *dir, const char *name, size_t n) {
    Err err;
    snprintf(m->path, sizeof m->path, "%s/%s", dir, name);
    char *text = xcalloc(1, n);
    memset(text, 'x', n);
    test_write_file(m->path, text, n);
    free(text);
    int fd = open(m->path, O_RDONLY | O_CLOEXEC);
    m->n = n;
    m->data = mmap(NULL, n, PROT_READ, MAP_SHARED, fd, 0);
    if (m->data != MAP_FAILED && map_guard_open(&m->guard, m->data, n, fd, &err) == 0) return true;
    test_fail(__FILE__, __LINE__, "no map of %s", m->path);
    return false;
}

static void map_close(Map *m) {
    map_guard_close(&m->guard);
    map_guard_close(&m->guard);
    munmap(m->data, m->n);
}

static int sum_of(const volatile char *data, size_t n) {
    int sum = 0;
    for (size_t i = 0; i < n; i += 512) sum += data[i];
    return sum;
}

static MapState look(const Map *m) {
    int64_t changed;
    return map_guard_look(&m->guard, &changed);
}

TEST(map_guard) {
    enum { BYTES = 100000 };
    Map cut, written, other;
    Err err;
    const char *dir = test_dir();
    struct sigaction before;
    sigaction(SIGBUS, NULL, &before);
    REQUIRE(map_guard_install(&err) == 0);
    REQUIRE(map_open(&cut, dir, "cut", BYTES) && map_open(&written, dir, "written", BYTES) &&
            map_open(&other, dir, "other", BYTES));
    CHECK(look(&cut) == MAP_INTACT && look(&written) == MAP_INTACT);
    CHECK(sum_of(cut.data, BYTES) == 'x' * ((BYTES + 511) / 512));

    CHECK(truncate(cut.path, 5000) == 0);
    CHECK(look(&cut) == MAP_DAMAGED); /* before anybody touched it */
    CHECK(sum_of(cut.data + 8192, BYTES - 8192) == 0);
    CHECK(truncate(cut.path, BYTES) == 0);
    CHECK(look(&cut) == MAP_DAMAGED);

    usleep(20000); /* times of files may be as coarse as the kernel's tick */
    int fd = open(written.path, O_WRONLY);
    CHECK(fd >= 0 && pwrite(fd, "y", 1, 77777) == 1);
    close(fd);
    CHECK(look(&written) == MAP_DAMAGED);

    int64_t changed;
    CHECK(chmod(other.path, 0600) == 0 && look(&other) == MAP_TOUCHED && look(&other) == MAP_TOUCHED);
    CHECK(map_guard_look(&other.guard, &changed) == MAP_TOUCHED);
    map_guard_accept(&other.guard, changed);
    CHECK(look(&other) == MAP_INTACT);
    CHECK(unlink(other.path) == 0 && look(&other) == MAP_INTACT);
    CHECK(sum_of(other.data, BYTES) == 'x' * ((BYTES + 511) / 512));
    usleep(20000);
    CHECK(fchmod(other.guard.fd, 0644) == 0 && look(&other) == MAP_TOUCHED); /* the name has gone already */
    map_guard_condemn(&other.guard);
    CHECK(look(&other) == MAP_DAMAGED);
    map_close(&cut);
    map_close(&written);
    map_close(&other);
    sigaction(SIGBUS, &before, NULL);
}

/* From its first byte on, and whoever had the place in the table before. */
TEST(map_guard_of_an_emptied_file) {
    enum { BYTES = 10000 };
    Map small, m;
    Err err;
    const char *dir = test_dir();
    struct sigaction before;
    sigaction(SIGBUS, NULL, &before);
    REQUIRE(map_guard_install(&err) == 0);
    REQUIRE(map_open(&small, dir, "small", 1));
    map_close(&small);
    REQUIRE(map_open(&m, dir, "emptied", BYTES) && truncate(m.path, 0) == 0);
    CHECK(sum_of(m.data, BYTES) == 0 && look(&m) == MAP_DAMAGED);
    map_close(&m);
    sigaction(SIGBUS, &before, NULL);
}

/* ---- the daemon ---- */

typedef enum Damage { CUT_TO_NOTHING, CUT_IN_THE_MIDDLE, OVERWRITTEN } Damage;
typedef enum Moment { WHEN_IDLE, IN_PREFILL, IN_DECODE } Moment;

typedef struct FaultCase {
    Damage damage;
    Moment moment;
} FaultCase;

static const FaultCase fault_cases[] = {
    {CUT_TO_NOTHING, WHEN_IDLE}, {CUT_IN_THE_MIDDLE, IN_PREFILL}, {OVERWRITTEN, IN_PREFILL},
    {CUT_TO_NOTHING, IN_DECODE}, {CUT_IN_THE_MIDDLE, IN_DECODE},  {OVERWRITTEN, IN_DECODE},
};

/* Of the checkpoint in a folder. */
static void damage(const char *dir, Damage how) {
    char zeros[4096] = {0};
    int fd = open(test_text("%s/model.safetensors", dir), O_WRONLY);
    off_t size = lseek(fd, 0, SEEK_END);
    bool done = how == OVERWRITTEN ? pwrite(fd, zeros, sizeof zeros, size / 2) == sizeof zeros
                                   : ftruncate(fd, how == CUT_TO_NOTHING ? 0 : size / 2) == 0;
    CHECK(fd >= 0 && done);
    close(fd);
}

static bool wait_health(const Daemon *d, int status) {
    for (double t0 = now_seconds(); now_seconds() - t0 < PATIENCE; usleep(5000)) {
        Answer a = http_get(d, "/health");
        bool there = a.status == status;
        if (there) return true;
    }
    return false;
}

static bool is_well(const Daemon *d) {
    Answer a = http_get(d, "/health");
    bool well = a.status == 200;
    return well;
}

/* As an operator should: written beside it, renamed over it, loaded. */
static void repair(const Daemon *d, const char *dir) {
    CHECK(system(test_text("cp %s/model.safetensors %s/fresh && mv %s/fresh %s/model.safetensors",
                           test_checkpoint(CHECKPOINT_SMALL), dir, dir, dir)) == 0);
    kill(d->pid, SIGHUP);
    CHECK_MSG(wait_health(d, 200), "not healthy after the reload");
}

/* Lasts long enough, however fast the machine is: the daemon computes one choice at a time. */
#define DECODE                                                                                                         \
    "\"prompt\":\"The river\",\"max_tokens\":480,\"ignore_eos\":true,\"stream\":true,\"seed\":1,\"noise_seed\":1"

/* HTTP/1.0, whose answers are not cut into chunks. */
static int start(const Daemon *d, const char *body) {
    const char *head = test_text("POST /v1/completions HTTP/1.0\r\nContent-Length: %zu\r\n\r\n", strlen(body));
    int fd = raw_connect(d);
    CHECK(raw_send(fd, head, strlen(head)) && raw_send(fd, body, strlen(body)));
    return fd;
}

/* 30 prompts of 500 tokens that share no beginning, for one token each; a brief body (workers.h). */
static int start_prefill(const Daemon *d) {
    enum { PROMPTS = 30, TOKENS = 500 };
    char *body = xcalloc(1, PROMPTS * TOKENS * 4 + 1024), *p = body;
    p += sprintf(p, "{\"max_tokens\":1,\"stream\":true,\"prompt\":[");
    for (int i = 0; i < PROMPTS; i++) {
        p += sprintf(p, "%s[%d", i ? "," : "", 1 + i);
        for (int k = 1; k < TOKENS; k++) p += sprintf(p, ",%d", 1 + k % 9);
        p += sprintf(p, "]");
    }
    sprintf(p, "]}");
    int fd = start(d, body);
    free(body);
    return fd;
}

/* The text of choice 0 in the events. */
static char *text_of(const char *stream) {
    char *text = xcalloc(1, strlen(stream) + 1), *end = text;
    for (const char *p = stream; (p = strstr(p, "data: {\"id\"")) != NULL; p++) {
        char *line = strndup(p + 6, strcspn(p + 6, "\n"));
        for (char *zero = line; (zero = strstr(zero, "\\u0000")) != NULL;)
            memcpy(zero, "\\u2400", 6); /* cut by cJSON */
        cJSON *json = cJSON_Parse(line);
        const char *piece = json_text(json, "choices.0.text");
        if (piece && json_number(json, "choices.0.index") == 0) end += sprintf(end, "%s", piece);
        cJSON_Delete(json);
        free(line);
    }
    return text;
}

/* Ends with the error; what came before is the beginning of what comes when nothing is damaged. */
static void check_stream(const char *stream, const char *whole, const char *what) {
    const char *error = strstr(stream, "data: {\"error\":{"), *done = strstr(stream, "data: [DONE]\n\n");
    CHECK_MSG(error && done && error < done && strstr(error, "checkpoint_damaged"), "%s: ...%s", what,
              stream + strlen(stream) - MIN(strlen(stream), 300));
    char *text = text_of(stream);
    CHECK_MSG(!whole || (*text && !strncmp(text, whole, strlen(text))), "%s: \"%s\" of \"%s\"", what, text, whole);
    free(text);
}

/* The file is damaged while the daemon stands still, or on a busy machine its answer might be whole by then. False when
 * it was whole before the daemon stood. */
static bool damage_at_rest(const Daemon *d, const FaultCase *c, const char *dir, int fd, char **came) {
    CHECK(kill(d->pid, SIGSTOP) == 0 && waitpid(d->pid, NULL, WUNTRACED) == d->pid);
    *came = raw_read(fd, 0.02, NULL);
    bool in_time = strstr(*came, "[DONE]") == NULL;
    if (in_time) damage(dir, c->damage);
    CHECK(kill(d->pid, SIGCONT) == 0);
    return in_time;
}

/* False when the answer was too quick: sent before the daemon stood, or computed by then. */
static bool check_answer(const Daemon *d, const FaultCase *c, const char *dir, const char *whole, const char *what) {
    int fd = c->moment == IN_PREFILL ? start_prefill(d) : start(d, "{" DECODE ",\"n\":64}");
    char *begin = raw_read_until(fd, "]}\n\n"), *came;
    bool in_time = damage_at_rest(d, c, dir, fd, &came);
    char *rest = in_time ? raw_read_until(fd, "[DONE]") : strdup("");
    char *stream = xmalloc(strlen(begin) + strlen(came) + strlen(rest) + 1);
    sprintf(stream, "%s%s%s", begin, came, rest);
    if (in_time && !strstr(stream, "data: {\"error\":{")) {
        in_time = false;
        repair(d, dir);
    }
    if (in_time) check_stream(stream, c->moment == IN_DECODE ? whole : NULL, what);
    free(stream);
    free(begin);
    free(came);
    free(rest);
    close(fd);
    return in_time;
}

static void run_case(const Daemon *d, const char *dir, const FaultCase *c, const char *whole) {
    const char *what = test_text("damage %d, moment %d", (int)c->damage, (int)c->moment);
    bool in_time = c->moment == WHEN_IDLE;
    if (in_time) damage(dir, c->damage);
    for (int tries = 0; !in_time && tries < 5; tries++) in_time = check_answer(d, c, dir, whole, what);
    CHECK_MSG(in_time, "%s: the answer was whole five times", what);
    CHECK_MSG(wait_health(d, 503), "%s: /health stays green", what);
    Answer a = http_post(d, "/v1/completions", "{\"max_tokens\":1}");
    answer_check_error(&a, 503, "", what);
    repair(d, dir);
    a = http_post(d, "/v1/completions", "{\"max_tokens\":1}");
    CHECK_MSG(a.status == 200, "%s: %d %s after the repair", what, a.status, a.body);
}

TEST(map_fault_ends_answers_not_the_daemon) {
    Daemon d;
    const char *parent = test_dir();
    const char *dir = test_text("%s/served", parent);
    REQUIRE(system(test_text("cp -r %s %s", test_checkpoint(CHECKPOINT_SMALL), dir)) == 0 &&
            daemon_start_at(&d, dir, "--max-batch 1 --prefill-chunk 16 --max-json-values 100000"));
    int fd = start(&d, "{" DECODE "}");
    char *stream = raw_read_until(fd, "[DONE]"), *whole = text_of(stream);
    CHECK(strlen(whole) > 100);
    close(fd);
    for (size_t i = 0; i < COUNTOF(fault_cases); i++) run_case(&d, dir, &fault_cases[i], whole);
    free(stream);
    free(whole);
    daemon_stop(&d);
}

/* ---- what no signal and no time of modification tells ---- */

typedef struct Victim {
    Daemon daemon;
    const char *parent;
    char dir[256], path[300];
} Victim;

static bool victim_open(Victim *v) {
    v->parent = test_dir();
    snprintf(v->dir, sizeof v->dir, "%s/served", v->parent);
    snprintf(v->path, sizeof v->path, "%s/model.safetensors", v->dir);
    return system(test_text("cp -r %s %s", test_checkpoint(CHECKPOINT_SMALL), v->dir)) == 0;
}

static void victim_close(Victim *v) { daemon_stop(&v->daemon); }

/* Such a request is not taken, so that a stream of it has a status of its own. */
static void check_damaged(const Daemon *d) {
    CHECK_MSG(wait_health(d, 503), "/health stays green");
    Answer a = http_post(d, "/v1/completions", "{\"max_tokens\":1,\"stream\":true}");
    answer_check_error(&a, 503, "", "damaged");
}

TEST(map_fault_restored_times) {
    Victim v;
    struct stat st;
    REQUIRE(victim_open(&v) && daemon_start_at(&v.daemon, v.dir, "--scrub-seconds 0"));
    CHECK(wait_health(&v.daemon, 200));
    usleep(20000);
    CHECK(chmod(v.path, 0640) == 0); /* harmless: everything is read again, and is what it was */
    Answer a = http_post(&v.daemon, "/v1/completions", "{\"max_tokens\":3,\"prompt\":\"The river\"}");
    CHECK_MSG(a.status == 200, "%d %s", a.status, a.body);
    CHECK(stat(v.path, &st) == 0);
    usleep(20000);
    damage(v.dir, OVERWRITTEN);
    CHECK(utimensat(AT_FDCWD, v.path, (struct timespec[]){st.st_atim, st.st_mtim}, 0) == 0);
    a = http_post(&v.daemon, "/v1/completions", "{\"max_tokens\":3,\"prompt\":\"The river\"}");
    answer_check_error(&a, 503, "", "restored times");
    check_damaged(&v.daemon);
    repair(&v.daemon, v.dir);
    victim_close(&v);
}

/* The page is dirty before the daemon looks for the first time: writing to it again moves no time. */
TEST(map_fault_mapped_writer) {
    Victim v;
    struct stat st;
    REQUIRE(victim_open(&v));
    int fd = open(v.path, O_RDWR);
    REQUIRE(fd >= 0 && fstat(fd, &st) == 0);
    volatile char *map = mmap(NULL, (size_t)st.st_size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    REQUIRE(map != MAP_FAILED);
    map[st.st_size - 1] ^= 1;
    map[st.st_size - 1] ^= 1;
    REQUIRE(daemon_start_at(&v.daemon, v.dir, "--scrub-seconds 0.2"));
    CHECK(wait_health(&v.daemon, 200));
    usleep(500000); /* two rounds: nothing is wrong */
    CHECK(is_well(&v.daemon));
    map[st.st_size - 1] ^= 1;
    check_damaged(&v.daemon);
    map[st.st_size - 1] ^= 1;
    munmap((void *)map, (size_t)st.st_size);
    close(fd);
    repair(&v.daemon, v.dir);
    victim_close(&v);
}

TEST(map_fault_sealed_copy) {
    static const char request[] = "{\"max_tokens\":20,\"prompt\":\"The river\",\"seed\":1,\"noise_seed\":1}";
    Victim v;
    REQUIRE(victim_open(&v) && daemon_start_at(&v.daemon, v.dir, "--copy-weights --scrub-seconds 0.2"));
    CHECK(wait_health(&v.daemon, 200));
    Answer before = http_post(&v.daemon, "/v1/completions", request);
    damage(v.dir, OVERWRITTEN);
    damage(v.dir, CUT_TO_NOTHING);
    usleep(500000);
    Answer after = http_post(&v.daemon, "/v1/completions", request);
    CHECK_MSG(before.status == 200 && after.status == 200 && !strcmp(answer_text(&before, 0), answer_text(&after, 0)),
              "%d %s", after.status, after.body);
    CHECK(is_well(&v.daemon));
    victim_close(&v);
}
