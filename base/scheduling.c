#include "base/scheduling.h"

#include <sched.h>
#include <stdint.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

/* Else the lowest nice value; Linux has one for each thread, 0 is the caller. */
void scheduling_idle(void) {
    const struct sched_param none = {0};
    if (sched_setscheduler(0, SCHED_IDLE, &none)) (void)setpriority(PRIO_PROCESS, 0, 19);
}

void scheduling_prompt(void) {
    struct { /* the kernel's sched_attr, which the C library does not have */
        uint32_t size, policy;
        uint64_t flags;
        int32_t nice;
        uint32_t priority;
        uint64_t runtime, deadline, period; /* nanoseconds; of a usual thread, runtime is its slice */
    } attr = {.size = sizeof attr};
    if (syscall(SYS_sched_getattr, 0, &attr, sizeof attr, 0)) return;
    attr.runtime = 100000;
    (void)syscall(SYS_sched_setattr, 0, &attr, 0);
}
