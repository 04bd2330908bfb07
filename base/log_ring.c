#include "base/log_ring.h"

#include "base/clock.h"
#include "base/macros.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdint.h>
#include <string.h>
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

/* The thread's own. Of a line that was refused, what stderr has of it is to be ended, what the ring has to be left out.
 */
typedef struct Output {
    bool begun;    /* stderr has the beginning of a line */
    bool cut;      /* and will have no more of it */
    bool headless; /* the ring has the end of a line that is lost */
    bool taken;    /* the last write was */
    uint64_t lost; /* lines */
} Output;

/* Up to the end of the line whose beginning is lost. */
static size_t leave_out(Output *o, const char *data, size_t n) {
    const char *end = memchr(data, '\n', n);
    o->headless = !end;
    o->lost += end != NULL;
    return end ? (size_t)(end + 1 - data) : n;
}

/* Lost as it would be without the ring: a full disk, a reader that is gone. */
static size_t refuse(Output *o, const char *data, size_t n) {
    for (size_t i = 0; i < n; i++) o->lost += data[i] == '\n';
    o->cut = o->begun;
    o->headless = data[n - 1] != '\n';
    o->taken = false;
    return n;
}

/* Whatever stderr is. How many bytes of the ring are done with. */
static size_t write_some(Output *o, const char *data, size_t n) {
    if (o->headless) return leave_out(o, data, n);
    ssize_t took = o->cut ? write(STDERR_FILENO, "\n", 1) : write(STDERR_FILENO, data, n);
    if (took < 0 && errno == EINTR) return 0;
    if (took < 0 && errno == EAGAIN) {
        poll(&(struct pollfd){.fd = STDERR_FILENO, .events = POLLOUT}, 1, -1);
        return 0;
    }
    if (took < 0) return refuse(o, data, n);
    if (took == 0) return 0;
    o->taken = true;
    o->begun = !o->cut && data[took - 1] != '\n';
    if (!o->cut) return (size_t)took;
    o->cut = false;
    return 0;
}

/* When the ring is empty again, so that the line has room, and stderr takes it. */
static void tell_of_lost(void) {
    uint64_t n = lost - told;
    told = lost;
    pthread_mutex_unlock(&mutex);
    tell(n);
    pthread_mutex_lock(&mutex);
}

static void *write_lines(void *arg) {
    (void)arg;
    Output out = {.taken = true};
    pthread_mutex_lock(&mutex);
    for (;;) {
        while (put == written) pthread_cond_wait(&changed, &mutex);
        size_t at = written % sizeof ring, n = MIN(put - written, sizeof ring - at);
        pthread_mutex_unlock(&mutex);
        n = write_some(&out, ring + at, n); /* nobody writes there before `written` moves */
        pthread_mutex_lock(&mutex);
        written += n;
        lost += out.lost;
        out.lost = 0;
        if (put == written && lost > told && out.taken) tell_of_lost();
        pthread_cond_broadcast(&changed);
    }
    return NULL;
}

int log_ring_start(void (*tell_of)(uint64_t n)) {
    tell = tell_of;
    pthread_t thread;
    clock_cond_init(&changed);
    if (pthread_create(&thread, NULL, write_lines, NULL)) return -1;
    pthread_detach(thread);
    pthread_mutex_lock(&mutex);
    detached = true;
    pthread_mutex_unlock(&mutex);
    return 0;
}

void log_ring_flush(double seconds) {
    double until = now_seconds() + seconds;
    pthread_mutex_lock(&mutex);
    while (detached && put != written && !clock_wait(&changed, &mutex, until)) {}
    pthread_mutex_unlock(&mutex);
}

uint64_t log_ring_lost(void) {
    pthread_mutex_lock(&mutex);
    uint64_t n = lost;
    pthread_mutex_unlock(&mutex);
    return n;
}
