#include "trainer/ranks/step_sum.h"

#include "base/memory.h"
#include "base/team.h"
#include "model/kernels/kernels.h"
#include "trainer/ranks/fixed_sum.h"

#include <stdlib.h>
#include <string.h>

/* A micro-batch is about to run backwards; parts of its gradient from here on are done; it has run, or is none. */
struct SumWay {
    int (*start)(StepSum *s, Err *err);
    void (*reach)(StepSum *s, int part);
    void (*end)(StepSum *s);
};

static void keep_first(Misfit *m, Misfit other) {
    if (other.micro_batch < m->micro_batch || (other.micro_batch == m->micro_batch && other.at < m->at)) *m = other;
}

/* n floats of the part from `at` on, added to the sum or, as the first, made such. */
static void add(StepSum *s, const GradientPart *p, size_t at, size_t n, bool first, int64_t *sum) {
    size_t misfit = fixed_sum_add(s->unit, n, p->g + at, first, sum);
    if (misfit == SIZE_MAX) return;
    at += misfit;
    keep_first(&s->misfit, (Misfit){.micro_batch = s->share.first + s->i, .at = p->first + at, .value = p->g[at]});
}

static void reached(void *context, int layer) {
    StepSum *s = context;
    s->way->reach(s, layer_gradients_part(&s->gradients, layer));
}

/* ---- alone ---- */

bool step_sum_in_floats(int64_t micro_batches) { return micro_batches == 1 && ranks->n == 1; }

static int start_alone(StepSum *s, Err *err) {
    (void)s, (void)err;
    return 0;
}

static void reach_alone(StepSum *s, int part) {
    while (s->added > part) {
        const GradientPart *p = &s->gradients.parts[--s->added];
        add(s, p, 0, p->n, s->i == 0, s->sum.integers + p->first);
        gradient_part_clear(p);
    }
}

static void end_alone(StepSum *s) { reach_alone(s, 0); }

static const SumWay alone = {.start = start_alone, .reach = reach_alone, .end = end_alone};

/* ---- alone, a single one ---- */

size_t gradient_sum_round(const Slices *s, int from, int to, GradientSum sum) {
    const double unit = fixed_sum_unit(1);
    size_t misfit = SIZE_MAX;
#pragma omp parallel for schedule(static) reduction(min : misfit) if (to - from > 1)
    for (int i = from; i < to; i++) {
        float *g = sum.floats + s->all[i].first;
        size_t place = fixed_sum_single(unit, (size_t)s->all[i].n, g);
        if (place != SIZE_MAX) misfit = MIN(misfit, s->all[i].first + place);
        sum.squares[i] = kernels->train->squares(s->all[i].n, g);
    }
    return misfit;
}

static void reach_single(StepSum *s, int part) {
    size_t first = part < s->gradients.n ? s->gradients.parts[part].first : SIZE_MAX;
    int from = s->rounded;
    while (from > 0 && s->slices->all[from - 1].first >= first) from--;
    size_t misfit = gradient_sum_round(s->slices, from, s->rounded, s->sum);
    s->rounded = from;
    if (misfit != SIZE_MAX) keep_first(&s->misfit, (Misfit){.at = misfit, .value = s->sum.floats[misfit]});
}

static void end_single(StepSum *s) { reach_single(s, 0); }

static const SumWay single = {.start = start_alone, .reach = reach_single, .end = end_single};

/* ---- with others ---- */

static void await(StepSum *s, const int *at, int part) {
    pthread_mutex_lock(&s->mutex);
    while (*at > part) pthread_cond_wait(&s->changed, &s->mutex);
    pthread_mutex_unlock(&s->mutex);
}

static void advance(StepSum *s, int *at, int part) {
    pthread_mutex_lock(&s->mutex);
    *at = part;
    pthread_cond_broadcast(&s->changed);
    pthread_mutex_unlock(&s->mutex);
}

static void meet(StepSum *s, int bucket, const GradientPart *p) {
    Stretch all = slices_bucket(s->slices, bucket), own = slices_bucket_owned(s->slices, bucket);
    if (s->i < s->share.n)
        add(s, p, all.first - p->first, all.n, true, s->integers);
    else
        memset(s->integers, 0, all.n * sizeof *s->integers);
    slices_reduce_scatter(s->slices, s->integers, bucket, s->arrived);
    int64_t *sum = s->sum.integers + own.first;
    for (size_t k = 0; k < own.n; k++) sum[k] = s->arrived[k] + (s->i ? sum[k] : 0);
}

static void *meet_all(void *arg) {
    StepSum *s = arg;
    int bucket = s->slices->n_buckets;
    for (int part = s->gradients.n - 1; part >= 0; part--) {
        const GradientPart *p = &s->gradients.parts[part];
        await(s, &s->done, part);
        while (bucket > 0 && slices_bucket(s->slices, bucket - 1).first >= p->first) meet(s, --bucket, p);
        gradient_part_clear(p);
        advance(s, &s->added, part);
    }
    return NULL;
}

static void *run(void *arg) {
    team_resize(1); /* the others compute */
    return meet_all(arg);
}

static int start_thread(StepSum *s, Err *err) {
    int rc = pthread_create(&s->thread, NULL, run, s);
    return rc ? err_set(err, "cannot start a thread to talk to the other ranks with: %s", strerror(rc)) : 0;
}

/* The layer below this one has the place of the one behind it. */
static void reach_with_others(StepSum *s, int part) {
    advance(s, &s->done, part);
    await(s, &s->added, part + 1);
}

static void end_with_others(StepSum *s) {
    advance(s, &s->done, 0);
    if (s->i < s->share.n)
        pthread_join(s->thread, NULL);
    else
        meet_all(s);
}

static const SumWay with_others = {.start = start_thread, .reach = reach_with_others, .end = end_with_others};

/* ---- both ---- */

static int places(int64_t micro_batches) {
    if (step_sum_in_floats(micro_batches)) return 0;
    return ranks->n > 1 ? 2 : 1;
}

static const SumWay *way_of(int64_t micro_batches) {
    if (step_sum_in_floats(micro_batches)) return &single;
    return ranks->n > 1 ? &with_others : &alone;
}

int64_t step_sum_meetings(int64_t micro_batches) { return (micro_batches + ranks->n - 1) / ranks->n; }

static size_t largest_bucket(const Slices *slices) {
    size_t most = 0;
    for (int b = 0; b < slices->n_buckets; b++) most = MAX(most, slices_bucket(slices, b).n);
    return most;
}

size_t step_sum_memory(const ParamSet *ps, int64_t micro_batches) {
    size_t gradients = layer_gradients_memory(ps, places(micro_batches));
    if (ranks->n == 1) return gradients;
    Slices slices;
    slices_init(&slices, ps);
    size_t integers = 2 * largest_bucket(&slices) * sizeof(int64_t);
    slices_free(&slices);
    return gradients + integers;
}

void step_sum_init(StepSum *s, const ParamSet *ps, const Slices *slices, GradientSum sum, int64_t micro_batches) {
    *s = (StepSum){.ps = ps,
                   .slices = slices,
                   .sum = sum,
                   .micro_batches = micro_batches,
                   .share = ranks_share(micro_batches, ranks->rank, ranks->n),
                   .unit = fixed_sum_unit(micro_batches),
                   .way = way_of(micro_batches)};
    size_t most = (size_t)step_sum_meetings(micro_batches);
    layer_gradients_init(&s->gradients, ps, places(micro_batches), sum.floats);
    s->mine = xcalloc(most, sizeof *s->mine);
    s->all = xcalloc(most * (size_t)ranks->n, sizeof *s->all);
    if (ranks->n > 1) {
        s->integers = xcalloc(largest_bucket(slices), sizeof *s->integers);
        s->arrived = xcalloc(largest_bucket(slices), sizeof *s->arrived);
    }
    pthread_mutex_init(&s->mutex, NULL);
    pthread_cond_init(&s->changed, NULL);
}

void step_sum_free(StepSum *s) {
    layer_gradients_free(&s->gradients);
    free(s->mine);
    free(s->all);
    free(s->integers);
    free(s->arrived);
    pthread_mutex_destroy(&s->mutex);
    pthread_cond_destroy(&s->changed);
}

static void start(StepSum *s, int64_t i) {
    if (i == 0) s->misfit = (Misfit){.micro_batch = INT64_MAX};
    s->i = i;
    s->done = s->added = s->gradients.n;
    s->rounded = s->slices->n;
}

int step_sum_begin(StepSum *s, int64_t i, Tape *tape, Err *err) {
    start(s, i);
    s->tape = tape;
    tape->reached = reached;
    tape->reached_context = s;
    return s->way->start(s, err);
}

void step_sum_add(StepSum *s, int64_t i, MicroLoss loss) {
    s->mine[i] = loss;
    s->way->end(s);
    s->tape->reached = NULL;
}

static void gather_losses(StepSum *s, MicroLoss *mean) {
    double n = (double)s->micro_batches;
    int64_t most = step_sum_meetings(s->micro_batches);
    ranks->gather(s->mine, (size_t)most * sizeof *s->mine, s->all);
    *mean = (MicroLoss){0};
    for (int r = 0; r < ranks->n; r++) { /* in the order of micro-batches */
        const MicroLoss *of_rank = s->all + r * most;
        for (int64_t i = 0; i < ranks_share(s->micro_batches, r, ranks->n).n; i++) {
            mean->loss += of_rank[i].loss / n;
            mean->kl += of_rank[i].kl / n;
            mean->draws += of_rank[i].draws / n;
            mean->chosen += of_rank[i].chosen / n;
        }
    }
}

static Misfit gather_misfits(const StepSum *s) {
    Misfit *all = xcalloc((size_t)ranks->n, sizeof *all), first = s->misfit;
    ranks->gather(&s->misfit, sizeof s->misfit, all);
    for (int r = 0; r < ranks->n; r++) keep_first(&first, all[r]);
    free(all);
    return first;
}

void step_sum_end(StepSum *s, MicroLoss *mean) {
    for (int64_t i = s->share.n; i < step_sum_meetings(s->micro_batches); i++) {
        start(s, i);
        s->way->end(s);
    }
    gather_losses(s, mean);
    s->misfit = gather_misfits(s);
}

const char *step_sum_tensor(const StepSum *s, size_t at) {
    const Param *p = s->ps->params;
    for (; at >= param_trained(p); p++) at -= param_trained(p);
    return p->name;
}
