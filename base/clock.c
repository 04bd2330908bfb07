#include "base/clock.h"

#include <math.h>

static double seconds_of(clockid_t id) {
    struct timespec t;
    clock_gettime(id, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

double now_seconds(void) { return seconds_of(CLOCK_MONOTONIC); }

double unix_seconds(void) { return seconds_of(CLOCK_REALTIME); }

double process_seconds(void) { return seconds_of(CLOCK_PROCESS_CPUTIME_ID); }

double thread_seconds(void) { return seconds_of(CLOCK_THREAD_CPUTIME_ID); }

struct timespec clock_timespec(double seconds) {
    double whole = floor(seconds);
    return (struct timespec){.tv_sec = (time_t)whole, .tv_nsec = (long)((seconds - whole) * 1e9)};
}

void clock_sleep(double seconds) {
    struct timespec t = clock_timespec(seconds);
    while (nanosleep(&t, &t)) {}
}

void clock_cond_init(pthread_cond_t *c) {
    pthread_condattr_t monotonic;
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_cond_init(c, &monotonic);
    pthread_condattr_destroy(&monotonic);
}

int clock_wait(pthread_cond_t *c, pthread_mutex_t *held, double until) {
    struct timespec t = clock_timespec(until);
    return pthread_cond_timedwait(c, held, &t);
}
