#include "base/omp_env.h"

#include <stdlib.h>
#include <unistd.h>

void runtime_tune(char **argv) {
    if (getenv("OMP_WAIT_POLICY") || getenv("GOMP_SPINCOUNT")) return;
    setenv("GOMP_SPINCOUNT", "2000", 1);
    execv("/proc/self/exe", argv);
    /* Not allowed to execute: slower, but everything works. */
}
