/* slices: the flat buffers of parameters cut into stretches, and which rank (ranks.h) owns which.
 *
 * Reduce-scatter, by recursive halving: with N = 2^K ranks every bucket of slices is halved K times, once with each
 * partner that differs in one bit of the rank, the lowest first: that is how sums meet in the order of their tree.
 * Behind it a rank owns 1/N of each bucket and has the whole sum there. All-gather, by recursive doubling, is the way
 * back, the highest bit first: everybody gets everything. Both together are an all-reduce whose owners update in
 * between. Each sends 4 n (1 - 1/N) bytes one way, in K messages a bucket.
 *
 * One rank owns all, and both ways are nothing. */
#ifndef NOISED_SLICES_H
#define NOISED_SLICES_H

#include "model/params.h"
#include "trainer/ranks/ranks.h"

/* A stretch of one parameter: the unit of work, and of the fixed order in which the gradient's norm is summed. */
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
    float *arrived;    /* what is being added; NULL with one rank */
} Slices;

void slices_init(Slices *s, const ParamSet *ps);
void slices_free(Slices *s);

void slices_clear(const Slices *s, float *x); /* a flat buffer = 0 */

/* Bytes besides the flat buffers; floats that the rank with most of n parameters owns, about. */
size_t slices_memory(void);
size_t slices_owned(size_t n_params);
int slices_owner(const Slices *s, int slice);

/* What a rank sends a step for the sum and the way back, of n parameters on so many ranks. */
double slices_bytes(double n_params, int n_ranks);
double slices_messages(double n_params, int n_ranks);

/* Buckets are summed one by one, from the last one down, by all ranks alike; the first float of one. */
int slices_buckets(const Slices *s);
size_t slices_bucket_first(const Slices *s, int bucket);

/* Where this rank owns it, g becomes the sum over ranks, each with its share of the micro-batches; elsewhere in the
 * bucket it is undefined. */
void slices_reduce_scatter(const Slices *s, float *g, int bucket, int64_t micro_batches);
/* Everybody gets what others own: of a flat buffer; of one number a slice. */
void slices_all_gather(const Slices *s, float *w);
void slices_all_gather_numbers(const Slices *s, double *x);

#endif
