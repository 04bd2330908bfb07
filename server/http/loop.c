#include "server/http/loop.h"

#include "base/clock.h"
#include "base/scheduling.h"
#include "server/http/listen.h"
#include "server/http/recv.h"
#include "server/http/reply.h"

#include <errno.h>
#include <malloc.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

enum { TICK_MS = 100 };

/* ---- wakes ---- */

void http_wake(void *waker) {
    HttpConnection *c = waker, *first;
    struct Http *h = c->http;
    if (atomic_exchange(&c->woken, true)) return;
    first = atomic_load(&h->first_woken);
    do c->next_woken = first;
    while (!atomic_compare_exchange_weak(&h->first_woken, &first, c));
    if (!first) eventfd_write(h->nudge_fd, 1);
}

void http_wake_all(Http *h) {
    for (int i = 0; i < atomic_load(&h->n_used); i++) http_wake(&h->connections[i]);
}

/* The nudge is taken before the list: a wake in between nudges once too often, not never. */
static void resume_woken(struct Http *h) {
    eventfd_t count;
    eventfd_read(h->nudge_fd, &count);
    HttpConnection *next, *c = atomic_exchange(&h->first_woken, NULL);
    for (; c; c = next) {
        next = c->next_woken;
        atomic_store(&c->woken, false); /* from here on it may be in the next list */
        http_connection_resume(c);
    }
}

/* ---- what epoll tells, and what time does ---- */

static void see_event(HttpConnection *c, uint32_t events) {
    if (c->phase == PHASE_FREE) return;
    if (c->phase == PHASE_LINGER) return http_connection_linger_on(c, events);
    c->half_closed = true;
    http_recv_ring(c);
    if (events & (EPOLLHUP | EPOLLERR) || (c->phase == PHASE_REPLY && c->reply.task.self)) http_connection_cut(c);
}

static void ping(HttpConnection *c) {
    c->ping = c->reply.stream && c->suspended;
    if (c->ping) http_connection_resume(c);
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

/* Peers that take nothing. */
static void see_progress(HttpConnection *c, double now) {
    if (c->phase != PHASE_REPLY) return;
    TcpProgress p = tcp_progress(c->fd);
    if (!p.pending || p.acked != c->seen.acked || c->seen_at == 0) {
        c->seen = p;
        c->seen_at = now;
    }
    if (now - c->seen_at > c->http->options.stall_seconds) http_connection_cut(c);
}

static void cut(HttpConnection *c, double now) {
    (void)now;
    http_connection_cut(c);
}

static void for_all(struct Http *h, double now, void (*look)(HttpConnection *, double)) {
    for (int i = 0; i < atomic_load(&h->n_used); i++) look(&h->connections[i], now);
}

/* The C library keeps what bodies have left behind until it is asked. */
static void give_memory_back(struct Http *h) {
    enum { WORTH_IT = 16 << 20 };
    if (h->most_body_bytes < WORTH_IT || h->n_body_bytes > h->most_body_bytes / 2) return;
    h->most_body_bytes = h->n_body_bytes;
    malloc_trim(0);
}

static void tick(struct Http *h, double now) {
    http_listen_tick(h, now);
    for_all(h, now, see_deadline);
    if (now - h->watched_at < 1) return;
    h->watched_at = now;
    for_all(h, now, see_progress);
    give_memory_back(h);
}

/* ---- the thread ---- */

/* What the library has at hand, and, as it does one thing a round, what has come of that. */
static void run_library(struct Http *h) {
    MHD_UNSIGNED_LONG_LONG ms;
    for (int i = 0; i < 4; i++) {
        MHD_run(h->daemon);
        if (MHD_get_timeout(h->daemon, &ms) == MHD_NO || ms > 0) return;
    }
}

/* New connections come last: a place that one of these events has freed must not meet another of them. */
static void *loop(void *arg) {
    struct Http *h = arg;
    double last = now_seconds();
    scheduling_prompt(); /* between two steps of the engine, whose threads have every core */
    while (!atomic_load(&h->stopping)) {
        struct epoll_event events[128];
        bool nudged = false, knocked = false;
        MHD_UNSIGNED_LONG_LONG ms;
        bool at_once = MHD_get_timeout(h->daemon, &ms) == MHD_YES && ms == 0;
        int n = epoll_wait(h->epoll_fd, events, COUNTOF(events), at_once ? 0 : TICK_MS);
        h->turn_began = now_seconds();
        for (int i = 0; i < n; i++) {
            void *what = events[i].data.ptr;
            nudged = nudged || what == &h->nudge_fd;
            knocked = knocked || what == &h->listen_fd;
            bool ours = what == &h->nudge_fd || what == &h->listen_fd || what == &h->daemon;
            if (!ours) see_event(what, events[i].events);
        }
        if (nudged) resume_woken(h);
        run_library(h);
        double now = now_seconds();
        if (now - last >= 1e-3 * TICK_MS) tick(h, last = now);
        if (knocked) http_accept(h);
        if (h->handler.turned) h->handler.turned(h->handler.self, now_seconds() - h->turn_began);
    }
    return NULL;
}

static int watch(struct Http *h, int fd, void *what) {
    struct epoll_event e = {.events = EPOLLIN, .data.ptr = what};
    return epoll_ctl(h->epoll_fd, EPOLL_CTL_ADD, fd, &e);
}

int http_loop_start(struct Http *h, Err *err) {
    int library = MHD_get_daemon_info(h->daemon, MHD_DAEMON_INFO_EPOLL_FD)->epoll_fd;
    if (watch(h, h->listen_fd, &h->listen_fd) || watch(h, h->nudge_fd, &h->nudge_fd) || watch(h, library, &h->daemon))
        return err_set(err, "epoll: %s", strerror(errno));
    int rc = pthread_create(&h->loop, NULL, loop, h);
    return rc ? err_set(err, "pthread_create: %s", strerror(rc)) : 0;
}

void http_loop_stop(struct Http *h) {
    atomic_store(&h->stopping, true);
    eventfd_write(h->nudge_fd, 1);
    pthread_join(h->loop, NULL);
    for_all(h, 0, cut);
    MHD_run(h->daemon);
}
