/* The one thread that reads, calls the handler and sends. It waits in epoll only. */
#include "base/clock.h"
#include "base/scheduling.h"
#include "server/http/connection.h"

#include <errno.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

enum { TICK_MS = 100 };

void http_wake(void *waker) {
    HttpConnection *c = waker;
    struct Http *h = c->http;
    pthread_mutex_lock(&h->mutex);
    bool first = !c->woken && h->n_woken == 0;
    if (!c->woken) h->woken[h->n_woken++] = c;
    c->woken = true;
    pthread_mutex_unlock(&h->mutex);
    if (first) eventfd_write(h->nudge_fd, 1);
}

void http_wake_all(Http *h) {
    for (int i = 0; i < atomic_load(&h->n_used); i++) http_wake(&h->connections[i]);
}

static void run_woken(struct Http *h) {
    eventfd_t count;
    eventfd_read(h->nudge_fd,
                 &count); /* before the list is taken: a wake in between nudges once too often, not never */
    pthread_mutex_lock(&h->mutex);
    HttpConnection **woken = h->woken;
    int n = h->n_woken;
    for (int i = 0; i < n; i++) woken[i]->woken = false;
    h->woken = h->waking;
    h->n_woken = 0;
    pthread_mutex_unlock(&h->mutex);
    h->waking = woken;
    for (int i = 0; i < n; i++) http_connection_run(woken[i]);
}

static void tick(struct Http *h, double now) {
    if (h->deaf) http_listen_watch(h, true);
    http_report_refusals(h, now);
    for (int i = 0; i < atomic_load(&h->n_used); i++) http_connection_look(&h->connections[i], now);
    for (int i = 0; i < HTTP_REFUSALS; i++) http_connection_look(&h->connections[h->n_connections + i], now);
}

/* New connections come last: a place that one of these events has freed must not meet another of them. */
static void *loop(void *arg) {
    struct Http *h = arg;
    double last = now_seconds();
    scheduling_prompt(); /* between two steps of the engine, whose threads have every core */
    while (!atomic_load(&h->stopping)) {
        struct epoll_event events[128];
        bool nudged = false, knocked = false;
        int n = epoll_wait(h->epoll_fd, events, COUNTOF(events), TICK_MS);
        double start = now_seconds();
        for (int i = 0; i < n; i++) {
            void *what = events[i].data.ptr;
            nudged = nudged || what == &h->nudge_fd;
            knocked = knocked || what == &h->listen_fd;
            if (what != &h->nudge_fd && what != &h->listen_fd) http_connection_ready(what, events[i].events);
        }
        if (nudged) run_woken(h);
        double now = now_seconds();
        if (now - last >= 1e-3 * TICK_MS) tick(h, last = now);
        if (knocked) http_accept(h);
        if (h->handler.turned) h->handler.turned(h->handler.self, now_seconds() - start);
    }
    return NULL;
}

static int watch(struct Http *h, int *fd) {
    struct epoll_event e = {.events = EPOLLIN, .data.ptr = fd};
    return epoll_ctl(h->epoll_fd, EPOLL_CTL_ADD, *fd, &e);
}

int http_loop_start(struct Http *h, Err *err) {
    h->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    h->nudge_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (h->epoll_fd < 0 || h->nudge_fd < 0 || watch(h, &h->listen_fd) || watch(h, &h->nudge_fd))
        return err_set(err, "epoll: %s", strerror(errno));
    int rc = pthread_create(&h->loop, NULL, loop, h);
    return rc ? err_set(err, "pthread_create: %s", strerror(rc)) : 0;
}

void http_loop_stop(struct Http *h) {
    atomic_store(&h->stopping, true);
    eventfd_write(h->nudge_fd, 1);
    pthread_join(h->loop, NULL);
    for (int i = 0; i < atomic_load(&h->n_used); i++) http_connection_close(&h->connections[i]);
    for (int i = 0; i < HTTP_REFUSALS; i++) http_connection_close(&h->connections[h->n_connections + i]);
}
