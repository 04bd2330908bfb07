/* What happens while an answer is in the making: hang-ups, overload, silence, stalled readers, the end. */
#include "base/clock.h"
#include "base/err.h"
#include "base/random.h"
#include "tests/support/http_client.h"

#include <math.h>
#include <netinet/in.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#define LONG "\"prompt\":\"The river\",\"max_tokens\":60000,\"ignore_eos\":true"

/* Polls /health until running == and queued == what is given (-1: any); the seconds of processor that the daemon, which
 * computes all the time, took until then, INFINITY after a while. */
static double wait_load(const Daemon *d, int running, int queued) {
    double before = daemon_cpu_seconds(d);
    for (double t0 = now_seconds(); now_seconds() - t0 < PATIENCE; usleep(5000)) {
        Answer a = http_get(d, "/health");
        double r = json_number(a.json, "running"), q = json_number(a.json, "queued");
        if ((running < 0 || r == running) && (queued < 0 || q == queued)) return daemon_cpu_seconds(d) - before;
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
        int fd = raw_completion(&d, bodies[how % 2]);
        CHECK_MSG(isfinite(wait_load(&d, 4, -1)), "case %d does not start", how);
        if (how / 2 == 1) {
            struct linger reset = {.l_onoff = 1};
            setsockopt(fd, SOL_SOCKET, SO_LINGER, &reset, sizeof reset);
        }
        if (how / 2 == 2) shutdown(fd, SHUT_WR);
        if (how / 2 != 2) close(fd);
        double t = wait_load(&d, 0, 0);
        CHECK_MSG(t < 0.5 * SLOWNESS, "case %d: slots free after %.2f s", how, t);
        if (how / 2 == 2) close(fd);
    }
    /* In the queue too: the running one stays, the waiting one goes. */
    int first = raw_completion(&d, bodies[0]);
    CHECK(raw_expect(first, "data: "));
    int second = raw_completion(&d, bodies[1]);
    CHECK(isfinite(wait_load(&d, 4, 4)));
    close(second);
    double t = wait_load(&d, 4, 0);
    CHECK_MSG(t < 0.5 * SLOWNESS, "the queue is empty after %.2f s", t);
    close(first);
    CHECK(wait_load(&d, 0, 0) < 0.5 * SLOWNESS);
    daemon_stop(&d);
}

TEST(http_queue_full) {
    Daemon d;
    REQUIRE(daemon_start(&d, CHECKPOINT_SLOW, "--max-batch 1 --max-queue 2"));
    int first = raw_completion(&d, "{" LONG ",\"stream\":true}");
    CHECK(raw_expect(first, "data: "));
    int second = raw_completion(&d, "{" LONG "}");
    CHECK(isfinite(wait_load(&d, 1, 1)));
    Answer two =
        http_post(&d, "/v1/completions", "{\"max_tokens\":1,\"n\":2}"); /* one waits, two do not fit beside it */
    CHECK_MSG(two.status == 429, "%d: %s", two.status, two.body);
    int third = raw_completion(&d, "{" LONG "}");
    CHECK(isfinite(wait_load(&d, 1, 2)));
    double before = daemon_cpu_seconds(&d);
    Answer a = http_post(&d, "/v1/completions", "{\"max_tokens\":1}");
    CHECK_MSG(a.status == 429 && daemon_cpu_seconds(&d) - before < 2, "%d: %s", a.status, a.body);
    CHECK(json_text(a.json, "error.type") && !strcmp(json_text(a.json, "error.type"), "rate_limit_error"));
    char *seconds = answer_header(&a, "Retry-After"), *ms = answer_header(&a, "retry-after-ms");
    CHECK_MSG(seconds && ms && atoi(seconds) >= 1 && atoi(ms) >= 1 && atoi(ms) <= 1000 * atoi(seconds), "%s",
              a.headers);
    free(seconds);
    free(ms);
    close(first);
    close(second);
    close(third);
    daemon_stop(&d);
}

#define KEY_A "X-Api-Key: key-of-a"
#define KEY_B "X-Api-Key: key-of-b"

/* A has a key of its own and an address of its own. */
static int connect_as_a(const Daemon *d) {
    struct sockaddr_in from = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK + 1)}, to = from;
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    to.sin_port = htons((uint16_t)d->port);
    to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    CHECK(bind(fd, (struct sockaddr *)&from, sizeof from) == 0 && connect(fd, (struct sockaddr *)&to, sizeof to) == 0);
    return fd;
}

static int post_as_a(const Daemon *d, const char *body) {
    int fd = connect_as_a(d);
    const char *text = test_text("POST /v1/completions HTTP/1.1\r\nHost: localhost\r\n" KEY_A
                                 "\r\nConnection: close\r\nContent-Length: %zu"
                                 "\r\n\r\n%s",
                                 strlen(body), body);
    CHECK(fd >= 0 && raw_send(fd, text, strlen(text)));
    return fd;
}

static void quick_as_b(const Daemon *d) {
    Answer b = http_request(d, NULL, "/v1/completions", KEY_B, "{\"prompt\":\"The\",\"max_tokens\":1}");
    CHECK_MSG(b.status == 200, "%d: %s", b.status, b.body);
}

/* A has taken what it could of a server with places for two and a queue of three, options besides. B gets its answer.
 */
static void check_that_b_is_served(const char *options) {
    Daemon d;
    REQUIRE(daemon_start(&d, CHECKPOINT_SLOW, options));
    quick_as_b(&d);
    int running = post_as_a(&d, "{" LONG ",\"n\":2}");
    CHECK(isfinite(wait_load(&d, 2, 0)));
    int waiting = post_as_a(&d, "{" LONG ",\"n\":2}"), stream, whole;
    CHECK(isfinite(wait_load(&d, 2, 2)));
    stream = post_as_a(&d, "{" LONG ",\"stream\":true}");
    CHECK(isfinite(wait_load(&d, 2, 3)));
    quick_as_b(&d);
    char *text = raw_read(stream, PATIENCE, NULL);
    CHECK_MSG(strstr(text, " 200 ") && strstr(text, "\"code\":\"queue_full\"") && text_count(text, "[DONE]") == 1, "%s",
              text);
    free(text);
    whole = post_as_a(&d, "{" LONG "}");
    CHECK(isfinite(wait_load(&d, 2, 3)));
    quick_as_b(&d);
    text = raw_read(whole, PATIENCE, NULL);
    CHECK_MSG(strstr(text, " 429 ") && strstr(text, "\"code\":\"queue_full\"") && strstr(text, "\r\nRetry-After: ") &&
                  strstr(text, "\r\nretry-after-ms: "),
              "%s", text);
    free(text);
    CHECK(isfinite(wait_load(&d, 2, 2)));
    close(running);
    close(waiting);
    close(stream);
    close(whole);
    daemon_stop(&d);
}

TEST(http_keys_do_not_starve_each_other) {
    const char *dir = test_dir();
    char path[256];
    keys_write(path, dir, "key-of-a\nkey-of-b\n");
    check_that_b_is_served(test_text("--api-key-file %s --max-batch 2 --max-queue 3", path));
}

TEST(http_addresses_do_not_starve_each_other_without_keys) { check_that_b_is_served("--max-batch 2 --max-queue 3"); }

TEST(http_stream_headers_and_pings) {
    Daemon d;
    REQUIRE(daemon_start(&d, CHECKPOINT_SLOW, "--max-batch 1 --ping-seconds 0.2"));
    int first = raw_completion(&d, "{" LONG ",\"stream\":true}");
    CHECK(raw_expect(first, "data: "));
    int second = raw_completion(&d, "{" LONG ",\"stream\":true}"); /* waits behind the first */
    char *text = raw_read_until(second, "\r\n\r\n");
    CHECK_MSG(strstr(text, "HTTP/1.1 200") && strstr(text, "Content-Type: text/event-stream\r\n") &&
                  strstr(text, "Cache-Control: no-cache\r\n") && strstr(text, "X-Accel-Buffering: no\r\n"),
              "%s", text);
    free(text);
    int pings = 0;
    for (int try = 0; try < TRIES && (pings < 2 || pings > 4); try++) {
        text = raw_read(second, 0.9, NULL);
        pings = text_count(text, ": ping\n\n");
        free(text);
    }
    CHECK_MSG(pings >= 2 && pings <= 4, "%d pings", pings);
    close(first);
    close(second);
    daemon_stop(&d);
}

/* A client that stops reading is cut once nothing has been taken for a while; others do not notice. */
TEST(http_stalled_reader) {
    Daemon d;
    REQUIRE(daemon_start(&d, CHECKPOINT_SLOW, "--write-seconds 0.5"));
    char text[512];
    static const char body[] = "{\"max_tokens\":20000,\"ignore_eos\":true,\"stream\":true,\"n\":8,\"logprobs\":20}";
    struct linger none = {0};
    int fd = raw_connect(&d), small = 4096;
    setsockopt(fd, SOL_SOCKET, SO_LINGER, &none, sizeof none);
    setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &small, sizeof small);
    int n = snprintf(text, sizeof text,
                     "POST /v1/completions HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: %zu"
                     "\r\n\r\n%s",
                     sizeof body - 1, body);
    double t0 = now_seconds();
    struct pollfd begins = {.fd = fd, .events = POLLIN};
    CHECK(raw_send(fd, text, (size_t)n) && poll(&begins, 1, 1000 * PATIENCE) == 1);
    double t = wait_load(&d, 0, 0);
    CHECK_MSG(now_seconds() - t0 > 0.5 && t < 3 * SLOWNESS, "slots free after %.2f s", t);
    Answer a = metrics_now(&d);
    CHECK_MSG(strstr(a.body, "\nnoised_choices_total{finish=\"cancelled\"} 8\n"), "they ended by themselves");
    close(fd);
    daemon_stop(&d);
}

/* The loop takes 128 events at a time; those beyond must not wait for somebody else to send something. */
TEST(http_as_many_requests_as_an_epoll_batch) {
    enum { MOST = 256 };
    static const char request[] = "GET /health/live HTTP/1.1\r\nHost: x\r\n\r\n";
    static const int counts[] = {127, 128, 129, 256};
    Daemon d;
    int fds[MOST];
    REQUIRE(daemon_start(&d, CHECKPOINT_SMALL, NULL));
    for (size_t k = 0; k < COUNTOF(counts); k++) {
        for (int i = 0; i < counts[k]; i++) {
            fds[i] = raw_connect(&d);
            CHECK(raw_send(fds[i], request, sizeof request - 1) && raw_expect(fds[i], "\"ok\""));
        }
        kill(d.pid, SIGSTOP); /* so that all of them are ready at once */
        for (int i = 0; i < counts[k]; i++) CHECK(raw_send(fds[i], request, sizeof request - 1));
        kill(d.pid, SIGCONT);
        int answered = 0;
        for (int i = 0; i < counts[k]; i++) answered += raw_expect(fds[i], "\"ok\"");
        CHECK_MSG(answered == counts[k], "%d of %d requests were answered", answered, counts[k]);
        for (int i = 0; i < counts[k]; i++) close(fds[i]);
        CHECK(wait_load(&d, 0, 0) < 2 * SLOWNESS);
    }
    daemon_stop(&d);
}

/* ---- the end ---- */

static void terminate(const Daemon *d) { kill(d->pid, SIGTERM); }

/* Asks for a stream, and the daemon stands still before its end: SIGCONT lets it go on. The socket; -1: it was whole
 * each time. */
static int stand_within_stream(const Daemon *d, const char *body) {
    for (int try = 0; try < TRIES; try++) {
        int fd = raw_completion(d, body);
        char *begin = raw_read_until(fd, "data: ");
        kill(d->pid, SIGSTOP);
        CHECK(waitpid(d->pid, NULL, WUNTRACED) == d->pid);
        char *more = raw_read(fd, 0.01, NULL);
        bool whole = strstr(begin, "[DONE]") || strstr(more, "[DONE]");
        free(begin);
        free(more);
        if (!whole) return fd;
        kill(d->pid, SIGCONT);
        close(fd);
    }
    return -1;
}

/* What runs when the signal comes is finished; something that lasts keeps the daemon from its end. */
TEST(http_drain_finishes_streams) {
    Daemon d;
    REQUIRE(daemon_start(&d, CHECKPOINT_SLOW, "--drain-seconds 300"));
    int idle = raw_connect(&d), lasting = raw_completion(&d, "{" LONG ",\"stream\":true}");
    int fd =
        stand_within_stream(&d, "{\"max_tokens\":300,\"ignore_eos\":true,\"stream\":true,\"seed\":1,\"noise_seed\":1}");
    CHECK(fd >= 0);
    terminate(&d);
    kill(d.pid, SIGCONT);
    REQUIRE(drain_begins(&d, "/v1/completions", "{\"max_tokens\":1}"));
    Answer a = http_get(&d, "/health");
    CHECK_MSG(a.status == 503 && !strcmp(json_text(a.json, "status"), "draining"), "%s", a.body);
    a = http_get(&d, "/health/live");
    CHECK(a.status == 200);
    char *rest = raw_read_until(fd, "data: [DONE]");
    CHECK_MSG(strstr(rest, "\"finish_reason\":\"length\"") && strstr(rest, "data: [DONE]") && !strstr(rest, "error"),
              "...%s", strlen(rest) > 500 ? rest + strlen(rest) - 500 : rest);
    free(rest);
    close(lasting);
    bool closed;
    free(raw_read(fd, PATIENCE, &closed));
    CHECK_MSG(closed, "the server does not close");
    close(fd);
    close(idle);
    daemon_stop(&d);
}

TEST(http_drain_limit_cuts_with_an_error) {
    Daemon d;
    REQUIRE(daemon_start(&d, CHECKPOINT_SLOW, "--drain-seconds 0.3 --max-batch 2"));
    int stream = raw_completion(&d, "{" LONG ",\"stream\":true}"), plain = raw_completion(&d, "{" LONG "}");
    int queued = raw_completion(&d, "{" LONG ",\"stream\":true}");
    CHECK(raw_expect(stream, "data: "));
    CHECK(isfinite(wait_load(&d, 2, 1)));
    double before = daemon_cpu_seconds(&d);
    terminate(&d);
    int fds[] = {stream, queued};
    for (int i = 0; i < 2; i++) {
        char *rest = raw_read(fds[i], PATIENCE, NULL);
        const char *error = strstr(rest, "data: {\"error\":{"), *done = strstr(rest, "data: [DONE]\n\n");
        CHECK_MSG(error && done && error<done, "%d: ...%s", i, strlen(rest)> 300 ? rest + strlen(rest) - 300 : rest);
        free(rest);
        close(fds[i]);
    }
    char *rest = raw_read(plain, PATIENCE, NULL);
    CHECK_MSG(!strncmp(rest, "HTTP/1.1 503", 12) && strstr(rest, "shutting_down"), "%.300s", rest);
    free(rest);
    close(plain);
    double t = daemon_cpu_seconds(&d) - before;
    CHECK_MSG(t < 3 * SLOWNESS, "stopped after %.2f s", t);
    daemon_stop(&d);
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
        *fd = raw_completion(&d, test_text("{\"max_tokens\":%d,\"stream\":%s,\"n\":%d,\"ignore_eos\":true}",
                                           (int)draw_below(&draws, 400), draw_below(&draws, 2) ? "true" : "false",
                                           1 + (int)draw_below(&draws, 4)));
    }
    for (int i = 0; i < OPEN; i++)
        if (fds[i] >= 0) close(fds[i]);
    CHECK(wait_load(&d, 0, 0) < 2 * SLOWNESS);
    Answer a = http_post(&d, "/v1/completions", "{\"max_tokens\":2}");
    CHECK_MSG(a.status == 200, "%d %s", a.status, a.body);
    daemon_stop(&d);
}

/* What a terminal's Ctrl-\\ sends, and some service managers: no answer is lost for it. */
TEST(http_drains_on_sigquit) {
    Daemon d;
    REQUIRE(daemon_start(&d, CHECKPOINT_SLOW, NULL));
    int fd = raw_completion(&d, "{\"prompt\":\"The\",\"max_tokens\":60,\"ignore_eos\":true,\"stream\":true}");
    CHECK(raw_expect(fd, "data: "));
    kill(d.pid, SIGQUIT);
    CHECK(raw_expect(fd, "[DONE]"));
    close(fd);
    daemon_stop(&d);
}
