/* The watcher: what libmicrohttpd cannot do for a connection. Its timeouts start anew with every byte, and it looks at
 * no suspended socket. */
#include "base/clock.h"
#include "base/err.h"
#include "base/log.h"
#include "server/http/connection.h"

#include <errno.h>
#include <linux/tcp.h>
#include <netinet/in.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

enum { TICK_MS = 100 };

void http_watch_add(HttpConnection *c) {
    uint64_t place = (uint64_t)(c - c->http->connections);
    struct epoll_event e = {.events = EPOLLRDHUP | EPOLLONESHOT, .data.u64 = place << 32 | c->generation};
    if (epoll_ctl(c->http->epoll_fd, EPOLL_CTL_ADD, c->fd, &e)) log_line("watcher: epoll_ctl: %s", strerror(errno));
}

void http_watch_remove(HttpConnection *c) { epoll_ctl(c->http->epoll_fd, EPOLL_CTL_DEL, c->fd, NULL); }

/* The socket is shut down, not closed: libmicrohttpd owns it, sees the end and cleans up. */
static void cut(HttpConnection *c) {
    shutdown(c->fd, SHUT_RDWR);
    c->gone = true;
    c->signalled = true;
    http_connection_resume(c);
}

static void hang_up(struct Http *h, uint64_t id) {
    HttpConnection *c = &h->connections[id >> 32];
    pthread_mutex_lock(&c->mutex);
    if (c->phase != PHASE_FREE && c->generation == (uint32_t)id) {
        c->gone = true;
        if (c->waiting) cut(c);
    }
    pthread_mutex_unlock(&c->mutex);
}

/* True when bytes have been on their way for `limit` seconds without the peer confirming a single one. */
static bool is_stalled(HttpConnection *c, double now, double limit) {
    struct tcp_info info = {0};
    socklen_t n = sizeof info;
    if (getsockopt(c->fd, IPPROTO_TCP, TCP_INFO, &info, &n)) return false;
    bool pending = info.tcpi_unacked > 0 || info.tcpi_notsent_bytes > 0;
    if (!pending || info.tcpi_bytes_acked != c->acked || c->acked_at == 0) {
        c->acked = info.tcpi_bytes_acked;
        c->acked_at = now;
    }
    return now - c->acked_at > limit;
}

static void look_at(HttpConnection *c, double now) {
    const HttpOptions *o = &c->http->options;
    pthread_mutex_lock(&c->mutex);
    switch (c->phase) {
    case PHASE_FREE:
        break;
    case PHASE_IDLE:
    case PHASE_HEAD:
    case PHASE_BODY:
        if (c->gone || now > c->deadline) cut(c); /* libmicrohttpd misses an end that came with the last bytes */
        break;
    case PHASE_REPLY:
        if (is_stalled(c, now, o->stall_seconds)) {
            cut(c);
        } else if (c->waiting && now - c->quiet_since > o->ping_seconds) {
            c->ping = true;
            c->quiet_since = now;
            http_connection_resume(c);
        }
        break;
    }
    pthread_mutex_unlock(&c->mutex);
}

static void *watch(void *arg) {
    struct Http *h = arg;
    double last = 0;
    while (!atomic_load(&h->stopping)) {
        struct epoll_event events[64];
        int n = epoll_wait(h->epoll_fd, events, COUNTOF(events), TICK_MS);
        for (int i = 0; i < n; i++) hang_up(h, events[i].data.u64);
        double now = now_seconds();
        if (now - last < 1e-3 * TICK_MS) continue;
        last = now;
        int used = atomic_load(&h->n_used);
        for (int i = 0; i < used; i++) look_at(&h->connections[i], now);
    }
    return NULL;
}

int http_watch_start(struct Http *h, Err *err) {
    h->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    if (h->epoll_fd < 0) return err_set(err, "epoll_create1: %s", strerror(errno));
    int rc = pthread_create(&h->watcher, NULL, watch, h);
    if (rc == 0) return 0;
    close(h->epoll_fd);
    return err_set(err, "pthread_create: %s", strerror(rc));
}

void http_watch_stop(struct Http *h) { pthread_join(h->watcher, NULL); }
