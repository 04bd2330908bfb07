#include "trainer/early_sum.h"

#include "base/team.h"
#include "trainer/ranks/ranks.h"

#include <string.h>

static void await(EarlySum *e, size_t first) {
    pthread_mutex_lock(&e->mutex);
    while (e->done > first) pthread_cond_wait(&e->changed, &e->mutex);
    pthread_mutex_unlock(&e->mutex);
}

static void *run(void *arg) {
    EarlySum *e = arg;
    const Slices *s = &e->o->slices;
    team_resize(1); /* the others compute */
    for (int b = slices_buckets(s) - 1; b >= 0; b--) {
        size_t first = slices_bucket_first(s, b), n = slices_bucket_first(s, b + 1) - first;
        await(e, first);
        if (e->leaves) gradient_sum_end(e->sum, e->o->g, first, n, e->leaves);
        slices_sum(s, e->o->g, b, e->micro_batches);
    }
    return NULL;
}

int early_sum_start(EarlySum *e, Err *err) {
    e->done = SIZE_MAX;
    if (ranks->n == 1) return 0;
    pthread_mutex_init(&e->mutex, NULL);
    pthread_cond_init(&e->changed, NULL);
    int rc = pthread_create(&e->thread, NULL, run, e);
    return rc ? err_set(err, "cannot start a thread to talk to the other ranks with: %s", strerror(rc)) : 0;
}

static void advance(EarlySum *e, size_t done) {
    pthread_mutex_lock(&e->mutex);
    e->done = done;
    pthread_cond_signal(&e->changed);
    pthread_mutex_unlock(&e->mutex);
}

void early_sum_reached(void *context, int layer) {
    EarlySum *e = context;
    size_t first = 0;
    for (int i = 0; i < e->ps->n && e->ps->params[i].bin != layer + 1; i++) first += param_trained(&e->ps->params[i]);
    advance(e, first);
}

void early_sum_end(EarlySum *e) {
    if (ranks->n == 1) {
        gradient_sum_end(e->sum, e->o->g, 0, e->o->n, e->leaves);
        return;
    }
    advance(e, 0);
    pthread_join(e->thread, NULL);
    pthread_mutex_destroy(&e->mutex);
    pthread_cond_destroy(&e->changed);
}
