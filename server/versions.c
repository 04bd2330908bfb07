#include "server/versions.h"

#include "base/err.h"
#include "base/log.h"

void versions_add(Versions *v, Serving *s) {
    pthread_mutex_lock(&v->mutex);
    s->older = v->newest;
    v->newest = s;
    pthread_mutex_unlock(&v->mutex);
}

Serving *versions_pin(Versions *v) {
    pthread_mutex_lock(&v->mutex);
    Serving *s = v->newest;
    s->pins++;
    pthread_mutex_unlock(&v->mutex);
    return s;
}

void versions_unpin(Versions *v, Serving *s) {
    pthread_mutex_lock(&v->mutex);
    s->pins--;
    pthread_mutex_unlock(&v->mutex);
}

/* Unlinks the first unpinned version at or behind *at. The caller holds the mutex. */
static Serving *take_unpinned(Serving **at) {
    while (*at && (*at)->pins > 0) at = &(*at)->older;
    Serving *s = *at;
    if (s) *at = s->older;
    return s;
}

int versions_collect(Versions *v) {
    int left = 0;
    for (Serving *s = v->newest; s;) { /* stopping an engine takes a step: not under the mutex */
        pthread_mutex_lock(&v->mutex);
        s = take_unpinned(&v->newest->older);
        pthread_mutex_unlock(&v->mutex);
        if (s) log_line("the version with fingerprint %s is gone", s->fingerprint);
        serving_close(s);
    }
    pthread_mutex_lock(&v->mutex);
    for (const Serving *s = v->newest ? v->newest->older : NULL; s; s = s->older) left++;
    pthread_mutex_unlock(&v->mutex);
    return left;
}

void versions_close(Versions *v) {
    for (Serving *s; (s = v->newest) != NULL;) {
        v->newest = s->older;
        serving_close(s);
    }
}

int versions_stats(Versions *v, EngineStats *sum) {
    int n = 0;
    pthread_mutex_lock(&v->mutex);
    for (const Serving *s = v->newest; s; s = s->older, n++) {
        EngineStats stats = engine_stats(s->engine);
        if (n == 0) {
            *sum = stats;
            continue;
        }
        sum->running += stats.running;
        sum->queued += stats.queued;
        sum->kv_blocks += stats.kv_blocks;
        sum->kv_blocks_used += stats.kv_blocks_used;
    }
    pthread_mutex_unlock(&v->mutex);
    return n;
}

void versions_drain(Versions *v) {
    pthread_mutex_lock(&v->mutex);
    for (const Serving *s = v->newest; s; s = s->older) engine_drain(s->engine);
    pthread_mutex_unlock(&v->mutex);
}
