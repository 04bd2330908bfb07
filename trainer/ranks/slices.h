/* slices: the flat buffers of parameters cut into pieces, and which rank (ranks.h) owns which.
 *
 * Slices lie in buckets, and of every bucket each rank owns its share of them: the same number, or one more. A
 * reduce-scatter gives the owner the sum over all ranks, an all-gather gives everybody what the owners have: both
 * together are an all-reduce whose owners update in between. Of n parameters on N ranks each sends 8 n (1 - 1/N) bytes
 * there, as integers (fixed_sum.h), and 4 n (1 - 1/N) back.
 *
 * One rank owns all, and both ways are nothing. */
#ifndef NOISED_SLICES_H
#define NOISED_SLICES_H

#include "model/params.h"
#include "trainer/ranks/ranks.h"

enum { SLICE = 1 << 14 }; /* floats at most */

/* A piece of one parameter: the unit of work, and of the fixed order in which the gradient's norm is summed. */
typedef struct Slice {
    size_t first; /* in a flat buffer of all */
    int owner;    /* a rank */
    size_t owned; /* in a buffer of what this rank owns; SIZE_MAX: another does */
    int n;
    float lr_scale;
    bool decay;
} Slice;

typedef struct Bucket {
    int from, to; /* slices, all of one layer or of none */
} Bucket;

typedef struct Slices {
    Slice *all;
    int n;
    Bucket *buckets;
    int n_buckets;
    int *mine, n_mine; /* numbers of slices that this rank owns, rising */
    size_t owned;      /* floats in them */
    int *counts;       /* [ranks] of what is being sent */
} Slices;

void slices_init(Slices *s, const ParamSet *ps);
void slices_free(Slices *s);

size_t slices_owned(size_t n_params); /* floats that the rank with most of n parameters owns, about */

/* What a rank sends for the sums of so many micro-batches and one way back, of n parameters on so many ranks; messages
 * if MPI goes round. */
double slices_bytes(double n_params, int n_ranks, double sums);
double slices_messages(double n_params, int n_ranks, double sums);

/* Where a bucket is in a flat buffer; what this rank owns of it, in a buffer of what it owns. */
typedef struct Stretch {
    size_t first, n; /* floats */
} Stretch;
Stretch slices_bucket(const Slices *s, int bucket);
Stretch slices_bucket_owned(const Slices *s, int bucket);

/* x is a bucket of integers; `mine` becomes the sum over all ranks of what this one owns of it. */
void slices_reduce_scatter(const Slices *s, const int64_t *x, int bucket, int64_t *mine);
/* Everybody gets what others own: of a buffer in which slice i is the bytes from at[i] to at[i + 1] - 1; of items of
 * `size` bytes, one a slice. */
void slices_all_gather(const Slices *s, void *x, const size_t *at);
void slices_all_gather_items(const Slices *s, void *x, size_t size);

#endif
