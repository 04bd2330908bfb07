/* ranks: the processes that train one model together, and all that they say to each other. noised-train is the only
 * rank of its run; noised-train-mpi puts MPI's table here before a command runs (trainer/mpi/).
 *
 * All ranks call sum, spread and gather in the same order, one thread at a time. Nothing here fails: when a rank is
 * lost, the others end. */
#ifndef NOISED_RANKS_H
#define NOISED_RANKS_H

#include "base/err.h"

enum { RANK_HOST = 64 };

typedef struct Ranks {
    int rank, n; /* 0 writes the run's folder */
    char host[RANK_HOST];
    /* data has a piece for each rank, one behind the other, as long as counts says; mine = the sum over all ranks of
     * the piece that is for this one. */
    void (*sum)(const int64_t *data, const int *counts, int64_t *mine);
    void (*spread)(void *data, const int *bytes);          /* of such pieces everybody has its own: all get all */
    void (*gather)(const void *mine, size_t n, void *all); /* n bytes of every rank, in their order, to all */
} Ranks;

extern const Ranks *ranks;

int ranks_most(int mine);                /* the largest that a rank has, when all are here */
void ranks_wait(void);                   /* until all ranks are here */
int ranks_on_host(void);                 /* how many have this one's host, itself too */
void ranks_follow(void *data, size_t n); /* n bytes become those of rank 0 */

/* -1 and a message for what all ranks find out alike: rank 0 tells it, that of the others is empty. */
int ranks_refuse(Err *err, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* When all are here: -1 on all if any has -1, with the message of the first that has, told by rank 0. */
int ranks_settle(int rc, Err *err);

/* The k-th of n parts of `all`, which differ by one at most: which micro-batches of a step a rank computes. */
typedef struct RankShare {
    int64_t first, n;
} RankShare;
RankShare ranks_share(int64_t all, int k, int n);

/* Work of `all` items that every rank has before it, each doing its share: starts[n + 1], malloc'ed, rank r does those
 * from starts[r] to starts[r + 1] - 1. Then all get all: data has an item of `size` bytes each, of which each rank has
 * filled its own. */
int64_t *ranks_starts(int64_t all);
void ranks_collect(void *data, size_t size, const int64_t *starts);

/* -1 where a step has fewer micro-batches than there are ranks. */
int ranks_check(int64_t micro_batches, int n, Err *err);

#endif
