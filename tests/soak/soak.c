#include "tests/soak/soak.h"

#include "base/clock.h"
#include "base/err.h"
#include "base/memory.h"
#include "base/random.h"

#include <dirent.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

static double environment(const char *name, double otherwise) {
    const char *text = getenv(name);
    double x = text ? atof(text) : otherwise;
    return x > 0 ? x : otherwise;
}

int soak_count(int full) { return MAX((int)(full * environment("SCALE", 1)), 1); }

double soak_seconds(void) { return environment("SOAK_SECONDS", 600); }

void soak_raise_limits(void) {
    test_takes_long();
    struct rlimit limit;
    BUG_ON(getrlimit(RLIMIT_NOFILE, &limit));
    limit.rlim_cur = limit.rlim_max;
    setrlimit(RLIMIT_NOFILE, &limit);
}

/* ---- vitals ---- */

static int count_fds(pid_t pid) {
    char path[64];
    int n = 0;
    snprintf(path, sizeof path, "/proc/%d/fd", (int)pid);
    DIR *dir = opendir(path);
    while (dir && readdir(dir)) n++;
    if (dir) closedir(dir);
    return n - 2; /* . and .. */
}

/* A file of /proc has no length that one could ask for. */
static void read_status(pid_t pid, char *text, size_t size) {
    char path[64];
    snprintf(path, sizeof path, "/proc/%d/status", (int)pid);
    FILE *f = fopen(path, "r");
    size_t n = f ? fread(text, 1, size - 1, f) : 0;
    text[n] = 0;
    if (f) fclose(f);
}

static double status_number(const char *status, const char *key) {
    const char *line = strstr(status, key);
    return line ? atof(line + strlen(key)) : -1;
}

Vitals soak_vitals(const Daemon *d) {
    char status[4096];
    Answer a = http_get(d, "/health");
    bool there = json_at(a.json, "running") != NULL;
    Vitals v = {.running = -1, .queued = -1, .kv_blocks_used = -1, .fds = count_fds(d->pid)};
    if (there) {
        v.running = (int)json_number(a.json, "running");
        v.queued = (int)json_number(a.json, "queued");
        v.kv_blocks_used = (int)json_number(a.json, "kv_blocks_used");
    }
    answer_free(&a);
    read_status(d->pid, status, sizeof status);
    v.threads = (int)status_number(status, "\nThreads:");
    v.rss_mb = status_number(status, "\nVmRSS:") / 1024;
    v.own_mb = status_number(status, "\nRssAnon:") / 1024;
    return v;
}

/* A connection that was just closed, such as that of the last /health, may still be among the daemon's. */
double soak_settle(const Daemon *d, const Vitals *before) {
    double t0 = now_seconds();
    for (;; usleep(5000)) {
        Vitals v = soak_vitals(d);
        double t = now_seconds() - t0;
        bool quiet = v.running == 0 && v.queued == 0 && v.kv_blocks_used == 0 && v.fds <= before->fds;
        if (quiet && v.threads == before->threads) return t;
        if (t < 5) continue;
        test_fail(__FILE__, __LINE__,
                  "after 5 s: %d running, %d queued, %d blocks in use, %d descriptors (%d before), %d threads (%d)",
                  v.running, v.queued, v.kv_blocks_used, v.fds, before->fds, v.threads, before->threads);
        return t;
    }
}

/* ---- known answers ---- */

void known_open(KnownSet *k, const Daemon *d, int n, int max_tokens, const char *key) {
    static const char form[] = "{\"prompt\":\"The river %d\",\"max_tokens\":%d,\"ignore_eos\":true,\"seed\":%d,"
                               "\"noise_seed\":%d,\"return_token_ids\":true%s}";
    char body[256];
    *k = (KnownSet){.n = n, .max_tokens = max_tokens, .key = key};
    k->bodies = xcalloc((size_t)n, sizeof(char *));
    k->streamed = xcalloc((size_t)n, sizeof(char *));
    k->essences = xcalloc((size_t)n, sizeof(char *));
    for (int i = 0; i < n; i++) {
        snprintf(body, sizeof body, form, i, max_tokens, i, i, "");
        k->bodies[i] = xstrdup(body);
        snprintf(body, sizeof body, form, i, max_tokens, i, i,
                 ",\"stream\":true,\"stream_options\":{\"include_usage\":true}");
        k->streamed[i] = xstrdup(body);
    }
    KnownRun alone;
    known_run_start(&alone, k, d, n, 1, false);
    known_run_join(&alone);
    for (int i = 0; i < n; i++) {
        k->essences[i] = answer_essence(&alone.answers[i]);
        CHECK_MSG(k->essences[i], "%d: %s", alone.answers[i].status, alone.answers[i].body);
    }
    known_run_free(&alone);
}

void known_close(KnownSet *k) {
    for (int i = 0; i < k->n; i++) {
        free(k->bodies[i]);
        free(k->streamed[i]);
        free(k->essences[i]);
    }
    free(k->bodies);
    free(k->streamed);
    free(k->essences);
}

static void *known_run_main(void *arg) {
    KnownRun *r = arg;
    r->seconds = load_run(r->requests, r->answers, r->n, r->most);
    return NULL;
}

void known_run_start(KnownRun *r, const KnownSet *k, const Daemon *d, int n, int most, bool stream) {
    *r = (KnownRun){.known = k, .n = n, .most = most};
    snprintf(r->url, sizeof r->url, "http://127.0.0.1:%d/v1/completions", d->port);
    r->requests = xcalloc((size_t)n, sizeof *r->requests);
    r->answers = xcalloc((size_t)n, sizeof *r->answers);
    for (int i = 0; i < n; i++) {
        char **bodies = stream || i % 2 ? k->streamed : k->bodies;
        r->requests[i] = (LoadRequest){.url = r->url, .key = k->key, .body = bodies[i % k->n]};
    }
    BUG_ON(pthread_create(&r->thread, NULL, known_run_main, r));
}

void known_run_join(KnownRun *r) { BUG_ON(pthread_join(r->thread, NULL)); }

bool known_run_is_right(const KnownRun *r, int i) {
    char *essence = answer_essence(&r->answers[i]);
    bool right = false;
    for (const KnownSet *k = r->known; k && !right; k = k == r->known ? k->other : NULL)
        right = essence && k->essences[i % k->n] && !strcmp(essence, k->essences[i % k->n]);
    free(essence);
    return right;
}

void known_run_free(KnownRun *r) {
    load_answers_free(r->answers, r->n);
    free(r->answers);
    free(r->requests);
}

/* ---- hanging up ---- */

void hang_ups_open(HangUps *h, const Daemon *d, uint64_t seed, const char *key) {
    *h = (HangUps){.daemon = d, .key = key, .draws = draws_open(seed, DRAW_TEST, 0)};
    memset(h->fds, -1, sizeof h->fds);
}

/* By FIN, by RST, or first only half of it. */
static void hang_up(HangUps *h, int fd) {
    struct linger reset = {.l_onoff = 1};
    int how = (int)draw_below(&h->draws, 3);
    if (how == 1) setsockopt(fd, SOL_SOCKET, SO_LINGER, &reset, sizeof reset);
    if (how == 2) shutdown(fd, SHUT_WR);
    if (how == 2) usleep((unsigned)draw_below(&h->draws, 2000));
    close(fd);
    h->n++;
}

/* A request, or only the beginning of one: the others wait in the queue, are prefilled or decoded when they go. */
static int call(HangUps *h) {
    char body[1024], text[1400];
    Draws *d = &h->draws;
    int n = snprintf(body, sizeof body,
                     "{\"prompt\":\"%.*s\",\"max_tokens\":%d,\"stream\":%s,\"n\":%d,\"logprobs\":%d,\"echo\":%s,"
                     "\"ignore_eos\":true}",
                     (int)draw_below(d, 60) * 5, /* of 300 characters below */
                     "The river runs below the mill, and the miller counts the stones. The river runs below the mill, "
                     "and the miller counts the stones. The river runs below the mill, and the miller counts the "
                     "stones. The river runs below the mill, and the miller counts the stones. The river runs below "
                     "the mill",
                     (int)draw_below(d, 150), draw_below(d, 3) ? "true" : "false", 1 + (int)draw_below(d, 4),
                     (int)draw_below(d, 4), draw_below(d, 4) ? "false" : "true");
    n = snprintf(text, sizeof text,
                 "POST /v1/completions HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
                 "X-Api-Key: %s\r\nContent-Length: %d\r\n\r\n%s",
                 h->key ? h->key : "none", n, body);
    size_t length = draw_below(d, 8) ? (size_t)n : (size_t)draw_below(d, (uint64_t)n);
    int fd = raw_connect(h->daemon);
    CHECK_MSG(fd >= 0, "no connection after %d hang-ups", h->n);
    if (fd >= 0) raw_send(fd, text, length);
    return fd;
}

void hang_ups_next(HangUps *h) {
    int *fd = &h->fds[draw_below(&h->draws, HANGING)];
    if (*fd >= 0) {
        if (draw_below(&h->draws, 4) == 0) free(raw_read(*fd, 0.001, NULL));
        hang_up(h, *fd);
    }
    *fd = call(h);
}

void hang_ups_close(HangUps *h) {
    for (int i = 0; i < HANGING; i++)
        if (h->fds[i] >= 0) hang_up(h, h->fds[i]);
}
