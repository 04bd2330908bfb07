#include "server/server.h"

#include <math.h>

const char *server_status(Server *s, EngineStats *stats) {
    static const double SIGN_OF_LIFE = 5; /* seconds */
    versions_stats(&s->versions, stats);
    return atomic_load(&s->draining)             ? "draining"
           : isinf(stats->heartbeat_age)         ? "loading"
           : stats->damaged                      ? "damaged"
           : stats->broken                       ? "broken"
           : stats->heartbeat_age > SIGN_OF_LIFE ? "stuck"
                                                 : "ok";
}
