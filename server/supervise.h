/* supervise: what the main thread does while the server serves.
 *
 * SIGHUP reads the file of API keys again, at once, and loads the checkpoint's folder again, in a thread of its own,
 * while everything goes on: when the new version is ready it takes the new requests; when it is bad a line in the log
 * says why and nothing changes. At most one version drains at a time - the next reload waits for it - unless the newest
 * is damaged. SIGTERM, SIGINT and SIGQUIT let running answers finish within the limit (a second one ends them at once);
 * what is left then is cut with an error that its client gets to read. A reload on its way, which may wait for a disk,
 * is not waited for. Before the engine is ready nothing has been promised yet: they end the process at once. The
 * service manager hears READY, RELOADING, STOPPING, and WATCHDOG as long as the engine and the HTTP loop show life. */
#ifndef NOISED_SUPERVISE_H
#define NOISED_SUPERVISE_H

#include "server/routes.h"

#include <signal.h>

/* `signals` are blocked in every thread. True when everything is answered or cut and no loader runs; false when the
 * process should end as it stands. */
bool supervise(Server *s, Http *http, const ServingContext *ctx, const sigset_t *signals);

#endif
