/* Wakes, also from many threads at once: the connection that one of them is for is looked at again, and at once. */
#include "base/clock.h"
#include "base/err.h"
#include "server/http/http.h"
#include "tests/support/http_client.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { STREAMS = 32, THREADS = 4, WAKES = FEWER(500000), TIMES = 300 };
static const double tick = 0.1; /* seconds after which the loop looks at its deadlines, whatever comes */

/* News for a stream are counted before it is woken, and seen when it is polled. A stream whose wake is lost counts as
 * woken for ever, and sees no news any more. */
typedef struct Stream {
    atomic_int news, seen;
    void *_Atomic waker;
} Stream;

static Stream streams[STREAMS];

static bool admit(void *self, const HttpRequest *request, HttpReply *reply) {
    (void)self, (void)request, (void)reply;
    return true;
}

static bool poll_stream(void *self, HttpReply *reply) {
    Stream *s = self;
    (void)reply;
    atomic_store(&s->seen, atomic_load(&s->news));
    return false;
}

/* A byte for every wake; its connection is the only one. */
static bool poll_echo(void *self, HttpReply *reply) {
    Stream *s = self;
    for (int news = atomic_load(&s->news); atomic_load(&s->seen) < news; atomic_fetch_add(&s->seen, 1))
        buffer_text(&reply->body, "!");
    return false;
}

/* News that come behind what the poll has looked at, before its stream sleeps. */
static bool poll_again(void *self, HttpReply *reply) {
    Stream *s = self;
    (void)reply;
    if (atomic_fetch_add(&s->seen, 1) < TIMES) http_wake(atomic_load(&s->waker));
    return false;
}

static void close_stream(void *self) { (void)self; }

static bool (*poll_of_all)(void *self, HttpReply *reply);

/* The path is /N, of stream N. */
static void handle(void *self, const HttpRequest *request, HttpReply *reply) {
    (void)self;
    Stream *s = &streams[atoi(request->path + 1)];
    reply->stream = true;
    reply->task = (HttpTask){.self = s, .poll = poll_of_all, .close = close_stream};
    atomic_store(&s->waker, request->waker);
}

static void refuse(void *self, int status, const char *message, HttpReply *reply) {
    (void)self, (void)message;
    reply->status = status;
}

static void answered(void *self, int status) { (void)self, (void)status; }

static void *wake_all(void *arg) {
    unsigned at = *(unsigned *)arg;
    for (int i = 0; i < WAKES; i++) {
        Stream *s = &streams[at++ % STREAMS];
        atomic_fetch_add(&s->news, 1);
        http_wake(atomic_load(&s->waker));
    }
    return NULL;
}

static bool comes(bool (*so)(const Stream *s)) {
    for (double t0 = now_seconds(); now_seconds() - t0 < PATIENCE; usleep(1000)) {
        int n = 0;
        for (int i = 0; i < STREAMS; i++) n += so(&streams[i]);
        if (n == STREAMS) return true;
    }
    return false;
}

static bool is_open(const Stream *s) { return atomic_load(&s->waker) != NULL; }
static bool is_up_to_date(const Stream *s) { return atomic_load(&s->seen) == atomic_load(&s->news); }

static Http *start(bool (*poll)(void *, HttpReply *)) {
    const HttpOptions options = {.host = "127.0.0.1",
                                 .listen_fd = -1,
                                 .max_body = 1000,
                                 .max_connections = STREAMS,
                                 .head_seconds = 60,
                                 .body_seconds = 60,
                                 .idle_seconds = 60,
                                 .stall_seconds = 600,
                                 .ping_seconds = 600};
    const HttpHandler handler = {.admit = admit,
                                 .handle = handle,
                                 .refuse = refuse,
                                 .answered = answered,
                                 .no_memory = "",
                                 .no_memory_event = ""};
    Http *http;
    Err err;
    memset(streams, 0, sizeof streams);
    poll_of_all = poll;
    return http_start(&http, &options, &handler, &err) ? NULL : http;
}

TEST(http_wakes_are_never_lost) {
    Http *http = start(poll_stream);
    REQUIRE(http);
    const Daemon here = {.port = http_port(http)};
    int fds[STREAMS];
    for (int i = 0; i < STREAMS; i++) {
        char head[64];
        int n = snprintf(head, sizeof head, "GET /%d HTTP/1.1\r\nHost: x\r\n\r\n", i);
        fds[i] = raw_connect(&here);
        CHECK(raw_send(fds[i], head, (size_t)n));
    }
    pthread_t threads[THREADS];
    unsigned first[THREADS];
    if (comes(is_open)) {
        for (int i = 0; i < THREADS; i++) {
            first[i] = (unsigned)(i * STREAMS / THREADS);
            pthread_create(&threads[i], NULL, wake_all, &first[i]);
        }
        for (int i = 0; i < THREADS; i++) pthread_join(threads[i], NULL);
        CHECK_MSG(comes(is_up_to_date), "a stream sleeps on beside its news");
    } else {
        test_fail(__FILE__, __LINE__, "not all streams begin");
    }
    http_stop(http);
    http_free(http);
    for (int i = 0; i < STREAMS; i++) close(fds[i]);
}

/* What a wake announces goes out then, not at the loop's next tick. */
TEST(http_wakes_end_the_loops_wait) {
    static const char head[] = "GET /0 HTTP/1.1\r\nHost: x\r\n\r\n";
    Http *http = start(poll_echo);
    REQUIRE(http);
    const Daemon here = {.port = http_port(http)};
    int fd = raw_connect(&here), heard = 0;
    CHECK(raw_send(fd, head, sizeof head - 1) && raw_expect(fd, "\r\n\r\n"));
    double t0 = now_seconds(), at_ticks = tick * TIMES;
    for (int i = 0; i < TIMES && now_seconds() - t0 < at_ticks; i++) {
        atomic_fetch_add(&streams[0].news, 1);
        http_wake(atomic_load(&streams[0].waker));
        heard += raw_expect(fd, "!\r\n");
    }
    CHECK_MSG(heard == TIMES && now_seconds() - t0 < at_ticks / 2, "%d of %d wakes were heard in %.1f s", heard, TIMES,
              now_seconds() - t0);
    http_stop(http);
    http_free(http);
    close(fd);
}

/* One that comes while its stream is about to sleep is as good as any other. */
TEST(http_wakes_within_a_poll) {
    static const char head[] = "GET /0 HTTP/1.1\r\nHost: x\r\n\r\n";
    Http *http = start(poll_again);
    REQUIRE(http);
    const Daemon here = {.port = http_port(http)};
    int fd = raw_connect(&here);
    double t0 = now_seconds(), at_ticks = tick * TIMES;
    CHECK(raw_send(fd, head, sizeof head - 1));
    while (atomic_load(&streams[0].seen) < TIMES && now_seconds() - t0 < at_ticks) usleep(1000);
    CHECK_MSG(now_seconds() - t0 < at_ticks / 2, "%d of %d polls in %.1f s", atomic_load(&streams[0].seen), TIMES,
              now_seconds() - t0);
    http_stop(http);
    http_free(http);
    close(fd);
}
