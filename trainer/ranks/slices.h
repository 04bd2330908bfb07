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

/* A piece of one parameter: the unit of work, and of the fixed order in which the gradient's norm is summed. */
typedef struct Slice {
    size_t first; /* in a flat buffer of all */
    size_t owned; /* in one of what this rank owns; SIZE_MAX: another does */
    int n;
    float lr_scale;
    bool decay;
} Slice;

typedef struct Slices {
    Slice *all;
    int n;
    int *mine, n_mine; /* numbers of those that this rank owns, rising */
    size_t owned;      /* floats in them */
    int bucket;        /* slices in one */
    int *counts;       /* [ranks] of what is being sent */
} Slices;

void slices_init(Slices *s, const ParamSet *ps);
void slices_free(Slices *s);

void slices_clear(const Slices *s, float *x); /* a flat buffer = 0 */

size_t slices_owned(size_t n_params); /* floats that the rank with most of n parameters owns, about */
int slices_owner(const Slices *s, int slice);

/* What a rank sends a step for the sum and the way back, of n parameters on so many ranks; messages if MPI goes round.
 */
double slices_bytes(double n_params, int n_ranks);
double slices_messages(double n_params, int n_ranks);

/* Buckets are summed one by one, by all ranks alike: where in a flat buffer one begins, and what this rank owns of it.
 */
typedef struct Stretch {
    size_t first, n; /* floats */
} Stretch;
int slices_buckets(const Slices *s);
Stretch slices_bucket(const Slices *s, int bucket);
Stretch slices_bucket_mine(const Slices *s, int bucket);

/* Flat integers that this rank has added up; what it owns of the bucket becomes the sum over all ranks, in `mine`. */
void slices_reduce_scatter(const Slices *s, const int64_t *sum, int bucket, int64_t *mine);
/* Everybody gets what others own: of a flat buffer; of one number a slice. */
void slices_all_gather(const Slices *s, float *w);
void slices_all_gather_numbers(const Slices *s, double *x);

#endif
