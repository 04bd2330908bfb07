#include "trainer/ranks/slices.h"

#include "base/memory.h"
#include "trainer/ranks/gradient_sum.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { SLICE = 1 << 14, CHUNK = 1 << 20, BUCKET_SLICES = 16, SLICES_OF_RANK = 4 };

typedef struct Stretch {
    int from, to; /* slices */
} Stretch;

static int bucket_slices(int n_ranks) { return MAX(BUCKET_SLICES, SLICES_OF_RANK * n_ranks); }

/* What a rank keeps of a bucket behind so many halvings. */
static Stretch kept(const Slices *s, int bucket, int rank, int halvings) {
    Stretch k = {bucket * s->bucket, MIN(s->n, (bucket + 1) * s->bucket)};
    for (int i = 0; i < halvings; i++) {
        int middle = k.from + (k.to - k.from) / 2;
        if (rank >> i & 1)
            k.from = middle;
        else
            k.to = middle;
    }
    return k;
}

int slices_buckets(const Slices *s) { return (s->n + s->bucket - 1) / s->bucket; }

static size_t floats_before(const Slices *s, int slice) {
    if (slice < s->n) return s->all[slice].first;
    return s->n ? s->all[s->n - 1].first + (size_t)s->all[s->n - 1].n : 0;
}

size_t slices_bucket_first(const Slices *s, int bucket) { return floats_before(s, MIN(s->n, bucket * s->bucket)); }

static size_t floats_in(const Slices *s, Stretch k) { return floats_before(s, k.to) - floats_before(s, k.from); }

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
        Stretch own = kept(s, b, ranks->rank, ranks_levels(ranks->n));
        for (int i = own.from; i < own.to; i++) {
            s->mine[s->n_mine++] = i;
            s->all[i].owned = s->owned;
            s->owned += (size_t)s->all[i].n;
        }
    }
    if (ranks->n > 1) s->arrived = xmalloc(slices_memory());
}

void slices_free(Slices *s) {
    free(s->all);
    free(s->mine);
    free(s->arrived);
    *s = (Slices){0};
}

void slices_clear(const Slices *s, float *x) {
#pragma omp parallel for schedule(static)
    for (int i = 0; i < s->n; i++) memset(x + s->all[i].first, 0, (size_t)s->all[i].n * sizeof *x);
}

size_t slices_memory(void) { return ranks->n > 1 ? CHUNK * sizeof(float) : 0; }

size_t slices_owned(size_t n_params) { return (n_params + (size_t)ranks->n - 1) / (size_t)ranks->n; }

double slices_bytes(double n_params, int n_ranks) { return 2 * sizeof(float) * n_params * (1 - 1 / (double)n_ranks); }

double slices_messages(double n_params, int n_ranks) {
    double bucket = fmin(n_params, (double)SLICE * bucket_slices(n_ranks)), messages = 0;
    for (int i = 0; i < ranks_levels(n_ranks); i++) messages += 1 + ceil(ldexp(bucket, -i - 1) / CHUNK);
    return messages * ceil(n_params / bucket);
}

int slices_owner(const Slices *s, int slice) {
    int rank = 0;
    for (int i = 0; 1 << i < ranks->n; i++) {
        Stretch upper = kept(s, slice / s->bucket, rank | 1 << i, i + 1);
        if (slice >= upper.from && slice < upper.to) rank |= 1 << i;
    }
    return rank;
}

/* ---- the sum ---- */

/* One halving: gives the partner what it keeps, and adds what comes of ours. Who has no micro-batches, as all that it
 * has heard of, sends nothing; to add its zeros would turn -0 into 0. */
static void halve(const Slices *s, float *g, Stretch keep, Stretch give, int partner, bool have, bool has) {
    const float *out = g + floats_before(s, give.from);
    float *in = g + floats_before(s, keep.from);
    size_t n_out = have ? floats_in(s, give) : 0, n_in = has ? floats_in(s, keep) : 0;
    for (size_t at = 0; at < MAX(n_out, n_in); at += CHUNK) {
        size_t a = at < n_out ? MIN(n_out - at, (size_t)CHUNK) : 0, b = at < n_in ? MIN(n_in - at, (size_t)CHUNK) : 0;
        ranks->exchange(partner, out + at, a * sizeof *g, have ? s->arrived : in + at, b * sizeof *g);
        if (have) gradient_add(in + at, s->arrived, b);
    }
}

/* Whether any rank that differs from this one in its lowest bits alone has micro-batches. */
static bool group_has(int64_t micro_batches, int rank, int bits) {
    return ranks_share(micro_batches, rank >> bits << bits, ranks->n).n > 0;
}

void slices_reduce_scatter(const Slices *s, float *g, int bucket, int64_t micro_batches) {
    for (int i = 0; 1 << i < ranks->n; i++) {
        int partner = ranks->rank ^ 1 << i;
        halve(s, g, kept(s, bucket, ranks->rank, i + 1), kept(s, bucket, partner, i + 1), partner,
              group_has(micro_batches, ranks->rank, i), group_has(micro_batches, partner, i));
    }
}

/* ---- the way back ---- */

static size_t bytes_of_floats(const Slices *s, int slice) { return floats_before(s, slice) * sizeof(float); }

static size_t bytes_of_numbers(const Slices *s, int slice) {
    (void)s;
    return (size_t)slice * sizeof(double);
}

/* `before` tells where in the data a slice begins. */
static void all_gather(const Slices *s, char *data, size_t (*before)(const Slices *s, int slice)) {
    for (int b = 0; b < slices_buckets(s); b++)
        for (int i = ranks_levels(ranks->n) - 1; i >= 0; i--) {
            int partner = ranks->rank ^ 1 << i;
            Stretch have = kept(s, b, ranks->rank, i + 1), want = kept(s, b, partner, i + 1);
            ranks->exchange(partner, data + before(s, have.from), before(s, have.to) - before(s, have.from),
                            data + before(s, want.from), before(s, want.to) - before(s, want.from));
        }
}

void slices_all_gather(const Slices *s, float *w) { all_gather(s, (char *)w, bytes_of_floats); }

void slices_all_gather_numbers(const Slices *s, double *x) { all_gather(s, (char *)x, bytes_of_numbers); }
