#include "server/server.h"

#include <math.h>

bool server_is_stuck(const EngineStats *stats) {
    static const double SIGN_OF_LIFE = 5; /* seconds */
    return isfinite(stats->heartbeat_age) && stats->heartbeat_age > SIGN_OF_LIFE;
}

const char *server_status(Server *s, EngineStats *stats) {
    versions_stats(&s->versions, stats);
    return atomic_load(&s->draining)     ? "draining"
           : isinf(stats->heartbeat_age) ? "loading"
           : stats->damaged              ? "damaged"
           : stats->broken               ? "broken"
           : server_is_stuck(stats)      ? "stuck"
                                         : "ok";
}
