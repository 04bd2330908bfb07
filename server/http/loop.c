#include "server/http/http.h"

#include "base/clock.h"
#include "base/memory.h"
#include "base/scheduling.h"
#include "server/http/library.h"
#include "server/http/listen.h"
#include "server/http/recv.h"

#include <errno.h>
#include <malloc.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

int http_port(const Http *h) { return h->port; }
int http_busy(Http *h) { return atomic_load(&h->n_busy); }
void http_wake(void *waker) { http_connection_resume(waker); }

void http_wake_all(Http *h) {
    for (int i = 0; i < atomic_load(&h->n_used); i++) http_wake(&h->connections[i]);
}

/* ---- what epoll tells, and what time does ---- */

static void see_event(HttpConnection *c, uint32_t events) {
    if (c->phase == PHASE_FREE) return;
    if (c->phase == PHASE_LINGER) return http_connection_linger_on(c);
    if (c->phase == PHASE_BODY) return http_recv_body(c);
    c->half_closed = true;
    http_recv_ring(c);
    if (events & (EPOLLHUP | EPOLLERR) || (c->phase == PHASE_REPLY && c->reply.task.self)) http_connection_cut(c);
}

static void ping(HttpConnection *c) {
    if (!c->reply.stream || !atomic_load(&c->suspended)) return;
    buffer_text(&c->reply.body, ": ping\n\n");
    http_connection_resume(c);
}

static void see_deadline(HttpConnection *c, double now) {
    bool begun = c->phase == PHASE_BODY || (c->phase == PHASE_HEAD && c->gate.n_seen > 0);
    if (now <= c->deadline) return;
    if (c->phase == PHASE_REPLY) return ping(c);
    if (!begun) return http_connection_cut(c);
    if (http_connection_is_spare(c)) return http_refuse(c, 503, "too many connections");
    http_refuse(c, 408, "the request came too slowly");
}

/* The C library keeps what bodies have left behind until it is asked. */
static void give_memory_back(struct Http *h) {
    enum { WORTH_IT = 16 << 20 };
    if (h->most_body_bytes < WORTH_IT || h->n_body_bytes > h->most_body_bytes / 2) return;
    h->most_body_bytes = h->n_body_bytes;
    malloc_trim(0);
}

/* ---- the thread ---- */

/* New connections come last: a place that one of these events has freed must not meet another of them. */
static void *loop(void *arg) {
    enum { TICK_MS = 100 };
    struct Http *h = arg;
    double last = now_seconds();
    bool knocked = false;
    scheduling_prompt(); /* between two steps of the engine, whose threads have every core */
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
        double now = now_seconds();
        if (now - last >= 1e-3 * TICK_MS) {
            last = now;
            for (int i = 0; i < atomic_load(&h->n_used); i++) see_deadline(&h->connections[i], now);
            give_memory_back(h);
            knocked = true; /* by those for whom no descriptor was left */
        }
        if (knocked) knocked = http_accept(h);
        if (h->handler.turned) h->handler.turned(h->handler.self, now_seconds() - h->turn_began);
    }
    return NULL;
}

/* ---- its beginning and end ---- */

/* Whether the library reads through ours: of two bytes over a pair of sockets, before any others. */
static int probe(Http *h, Err *err) {
    enum { ROUNDS = 100 };
    HttpConnection *c = &h->connections[HTTP_SPARE_PLACES];
    int pair[2];
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, pair))
        return err_set(err, "socketpair: %s", strerror(errno));
    send(pair[1], "\r\n", 2, MSG_NOSIGNAL);
    h->turn_began = now_seconds();
    http_welcome(h, pair[0], &(struct sockaddr){.sa_family = AF_UNIX}, sizeof(sa_family_t));
    for (int i = 0; i < ROUNDS && c->served_in != h->turn_began; i++) MHD_run(h->daemon);
    bool ours = c->served_in == h->turn_began;
    close(pair[1]);
    http_connection_cut(c);
    if (ours) return 0;
    return err_set(err,
                   "libmicrohttpd %s does not read its sockets by the program's recv(), so requests could not be "
                   "judged before it has them",
                   MHD_get_version());
}

static void print_503(Buffer *out, const char *body, size_t n) {
    buffer_print(out,
                 "HTTP/1.1 503 Service Unavailable\r\nContent-Type: application/json\r\nContent-Length: %zu\r\n"
                 "Retry-After: 1\r\nretry-after-ms: 1000\r\nConnection: close\r\n\r\n",
                 n);
    buffer_append(out, body, n);
}

/* Places, and what is said when something has run out: that must be there before. */
static int make_room(Http *h, Err *err) {
    HttpReply reply = {0};
    h->n_connections = http_affordable_connections(h->options.max_connections);
    h->connections = try_calloc((size_t)(HTTP_SPARE_PLACES + h->n_connections), sizeof *h->connections);
    h->handler.refuse(h->handler.self, 503, "too many open files", &reply);
    print_503(&h->no_files, reply.body.data, reply.body.n);
    print_503(&h->no_memory, h->handler.no_memory, strlen(h->handler.no_memory));
    buffer_free(&reply.body);
    if (!h->connections || h->no_files.failed || h->no_memory.failed)
        return err_set(err, "no memory for %d connections", h->n_connections);
    for (int i = 0; i < HTTP_SPARE_PLACES; i++) h->connections[i].http = h;
    atomic_store(&h->n_used, HTTP_SPARE_PLACES);
    return 0;
}

static int watch(struct Http *h, int fd, void *what) {
    struct epoll_event e = {.events = EPOLLIN | (fd == h->listen_fd ? EPOLLET : 0), .data.ptr = what};
    return epoll_ctl(h->epoll_fd, EPOLL_CTL_ADD, fd, &e);
}

static int start(Http *h, Err *err) {
    h->listen_fd = http_listen(&h->options, &h->port, err);
    if (h->listen_fd < 0 || make_room(h, err)) return -1;
    h->daemon = http_library_start(h);
    if (!h->daemon) return err_set(err, "libmicrohttpd %s does not start: %s", MHD_get_version(), strerror(errno));
    int library = MHD_get_daemon_info(h->daemon, MHD_DAEMON_INFO_EPOLL_FD)->epoll_fd;
    if (watch(h, h->listen_fd, &h->listen_fd) || watch(h, library, &h->daemon))
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
    h->listen_fd = -1;
    h->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    pthread_mutex_init(&h->mutex, NULL);
    h->spare_fd = -1;
    if (start(h, err)) return http_free(h), -1;
    *out = h;
    return 0;
}

void http_stop(Http *h) {
    atomic_store(&h->stopping, true);
    pthread_join(h->loop, NULL);
    for (int i = 0; i < atomic_load(&h->n_used); i++) http_connection_cut(&h->connections[i]);
    MHD_run(h->daemon);
    MHD_stop_daemon(h->daemon);
    h->daemon = NULL;
    close(h->listen_fd);
    h->listen_fd = -1;
}

void http_free(Http *h) {
    const int fds[] = {h->listen_fd, h->spare_fd, h->epoll_fd};
    if (h->daemon) MHD_stop_daemon(h->daemon);
    for (size_t i = 0; i < COUNTOF(fds); i++)
        if (fds[i] >= 0) close(fds[i]);
    pthread_mutex_destroy(&h->mutex);
    buffer_free(&h->no_memory);
    buffer_free(&h->no_files);
    free(h->connections);
    free(h);
}
