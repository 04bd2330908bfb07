/* systemd: what a service manager and the daemon tell each other, without libsystemd: sd_notify's datagrams, the
 * watchdog's interval and a socket passed at start. All of it is silent without a service manager. */
#ifndef NOISED_SYSTEMD_H
#define NOISED_SYSTEMD_H

#include "base/err.h"

#include <limits.h>

/* Sends lines like "READY=1" to $NOTIFY_SOCKET. Nobody can do anything about a failure. */
void systemd_notify(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

/* The seconds within which WATCHDOG=1 is expected again and again; 0: it is not. */
double systemd_watchdog_seconds(void);

/* The one listening TCP socket passed by $LISTEN_FDS, with its numeric host; *fd is -1 when none is. */
int systemd_socket(int *fd, char host[64], Err *err);

/* The file of a credential (LoadCredential=), in path; NULL when there is none. */
const char *systemd_credential(const char *name, char path[PATH_MAX]);

#endif
