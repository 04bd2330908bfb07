#include "server/http/listen.h"

#include "base/clock.h"
#include "base/files.h"
#include "base/log.h"
#include "base/memory.h"
#include "server/http/library.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/epoll.h>
#include <unistd.h>

int http_listen(const HttpOptions *o, int *port, Err *err) {
    int fd = o->listen_fd >= 0 ? o->listen_fd : tcp_listen(o->host, o->port, err);
    return fd < 0 || tcp_accepts(fd, port, err) ? -1 : fd;
}

/* Every connection needs a descriptor, and the rest of the process a few: for a reload, a probe of the system. */
int http_make_places(struct Http *h, Err *err) {
    enum { REST = 24 };
    int wanted = h->options.max_connections;
    h->n_connections = MAX(files_affordable(wanted + HTTP_SPARE_PLACES + REST) - HTTP_SPARE_PLACES - REST, 1);
    if (h->n_connections < wanted)
        log_warning("http: the limit of open files allows %d connections, not %d", h->n_connections, wanted);
    h->connections = try_calloc((size_t)(HTTP_SPARE_PLACES + h->n_connections), sizeof *h->connections);
    if (!h->connections) return err_set(err, "no memory for %d connections", h->n_connections);
    for (int i = 0; i < HTTP_SPARE_PLACES; i++) h->connections[i].http = h;
    atomic_store(&h->n_used, HTTP_SPARE_PLACES);
    return 0;
}

/* One beyond the limit; the connection there that came first makes room. NULL: it would not. */
static HttpConnection *spare_place(struct Http *h) {
    HttpConnection *first = h->connections;
    h->n_refusals++;
    for (HttpConnection *c = first; c < h->connections + HTTP_SPARE_PLACES; c++)
        if (first->phase != PHASE_FREE && (c->phase == PHASE_FREE || c->opened_at < first->opened_at)) first = c;
    if (first->phase == PHASE_HEAD) http_refuse(first, 503, "too many connections");
    http_connection_cut(first);
    if (first->phase != PHASE_FREE) http_library_round(h);
    return first->phase == PHASE_FREE ? first : NULL;
}

static HttpConnection *place(struct Http *h) {
    HttpConnection *c = h->first_free;
    int n = atomic_load(&h->n_used);
    if (c) return h->first_free = c->next_free, c;
    if (n == HTTP_SPARE_PLACES + h->n_connections) return spare_place(h);
    c = &h->connections[n];
    c->http = h; /* before http_wake_all may find it */
    atomic_store(&h->n_used, n + 1);
    return c;
}

/* The client hears why and when to come again. */
static HttpConnection *turn_away(struct Http *h, int fd, const struct sockaddr *address, const char *why) {
    HttpConnection *c = spare_place(h);
    if (!c) return close(fd), NULL;
    http_connection_open(c, fd, address);
    http_refuse(c, 503, why);
    return c;
}

/* The library closes a socket that it does not take; a copy tells who has too many already. */
void http_welcome(struct Http *h, int fd, const struct sockaddr *address, socklen_t n) {
    HttpConnection *c = place(h);
    if (!c) return (void)close(fd);
    int copy = h->options.max_per_address > 0 ? fcntl(fd, F_DUPFD_CLOEXEC, 0) : -1;
    struct epoll_event e = {.events = EPOLLRDHUP | EPOLLET, .data.ptr = c};
    tcp_prompt(fd, h->options.stall_seconds);
    http_connection_open(c, fd, address);
    if (!http_library_take(c, address, n)) {
        http_connection_release(c);
        if (copy < 0) return;
        h->n_crowding++;
        turn_away(h, copy, address, "too many connections from this address");
        return;
    }
    if (copy >= 0) close(copy);
    if (epoll_ctl(h->epoll_fd, EPOLL_CTL_ADD, fd, &e)) http_connection_cut(c); /* no memory in the kernel */
}

/* Descriptors may run out all the same, by files that others of the process have open. The spare one is given up to
 * tell one client; false when even that fails. */
static bool refuse_with_spare(struct Http *h) {
    if (h->spare_fd >= 0) close(h->spare_fd);
    h->spare_fd = -1;
    int fd = accept4(h->listen_fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
    if (fd < 0) return false;
    HttpConnection *c = turn_away(h, fd, &(struct sockaddr){.sa_family = AF_UNSPEC}, "too many open files");
    if (c) http_connection_cut(c);
    return true;
}

static void report_refusals(struct Http *h) {
    enum { EVERY = 60 }; /* seconds */
    double now = now_seconds();
    if (h->n_refusals == 0 || (h->reported_at && now - h->reported_at < EVERY)) return;
    if (h->n_crowding)
        log_warning("http: %u connections refused: their addresses had %d each, --max-connections-per-address",
                    h->n_crowding, h->options.max_per_address);
    if (h->n_refusals > h->n_crowding)
        log_warning("http: %u connections refused: all %d places, or all file descriptors, were taken",
                    h->n_refusals - h->n_crowding, h->n_connections);
    h->reported_at = now;
    h->n_refusals = h->n_crowding = 0;
}

bool http_accept(struct Http *h) {
    enum { AT_ONCE = 64 }; /* then those that are here have their turn */
    bool more = true;
    for (int i = 0; i < AT_ONCE && more; i++) {
        struct sockaddr_storage from;
        struct sockaddr *address = (struct sockaddr *)&from;
        socklen_t n = sizeof from;
        if (h->spare_fd < 0) h->spare_fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
        int fd = accept4(h->listen_fd, address, &n, SOCK_NONBLOCK | SOCK_CLOEXEC);
        if (fd >= HTTP_MAX_FILES)
            close(fd);
        else if (fd >= 0)
            http_welcome(h, fd, address, n);
        else if (errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM)
            more = refuse_with_spare(h);
        else
            more = errno != EAGAIN;
    }
    report_refusals(h);
    return more;
}
