#include "server/systemd.h"

#include "base/err.h"
#include "base/log.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <netdb.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

void systemd_notify(const char *fmt, ...) {
    const char *path = getenv("NOTIFY_SOCKET");
    struct sockaddr_un to = {.sun_family = AF_UNIX};
    size_t n_path = path ? strlen(path) : 0;
    if (n_path < 2 || n_path >= sizeof to.sun_path || !strchr("/@", *path)) return;
    memcpy(to.sun_path, path, n_path);
    if (*path == '@') to.sun_path[0] = 0; /* an abstract name */
    char text[512];
    va_list ap;
    va_start(ap, fmt);
    int n = vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (fd < 0) return;
    if (sendto(fd, text, MIN((size_t)n, sizeof text - 1), MSG_NOSIGNAL, (struct sockaddr *)&to,
               (socklen_t)(offsetof(struct sockaddr_un, sun_path) + n_path)) < 0)
        log_warning("%s: %s", path, strerror(errno));
    close(fd);
}

/* A decimal number from the environment, -1 when there is none. */
static long long number(const char *name) {
    const char *text = getenv(name);
    char *end = NULL;
    long long n = text ? strtoll(text, &end, 10) : -1;
    return text && end > text && !*end && n >= 0 ? n : -1;
}

/* Variables of this kind are for one process, not for its children. */
static bool meant_for_us(const char *name) { return number(name) == getpid(); }

double systemd_watchdog_seconds(void) {
    long long us = number("WATCHDOG_USEC");
    return us > 0 && (!getenv("WATCHDOG_PID") || meant_for_us("WATCHDOG_PID")) ? 1e-6 * (double)us : 0;
}

int systemd_socket(int *fd, char host[64], Err *err) {
    enum { FIRST = 3 };
    *fd = -1;
    long long n = number("LISTEN_FDS");
    if (n < 1 || !meant_for_us("LISTEN_PID")) return 0;
    if (n > 1) return err_set(err, "%lld sockets are passed, one is wanted", n);
    int listening = 0, flags = fcntl(FIRST, F_GETFL);
    socklen_t size = sizeof listening;
    struct sockaddr_storage at;
    socklen_t n_at = sizeof at;
    if (flags < 0 || getsockopt(FIRST, SOL_SOCKET, SO_ACCEPTCONN, &listening, &size) || !listening ||
        getsockname(FIRST, (struct sockaddr *)&at, &n_at) || (at.ss_family != AF_INET && at.ss_family != AF_INET6))
        return err_set(err, "the passed descriptor %d is no listening TCP socket", FIRST);
    int rc = getnameinfo((struct sockaddr *)&at, n_at, host, 64, NULL, 0, NI_NUMERICHOST);
    if (rc) return err_set(err, "the passed socket: %s", gai_strerror(rc));
    if (fcntl(FIRST, F_SETFL, flags | O_NONBLOCK) || fcntl(FIRST, F_SETFD, FD_CLOEXEC))
        return err_set(err, "the passed socket: %s", strerror(errno));
    *fd = FIRST;
    return 0;
}

const char *systemd_credential(const char *name, char path[PATH_MAX]) {
    const char *dir = getenv("CREDENTIALS_DIRECTORY");
    if (!dir || snprintf(path, PATH_MAX, "%s/%s", dir, name) >= PATH_MAX) return NULL;
    return access(path, F_OK) == 0 ? path : NULL;
}
