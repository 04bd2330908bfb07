#include "server/probe.h"

#include "base/err.h"

#include <errno.h>
#include <netdb.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

typedef struct Url {
    char host[256], port[8];
    bool v6; /* an address in brackets */
    const char *path;
} Url;

static int parse(Url *u, const char *url, Err *err) {
    static const char scheme[] = "http://";
    if (strncmp(url, scheme, sizeof scheme - 1)) return err_set(err, "%s: only http:// can be probed", url);
    const char *host = url + sizeof scheme - 1;
    u->v6 = *host == '[';
    host += u->v6;
    size_t n = strcspn(host, u->v6 ? "]" : ":/");
    const char *rest = host + n + (u->v6 && host[n] == ']');
    if (n == 0 || n >= sizeof u->host) return err_set(err, "%s: no host", url);
    snprintf(u->host, sizeof u->host, "%.*s", (int)n, host);
    snprintf(u->port, sizeof u->port, "80");
    if (*rest == ':') {
        size_t digits = strspn(++rest, "0123456789");
        if (digits == 0 || digits > 5 || atoi(rest) > 65535) return err_set(err, "%s: malformed port", url);
        snprintf(u->port, sizeof u->port, "%.*s", (int)digits, rest);
        rest += digits;
    }
    if (*rest && *rest != '/') return err_set(err, "%s: malformed URL", url);
    u->path = *rest ? rest : "/";
    return 0;
}

static int connect_to(const struct addrinfo *a) {
    struct timeval patience = {.tv_sec = 5};
    int fd = socket(a->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0) return -1;
    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
    setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof patience);
    if (connect(fd, a->ai_addr, a->ai_addrlen) == 0) return fd;
    int why = errno;
    close(fd);
    errno = why;
    return -1;
}

/* The first of the host's addresses that answers: localhost has two, and a daemon may listen at one of them. */
static int open_socket(const Url *u, Err *err) {
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM}, *found;
    int rc = getaddrinfo(u->host, u->port, &hints, &found), fd = -1;
    if (rc) return err_set(err, "%s: %s", u->host, gai_strerror(rc));
    for (const struct addrinfo *a = found; a && fd < 0; a = a->ai_next) fd = connect_to(a);
    if (fd < 0) err_set(err, "%s port %s: %s", u->host, u->port, strerror(errno));
    freeaddrinfo(found);
    return fd;
}

int probe_get(const char *url, Err *err) {
    Url u;
    char text[1024];
    if (parse(&u, url, err)) return -1;
    int n = snprintf(text, sizeof text, "GET %s HTTP/1.1\r\nHost: %s%s%s\r\nConnection: close\r\n\r\n", u.path,
                     u.v6 ? "[" : "", u.host, u.v6 ? "]" : "");
    if (n >= (int)sizeof text) return err_set(err, "%s: the URL is too long", url);
    int fd = open_socket(&u, err);
    if (fd < 0) return -1;
    size_t got = 0;
    ssize_t more = send(fd, text, (size_t)n, MSG_NOSIGNAL) == n ? 1 : -1;
    while (more > 0 && got < sizeof text - 1 && !memchr(text, '\n', got)) {
        more = recv(fd, text + got, sizeof text - 1 - got, 0);
        if (more > 0) got += (size_t)more;
    }
    if (more < 0) err_set(err, "%s: %s", url, strerror(errno));
    close(fd);
    if (more < 0) return -1;
    if (got == 0) return err_set(err, "%s: closed without an answer", url);
    text[got] = 0;
    text[strcspn(text, "\r\n")] = 0;
    return strncmp(text, "HTTP/1.1 200", 12) ? err_set(err, "%s: \"%s\"", url, text) : 0;
}
