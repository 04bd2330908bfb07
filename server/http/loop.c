/* The one thread that reads, calls the handler and sends, which waits in epoll only; its beginning and its end. */
#include "base/clock.h"
#include "base/memory.h"
#include "server/http/library.h"
#include "server/http/listen.h"

#include <errno.h>
#include <malloc.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/syscall.h>
#include <unistd.h>

int http_port(const Http *h) { return h->port; }
int http_busy(Http *h) { return atomic_load(&h->n_busy); }

void http_wake_all(Http *h) {
    for (int i = 0; i < atomic_load(&h->n_used); i++) http_wake(&h->connections[i]);
}

/* ---- what epoll tells, and what time does ---- */

static void see_event(HttpConnection *c, uint32_t events) {
    if (c->phase == PHASE_FREE) return;
    if (c->phase == PHASE_LINGER) return http_connection_linger_on(c, events);
    c->half_closed = true;
    http_library_ring(c);
    if (events & (EPOLLHUP | EPOLLERR) || (c->phase == PHASE_REPLY && c->reply.task.self)) http_connection_cut(c);
}

static void ping(HttpConnection *c) {
    if (!c->reply.stream || atomic_load(&c->sleep) != HTTP_ASLEEP) return;
    buffer_text(&c->reply.body, ": ping\n\n");
    http_wake(c);
}

static void see_deadline(HttpConnection *c, double now) {
    if (now <= c->deadline) return;
    bool begun = c->phase == PHASE_BODY || (c->phase == PHASE_HEAD && c->gate.n_seen > 0);
    if (c->phase == PHASE_REPLY) return ping(c);
    if (http_connection_is_spare(c) && (begun || c->phase == PHASE_HEAD))
        return http_refuse(c, 503, "too many connections");
    if (begun) return http_refuse(c, 408, "the request came too slowly");
    http_connection_cut(c);
}

/* The C library keeps what bodies have left behind until it is asked. */
static void give_memory_back(Http *h) {
    enum { WORTH_IT = 16 << 20 };
    if (h->most_body_bytes < WORTH_IT || h->n_body_bytes > h->most_body_bytes / 2) return;
    h->most_body_bytes = h->n_body_bytes;
    malloc_trim(0);
}

/* ---- the thread ---- */

/* Asks for the shortest slice (Linux 6.12 and later): when this thread is woken it goes before those that compute on
 * its core, which have longer ones. An older kernel, or a sandbox, leaves it as it is. */
static void ask_for_short_slice(void) {
    struct { /* the kernel's sched_attr, which the C library does not have */
        uint32_t size, policy;
        uint64_t flags;
        int32_t nice;
        uint32_t priority;
        uint64_t runtime, deadline, period; /* nanoseconds; of a usual thread, runtime is its slice */
    } attr = {.size = sizeof attr};
    if (syscall(SYS_sched_getattr, 0, &attr, sizeof attr, 0)) return;
    attr.runtime = 100000;
    (void)syscall(SYS_sched_setattr, 0, &attr, 0);
}

/* New connections come last: a place that one of these events has freed must not meet another of them. */
static void *loop(void *arg) {
    enum { TICK_MS = 100, MOST_WIPED = 256 };
    Http *h = arg;
    double last = now_seconds();
    bool knocked = false;
    ask_for_short_slice(); /* the engine threads have every core */
    while (!atomic_load(&h->stopping)) {
        struct epoll_event events[128];
        int wait = knocked || http_library_has_work(h) ? 0 : TICK_MS;
        int n = epoll_wait(h->epoll_fd, events, COUNTOF(events), wait);
        h->turn_began = now_seconds();
        for (int i = 0; i < n; i++) {
            void *what = events[i].data.ptr;
            knocked = knocked || what == &h->listen_fd;
            if (what != &h->listen_fd && what != &h->daemon) see_event(what, events[i].events);
        }
        http_library_run(h);
        if (h->n_wiped >= MOST_WIPED) http_library_give_back(h);
        double now = now_seconds();
        if (now - last >= 1e-3 * TICK_MS) {
            last = now;
            for (int i = 0; i < atomic_load(&h->n_used); i++) see_deadline(&h->connections[i], now);
            http_library_give_back(h);
            give_memory_back(h);
            knocked = true; /* by those for whom there was no descriptor */
        }
        if (knocked) knocked = http_accept(h);
        if (h->handler.turned) h->handler.turned(h->handler.self, now_seconds() - h->turn_began);
    }
    return NULL;
}

/* ---- does the library read through the gate? ---- */

static bool probe_admit(void *self, const HttpRequest *request, HttpReply *reply) {
    (void)self, (void)request;
    reply->status = 200;
    return false;
}

static void probe_answered(void *self, int status) { *(int *)self = status; }

/* A request over a pair of sockets, before any other. One that the gate has not passed is not served. */
static int probe(Http *h, Err *err) {
    enum { ROUNDS = 100 };
    static const char request[] = "GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n";
    HttpConnection *c = &h->connections[HTTP_SPARE_PLACES];
    int pair[2], status = 0;
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, pair))
        return err_set(err, "socketpair: %s", strerror(errno));
    HttpHandler handler = h->handler;
    h->handler = (HttpHandler){.self = &status, .admit = probe_admit, .answered = probe_answered};
    h->turn_began = now_seconds();
    send(pair[1], request, sizeof request - 1, MSG_NOSIGNAL);
    http_welcome(h, pair[0], &(struct sockaddr){.sa_family = AF_UNIX}, sizeof(sa_family_t));
    for (int i = 0; i < ROUNDS && c->phase != PHASE_LINGER; i++) http_library_round(h);
    close(pair[1]);
    http_connection_cut(c); /* it lingers no longer */
    h->handler = handler;
    if (status == 200) return 0;
    return err_set(err,
                   "libmicrohttpd %s does not read its sockets by the program's recv(), so requests could not be "
                   "judged before it has them",
                   MHD_get_version());
}

/* ---- the beginning and the end ---- */

/* What is said when memory has run out must be there before. */
static void make_no_memory(Http *h) {
    int n = snprintf(h->no_memory, sizeof h->no_memory,
                     "HTTP/1.1 503 Service Unavailable\r\nContent-Type: application/json\r\nContent-Length: %zu\r\n"
                     "Retry-After: 1\r\nretry-after-ms: 1000\r\nConnection: close\r\n\r\n%s",
                     strlen(h->handler.no_memory), h->handler.no_memory);
    BUG_ON(n >= (int)sizeof h->no_memory);
}

static int watch(Http *h, int fd, void *what, uint32_t how) {
    struct epoll_event e = {.events = EPOLLIN | how, .data.ptr = what};
    return epoll_ctl(h->epoll_fd, EPOLL_CTL_ADD, fd, &e);
}

static int start(Http *h, Err *err) {
    h->listen_fd = http_listen(&h->options, &h->port, err);
    if (h->listen_fd < 0 || http_make_places(h, err)) return -1;
    make_no_memory(h);
    h->daemon = http_library_start(h);
    if (!h->daemon) return err_set(err, "libmicrohttpd %s does not start: %s", MHD_get_version(), strerror(errno));
    int library = MHD_get_daemon_info(h->daemon, MHD_DAEMON_INFO_EPOLL_FD)->epoll_fd;
    if (watch(h, h->listen_fd, &h->listen_fd, EPOLLET) || watch(h, library, &h->daemon, 0) ||
        watch(h, h->nudge_fd, &h->daemon, EPOLLET))
        return err_set(err, "epoll: %s", strerror(errno));
    if (probe(h, err)) return -1;
    int rc = pthread_create(&h->loop, NULL, loop, h);
    return rc ? err_set(err, "pthread_create: %s", strerror(rc)) : 0;
}

int http_start(Http **out, const HttpOptions *options, const HttpHandler *handler, Err *err) {
    Http *h = try_calloc(1, sizeof *h);
    if (!h) return err_set(err, "no memory for the HTTP server");
    h->options = *options;
    h->handler = *handler;
    h->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    h->nudge_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    h->spare_fd = -1;
    if (start(h, err)) return http_free(h), -1;
    *out = h;
    return 0;
}

void http_stop(Http *h) {
    atomic_store(&h->stopping, true);
    eventfd_write(h->nudge_fd, 1);
    pthread_join(h->loop, NULL);
    for (int i = 0; i < atomic_load(&h->n_used); i++) http_connection_cut(&h->connections[i]);
    http_library_round(h);
    MHD_stop_daemon(h->daemon);
    h->daemon = NULL;
    close(h->listen_fd);
    h->listen_fd = -1;
}

void http_free(Http *h) {
    const int fds[] = {h->listen_fd, h->spare_fd, h->epoll_fd, h->nudge_fd};
    if (h->daemon) MHD_stop_daemon(h->daemon);
    for (size_t i = 0; i < COUNTOF(fds); i++)
        if (fds[i] >= 0) close(fds[i]);
    free(h->connections);
    free(h);
}
