#include "server/probe.h"

#include "base/err.h"

#include <errno.h>
#include <netdb.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

typedef struct Url {
    char host[256], port[8];
    const char *path;
} Url;

static int parse(Url *u, const char *url, Err *err) {
    static const char scheme[] = "http://";
    if (strncmp(url, scheme, sizeof scheme - 1)) return err_set(err, "%s: only http:// can be probed", url);
    const char *host = url + sizeof scheme - 1;
    bool v6 = *host == '[';
    host += v6;
    size_t n = strcspn(host, v6 ? "]" : ":/");
    const char *rest = host + n + (v6 && host[n] == ']');
    if (n == 0 || n >= sizeof u->host) return err_set(err, "%s: no host", url);
    snprintf(u->host, sizeof u->host, "%.*s", (int)n, host);
    snprintf(u->port, sizeof u->port, "80");
    if (*rest == ':') {
        size_t digits = strspn(++rest, "0123456789");
        if (digits == 0 || digits > 5) return err_set(err, "%s: malformed port", url);
        snprintf(u->port, sizeof u->port, "%.*s", (int)digits, rest);
        rest += digits;
    }
    if (*rest && *rest != '/') return err_set(err, "%s: malformed URL", url);
    u->path = *rest ? rest : "/";
    return 0;
}

static int open_socket(const Url *u, Err *err) {
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM}, *found;
    struct timeval patience = {.tv_sec = 5};
    int rc = getaddrinfo(u->host, u->port, &hints, &found);
    if (rc) return err_set(err, "%s: %s", u->host, gai_strerror(rc));
    int fd = socket(found->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd >= 0) {
        setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
        setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof patience);
    }
    if (fd < 0 || connect(fd, found->ai_addr, found->ai_addrlen)) {
        err_set(err, "%s port %s: %s", u->host, u->port, strerror(errno));
        if (fd >= 0) close(fd);
        fd = -1;
    }
    freeaddrinfo(found);
    return fd;
}

int probe_get(const char *url, Err *err) {
    Url u;
    char text[1024];
    if (parse(&u, url, err)) return -1;
    int n = snprintf(text, sizeof text, "GET %s HTTP/1.1\r\nHost: %s\r\nConnection: close\r\n\r\n", u.path, u.host);
    if (n >= (int)sizeof text) return err_set(err, "%s: the URL is too long", url);
    int fd = open_socket(&u, err);
    if (fd < 0) return -1;
    size_t got = 0;
    ssize_t more = send(fd, text, (size_t)n, MSG_NOSIGNAL) == n ? 1 : -1;
    while (more > 0 && got < sizeof text - 1 && !memchr(text, '\n', got)) {
        more = recv(fd, text + got, sizeof text - 1 - got, 0);
        if (more > 0) got += (size_t)more;
    }
    close(fd);
    text[got] = 0;
    text[strcspn(text, "\r\n")] = 0;
    return strncmp(text, "HTTP/1.1 200", 12) ? err_set(err, "%s: \"%s\"", url, got ? text : strerror(errno)) : 0;
}
