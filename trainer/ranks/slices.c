#include "trainer/ranks/slices.h"

#include "base/memory.h"

#include <math.h>
#include <stdlib.h>

enum { BUCKET_SLICES = 16, SLICES_OF_RANK = 4 };

static int bucket_slices(int n_ranks) { return MAX(BUCKET_SLICES, SLICES_OF_RANK * n_ranks); }

static Bucket share_of(Bucket all, int rank) {
    RankShare own = ranks_share(all.to - all.from, rank, ranks->n);
    return (Bucket){all.from + (int)own.first, all.from + (int)(own.first + own.n)};
}

static size_t floats_in(const Slices *s, Bucket b) {
    if (b.from == b.to) return 0;
    const Slice *last = &s->all[b.to - 1];
    return last->first + (size_t)last->n - s->all[b.from].first;
}

Stretch slices_bucket(const Slices *s, int bucket) {
    Bucket b = s->buckets[bucket];
    return (Stretch){.first = s->all[b.from].first, .n = floats_in(s, b)};
}

Stretch slices_bucket_owned(const Slices *s, int bucket) {
    Bucket own = share_of(s->buckets[bucket], ranks->rank);
    if (own.from == own.to) return (Stretch){0};
    return (Stretch){.first = s->all[own.from].owned, .n = floats_in(s, own)};
}

static void cut(Slices *s, const Param *p, size_t first) {
    size_t n = param_trained(p), pieces = (n + SLICE - 1) / SLICE;
    s->all = xrealloc(s->all, ((size_t)s->n + pieces + 1) * sizeof *s->all);
    for (size_t at = 0; at < n; at += SLICE)
        s->all[s->n++] = (Slice){.first = first + at,
                                 .owned = SIZE_MAX,
                                 .n = (int)MIN(n - at, (size_t)SLICE),
                                 .lr_scale = p->lr_scale,
                                 .decay = p->decay};
}

static void own(Slices *s, int slice) {
    s->mine[s->n_mine++] = slice;
    s->all[slice].owned = s->owned;
    s->owned += (size_t)s->all[slice].n;
}

/* Buckets of the slices from `from` on. */
static void fill_buckets(Slices *s, int from) {
    int most = bucket_slices(ranks->n), pieces = (s->n - from + most - 1) / most;
    s->buckets = xrealloc(s->buckets, ((size_t)(s->n_buckets + pieces) + 1) * sizeof *s->buckets);
    for (; from < s->n; from += most) s->buckets[s->n_buckets++] = (Bucket){from, MIN(s->n, from + most)};
}

void slices_init(Slices *s, const ParamSet *ps) {
    *s = (Slices){0};
    size_t first = 0;
    int from = 0;
    for (int i = 0; i < ps->n; i++) {
        cut(s, &ps->params[i], first);
        first += param_trained(&ps->params[i]);
        if (i + 1 < ps->n && ps->params[i + 1].bin == ps->params[i].bin) continue;
        fill_buckets(s, from);
        from = s->n;
    }
    s->mine = xcalloc((size_t)s->n + 1, sizeof *s->mine);
    s->counts = xcalloc((size_t)ranks->n, sizeof *s->counts);
    for (int b = 0; b < s->n_buckets; b++)
        for (int r = 0; r < ranks->n; r++) {
            Bucket share = share_of(s->buckets[b], r);
            for (int i = share.from; i < share.to; i++) {
                s->all[i].owner = r;
                if (r == ranks->rank) own(s, i);
            }
        }
}

void slices_free(Slices *s) {
    free(s->all);
    free(s->buckets);
    free(s->mine);
    free(s->counts);
    *s = (Slices){0};
}

size_t slices_owned(size_t n_params) { return (n_params + (size_t)ranks->n - 1) / (size_t)ranks->n; }

double slices_bytes(double n_params, int n_ranks, double sums) {
    return (sums * sizeof(int64_t) + sizeof(float)) * n_params * (1 - 1 / (double)n_ranks);
}

double slices_messages(double n_params, int n_ranks, double sums) {
    double bucket = fmin(n_params, (double)SLICE * bucket_slices(n_ranks));
    return (sums + 1) * (n_ranks - 1) * ceil(n_params / bucket);
}

/* ---- between ranks ---- */

/* What is sent of every rank's share of a bucket. */
static const int *counts(const Slices *s, int bucket, size_t of_slice, size_t of_float) {
    for (int r = 0; r < ranks->n; r++) {
        Bucket share = share_of(s->buckets[bucket], r);
        s->counts[r] = (int)((size_t)(share.to - share.from) * of_slice + floats_in(s, share) * of_float);
    }
    return s->counts;
}

void slices_reduce_scatter(const Slices *s, const int64_t *x, int bucket, int64_t *mine) {
    ranks->sum(x, counts(s, bucket, 0, 1), mine);
}

void slices_all_gather(const Slices *s, void *x, const size_t *at) {
    for (int b = 0; b < s->n_buckets && ranks->n > 1; b++) {
        for (int r = 0; r < ranks->n; r++) {
            Bucket share = share_of(s->buckets[b], r);
            s->counts[r] = (int)(at[share.to] - at[share.from]);
        }
        ranks->spread((char *)x + at[s->buckets[b].from], s->counts);
    }
}

void slices_all_gather_items(const Slices *s, void *x, size_t size) {
    for (int b = 0; b < s->n_buckets && ranks->n > 1; b++)
        ranks->spread((char *)x + (size_t)s->buckets[b].from * size, counts(s, b, size, 0));
}
