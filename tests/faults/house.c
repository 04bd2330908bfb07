#include "tests/faults/house.h"

#include "base/clock.h"
#include "base/macros.h"
#include "base/memory.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

/* ---- what is heard ---- */

/* Of a body in chunks its bytes, in place; whether the last chunk came. */
static bool join_chunks(char *body) {
    char *to = body, *from = body, *end;
    for (;;) {
        size_t n = strtoul(from, &end, 16);
        bool there = end != from && !strncmp(end, "\r\n", 2), last = there && n == 0;
        from = end + 2;
        if (!there || last) return *to = 0, last;
        n = MIN(n, strlen(from));
        memmove(to, from, n);
        to += n, from += n;
        if (!*from) return *to = 0, false;
        from += 2;
    }
}

/* Takes out every value of this key, up to the next comma or brace. */
static void forget(char *text, const char *key) {
    for (char *at = text; (at = strstr(at, key)) != NULL;) {
        at += strlen(key);
        memmove(at, at + strcspn(at, ",}"), strlen(at + strcspn(at, ",}")) + 1);
    }
}

/* Of events, however many tokens each brings, the texts joined, escapes and all. */
static void join_texts(char *events) {
    static const char *const keys[] = {"\"text\":\"", "\"content\":\""};
    char *to = events;
    for (char *event = events, *end; (end = strstr(event, "\n\n")) != NULL; event = end + 2) {
        *end = 0;
        for (size_t i = 0; i < COUNTOF(keys); i++) {
            char *at = strstr(event, keys[i]);
            for (at = at ? at + strlen(keys[i]) : end; at < end && *at != '"'; *to++ = *at++)
                if (*at == '\\') *to++ = *at++;
        }
    }
    *to = 0;
}

static Heard understand(char *text, bool closed) {
    static const char length[] = "Content-Length: ";
    Heard h = {.said = text, .closed = closed};
    char *body = strstr(text, "\r\n\r\n");
    if (strncmp(text, "HTTP/1.1 ", 9)) return h;
    h.status = atoi(text + 9);
    if (!body) return h;
    *body = 0;
    body += 4;
    const char *expected = strstr(text, length);
    bool chunked = strstr(text, "Transfer-Encoding: chunked");
    h.whole = chunked ? join_chunks(body) : expected && strlen(body) == strtoul(expected + sizeof length - 1, NULL, 10);
    h.stream = strstr(text, "text/event-stream");
    memmove(text, body, strlen(body) + 1);
    h.error = strstr(text, "\"error\":") && strstr(text, "\"code\":");
    h.done = text_count(text, "data: [DONE]\n\n") == 1;
    if (h.stream) return join_texts(text), h;
    forget(text, "\"id\":");
    forget(text, "\"created\":");
    forget(text, "\"cached_tokens\":");
    return h;
}

bool heard_right(const Heard *a, const char *good) {
    return a->status == 200 && a->whole && !a->error && a->done == a->stream && (!good || !strcmp(a->said, good));
}

bool heard_cut(const Heard *a, const char *good) {
    bool told = a->whole && a->stream && a->error && a->done, closed = a->closed && !a->whole;
    return a->status == 200 ? (told || closed) && (!good || !strncmp(a->said, good, strlen(a->said))) : closed;
}

Heard house_hear(int fd, char *first, double seconds) {
    bool closed;
    char *rest = raw_read(fd, seconds, &closed);
    char *all = xmalloc(strlen(first) + strlen(rest) + 1);
    strcpy(stpcpy(all, first), rest);
    free(first);
    free(rest);
    return understand(all, closed);
}

int house_ask(const House *h, const Question *q) {
    char head[300];
    int fd = raw_connect(&h->daemon);
    int n = snprintf(head, sizeof head, "%s %s HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: %zu\r\n\r\n",
                     *q->body ? "POST" : "GET", q->path, strlen(q->body));
    CHECK_MSG(fd >= 0, "%s: the daemon is gone", q->name);
    if (fd >= 0 && raw_send(fd, head, (size_t)n)) raw_send(fd, q->body, strlen(q->body));
    return fd;
}

Heard house_answer(const House *h, const Question *q) {
    int fd = house_ask(h, q);
    Heard heard = house_hear(fd, xstrdup(""), FAULT_PATIENCE);
    close(fd);
    return heard;
}

/* ---- the daemon ---- */

void house_fail(const House *h, const char *when, const char *what) {
    enum { SHOWN = 1500 };
    char *said = test_read_file(h->log, NULL);
    size_t n = strlen(said);
    test_fail(__FILE__, __LINE__, "%s: %s\n%s", when, what, said + n - MIN(n, SHOWN));
    free(said);
}

void house_check_files(const House *h, const char *when) {
    int n = 0;
    for (double until = now_seconds() + FAULT_PATIENCE; now_seconds() < until; usleep(1000))
        if ((n = daemon_files(&h->daemon)) <= h->files) return;
    CHECK_MSG(false, "%s: %d descriptors, were %d", when, n, h->files);
}

void house_check_rest(const House *h, const char *when) {
    double before = daemon_cpu_seconds(&h->daemon), t0 = now_seconds();
    usleep(200000);
    double spent = daemon_cpu_seconds(&h->daemon) - before, seconds = now_seconds() - t0;
    CHECK_MSG(spent < 0.5 * seconds, "%s: %.2f s of work in %.2f s of waiting", when, spent, seconds);
}

bool house_is_ready(const House *h) {
    static const char health[] = "GET /health HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n";
    int fd = raw_connect(&h->daemon);
    if (fd < 0) return false;
    raw_send(fd, health, sizeof health - 1);
    Heard a = house_hear(fd, xstrdup(""), FAULT_PATIENCE);
    close(fd);
    free(a.said);
    return a.status == 200;
}

bool house_open(House *h, const char *model, const char *options) {
    *h = (House){.dir = test_dir()};
    snprintf(h->log, sizeof h->log, "%s/log", h->dir);
    h->fault = fault_file(h->dir);
    fault_over_programs(h->dir);
    daemon_log_to(h->log);
    bool up = daemon_listen_at(&h->daemon, model, options);
    daemon_log_to(NULL);
    fault_over_programs(NULL);
    if (!up) return false;
    while (!house_is_ready(h)) usleep(5000);
    h->files = daemon_files(&h->daemon);
    for (int i = 0; i < 20; i++, usleep(2000)) h->files = MIN(h->files, daemon_files(&h->daemon));
    return true;
}

void house_close(House *h) {
    daemon_stop(&h->daemon);
    munmap(h->fault, sizeof *h->fault);
}
