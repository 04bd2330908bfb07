#include "server/engine/queue.h"

#include "base/err.h"

static int64_t rows_of(const Job *job) { return (int64_t)job->n_prompt + job->max_tokens; }

void queue_add(Queue *q, Job *const *jobs, int n) {
    uint64_t round = q->round;
    for (const Job *job = q->first; job; job = job->next)
        if (job->tenant == jobs[0]->tenant) round = job->round;
    Job **at = &q->first;
    for (int i = 0; i < n; i++) {
        Job *job = jobs[i];
        BUG_ON(job->tenant != jobs[0]->tenant);
        job->round = ++round;
        while (*at && (*at)->round <= round) at = &(*at)->next;
        job->next = *at;
        *at = job;
        q->rows += rows_of(job);
    }
    q->n += n;
}

static Job *unlink_job(Queue *q, Job **at) {
    Job *job = *at;
    *at = job->next;
    job->next = NULL;
    q->n--;
    q->rows -= rows_of(job);
    return job;
}

Job *queue_take(Queue *q) {
    q->round = q->first->round;
    return unlink_job(q, &q->first);
}

Job *queue_sweep(Queue *q, bool (*remove)(const Job *job, const void *arg), const void *arg) {
    Job *removed = NULL, **end = &removed;
    for (Job **at = &q->first; *at;) {
        if (!remove(*at, arg)) {
            at = &(*at)->next;
            continue;
        }
        *end = unlink_job(q, at);
        end = &(*end)->next;
    }
    return removed;
}
