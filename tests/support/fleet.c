#include "tests/support/fleet.h"

#include "base/clock.h"
#include "tests/support/http_client.h"

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

static bool start(Fleet *f, int i) {
    return daemon_listen_at(&f->daemons[i], f->dir, test_text("--port %d", f->ports[i]));
}

static bool is_ready(const Daemon *d) {
    for (double until = now_seconds() + PATIENCE; now_seconds() < until; usleep(10000)) {
        Answer a = http_get(d, "/health");
        int status = a.status;
        if (status == 200) return true;
    }
    test_fail(__FILE__, __LINE__, "the daemon at port %d does not get ready", d->port);
    return false;
}

bool fleet_start(Fleet *f, BalancerKind kind, const char *dir, const char *variable) {
    *f = (Fleet){.dir = dir};
    bool up = true;
    for (int i = 0; i < REPLICAS; i++) f->ports[i] = free_port();
    for (int i = 0; up && i < REPLICAS; i++) up = start(f, i);
    for (int i = 0; up && i < REPLICAS; i++) up = is_ready(&f->daemons[i]);
    if (up && balancer_start(&f->balancer, kind, f->ports, variable)) return true;
    fleet_stop(f);
    return false;
}

void fleet_stop(Fleet *f) {
    balancer_stop(&f->balancer);
    for (int i = 0; i < REPLICAS; i++)
        if (f->daemons[i].pid) daemon_stop(&f->daemons[i]);
}

bool fleet_kill(Fleet *f, int i) {
    Daemon *d = &f->daemons[i];
    kill(d->pid, SIGKILL);
    waitpid(d->pid, NULL, 0);
    fclose(d->output);
    *d = (Daemon){0};
    return start(f, i);
}

bool fleet_kill_and_wait(Fleet *f, int i) { return fleet_kill(f, i) && is_ready(&f->daemons[i]); }

bool fleet_restart(Fleet *f, int i) {
    if (daemon_stop(&f->daemons[i]) || !start(f, i) || !is_ready(&f->daemons[i])) return false;
    usleep(1000000); /* downinter of deploy/haproxy.cfg and more */
    return true;
}
