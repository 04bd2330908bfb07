/* machine: how much memory and how many processors there are for this process, by the machine and by the cgroups (v2
 * and v1) around it. */
#ifndef NOISED_MACHINE_H
#define NOISED_MACHINE_H

#include "base/err.h"

typedef struct MachineMemory {
    size_t total;     /* of the machine, or what the narrowest cgroup may have */
    size_t available; /* of it now, file pages that can be dropped counted as free */
    bool cgroup;      /* it is a cgroup that leaves the least */
} MachineMemory;

MachineMemory machine_memory(void);
/* The same with `root` in front of /proc and /sys: for tests. */
MachineMemory machine_memory_at(const char *root);

/* Those of the affinity mask, or what the narrowest cgroup grants of them (cpu.max, cpu.cfs_quota_us), rounded up. */
int machine_cpus(void);
int machine_cpus_at(const char *root);

/* "512 bytes", "3.4 MiB", "120 GiB" */
enum { MEMORY_TEXT = 32 };
const char *memory_text(size_t bytes, char out[MEMORY_TEXT]);

/* -1 when more than what is available is needed: "WHAT needs 2.1 GiB, the machine has 1.0 GiB left: ADVICE". */
int memory_check(size_t need, const char *what, const char *advice, Err *err);

#endif
