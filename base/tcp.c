#include "base/tcp.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/tcp.h>
#include <netdb.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

int tcp_listen(const char *host, int port, Err *err) {
    struct addrinfo hints = {.ai_flags = AI_PASSIVE, .ai_socktype = SOCK_STREAM}, *found;
    char text[16];
    snprintf(text, sizeof text, "%d", port);
    int rc = getaddrinfo(host, text, &hints, &found);
    if (rc) return err_set(err, "%s: %s", host, gai_strerror(rc));
    int one = 1, fd = socket(found->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd >= 0) setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
    bool ok = fd >= 0 && bind(fd, found->ai_addr, found->ai_addrlen) == 0 && listen(fd, SOMAXCONN) == 0;
    int error = errno;
    freeaddrinfo(found);
    if (ok) return fd;
    if (fd >= 0) close(fd);
    return err_set(err, "cannot listen on %s port %d: %s", host, port, strerror(error));
}

int tcp_accepts(int fd, int *port, Err *err) {
    struct sockaddr_storage bound;
    socklen_t n = sizeof bound;
    /* One that was handed over may block, and a client that has gone before accept would hold everybody up. */
    if (fcntl(fd, F_SETFL, O_NONBLOCK) || getsockname(fd, (struct sockaddr *)&bound, &n)) {
        err_set(err, "the listening socket: %s", strerror(errno));
        close(fd);
        return -1;
    }
    *port = ntohs(bound.ss_family == AF_INET6 ? ((struct sockaddr_in6 *)&bound)->sin6_port
                                              : ((struct sockaddr_in *)&bound)->sin_port);
    return 0;
}

void tcp_name(const struct sockaddr *address, char out[TCP_NAME_BYTES]) {
    const struct sockaddr_in *v4 = (const struct sockaddr_in *)address;
    const struct sockaddr_in6 *v6 = (const struct sockaddr_in6 *)address;
    *out = 0;
    if (address->sa_family == AF_INET) inet_ntop(AF_INET, &v4->sin_addr, out, TCP_NAME_BYTES);
    if (address->sa_family == AF_INET6) inet_ntop(AF_INET6, &v6->sin6_addr, out, TCP_NAME_BYTES);
}

uint64_t tcp_written(int fd) {
    struct tcp_info info = {0};
    socklen_t n = sizeof info;
    if (getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &n)) return 0;
    return info.tcpi_bytes_sent - info.tcpi_bytes_retrans + info.tcpi_notsent_bytes;
}

void tcp_prompt(int fd, double stall_seconds) {
    unsigned ms = (unsigned)(1000 * stall_seconds);
    int one = 1;
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    setsockopt(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &ms, sizeof ms);
}
