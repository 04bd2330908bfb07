#include "base/log_ring.h"

#include "base/macros.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdint.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER; /* guards what follows */
static pthread_cond_t changed;
static bool detached;
static void (*tell)(uint64_t n);
static char ring[1 << 18];
static uint64_t put, written; /* bytes since the start; the thread is writing those in between */
static uint64_t lost, told;   /* lines since the start; those that the log has told of */

bool log_ring_put(const char *line, size_t n) {
    pthread_mutex_lock(&mutex);
    bool ours = detached, room = put - written + n <= sizeof ring;
    if (ours && room) {
        size_t at = put % sizeof ring, first = MIN(n, sizeof ring - at);
        memcpy(ring + at, line, first);
        memcpy(ring, line + first, n - first);
        put += n;
        pthread_cond_broadcast(&changed);
    }
    lost += ours && !room;
    pthread_mutex_unlock(&mutex);
    return ours;
}

/* Whatever stderr is. What it refuses for good is gone, as it would be without the ring. */
static size_t write_some(const char *data, size_t n) {
    ssize_t took = write(STDERR_FILENO, data, n);
    if (took >= 0) return (size_t)took;
    if (errno == EAGAIN) poll(&(struct pollfd){.fd = STDERR_FILENO, .events = POLLOUT}, 1, -1);
    return errno == EAGAIN || errno == EINTR ? 0 : n;
}

/* When the ring is empty again, so that the line has room. */
static void tell_of_lost(void) {
    uint64_t n = lost - told;
    told = lost;
    pthread_mutex_unlock(&mutex);
    tell(n);
    pthread_mutex_lock(&mutex);
}

static void *write_lines(void *arg) {
    (void)arg;
    pthread_mutex_lock(&mutex);
    for (;;) {
        while (put == written) pthread_cond_wait(&changed, &mutex);
        size_t at = written % sizeof ring, n = MIN(put - written, sizeof ring - at);
        pthread_mutex_unlock(&mutex);
        n = write_some(ring + at, n); /* nobody writes there before `written` moves */
        pthread_mutex_lock(&mutex);
        written += n;
        if (put == written && lost > told) tell_of_lost();
        pthread_cond_broadcast(&changed);
    }
    return NULL;
}

int log_ring_start(void (*tell_of)(uint64_t n)) {
    tell = tell_of;
    pthread_t thread;
    pthread_condattr_t monotonic;
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_cond_init(&changed, &monotonic);
    pthread_condattr_destroy(&monotonic);
    if (pthread_create(&thread, NULL, write_lines, NULL)) return -1;
    pthread_detach(thread);
    pthread_mutex_lock(&mutex);
    detached = true;
    pthread_mutex_unlock(&mutex);
    return 0;
}

void log_ring_flush(double seconds) {
    struct timespec until;
    clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_sec += (time_t)seconds;
    until.tv_nsec += (long)((seconds - (double)(time_t)seconds) * 1e9);
    if (until.tv_nsec >= 1000000000) until.tv_sec++, until.tv_nsec -= 1000000000;
    pthread_mutex_lock(&mutex);
    while (detached && put != written && !pthread_cond_timedwait(&changed, &mutex, &until)) {}
    pthread_mutex_unlock(&mutex);
}

uint64_t log_ring_lost(void) {
    pthread_mutex_lock(&mutex);
    uint64_t n = lost;
    pthread_mutex_unlock(&mutex);
    return n;
}
