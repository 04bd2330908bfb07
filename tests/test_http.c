/* The HTTP layer of the real daemon, through bare sockets: framing, deadlines, hang-ups, overload, the end. */
#include "http_client.h"

#include <math.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#define SMUGGLED "GET /health/live HTTP/1.1\r\nHost: x\r\n\r\n"
#define POST "POST /tokenize HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
#define CHUNKED "Transfer-Encoding: chunked\r\n"
#define BODY "{\"prompt\":\"x\"}" /* 14 bytes */

typedef struct Framing {
    const char *name, *bytes;
    const char *status; /* "400", or several: "400 501" */
} Framing;

static const Framing framing[] = {
    {"TE and CL", POST CHUNKED "Content-Length: 5\r\n\r\n0\r\n\r\n" SMUGGLED, "400"},
    {"CL and TE", POST "Content-Length: 5\r\n" CHUNKED "\r\n0\r\n\r\n" SMUGGLED, "400"},
    {"two CLs", POST "Content-Length: 14\r\nContent-Length: 0\r\n\r\n" BODY SMUGGLED, "400"},
    {"the same CL twice", POST "Content-Length: 14\r\nContent-Length: 14\r\n\r\n" BODY SMUGGLED, "400"},
    {"CL list", POST "Content-Length: 14, 14\r\n\r\n" BODY SMUGGLED, "400"},
    {"CL with plus", POST "Content-Length: +14\r\n\r\n" BODY SMUGGLED, "400"},
    {"CL negative", POST "Content-Length: -1\r\n\r\n" BODY SMUGGLED, "400"},
    {"CL hexadecimal", POST "Content-Length: 0xE\r\n\r\n" BODY SMUGGLED, "400"},
    {"CL empty", POST "Content-Length: \r\n\r\n" BODY SMUGGLED, "400"},
    {"CL with space inside", POST "Content-Length: 1 4\r\n\r\n" BODY SMUGGLED, "400"},
    {"CL beyond 64 bits", POST "Content-Length: 18446744073709551630\r\n\r\n" BODY SMUGGLED, "400 413"},
    {"CL name with space", POST "Content-Length : 14\r\n\r\n" BODY SMUGGLED, "400"},
    {"TE name with space", POST "Transfer-Encoding : chunked\r\n\r\n0\r\n\r\n" SMUGGLED, "400"},
    {"TE xchunked", POST "Transfer-Encoding: xchunked\r\n\r\n0\r\n\r\n" SMUGGLED, "400 501"},
    {"TE gzip, chunked", POST "Transfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n" SMUGGLED, "400 501"},
    {"TE identity", POST "Transfer-Encoding: identity\r\nContent-Length: 14\r\n\r\n" BODY SMUGGLED, "400"},
    {"TE twice", POST CHUNKED CHUNKED "\r\n0\r\n\r\n" SMUGGLED, "400"},
    {"TE with a quote", POST "Transfer-Encoding: \"chunked\"\r\n\r\n0\r\n\r\n" SMUGGLED, "400 501"},
    {"TE with vertical tab", POST "Transfer-Encoding: \vchunked\r\n\r\n0\r\n\r\n" SMUGGLED, "400 501"},
    {"TE in HTTP/1.0",
     "POST /tokenize HTTP/1.0\r\nHost: x\r\nContent-Type: application/json\r\n" CHUNKED "\r\n0\r\n\r\n" SMUGGLED,
     "400"},
    {"GET with a body", "GET /health HTTP/1.1\r\nHost: x\r\nContent-Length: 41\r\n\r\n" SMUGGLED, "400"},
    {"GET chunked", "GET /health HTTP/1.1\r\nHost: x\r\n" CHUNKED "\r\n0\r\n\r\n" SMUGGLED, "400"},
    {"two Hosts", "GET /health HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n" SMUGGLED, "400"},
    {"no Host", "GET /health HTTP/1.1\r\n\r\n" SMUGGLED, "400"},
    {"HTTP/1.2", "GET /health HTTP/1.2\r\nHost: x\r\n\r\n" SMUGGLED, "400 505"},
    {"HTTP/2.0", "GET /health HTTP/2.0\r\nHost: x\r\n\r\n" SMUGGLED, "400 505"},
    {"lower-case version", "GET /health http/1.1\r\nHost: x\r\n\r\n" SMUGGLED, "400 505"},
    {"no version", "GET /health\r\nHost: x\r\n\r\n" SMUGGLED, "400 505"},
    {"%00 in the path", "GET /health%00/x HTTP/1.1\r\nHost: x\r\n\r\n" SMUGGLED, "400"},
    {"control character in the path", "GET /hea\x01lth HTTP/1.1\r\nHost: x\r\n\r\n" SMUGGLED, "400"},
    {"absolute form", "GET http://x/health HTTP/1.1\r\nHost: x\r\n\r\n" SMUGGLED, "400"},
    {"odd bytes in the method", "G\x01T /health HTTP/1.1\r\nHost: x\r\n\r\n" SMUGGLED, "400"},
    {"control character in a header", "GET /health HTTP/1.1\r\nHost: x\r\nA: b\x01\r\n\r\n" SMUGGLED, "400"},
    {"header without a colon", "GET /health HTTP/1.1\r\nHost: x\r\nabc\r\n\r\n" SMUGGLED, "400"},
    {"chunk size with junk", POST CHUNKED "\r\nzz\r\n" BODY "\r\n0\r\n\r\n" SMUGGLED, "400"},
    {"chunk size beyond 64 bits", POST CHUNKED "\r\n1000000000000000E\r\n" BODY "\r\n0\r\n\r\n" SMUGGLED, "400 413"},
    {"negative chunk size", POST CHUNKED "\r\n-1\r\n" BODY "\r\n0\r\n\r\n" SMUGGLED, "400"},
};

static int count(const char *text, const char *what) {
    int n = 0;
    for (; (text = strstr(text, what)) != NULL; text++) n++;
    return n;
}

/* Refused, closed, and nothing behind it was taken for a request. */
TEST(http_framing) {
    Daemon d;
    REQUIRE(daemon_start(&d, CHECKPOINT_SMALL, NULL));
    for (size_t i = 0; i < COUNTOF(framing); i++) {
        const Framing *f = &framing[i];
        bool closed;
        int fd = raw_connect(&d);
        CHECK(raw_send(fd, f->bytes, strlen(f->bytes)));
        char *reply = raw_read(fd, 2, &closed), status[4] = "";
        if (strlen(reply) > 12) memcpy(status, reply + 9, 3);
        CHECK_MSG(*status && strstr(f->status, status), "%s: \"%.100s\"", f->name, reply);
        CHECK_MSG(closed, "%s: the connection stays open", f->name);
        CHECK_MSG(!strstr(reply, "HTTP/1.1 2"), "%s: the rest was answered: %s", f->name, reply);
        free(reply);
        close(fd);
    }
    daemon_stop(&d);
}

TEST(http_ordinary_framing) {
    static const Framing fine[] = {
        {"keep-alive and pipelining", SMUGGLED SMUGGLED SMUGGLED, "3"},
        {"a chunked body", POST CHUNKED "\r\n5\r\n{\"pro\r\n9;x=y\r\nmpt\":\"x\"}\r\n0\r\n\r\n" SMUGGLED, "2"},
        {"a body in one piece", POST "Content-Length: 14\r\n\r\n" BODY SMUGGLED, "2"},
        {"an error keeps the connection", "GET /none HTTP/1.1\r\nHost: x\r\n\r\n" SMUGGLED, "2"},
        {"an error in the body keeps it too", POST "Content-Length: 2\r\n\r\n{}" SMUGGLED, "2"},
        {"Connection: close", "GET /health HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n" SMUGGLED, "1"},
        {"HTTP/1.0", "GET /health/live HTTP/1.0\r\n\r\n" SMUGGLED, "1"},
        {"a refused body closes", "POST /none HTTP/1.1\r\nHost: x\r\nContent-Length: 41\r\n\r\n" SMUGGLED, "1"},
        {"Expect: 100-continue", POST "Expect: 100-continue\r\nContent-Length: 14\r\n\r\n" BODY, "2"},
    };
    Daemon d;
    REQUIRE(daemon_start(&d, CHECKPOINT_SMALL, NULL));
    for (size_t i = 0; i < COUNTOF(fine); i++) {
        int fd = raw_connect(&d);
        CHECK(raw_send(fd, fine[i].bytes, strlen(fine[i].bytes)));
        char *reply = raw_read(fd, 0.3, NULL);
        CHECK_MSG(count(reply, "HTTP/1.1 ") == atoi(fine[i].status), "%s: %s", fine[i].name, reply);
        free(reply);
        close(fd);
    }
    daemon_stop(&d);
}

TEST(http_sizes) {
    Daemon d;
    REQUIRE(daemon_start(&d, CHECKPOINT_SMALL, "--max-body 2000"));
    static const struct {
        int uri, headers, header_bytes, status;
    } heads[] = {
        {2048, 0, 0, 404},   {2049, 0, 0, 414},   {10, 60, 100, 404}, {10, 64, 10, 431},   {10, 63, 10, 404},
        {10, 10, 1500, 404}, {10, 11, 1500, 431}, {40000, 0, 0, 414}, {10, 40, 1500, 431},
    };
    for (size_t i = 0; i < COUNTOF(heads); i++) {
        char *text = xcalloc(1, 200000), *p = text;
        p += sprintf(p, "GET /");
        memset(p, 'a', (size_t)heads[i].uri - 1);
        p += heads[i].uri - 1;
        p += sprintf(p, " HTTP/1.1\r\nHost: x\r\n");
        for (int h = 0; h < heads[i].headers; h++) {
            p += sprintf(p, "H%d: ", h);
            memset(p, 'b', (size_t)heads[i].header_bytes);
            p += heads[i].header_bytes;
            p += sprintf(p, "\r\n");
        }
        p += sprintf(p, "\r\n");
        int fd = raw_connect(&d);
        raw_send(fd, text, (size_t)(p - text));
        char *reply = raw_read(fd, 0.3, NULL);
        CHECK_MSG(strlen(reply) > 12 && atoi(reply + 9) == heads[i].status, "case %zu: %.60s", i, reply);
        free(reply);
        free(text);
        close(fd);
    }
    daemon_stop(&d);
}

/* A chunked body is counted as it comes: over the limit it is answered, far over it is cut. */
TEST(http_chunked_body_limit) {
    Daemon d;
    REQUIRE(daemon_start(&d, CHECKPOINT_SMALL, "--max-body 2000"));
    static const struct {
        int chunks;
        const char *status;
    } cases[] = {{19, "200"}, {20, "200"}, {21, "413"}, {100, "413"}};
    for (size_t i = 0; i < COUNTOF(cases); i++) {
        char *text = xcalloc(1, 20000), *p = text + sprintf(text, POST CHUNKED "\r\n");
        for (int c = 0; c < cases[i].chunks; c++) p += sprintf(p, "64\r\n%-100s\r\n", c ? "" : BODY);
        p += sprintf(p, "0\r\n\r\n");
        int fd = raw_connect(&d);
        CHECK(raw_send(fd, text, (size_t)(p - text)));
        char *reply = raw_read(fd, 0.3, NULL);
        CHECK_MSG(!strncmp(reply, "HTTP/1.1 ", 9) && !strncmp(reply + 9, cases[i].status, 3), "%d chunks: %s",
                  cases[i].chunks, reply);
        free(reply);
        free(text);
        close(fd);
    }
    int fd = raw_connect(&d);
    bool sent = raw_send(fd, POST CHUNKED "\r\n", strlen(POST CHUNKED) + 2);
    static char block[4096 + 16];
    int n = sprintf(block, "1000\r\n%-4096s\r\n", "");
    for (int i = 0; i < 4096 && sent; i++) sent = raw_send(fd, block, (size_t)n);
    CHECK_MSG(!sent, "16 MiB were taken");
    close(fd);
    daemon_stop(&d);
}

/* Sends `byte` every 50 ms until the server closes; the seconds that took, or `patience`. */
static double drip(int fd, const char *start, const char *byte, double patience) {
    double t0 = now_seconds();
    bool closed = false;
    if (!raw_send(fd, start, strlen(start))) return 0;
    while (!closed && now_seconds() - t0 < patience) {
        if (*byte && !raw_send(fd, byte, strlen(byte))) break;
        free(raw_read(fd, 0.05, &closed));
    }
    return now_seconds() - t0;
}

/* Deadlines are absolute: a byte now and then does not extend them. */
TEST(http_slow_clients) {
    Daemon d;
    REQUIRE(daemon_start(&d, CHECKPOINT_SMALL, "--header-seconds 0.6 --body-seconds 0.9 --idle-seconds 0.4"));
    static const struct {
        const char *name, *start, *byte;
        double least, most;
    } cases[] = {
        {"nothing", "", "", 0.6, 1.2},
        {"a slow request line", "G", "E", 0.6, 1.2},
        {"slow headers", "GET / HTTP/1.1\r\nHost: x\r\n", "A: b\r\n", 0.6, 1.2},
        {"a slow body", POST "Content-Length: 2000\r\n\r\n", " ", 0.9, 1.5},
        {"slow chunks", POST CHUNKED "\r\n", "1\r\n \r\n", 0.9, 1.5},
        {"a silent body", POST "Content-Length: 2000\r\n\r\n", "", 0.9, 1.5},
        {"idle after an answer", SMUGGLED, "", 0.4, 1.0},
    };
    for (size_t i = 0; i < COUNTOF(cases); i++) {
        int fd = raw_connect(&d);
        double t = drip(fd, cases[i].start, cases[i].byte, 3);
        CHECK_MSG(t >= cases[i].least - 0.05 && t <= cases[i].most, "%s: closed after %.2f s", cases[i].name, t);
        close(fd);
    }
    daemon_stop(&d);
}

/* ---- what happens while an answer is in the making ---- */

static int send_completion(const Daemon *d, const char *body) {
    char text[2048];
    int fd = raw_connect(d);
    snprintf(
        text, sizeof text,
        "POST /v1/completions HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: %zu\r\n\r\n%s",
        strlen(body), body);
    CHECK(fd >= 0 && raw_send(fd, text, strlen(text)));
    return fd;
}

#define LONG "\"prompt\":\"The river\",\"max_tokens\":3000,\"ignore_eos\":true"

/* Polls /health until running == and queued == what is given (-1: any); the seconds it took, INFINITY after 5. */
static double wait_load(const Daemon *d, int running, int queued) {
    for (double t0 = now_seconds(); now_seconds() - t0 < 5; usleep(5000)) {
        Answer a = http_get(d, "/health");
        double r = json_number(a.json, "running"), q = json_number(a.json, "queued");
        answer_free(&a);
        if ((running < 0 || r == running) && (queued < 0 || q == queued)) return now_seconds() - t0;
    }
    return INFINITY;
}

TEST(http_hang_up_frees_slots) {
    Daemon d;
    REQUIRE(daemon_start(&d, CHECKPOINT_SLOW, "--max-batch 4"));
    static const char *const bodies[] = {
        "{" LONG ",\"stream\":true,\"n\":4}", "{" LONG ",\"n\":4}", /* waits for the whole, hears nothing before */
    };
    for (int how = 0; how < 6; how++) {
        int fd = send_completion(&d, bodies[how % 2]);
        CHECK_MSG(isfinite(wait_load(&d, 4, -1)), "case %d does not start", how);
        if (how / 2 == 1) {
            struct linger reset = {.l_onoff = 1};
            setsockopt(fd, SOL_SOCKET, SO_LINGER, &reset, sizeof reset);
        }
        if (how / 2 == 2) shutdown(fd, SHUT_WR);
        if (how / 2 != 2) close(fd);
        double t = wait_load(&d, 0, 0);
        CHECK_MSG(t < 0.5, "case %d: slots free after %.2f s", how, t);
        if (how / 2 == 2) close(fd);
    }
    /* In the queue too: the running one stays, the waiting one goes. */
    int first = send_completion(&d, bodies[0]);
    CHECK(raw_expect(first, "data: ", 5));
    int second = send_completion(&d, bodies[1]);
    CHECK(isfinite(wait_load(&d, 4, 4)));
    close(second);
    double t = wait_load(&d, 4, 0);
    CHECK_MSG(t < 0.5, "the queue is empty after %.2f s", t);
    close(first);
    CHECK(wait_load(&d, 0, 0) < 0.5);
    daemon_stop(&d);
}

TEST(http_queue_full) {
    Daemon d;
    REQUIRE(daemon_start(&d, CHECKPOINT_SLOW, "--max-batch 1 --max-queue 2"));
    int first = send_completion(&d, "{" LONG ",\"stream\":true}");
    CHECK(raw_expect(first, "data: ", 5));
    int second = send_completion(&d, "{" LONG ",\"n\":2}");
    CHECK(isfinite(wait_load(&d, 1, 2)));
    double t0 = now_seconds();
    Answer a = http_post(&d, "/v1/completions", "{\"max_tokens\":1}");
    CHECK_MSG(a.status == 429 && now_seconds() - t0 < 0.2, "%d: %s", a.status, a.body);
    CHECK(json_text(a.json, "error.type") && !strcmp(json_text(a.json, "error.type"), "rate_limit_error"));
    char *seconds = answer_header(&a, "Retry-After"), *ms = answer_header(&a, "retry-after-ms");
    CHECK_MSG(seconds && ms && atoi(seconds) >= 1 && atoi(ms) >= 1 && atoi(ms) <= 1000 * atoi(seconds), "%s",
              a.headers);
    free(seconds);
    free(ms);
    answer_free(&a);
    close(first);
    close(second);
    daemon_stop(&d);
}

TEST(http_stream_headers_and_pings) {
    Daemon d;
    REQUIRE(daemon_start(&d, CHECKPOINT_SLOW, "--max-batch 1 --ping-seconds 0.2"));
    int first = send_completion(&d, "{" LONG ",\"stream\":true}");
    CHECK(raw_expect(first, "data: ", 5));
    int second = send_completion(&d, "{" LONG ",\"stream\":true}"); /* waits behind the first */
    char *text = raw_read(second, 0.9, NULL);
    CHECK_MSG(strstr(text, "HTTP/1.1 200") && strstr(text, "Content-Type: text/event-stream\r\n") &&
                  strstr(text, "Cache-Control: no-cache\r\n") && strstr(text, "X-Accel-Buffering: no\r\n"),
              "%s", text);
    int pings = count(text, ": ping\n\n");
    CHECK_MSG(pings >= 2 && pings <= 4, "%d pings: %s", pings, text);
    free(text);
    close(first);
    close(second);
    daemon_stop(&d);
}

/* A client that stops reading is cut once nothing has been taken for a while; others do not notice. */
TEST(http_stalled_reader) {
    Daemon d;
    REQUIRE(daemon_start(&d, CHECKPOINT_SLOW, "--write-seconds 0.5"));
    char text[512];
    static const char body[] = "{" LONG ",\"stream\":true,\"n\":8,\"logprobs\":20}";
    struct linger none = {0};
    int fd = raw_connect(&d), small = 4096;
    setsockopt(fd, SOL_SOCKET, SO_LINGER, &none, sizeof none);
    setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &small, sizeof small);
    int n = snprintf(text, sizeof text,
                     "POST /v1/completions HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: %zu"
                     "\r\n\r\n%s",
                     sizeof body - 1, body);
    CHECK(raw_send(fd, text, (size_t)n));
    CHECK(isfinite(wait_load(&d, 8, -1)));
    double t = wait_load(&d, 0, 0);
    CHECK_MSG(t > 0.2 && t < 3, "slots free after %.2f s", t);
    close(fd);
    daemon_stop(&d);
}

/* ---- the end ---- */

static void terminate(const Daemon *d) { kill(d->pid, SIGTERM); }

TEST(http_drain_finishes_streams) {
    Daemon d;
    REQUIRE(daemon_start(&d, CHECKPOINT_SLOW, NULL));
    int idle = raw_connect(&d);
    int fd =
        send_completion(&d, "{\"max_tokens\":600,\"ignore_eos\":true,\"stream\":true,\"seed\":1,\"noise_seed\":1}");
    CHECK(raw_expect(fd, "data: ", 5));
    terminate(&d);
    usleep(100000);
    Answer a = http_post(&d, "/v1/completions", "{\"max_tokens\":1}");
    CHECK_MSG(a.status == 503 && json_text(a.json, "error.code") &&
                  !strcmp(json_text(a.json, "error.code"), "shutting_down"),
              "%d: %s", a.status, a.body);
    answer_free(&a);
    a = http_get(&d, "/health");
    CHECK_MSG(a.status == 503 && !strcmp(json_text(a.json, "status"), "draining"), "%s", a.body);
    answer_free(&a);
    a = http_get(&d, "/health/live");
    CHECK(a.status == 200);
    answer_free(&a);
    bool closed;
    char *rest = raw_read(fd, 20, &closed);
    CHECK_MSG(strstr(rest, "\"finish_reason\":\"length\"") && strstr(rest, "data: [DONE]") && !strstr(rest, "error"),
              "...%s", strlen(rest) > 500 ? rest + strlen(rest) - 500 : rest);
    free(rest);
    close(fd);
    close(idle);
    daemon_stop(&d);
}

TEST(http_drain_limit_cuts_with_an_error) {
    Daemon d;
    REQUIRE(daemon_start(&d, CHECKPOINT_SLOW, "--drain-seconds 0.3 --max-batch 2"));
    int stream = send_completion(&d, "{" LONG ",\"stream\":true}"), plain = send_completion(&d, "{" LONG "}");
    int queued = send_completion(&d, "{" LONG ",\"stream\":true}");
    CHECK(raw_expect(stream, "data: ", 5));
    CHECK(isfinite(wait_load(&d, 2, 1)));
    double t0 = now_seconds();
    terminate(&d);
    int fds[] = {stream, queued};
    for (int i = 0; i < 2; i++) {
        char *rest = raw_read(fds[i], 5, NULL);
        const char *error = strstr(rest, "data: {\"error\":{"), *done = strstr(rest, "data: [DONE]\n\n");
        CHECK_MSG(error && done && error<done, "%d: ...%s", i, strlen(rest)> 300 ? rest + strlen(rest) - 300 : rest);
        free(rest);
        close(fds[i]);
    }
    char *rest = raw_read(plain, 5, NULL);
    CHECK_MSG(!strncmp(rest, "HTTP/1.1 503", 12) && strstr(rest, "shutting_down"), "%.300s", rest);
    free(rest);
    close(plain);
    daemon_stop(&d);
    CHECK_MSG(now_seconds() - t0 < 3, "stopped after %.2f s", now_seconds() - t0);
}

/* Many connections come and go in every way at once, and the server ends clean. */
TEST(http_churn) {
    Daemon d;
    Draws draws = draws_open(11, DRAW_TEST, 2);
    REQUIRE(daemon_start(&d, CHECKPOINT_SMALL, "--max-queue 64"));
    enum { OPEN = 24, ROUNDS = 400 };
    int fds[OPEN];
    memset(fds, -1, sizeof fds);
    for (int i = 0; i < ROUNDS; i++) {
        int *fd = &fds[draw_below(&draws, OPEN)];
        if (*fd >= 0) {
            if (draw_below(&draws, 3) == 0) free(raw_read(*fd, 0.002, NULL));
            close(*fd);
        }
        char body[256];
        snprintf(body, sizeof body, "{\"max_tokens\":%d,\"stream\":%s,\"n\":%d,\"ignore_eos\":true}",
                 (int)draw_below(&draws, 400), draw_below(&draws, 2) ? "true" : "false",
                 1 + (int)draw_below(&draws, 4));
        *fd = send_completion(&d, body);
    }
    for (int i = 0; i < OPEN; i++)
        if (fds[i] >= 0) close(fds[i]);
    CHECK(wait_load(&d, 0, 0) < 2);
    Answer a = http_post(&d, "/v1/completions", "{\"max_tokens\":2}");
    CHECK_MSG(a.status == 200, "%d %s", a.status, a.body);
    answer_free(&a);
    daemon_stop(&d);
}
