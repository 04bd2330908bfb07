/* fleet: several daemons of one checkpoint behind a balancer as deploy/ has it, which can die, come back and be
 * restarted in turn. One thread owns it; clients of other threads ask fleet.balancer.front. */
#ifndef NOISED_TEST_FLEET_H
#define NOISED_TEST_FLEET_H

#include "tests/support/balancer.h"

typedef struct Fleet {
    Daemon daemons[REPLICAS];
    int ports[REPLICAS];
    const char *dir; /* the checkpoint; borrowed */
    Balancer balancer;
} Fleet;

/* False (and a failed test) when one of them does not come up; nothing is left then. */
bool fleet_start(Fleet *f, BalancerKind kind, const char *dir, const char *variable);
void fleet_stop(Fleet *f);

/* kill -9 of daemon i, and a new one at its port, which listens when this returns, or serves. */
bool fleet_kill(Fleet *f, int i);
bool fleet_kill_and_wait(Fleet *f, int i);
/* SIGTERM, wait until the last answer is sent, a new one; returns when the balancer has seen it. */
bool fleet_restart(Fleet *f, int i);

#endif
