/* balancer: deploy/haproxy.cfg as it is, but for its ports, or deploy/nginx.conf but for these and TLS, in front of
 * daemons of a test. */
#ifndef NOISED_TEST_BALANCER_H
#define NOISED_TEST_BALANCER_H

#include "tests/support/daemon.h"

enum { REPLICAS = 3 }; /* as in deploy/haproxy.cfg */

typedef enum BalancerKind { BALANCER_HAPROXY, BALANCER_NGINX } BalancerKind;

typedef struct Balancer {
    BalancerKind kind;
    Daemon front; /* where clients ask: its port and process */
    const char *dir;
} Balancer;

/* False where Debian's is not installed: the test skips. */
bool balancer_there(BalancerKind kind);

/* Nobody's; 0 when there is none. A socket of this process stays bound to it: the kernel gives the port to nobody who
 * asks for any, and who asks for it by SO_REUSEADDR, as servers do, may listen there. */
int free_port(void);

/* variable: one for its environment ("PREFIX_AFFINITY=1") or NULL. Returns when it listens and takes every daemon of
 * ports[REPLICAS] that serves for alive, else false (and a failed test). */
bool balancer_start(Balancer *b, BalancerKind kind, const int *ports, const char *variable);
void balancer_stop(Balancer *b);

#endif
