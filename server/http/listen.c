/* Where connections come in, and how many there may be. */
#include "base/err.h"
#include "base/log.h"
#include "server/http/connection.h"

#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

static int bind_to(const HttpOptions *o, Err *err) {
    struct addrinfo hints = {.ai_flags = AI_PASSIVE, .ai_socktype = SOCK_STREAM}, *found;
    char port[16];
    snprintf(port, sizeof port, "%d", o->port);
    int rc = getaddrinfo(o->host, port, &hints, &found);
    if (rc) return err_set(err, "%s: %s", o->host, gai_strerror(rc));
    int one = 1, fd = socket(found->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd >= 0) setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
    bool ok = fd >= 0 && bind(fd, found->ai_addr, found->ai_addrlen) == 0 && listen(fd, SOMAXCONN) == 0;
    int error = errno;
    freeaddrinfo(found);
    if (ok) return fd;
    if (fd >= 0) close(fd);
    return err_set(err, "cannot listen on %s port %d: %s", o->host, o->port, strerror(error));
}

int http_listen(const HttpOptions *o, int *port, Err *err) {
    struct sockaddr_storage bound;
    socklen_t n = sizeof bound;
    int fd = o->listen_fd >= 0 ? o->listen_fd : bind_to(o, err);
    if (fd < 0) return -1;
    /* One that was handed over may block, and a client that has gone before accept would hold everybody up. */
    if (fcntl(fd, F_SETFL, O_NONBLOCK) || getsockname(fd, (struct sockaddr *)&bound, &n)) {
        err_set(err, "the listening socket: %s", strerror(errno));
        close(fd);
        return -1;
    }
    *port = ntohs(bound.ss_family == AF_INET6 ? ((struct sockaddr_in6 *)&bound)->sin6_port
                                              : ((struct sockaddr_in *)&bound)->sin_port);
    return fd;
}

/* ---- how many ---- */

static int count_open_files(void) {
    enum { LOOKED_AT = 1024 };
    int n = 0;
    for (int fd = 0; fd < LOOKED_AT; fd++) n += fcntl(fd, F_GETFD) >= 0;
    return n;
}

/* Every connection needs a descriptor, and the rest of the process a few: for a reload, a probe of the system. */
int http_affordable_connections(int wanted) {
    enum { REST = 24 };
    struct rlimit limit;
    int reserved = count_open_files() + REST + HTTP_REFUSALS;
    if (getrlimit(RLIMIT_NOFILE, &limit)) return MIN(wanted, 1024 - reserved);
    limit.rlim_cur = limit.rlim_max;
    setrlimit(RLIMIT_NOFILE, &limit);
    if (limit.rlim_cur == RLIM_INFINITY || limit.rlim_cur >= (rlim_t)wanted + (rlim_t)reserved) return wanted;
    int n = MAX((int)limit.rlim_cur - reserved, 1);
    log_warning("http: the limit of %d open files allows %d connections, not %d", (int)limit.rlim_cur, n, wanted);
    return n;
}

void http_report_refusals(struct Http *h, double now) {
    enum { EVERY = 60 }; /* seconds */
    if (h->n_refusals == h->n_reported || (h->reported_at && now - h->reported_at < EVERY)) return;
    log_warning("http: %u connections refused: all %d places, or all file descriptors, were taken",
                h->n_refusals - h->n_reported, h->n_connections);
    h->reported_at = now;
    h->n_reported = h->n_refusals;
}

/* The client hears why and when to come again. The last HTTP_REFUSALS of them may linger over it. */
static HttpConnection *turn_away(struct Http *h, int fd) {
    HttpConnection *c = &h->connections[h->n_connections + (int)(h->n_refusals++ % HTTP_REFUSALS)];
    http_connection_close(c);
    http_connection_open(c, fd);
    http_connection_turn_away(c);
    return c;
}

static void welcome(struct Http *h, int fd) {
    HttpConnection *c = h->first_free;
    int n = atomic_load(&h->n_used);
    if (c) {
        h->first_free = c->next_free;
    } else if (n < h->n_connections) {
        c = &h->connections[n];
        c->http = h; /* before http_wake_all may find it */
        atomic_store(&h->n_used, n + 1);
    }
    if (c)
        http_connection_open(c, fd);
    else
        turn_away(h, fd);
}

static int accept_one(struct Http *h) { return accept4(h->listen_fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC); }

/* Descriptors may run out all the same, by files that others of the process have open. The spare one is given up to
 * tell one client. Where even that fails, nobody is heard until the next tick, for the loop must not spin. */
static void refuse_with_spare(struct Http *h) {
    if (h->spare_fd >= 0) close(h->spare_fd);
    int fd = accept_one(h);
    if (fd >= 0) http_connection_close(turn_away(h, fd));
    h->spare_fd = http_spare_file();
    if (fd < 0 || h->spare_fd < 0) http_listen_watch(h, false);
}

int http_spare_file(void) { return open("/dev/null", O_RDONLY | O_CLOEXEC); }

void http_accept(struct Http *h) {
    enum { AT_ONCE = 64 }; /* then those that are here have their turn */
    for (int i = 0; i < AT_ONCE; i++) {
        int fd = accept_one(h);
        if (fd >= 0)
            welcome(h, fd);
        else if (errno == EAGAIN)
            return;
        else if (errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM)
            return refuse_with_spare(h);
    }
}

void http_listen_watch(struct Http *h, bool on) {
    if (on && h->spare_fd < 0) h->spare_fd = http_spare_file();
    struct epoll_event e = {.events = on ? EPOLLIN : 0, .data.ptr = &h->listen_fd};
    h->deaf = !on;
    epoll_ctl(h->epoll_fd, EPOLL_CTL_MOD, h->listen_fd, &e);
}
