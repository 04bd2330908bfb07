/* systemd: what a service manager and the daemon tell each other, by libsystemd: sd_notify(3), sd_watchdog_enabled(3)
 * and sd_listen_fds(3). All of it is silent without a service manager. */
#ifndef NOISED_SYSTEMD_H
#define NOISED_SYSTEMD_H

#include "base/err.h"

#include <limits.h>

/* Sends lines like "READY=1" to $NOTIFY_SOCKET. A failure is logged: nobody can do anything about it. */
void systemd_notify(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

/* The seconds within which WATCHDOG=1 is expected again and again; 0: it is not. */
double systemd_watchdog_seconds(void);

/* The one listening TCP socket passed by $LISTEN_FDS, with its numeric host; *fd is -1 when none is. */
int systemd_socket(int *fd, char host[64], Err *err);

/* The file of a credential (LoadCredential=), in path; NULL when there is none. */
const char *systemd_credential(const char *name, char path[PATH_MAX]);

#endif
