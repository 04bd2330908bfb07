/* queue: jobs that wait, bounded, in fair turns.
 *
 * Fair queueing, round robin: the k-th waiting job of a client belongs to the k-th round from now, rounds are served in
 * order and within a round first come, first served. A client alone has the whole queue; one with a thousand jobs
 * delays another's first by one job, and gives up slots when the queue is full. Links run through Job.next. Not
 * thread-safe: the engine's mutex guards it. */
#ifndef NOISED_QUEUE_H
#define NOISED_QUEUE_H

#include "server/engine/job.h"

typedef struct Queue {
    Job *first;
    int n;
    uint64_t round;    /* of the job taken last */
    uint64_t requests; /* so far */
    int64_t rows;      /* prompt and token positions of all waiting jobs together, at most */
} Queue;

/* One request's, so all of one client. */
void queue_add(Queue *q, Job *const *jobs, int n);

/* Makes room for n more jobs of the client, so that at most `most` wait: requests of which no job was taken yet leave,
 * the newest of the client with the most first, while it has more waiting than this one then would. They are put
 * before *displaced, linked through next. False, and nothing has left, when that makes no room. */
bool queue_make_room(Queue *q, uint64_t client, int n, int most, Job **displaced);

/* The first job whose client `may` have another slot, NULL when there is none. */
Job *queue_next(const Queue *q, bool (*may)(uint64_t client, const void *arg), const void *arg);
void queue_take(Queue *q, Job *job);

/* Takes out every job for which `remove` is true, linked through next in their order. */
Job *queue_sweep(Queue *q, bool (*remove)(const Job *job, const void *arg), const void *arg);

#endif
