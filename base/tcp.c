#include "base/tcp.h"

#include <arpa/inet.h>
#include <linux/tcp.h>

void tcp_name(const struct sockaddr *address, char out[TCP_NAME_BYTES]) {
    const struct sockaddr_in *v4 = (const struct sockaddr_in *)address;
    const struct sockaddr_in6 *v6 = (const struct sockaddr_in6 *)address;
    *out = 0;
    if (address->sa_family == AF_INET) inet_ntop(AF_INET, &v4->sin_addr, out, TCP_NAME_BYTES);
    if (address->sa_family == AF_INET6) inet_ntop(AF_INET6, &v6->sin6_addr, out, TCP_NAME_BYTES);
}

TcpProgress tcp_progress(int fd) {
    struct tcp_info info = {0};
    socklen_t n = sizeof info;
    if (getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &n)) return (TcpProgress){0};
    return (TcpProgress){.written = info.tcpi_bytes_sent - info.tcpi_bytes_retrans + info.tcpi_notsent_bytes,
                         .acked = info.tcpi_bytes_acked,
                         .pending = info.tcpi_unacked > 0 || info.tcpi_notsent_bytes > 0};
}
