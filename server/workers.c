#include "server/workers.h"

#include "base/memory.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

struct Workers {
    pthread_mutex_t mutex; /* guards what follows */
    pthread_cond_t changed;
    Work *first; /* by round, then by arrival */
    uint64_t round;
    bool stopping;
    int most, n_threads;
    pthread_t threads[];
};

static void let_go(Work *w) {
    if (atomic_fetch_sub(&w->owners, 1) == 1) w->free(w);
}

/* Linux has a nice value for each thread, 0 is the caller. Where a sandbox forbids this, bodies slow the streams. */
static void *work(void *arg) {
    Workers *p = arg;
    (void)setpriority(PRIO_PROCESS, 0, 19);
    pthread_mutex_lock(&p->mutex);
    for (;;) {
        while (!p->first && !p->stopping) pthread_cond_wait(&p->changed, &p->mutex);
        Work *w = p->first;
        if (!w) break;
        p->first = w->next;
        p->round = w->round;
        pthread_mutex_unlock(&p->mutex);
        w->run(w);
        atomic_store(&w->done, true);
        w->wake(w->wake_arg);
        let_go(w);
        pthread_mutex_lock(&p->mutex);
    }
    pthread_mutex_unlock(&p->mutex);
    return NULL;
}

int workers_start(Workers **out, int threads, int most, Err *err) {
    Workers *p = xcalloc(1, sizeof *p + (size_t)threads * sizeof *p->threads);
    p->most = most;
    pthread_mutex_init(&p->mutex, NULL);
    pthread_cond_init(&p->changed, NULL);
    for (; p->n_threads < threads; p->n_threads++) {
        int rc = pthread_create(&p->threads[p->n_threads], NULL, work, p);
        if (rc == 0) continue;
        workers_stop(p);
        return err_set(err, "cannot start a worker: %s", strerror(rc));
    }
    *out = p;
    return 0;
}

/* False when the tenant has its share already. The caller holds the mutex. */
static bool enqueue(Workers *p, Work *w, bool always) {
    int waiting = 0;
    w->round = p->round + 1;
    for (const Work *other = p->first; other; other = other->next) {
        if (other->tenant != w->tenant) continue;
        w->round = other->round + 1;
        waiting++;
    }
    if (waiting >= p->most && !always) return false;
    Work **at = &p->first;
    while (*at && (*at)->round <= w->round) at = &(*at)->next;
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
    if (waiting) let_go(w); /* for the workers, who will never see it */
    let_go(w);
}

void workers_stop(Workers *p) {
    if (!p) return;
    pthread_mutex_lock(&p->mutex);
    p->stopping = true;
    pthread_cond_broadcast(&p->changed);
    pthread_mutex_unlock(&p->mutex);
    for (int i = 0; i < p->n_threads; i++) pthread_join(p->threads[i], NULL);
    pthread_cond_destroy(&p->changed);
    pthread_mutex_destroy(&p->mutex);
    free(p);
}
