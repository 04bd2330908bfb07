/* versions: the versions of what is served that are alive.
 *
 * A request pins the newest version and runs on it to its end, whatever is loaded meanwhile; its fingerprint names the
 * version it really ran on. A version that is neither the newest nor pinned is closed by the next versions_collect:
 * engine stopped, mapping gone. Any thread may call what does not say otherwise. */
#ifndef NOISED_VERSIONS_H
#define NOISED_VERSIONS_H

#include "server/serving.h"

typedef struct Versions {
    pthread_mutex_t mutex;
    Serving *newest; /* NULL before the first */
} Versions;

void versions_add(Versions *v, Serving *s); /* s is the newest from now on */
Serving *versions_pin(Versions *v);
void versions_unpin(Versions *v, Serving *s);

/* Closes what nobody needs any more; how many old ones are left. One thread. */
int versions_collect(Versions *v);
void versions_close(Versions *v); /* all of them; nothing may be pinned */

/* How many are alive, and the sums over their engines; damage and sign of life are the newest one's. */
int versions_stats(Versions *v, EngineStats *sum);
void versions_drain(Versions *v);

#endif
