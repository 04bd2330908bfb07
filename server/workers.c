#include "server/workers.h"

#include "base/clock.h"
#include "base/memory.h"

#include <math.h>
#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>

static const double PATIENCE = 1; /* seconds that a long piece waits before the last worker takes it */

struct Workers {
    pthread_mutex_t mutex;       /* guards what follows */
    pthread_cond_t changed, due; /* for the last worker the latter */
    Work *first;                 /* by round, then by arrival */
    uint64_t round;
    bool stopping;
    int most, n_threads;
    pthread_t threads[];
};

static void release(Work *w) {
    if (atomic_fetch_sub(&w->owners, 1) == 1) w->free(w);
}

/* Takes a piece out of the queue for as long as it runs; the caller holds the mutex. */
static void run_piece(Workers *p, Work **at) {
    Work *w = *at;
    if (w == p->first) p->round = w->round;
    *at = w->next;
    pthread_mutex_unlock(&p->mutex);
    w->run(w);
    atomic_store(&w->done, true);
    w->wake(w->wake_arg);
    release(w);
    pthread_mutex_lock(&p->mutex);
}

static void wait_until(Workers *p, pthread_cond_t *called, double time) {
    struct timespec t = {.tv_sec = (time_t)time, .tv_nsec = (long)(1e9 * (time - (double)(time_t)time))};
    pthread_cond_timedwait(called, &p->mutex, &t);
}

static double due_of(const Work *w, double patience) { return w->brief ? 0 : w->since + patience; }

/* Until the end: what is brief, and what has waited for `patience` seconds. */
static void work(Workers *p, pthread_cond_t *called, double patience) {
    pthread_mutex_lock(&p->mutex);
    while (p->first || !p->stopping) {
        double now = now_seconds(), next = INFINITY;
        Work **at = &p->first;
        for (; *at && due_of(*at, patience) > now && !p->stopping; at = &(*at)->next)
            next = fmin(next, due_of(*at, patience));
        if (*at)
            run_piece(p, at);
        else if (p->first)
            wait_until(p, called, next);
        else
            pthread_cond_wait(called, &p->mutex);
    }
    pthread_mutex_unlock(&p->mutex);
}

/* Gives a core up at once (SCHED_IDLE). A nice value alone does not do that: a thread that is woken still waits for one
 * of nice 19 until its slice or the clock's tick is over, up to 4 ms. */
static void yield_to_all(void) {
    const struct sched_param none = {0};
    if (sched_setscheduler(0, SCHED_IDLE, &none)) (void)setpriority(PRIO_PROCESS, 0, 19); /* 0: this thread alone */
}

static void *work_idly(void *arg) {
    Workers *p = arg;
    yield_to_all();
    work(p, &p->changed, 0);
    return NULL;
}

/* The last worker, of the usual priority. */
static void *work_on_what_is_due(void *arg) {
    Workers *p = arg;
    work(p, &p->due, PATIENCE);
    return NULL;
}

int workers_start(Workers **out, int threads, int most, Err *err) {
    Workers *p = xcalloc(1, sizeof *p + (size_t)threads * sizeof *p->threads);
    p->most = most;
    pthread_mutex_init(&p->mutex, NULL);
    pthread_cond_init(&p->changed, NULL);
    pthread_condattr_t monotonic;
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_cond_init(&p->due, &monotonic);
    pthread_condattr_destroy(&monotonic);
    for (; p->n_threads < threads; p->n_threads++) {
        bool last = p->n_threads > 0 && p->n_threads == threads - 1;
        int rc = pthread_create(&p->threads[p->n_threads], NULL, last ? work_on_what_is_due : work_idly, p);
        if (rc == 0) continue;
        workers_stop(p);
        return err_set(err, "cannot start a worker: %s", strerror(rc));
    }
    *out = p;
    return 0;
}

/* False when the client has its share already. The caller holds the mutex. */
static bool enqueue(Workers *p, Work *w, bool always) {
    int waiting = 0;
    w->round = p->round + 1;
    for (const Work *other = p->first; other; other = other->next) {
        if (other->client != w->client) continue;
        w->round = other->round + 1;
        waiting++;
    }
    if (waiting >= p->most && !always) return false;
    Work **at = &p->first;
    while (*at && (*at)->round <= w->round) at = &(*at)->next;
    if (!p->first || w->brief) pthread_cond_signal(&p->due);
    w->since = now_seconds();
    w->next = *at;
    *at = w;
    atomic_store(&w->done, false);
    atomic_fetch_add(&w->owners, 1);
    pthread_cond_signal(&p->changed);
    return true;
}

bool workers_submit(Workers *p, Work *w, bool always) {
    pthread_mutex_lock(&p->mutex);
    bool taken = enqueue(p, w, always);
    pthread_mutex_unlock(&p->mutex);
    return taken;
}

void workers_release(Workers *p, Work *w) {
    pthread_mutex_lock(&p->mutex);
    Work **at = &p->first;
    while (*at && *at != w) at = &(*at)->next;
    bool waiting = *at != NULL;
    if (waiting) *at = w->next;
    pthread_mutex_unlock(&p->mutex);
    if (waiting) release(w); /* for the workers, who will never see it */
    release(w);
}

void workers_stop(Workers *p) {
    if (!p) return;
    pthread_mutex_lock(&p->mutex);
    p->stopping = true;
    pthread_cond_broadcast(&p->changed);
    pthread_cond_signal(&p->due);
    pthread_mutex_unlock(&p->mutex);
    for (int i = 0; i < p->n_threads; i++) pthread_join(p->threads[i], NULL);
    pthread_cond_destroy(&p->changed);
    pthread_cond_destroy(&p->due);
    pthread_mutex_destroy(&p->mutex);
    free(p);
}
