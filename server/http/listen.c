#include "server/http/listen.h"

#include "base/files.h"
#include "base/log.h"
#include "server/http/recv.h"
#include "server/http/reply.h"

#include <errno.h>
#include <fcntl.h>
#include <netinet/tcp.h>
#include <sys/epoll.h>
#include <unistd.h>

int http_listen(const HttpOptions *o, int *port, Err *err) {
    int fd = o->listen_fd >= 0 ? o->listen_fd : tcp_listen(o->host, o->port, err);
    return fd < 0 || tcp_accepts(fd, port, err) ? -1 : fd;
}

/* Every connection needs a descriptor, and the rest of the process a few: for a reload, a probe of the system. */
int http_affordable_connections(int wanted) {
    enum { REST = 24 };
    int n = files_affordable(wanted + HTTP_SPARE_PLACES + REST) - HTTP_SPARE_PLACES - REST;
    if (n < wanted) log_warning("http: the limit of open files allows %d connections, not %d", MAX(n, 1), wanted);
    return MAX(n, 1);
}

int http_spare_file(void) { return open("/dev/null", O_RDONLY | O_CLOEXEC); }

/* One beyond the limit; the connection there that came first makes room. NULL: it would not. */
static HttpConnection *spare_place(struct Http *h) {
    HttpConnection *first = h->connections;
    h->n_refusals++;
    for (HttpConnection *c = first; c < h->connections + HTTP_SPARE_PLACES; c++)
        if (first->phase != PHASE_FREE && (c->phase == PHASE_FREE || c->opened_at < first->opened_at)) first = c;
    if (first->phase == PHASE_HEAD) http_refuse(first, 503, "too many connections");
    http_connection_cut(first);
    if (first->phase != PHASE_FREE) MHD_run(h->daemon);
    return first->phase == PHASE_FREE ? first : NULL;
}

static HttpConnection *place(struct Http *h) {
    HttpConnection *c = h->first_free;
    int n = atomic_load(&h->n_used);
    if (c) {
        h->first_free = c->next_free;
    } else if (n < HTTP_SPARE_PLACES + h->n_connections) {
        c = &h->connections[n];
        c->http = h; /* before http_wake_all may find it */
        atomic_store(&h->n_used, n + 1);
    }
    return c ? c : spare_place(h);
}

/* The client hears why and when to come again. */
static HttpConnection *turn_away(struct Http *h, int fd, const char *why) {
    HttpConnection *c = spare_place(h);
    if (!c) return close(fd), NULL;
    http_connection_open(c, fd);
    http_refuse(c, 503, why);
    return c;
}

/* The library closes a socket that it does not take: for want of memory, or because the address has its fill of them.
 */
void http_welcome(struct Http *h, int fd, const struct sockaddr *address, socklen_t n) {
    int copy = h->options.max_per_address > 0 ? fcntl(fd, F_DUPFD_CLOEXEC, 0) : -1, one = 1;
    HttpConnection *c = place(h);
    struct epoll_event e = {.events = EPOLLRDHUP | EPOLLET, .data.ptr = c};
    if (!c) {
        if (copy >= 0) close(copy);
        return (void)close(fd);
    }
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    http_connection_open(c, fd);
    tcp_name(address, c->client);
    http_recv_keep(fd, c);
    h->arriving = c;
    bool taken = MHD_add_connection(h->daemon, fd, address, n) == MHD_YES;
    if (taken) {
        if (copy >= 0) close(copy);
        if (epoll_ctl(h->epoll_fd, EPOLL_CTL_ADD, fd, &e)) http_connection_cut(c); /* no memory in the kernel */
    } else {
        http_recv_keep(fd, NULL);
        http_connection_release(c);
        if (copy >= 0) turn_away(h, copy, "too many connections from this address");
    }
}

static void hear(struct Http *h, bool on) {
    struct epoll_event e = {.events = on ? EPOLLIN : 0, .data.ptr = &h->listen_fd};
    h->deaf = !on;
    epoll_ctl(h->epoll_fd, EPOLL_CTL_MOD, h->listen_fd, &e);
}

/* Descriptors may run out all the same, by files that others of the process have open. The spare one is given up to
 * tell one client. Where even that fails, nobody is heard until the next tick, for the loop must not spin. */
static void refuse_with_spare(struct Http *h) {
    if (h->spare_fd >= 0) close(h->spare_fd);
    int fd = accept4(h->listen_fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
    HttpConnection *c = fd >= 0 ? turn_away(h, fd, "too many open files") : NULL;
    if (c) http_connection_cut(c);
    h->spare_fd = http_spare_file();
    if (fd < 0 || h->spare_fd < 0) hear(h, false);
}

void http_accept(struct Http *h) {
    enum { AT_ONCE = 64 }; /* then those that are here have their turn */
    for (int i = 0; i < AT_ONCE; i++) {
        struct sockaddr_storage from;
        struct sockaddr *address = (struct sockaddr *)&from;
        socklen_t n = sizeof from;
        int fd = accept4(h->listen_fd, address, &n, SOCK_NONBLOCK | SOCK_CLOEXEC);
        if (fd >= HTTP_MAX_FILES)
            close(fd);
        else if (fd >= 0)
            http_welcome(h, fd, address, n);
        else if (errno == EAGAIN)
            return;
        else if (errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM)
            return refuse_with_spare(h);
    }
}

static void report_refusals(struct Http *h, double now) {
    enum { EVERY = 60 }; /* seconds */
    if (h->n_refusals == h->n_reported || (h->reported_at && now - h->reported_at < EVERY)) return;
    log_warning("http: %u connections refused: all %d places, or all file descriptors, were taken",
                h->n_refusals - h->n_reported, h->n_connections);
    h->reported_at = now;
    h->n_reported = h->n_refusals;
}

void http_listen_tick(struct Http *h, double now) {
    if (h->spare_fd < 0) h->spare_fd = http_spare_file();
    if (h->deaf) hear(h, true);
    report_refusals(h, now);
}
