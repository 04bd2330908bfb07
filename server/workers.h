/* workers: the thread pool for what would hold up the HTTP thread: reading, tokenising and writing large bodies.
 *
 * Fair queueing as in engine/queue.h: the k-th waiting piece of work of a client belongs to the k-th round from now. A
 * client has at most `most` pieces waiting.
 *
 * Work has two owners, who submitted it and the workers; each releases it once, and the last release calls `free`. So
 * nobody waits for what still runs for a client that is gone.
 *
 * Streams come first: workers compute where no other thread wants the core. At the same rank two bodies at a time
 * double the gaps of every stream on two cores. But the last worker is a thread like any other, or a prompt would wait
 * for as long as other programs fill the machine: it takes what is brief, and what has waited for a second. What an
 * idle worker has begun by then, nobody can take from it, so what takes long comes in pieces: the next one of work that
 * is a second old is the last worker's. */
#ifndef NOISED_WORKERS_H
#define NOISED_WORKERS_H

#include "base/err.h"

#include <stdatomic.h>

/* Embedded in what the work is about; owners is 1 and done true before it is submitted for the first time. */
typedef struct Work {
    bool (*run)(struct Work *w);  /* on a worker; true: that was a piece, and it is to be run again */
    void (*free)(struct Work *w); /* on the thread that releases last */
    void (*wake)(void *);         /* on the worker, once done is true */
    void *wake_arg;
    uint64_t client;
    bool brief;       /* some milliseconds of work: no stream notices */
    atomic_bool done; /* what run has written may be read */
    atomic_int owners;
    /* ---- the workers' own ---- */
    uint64_t round;
    double since; /* when it was submitted */
    bool begun;   /* a piece of it is done */
    struct Work *next;
} Work;

typedef struct Workers Workers;

int workers_start(Workers **out, int threads, int most, Err *err);

/* False when the client has too much waiting; then nothing has happened. `always`: taken nevertheless, for the rest of
 * what was begun. Work that is done may be submitted again. */
bool workers_submit(Workers *p, Work *w, bool always);

/* The submitter's end of it. What waits is never run then; what runs ends by itself. */
void workers_release(Workers *p, Work *w);

/* After every submitter's release. Returns when nothing runs any more. NULL is fine. */
void workers_stop(Workers *p);

#endif
