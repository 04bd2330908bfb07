#include "base/omp_env.h"

#include "base/err.h"
#include "base/machine.h"
#include "base/team.h"

#include <limits.h>
#include <signal.h>
#include <stdlib.h>
#include <unistd.h>

#ifdef _OPENMP
/* What `#pragma omp parallel` becomes, `threads` 1 where its `if` says no and 0 otherwise, and what the linker puts in
 * its place (--wrap). Within another parallel loop the iterations are shared by numbers of threads, so those stay. */
typedef void Loop(void *data);
void libgomp_parallel(Loop *loop, void *data, unsigned threads, unsigned flags) __asm__("__real_GOMP_parallel");
void runtime_parallel(Loop *loop, void *data, unsigned threads, unsigned flags) __asm__("__wrap_GOMP_parallel");

void runtime_parallel(Loop *loop, void *data, unsigned threads, unsigned flags) {
    bool alone = threads == 1 || (threads == 0 && team_size() == 1);
    if (alone && !omp_in_parallel())
        loop(data);
    else
        libgomp_parallel(loop, data, threads, flags);
}
#endif

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
