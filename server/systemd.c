#include "server/systemd.h"

#include "base/err.h"
#include "base/log.h"

#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <systemd/sd-daemon.h>
#include <unistd.h>

void systemd_notify(const char *fmt, ...) {
    char text[512];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    int rc = sd_notify(0, text);
    if (rc < 0) log_warning("the service manager hears nothing: %s", strerror(-rc));
}

double systemd_watchdog_seconds(void) {
    uint64_t us;
    return sd_watchdog_enabled(0, &us) > 0 ? 1e-6 * (double)us : 0;
}

int systemd_socket(int *fd, char host[64], Err *err) {
    struct sockaddr_storage at;
    socklen_t n_at = sizeof at;
    int n = sd_listen_fds(0), passed = SD_LISTEN_FDS_START;
    *fd = -1;
    if (n == 0) return 0;
    if (n < 0) return err_set(err, "the passed sockets: %s", strerror(-n));
    if (n > 1) return err_set(err, "%d sockets are passed, one is wanted", n);
    if (sd_is_socket_inet(passed, AF_UNSPEC, SOCK_STREAM, 1, 0) <= 0)
        return err_set(err, "the passed descriptor %d is no listening TCP socket", passed);
    if (getsockname(passed, (struct sockaddr *)&at, &n_at) ||
        fcntl(passed, F_SETFL, fcntl(passed, F_GETFL) | O_NONBLOCK))
        return err_set(err, "the passed socket: %s", strerror(errno));
    int rc = getnameinfo((struct sockaddr *)&at, n_at, host, 64, NULL, 0, NI_NUMERICHOST);
    if (rc) return err_set(err, "the passed socket: %s", gai_strerror(rc));
    *fd = passed;
    return 0;
}

const char *systemd_credential(const char *name, char path[PATH_MAX]) {
    const char *dir = getenv("CREDENTIALS_DIRECTORY");
    if (!dir || snprintf(path, PATH_MAX, "%s/%s", dir, name) >= PATH_MAX) return NULL;
    return access(path, F_OK) == 0 ? path : NULL;
}
