/* Where connections come in, and how many there may be. */
#include "base/err.h"
#include "base/log.h"
#include "server/http/connection.h"

#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <string.h>
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
    if (getsockname(fd, (struct sockaddr *)&bound, &n)) {
        err_set(err, "getsockname: %s", strerror(errno));
        close(fd);
        return -1;
    }
    *port = ntohs(bound.ss_family == AF_INET6 ? ((struct sockaddr_in6 *)&bound)->sin6_port
                                              : ((struct sockaddr_in *)&bound)->sin_port);
    return fd;
}

/* Every connection needs a descriptor; the rest of the process has a few. */
int http_affordable_connections(int wanted) {
    enum { RESERVED = 64 };
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit)) return MIN(wanted, 1024 - RESERVED);
    limit.rlim_cur = limit.rlim_max;
    setrlimit(RLIMIT_NOFILE, &limit);
    if (limit.rlim_cur == RLIM_INFINITY || limit.rlim_cur >= (rlim_t)wanted + RESERVED) return wanted;
    int n = MAX((int)limit.rlim_cur - RESERVED, 1);
    log_line("http: the limit of %d open files allows %d connections, not %d", (int)limit.rlim_cur, n, wanted);
    return n;
}
