#include "trainer/ranks/slices.h"

#include "base/memory.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { SLICE = 1 << 14, BUCKET_SLICES = 16, SLICES_OF_RANK = 4 };

typedef struct Part {
    int from, to; /* slices */
} Part;

static int bucket_slices(int n_ranks) { return MAX(BUCKET_SLICES, SLICES_OF_RANK * n_ranks); }

int slices_buckets(const Slices *s) { return (s->n + s->bucket - 1) / s->bucket; }

static Part whole(const Slices *s, int bucket) {
    return (Part){bucket * s->bucket, MIN(s->n, (bucket + 1) * s->bucket)};
}

static Part part_of(const Slices *s, int bucket, int rank) {
    Part all = whole(s, bucket);
    RankShare own = ranks_share(all.to - all.from, rank, ranks->n);
    return (Part){all.from + (int)own.first, all.from + (int)(own.first + own.n)};
}

static Stretch stretch(const Slices *s, Part p) {
    if (p.from == p.to) return (Stretch){0};
    const Slice *first = &s->all[p.from], *last = &s->all[p.to - 1];
    return (Stretch){.first = first->first, .n = last->first + (size_t)last->n - first->first};
}

Stretch slices_bucket(const Slices *s, int bucket) { return stretch(s, whole(s, bucket)); }

Stretch slices_bucket_mine(const Slices *s, int bucket) { return stretch(s, part_of(s, bucket, ranks->rank)); }

static void cut(Slices *s, const Param *p, size_t first) {
    size_t n = param_trained(p), pieces = (n + SLICE - 1) / SLICE;
    s->all = xrealloc(s->all, ((size_t)s->n + pieces) * sizeof *s->all);
    for (size_t at = 0; at < n; at += SLICE)
        s->all[s->n++] = (Slice){.first = first + at,
                                 .owned = SIZE_MAX,
                                 .n = (int)MIN(n - at, (size_t)SLICE),
                                 .lr_scale = p->lr_scale,
                                 .decay = p->decay};
}

void slices_init(Slices *s, const ParamSet *ps) {
    *s = (Slices){.bucket = bucket_slices(ranks->n)};
    size_t first = 0;
    for (int i = 0; i < ps->n; i++) {
        cut(s, &ps->params[i], first);
        first += param_trained(&ps->params[i]);
    }
    s->mine = xcalloc((size_t)s->n + 1, sizeof *s->mine);
    for (int b = 0; b < slices_buckets(s); b++) {
        Part own = part_of(s, b, ranks->rank);
        for (int i = own.from; i < own.to; i++) {
            s->mine[s->n_mine++] = i;
            s->all[i].owned = s->owned;
            s->owned += (size_t)s->all[i].n;
        }
    }
    s->counts = xcalloc((size_t)ranks->n, sizeof *s->counts);
}

void slices_free(Slices *s) {
    free(s->all);
    free(s->mine);
    free(s->counts);
    *s = (Slices){0};
}

void slices_clear(const Slices *s, float *x) {
#pragma omp parallel for schedule(static)
    for (int i = 0; i < s->n; i++) memset(x + s->all[i].first, 0, (size_t)s->all[i].n * sizeof *x);
}

size_t slices_owned(size_t n_params) { return (n_params + (size_t)ranks->n - 1) / (size_t)ranks->n; }

double slices_bytes(double n_params, int n_ranks) {
    return (sizeof(int64_t) + sizeof(float)) * n_params * (1 - 1 / (double)n_ranks);
}

double slices_messages(double n_params, int n_ranks) {
    double bucket = fmin(n_params, (double)SLICE * bucket_slices(n_ranks));
    return 2.0 * (n_ranks - 1) * ceil(n_params / bucket);
}

int slices_owner(const Slices *s, int slice) {
    int rank = 0;
    while (slice >= part_of(s, slice / s->bucket, rank).to) rank++;
    return rank;
}

/* ---- between ranks ---- */

/* What is sent of every rank's part of a bucket. */
static const int *counts(const Slices *s, int bucket, size_t of_slice, size_t of_float) {
    for (int r = 0; r < ranks->n; r++) {
        Part p = part_of(s, bucket, r);
        s->counts[r] = (int)((size_t)(p.to - p.from) * of_slice + stretch(s, p).n * of_float);
    }
    return s->counts;
}

void slices_reduce_scatter(const Slices *s, const int64_t *sum, int bucket, int64_t *mine) {
    ranks->sum(sum + slices_bucket(s, bucket).first, counts(s, bucket, 0, 1), mine);
}

void slices_all_gather(const Slices *s, float *w) {
    for (int b = 0; b < slices_buckets(s) && ranks->n > 1; b++)
        ranks->spread(w + slices_bucket(s, b).first, counts(s, b, 0, sizeof *w));
}

void slices_all_gather_numbers(const Slices *s, double *x) {
    for (int b = 0; b < slices_buckets(s) && ranks->n > 1; b++)
        ranks->spread(x + whole(s, b).from, counts(s, b, sizeof *x, 0));
}
