/* queue: jobs that wait, bounded, in fair turns.
 *
 * Tenants take turns: the k-th waiting job of a tenant belongs to the k-th round from now, rounds are served in order
 * and within a round first come, first served. A tenant alone has the whole queue; one with a thousand jobs delays
 * another's first by one job. Links run through Job.next. Not thread-safe: the engine's mutex guards it. */
#ifndef NOISED_QUEUE_H
#define NOISED_QUEUE_H

#include "server/engine/job.h"

typedef struct Queue {
    Job *first;
    int n;
    uint64_t round; /* of the job taken last */
    int64_t rows;   /* prompt and token positions of all waiting jobs together, at most */
} Queue;

/* All of one tenant. */
void queue_add(Queue *q, Job *const *jobs, int n);
Job *queue_take(Queue *q); /* the first; the queue must not be empty */

/* Takes out every job for which `remove` is true, linked through next in their order. */
Job *queue_sweep(Queue *q, bool (*remove)(const Job *job, const void *arg), const void *arg);

#endif
