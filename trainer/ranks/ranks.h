/* ranks: the processes that train one model together, and all that they say to each other. noised-train is the only
 * rank of its run; noised-train-mpi puts MPI's table here before a command runs (trainer/mpi/).
 *
 * All ranks call exchange and gather in the same order, one thread at a time. Nothing here fails: when a rank is lost,
 * the others end. */
#ifndef NOISED_RANKS_H
#define NOISED_RANKS_H

#include "base/err.h"

enum { RANK_HOST = 64 };

typedef struct Ranks {
    int rank, n; /* 0 writes the run's folder */
    char host[RANK_HOST];
    /* Bytes to and from a partner, who calls it too, at once; either number may be 0. */
    void (*exchange)(int partner, const void *out, size_t n_out, void *in, size_t n_in);
    void (*gather)(const void *mine, size_t n, void *all); /* n bytes of every rank, in their order, to all */
    void (*send)(int to, const void *data, size_t n);
    void (*receive)(int from, void *data, size_t n);
} Ranks;

extern const Ranks *ranks;

int ranks_most(int mine); /* the largest that a rank has, when all are here */
void ranks_wait(void);    /* until all ranks are here */

/* -1 and a message for what all ranks find out alike: rank 0 tells it, that of the others is empty. */
int ranks_refuse(Err *err, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* Of a binary tree of so many leaves, the last of which need not be there. */
int ranks_levels(int64_t leaves);

/* The micro-batches of a step that one rank computes: with P = the power of two that holds all of them, rank r of N has
 * the P/N from r P/N on, as far as there are so many: a whole subtree of their sum (gradient_sum.h). */
typedef struct RankShare {
    int64_t first, n, most; /* most: P/N */
} RankShare;
RankShare ranks_share(int64_t micro_batches, int rank, int n);

/* -1 when so many ranks cannot share a step: N must be a power of two, P at most. */
int ranks_check(int64_t micro_batches, int n, Err *err);

#endif
