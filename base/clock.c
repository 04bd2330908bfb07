#include "base/clock.h"

#include <math.h>
#include <time.h>

static double seconds_of(clockid_t id) {
    struct timespec t;
    clock_gettime(id, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

double now_seconds(void) { return seconds_of(CLOCK_MONOTONIC); }

double process_seconds(void) { return seconds_of(CLOCK_PROCESS_CPUTIME_ID); }

void clock_cond_init(pthread_cond_t *c) {
    pthread_condattr_t monotonic;
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_cond_init(c, &monotonic);
    pthread_condattr_destroy(&monotonic);
}

int clock_wait(pthread_cond_t *c, pthread_mutex_t *held, double until) {
    double whole = floor(until);
    struct timespec t = {.tv_sec = (time_t)whole, .tv_nsec = (long)((until - whole) * 1e9)};
    return pthread_cond_timedwait(c, held, &t);
}
