#include "server/http/listen.h"

#include "base/clock.h"
#include "base/files.h"
#include "base/log.h"
#include "server/http/library.h"
#include "server/http/recv.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
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

static void report_refusals(struct Http *h) {
    enum { EVERY = 60 }; /* seconds */
    double now = now_seconds();
    if (h->reported_at && now - h->reported_at < EVERY) return;
    log_warning("http: connections are refused: all %d places, or all file descriptors, are taken", h->n_connections);
    h->reported_at = now;
}

/* One beyond the limit; the connection there that came first makes room. NULL: it would not. */
static HttpConnection *spare_place(struct Http *h) {
    HttpConnection *first = h->connections;
    report_refusals(h);
    for (HttpConnection *c = first; c < h->connections + HTTP_SPARE_PLACES; c++)
        if (first->phase != PHASE_FREE && (c->phase == PHASE_FREE || c->opened_at < first->opened_at)) first = c;
    if (first->phase == PHASE_HEAD) http_refuse(first, 503, "too many connections");
    if (first->phase == PHASE_READY) http_library_run(h);
    http_connection_cut(first);
    if (first->phase != PHASE_FREE) http_library_run(h);
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

static bool has_its_fill(const struct Http *h, const char *client) {
    int n = 0, most = h->options.max_per_address;
    for (int i = HTTP_SPARE_PLACES; i < atomic_load(&h->n_used) && most > 0 && *client; i++) {
        const HttpConnection *c = &h->connections[i];
        n += c->phase != PHASE_FREE && c->phase != PHASE_LINGER && !strcmp(c->client, client);
    }
    return most > 0 && n >= most;
}

void http_welcome(struct Http *h, int fd, const struct sockaddr *address, socklen_t n) {
    char client[TCP_NAME_BYTES];
    tcp_name(address, client);
    bool fill = has_its_fill(h, client);
    HttpConnection *c = fill ? spare_place(h) : place(h);
    if (!c) return (void)close(fd);
    struct epoll_event e = {.events = EPOLLRDHUP | EPOLLET, .data.ptr = c};
    tcp_prompt(fd, h->options.stall_seconds);
    http_connection_open(c, fd);
    memcpy(c->client, client, sizeof client);
    http_recv_keep(fd, c);
    h->arriving = c;
    if (MHD_add_connection(h->daemon, fd, address, n) == MHD_NO) { /* no memory; fd is closed */
        http_recv_keep(fd, NULL);
        return http_connection_release(c);
    }
    if (epoll_ctl(h->epoll_fd, EPOLL_CTL_ADD, fd, &e)) http_connection_cut(c); /* no memory in the kernel */
    if (fill) http_refuse(c, 503, "too many connections from this address");
}

/* Descriptors may run out all the same, by files that others of the process have open. The spare one is given up to
 * tell one client; false when even that fails. */
static bool refuse_with_spare(struct Http *h) {
    if (h->spare_fd >= 0) close(h->spare_fd);
    h->spare_fd = -1;
    int fd = accept4(h->listen_fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
    if (fd < 0) return false;
    report_refusals(h);
    h->handler.answered(h->handler.self, 503);
    send(fd, h->no_files.data, h->no_files.n, MSG_NOSIGNAL | MSG_DONTWAIT);
    close(fd);
    return true;
}

bool http_accept(struct Http *h) {
    enum { AT_ONCE = 64 }; /* then those that are here have their turn */
    for (int i = 0; i < AT_ONCE; i++) {
        if (h->spare_fd < 0) h->spare_fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
        struct sockaddr_storage from;
        struct sockaddr *address = (struct sockaddr *)&from;
        socklen_t n = sizeof from;
        int fd = accept4(h->listen_fd, address, &n, SOCK_NONBLOCK | SOCK_CLOEXEC);
        if (fd >= HTTP_MAX_FILES)
            close(fd);
        else if (fd >= 0)
            http_welcome(h, fd, address, n);
        else if (errno == EAGAIN)
            return false;
        else if ((errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM) && !refuse_with_spare(h))
            return false;
    }
    return true;
}
