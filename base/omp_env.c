#include "base/omp_env.h"

#include "base/err.h"
#include "base/machine.h"
#include "base/team.h"

#include <limits.h>
#include <signal.h>
#include <stdlib.h>
#include <unistd.h>

/* By its real path, for the kernel names a process by what it executes: /proc/self/exe would show up as "exe". */
static void start_again(char **argv) {
    char path[PATH_MAX];
    ssize_t n = readlink("/proc/self/exe", path, sizeof path - 1);
    path[MAX(n, 0)] = 0;
    execv(path, argv);
    execv("/proc/self/exe", argv); /* the file has been replaced meanwhile */
    /* Not allowed to execute: slower, but everything works. */
}

void runtime_tune(char **argv) {
    signal(SIGUSR1, SIG_IGN);
    signal(SIGUSR2, SIG_IGN);
    int cpus = machine_cpus();
    bool waits = getenv("OMP_WAIT_POLICY") || getenv("GOMP_SPINCOUNT");
    bool counts = getenv("OMP_NUM_THREADS") || cpus >= team_size();
    if (waits && counts) return;
    char text[16];
    snprintf(text, sizeof text, "%d", cpus);
    if (!waits && setenv("GOMP_SPINCOUNT", "2000", 1)) return; /* no memory: it would start again for ever */
    if (!counts && setenv("OMP_NUM_THREADS", text, 1)) return;
    start_again(argv);
}
