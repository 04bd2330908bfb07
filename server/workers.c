#include "server/workers.h"

#include "base/clock.h"
#include "base/memory.h"

#include <math.h>
#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

static const double PATIENCE = 1; /* seconds that a long piece waits before the last worker takes it */

struct Workers {
    pthread_mutex_t mutex;       /* guards what follows */
    pthread_cond_t changed, due; /* for the last worker the latter */
    Work *first;                 /* by round, then by arrival */
    uint64_t round;
    bool last_waits; /* the last worker has nothing to do */
    bool stopping;
    int most, n_threads;
    pthread_t threads[];
};

static void release(Work *w) {
    if (atomic_fetch_sub(&w->owners, 1) == 1) w->free(w);
}

/* In front of its round where a piece of it is done, or behind it. */
static void insert(Workers *p, Work *w, bool goes_on) {
    Work **at = &p->first;
    while (*at && (*at)->round < w->round + !goes_on) at = &(*at)->next;
    w->next = *at;
    *at = w;
}

/* Takes a piece out of the queue for as long as it runs; the caller holds the mutex. Nobody waits for the rest of what
 * belongs to the workers alone. */
static void run_piece(Workers *p, Work **at) {
    Work *w = *at;
    if (w == p->first) p->round = w->round;
    *at = w->next;
    if (p->first) pthread_cond_signal(&p->changed); /* which this worker may have been to take */
    pthread_mutex_unlock(&p->mutex);
    bool more = w->run(w) && atomic_load(&w->owners) > 1;
    if (!more) {
        atomic_store(&w->done, true);
        w->wake(w->wake_arg);
        release(w);
    }
    pthread_mutex_lock(&p->mutex);
    if (!more) return;
    w->begun = true;
    insert(p, w, true);
    pthread_cond_signal(&p->due);
    pthread_cond_signal(&p->changed);
}

/* When a worker may take it: the last one what is brief, and what is PATIENCE old; the others all but what they have
 * begun and is as old, if that one has nothing else to do. */
static double due_of(const Workers *p, const Work *w, bool last, double now) {
    double old = w->since + PATIENCE;
    if (last) return w->brief ? 0 : old;
    return w->begun && old <= now && p->last_waits ? INFINITY : 0;
}

/* Until the end. */
static void work(Workers *p, pthread_cond_t *called, bool last) {
    pthread_mutex_lock(&p->mutex);
    while (p->first || !p->stopping) {
        double now = now_seconds(), next = INFINITY, due;
        Work **at = &p->first;
        for (; *at && (due = due_of(p, *at, last, now)) > now && !p->stopping; at = &(*at)->next)
            next = fmin(next, due);
        if (*at) {
            run_piece(p, at);
            continue;
        }
        if (last) p->last_waits = true;
        if (isfinite(next))
            clock_wait(called, &p->mutex, next);
        else
            pthread_cond_wait(called, &p->mutex);
        if (last) p->last_waits = false;
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
    work(p, &p->changed, false);
    return NULL;
}

/* The last worker, of the usual priority. */
static void *work_on_what_is_due(void *arg) {
    Workers *p = arg;
    work(p, &p->due, true);
    return NULL;
}

int workers_start(Workers **out, int threads, int most, Err *err) {
    Workers *p = xcalloc(1, sizeof *p + (size_t)threads * sizeof *p->threads);
    p->most = most;
    pthread_mutex_init(&p->mutex, NULL);
    pthread_cond_init(&p->changed, NULL);
    clock_cond_init(&p->due);
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
    if (!p->first || w->brief) pthread_cond_signal(&p->due);
    w->since = now_seconds();
    w->begun = false;
    insert(p, w, false);
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
