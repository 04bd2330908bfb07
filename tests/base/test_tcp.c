/* Sockets that listen: what is refused, by address and port, and what a connection is called. */
#include "base/tcp.h"
#include "tests/support/test.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/un.h>
#include <unistd.h>

TEST(tcp_says_where_it_cannot_listen) {
    Err err;
    int port, fd = tcp_listen("127.0.0.1", 0, &err);
    REQUIRE(fd >= 0 && tcp_accepts(fd, &port, &err) == 0 && port > 0);
    CHECK(fcntl(fd, F_GETFL) & O_NONBLOCK);
    CHECK_MSG(tcp_listen("127.0.0.1", port, &err) == -1 &&
                  !strcmp(err.msg, test_text("cannot listen on 127.0.0.1 port %d: %s", port, strerror(EADDRINUSE))),
              "%s", err.msg);
    close(fd);
    /* of no machine (RFC 5737) */
    CHECK_MSG(tcp_listen("192.0.2.1", 0, &err) == -1 && strstr(err.msg, "cannot listen on 192.0.2.1 port 0: "), "%s",
              err.msg);
    CHECK_MSG(tcp_listen("a name with spaces", 0, &err) == -1 && strstr(err.msg, "a name with spaces: "), "%s",
              err.msg);
}

TEST(tcp_takes_no_other_descriptor_for_a_socket) {
    int ends[2], port = 7;
    Err err;
    REQUIRE(pipe2(ends, O_CLOEXEC) == 0);
    CHECK(tcp_written(ends[1]) == 0);
    CHECK_MSG(tcp_accepts(ends[0], &port, &err) == -1 && strstr(err.msg, strerror(ENOTSOCK)) && port == 7, "%s",
              err.msg);
    CHECK(fcntl(ends[0], F_GETFD) == -1); /* it is closed */
    CHECK(tcp_accepts(-1, &port, &err) == -1 && strstr(err.msg, strerror(EBADF)));
    close(ends[1]);
}

TEST(tcp_over_ipv6) {
    int port;
    Err err;
    struct sockaddr_storage bound;
    char name[TCP_NAME_BYTES];
    int fd = tcp_listen("::1", 0, &err);
    if (fd < 0) SKIP("needs IPv6");
    CHECK(tcp_accepts(fd, &port, &err) == 0 && port > 0);
    CHECK(getsockname(fd, (struct sockaddr *)&bound, &(socklen_t){sizeof bound}) == 0);
    tcp_name((struct sockaddr *)&bound, name);
    CHECK_MSG(!strcmp(name, "::1"), "%s", name);
    close(fd);
}

TEST(tcp_name_of_what_has_no_address) {
    struct sockaddr_un local = {.sun_family = AF_UNIX};
    char name[TCP_NAME_BYTES] = "before";
    tcp_name((struct sockaddr *)&local, name);
    CHECK(!*name);
}
