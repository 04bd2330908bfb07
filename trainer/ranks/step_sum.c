#include "trainer/ranks/step_sum.h"

#include "base/memory.h"
#include "base/team.h"

#include <stdlib.h>
#include <string.h>

/* The last micro-batch, NULL where this rank has none, is about to run backwards; it has run. */
struct SumWay {
    int (*start)(StepSum *s, Tape *last, Err *err);
    void (*end)(StepSum *s);
};

/* ---- alone ---- */

static int start_alone(StepSum *s, Tape *last, Err *err) {
    (void)s, (void)last, (void)err;
    return 0;
}

static void end_alone(StepSum *s) { gradient_sum_end(&s->tree, s->g, 0, s->tree.n, s->micro_batches); }

static const SumWay alone = {.start = start_alone, .end = end_alone};

/* ---- with others ---- */

static void await(StepSum *s, size_t first) {
    pthread_mutex_lock(&s->mutex);
    while (s->done > first) pthread_cond_wait(&s->changed, &s->mutex);
    pthread_mutex_unlock(&s->mutex);
}

static void *run(void *arg) {
    StepSum *s = arg;
    team_resize(1); /* the others compute */
    for (int b = slices_buckets(s->slices) - 1; b >= 0; b--) {
        size_t first = slices_bucket_first(s->slices, b), n = slices_bucket_first(s->slices, b + 1) - first;
        await(s, first);
        if (s->share.n) gradient_sum_end(&s->tree, s->g, first, n, s->share.n);
        slices_reduce_scatter(s->slices, s->g, b, s->micro_batches);
    }
    return NULL;
}

static void advance(StepSum *s, size_t done) {
    pthread_mutex_lock(&s->mutex);
    s->done = done;
    pthread_cond_signal(&s->changed);
    pthread_mutex_unlock(&s->mutex);
}

static void reached(void *context, int layer) {
    StepSum *s = context;
    size_t first = 0;
    for (int i = 0; i < s->ps->n && s->ps->params[i].bin != layer + 1; i++) first += param_trained(&s->ps->params[i]);
    advance(s, first);
}

static int start_thread(StepSum *s, Tape *last, Err *err) {
    s->done = SIZE_MAX;
    s->last = last;
    if (last) last->reached = reached, last->reached_context = s;
    pthread_mutex_init(&s->mutex, NULL);
    pthread_cond_init(&s->changed, NULL);
    int rc = pthread_create(&s->thread, NULL, run, s);
    return rc ? err_set(err, "cannot start a thread to talk to the other ranks with: %s", strerror(rc)) : 0;
}

static void end_thread(StepSum *s) {
    if (s->last) s->last->reached = NULL;
    advance(s, 0);
    pthread_join(s->thread, NULL);
    pthread_mutex_destroy(&s->mutex);
    pthread_cond_destroy(&s->changed);
}

static const SumWay with_others = {.start = start_thread, .end = end_thread};

/* ---- both ---- */

void step_sum_init(StepSum *s, const ParamSet *ps, const Slices *slices, float *g, int64_t micro_batches) {
    *s = (StepSum){.ps = ps,
                   .slices = slices,
                   .g = g,
                   .micro_batches = micro_batches,
                   .share = ranks_share(micro_batches, ranks->rank, ranks->n),
                   .way = ranks->n > 1 ? &with_others : &alone};
    gradient_sum_init(&s->tree, params_trained(ps), s->share.most);
    s->mine = xcalloc((size_t)s->share.most, sizeof *s->mine);
    s->all = xcalloc((size_t)(s->share.most * ranks->n), sizeof *s->all);
}

void step_sum_free(StepSum *s) {
    gradient_sum_free(&s->tree);
    free(s->mine);
    free(s->all);
}

int step_sum_begin(StepSum *s, int64_t i, Tape *tape, Err *err) {
    slices_clear(s->slices, s->g);
    return i == s->share.n - 1 ? s->way->start(s, tape, err) : 0;
}

void step_sum_add(StepSum *s, int64_t i, MicroLoss loss) {
    s->mine[i] = loss;
    if (i < s->share.n - 1) gradient_sum_add(&s->tree, s->g, i);
}

int step_sum_end(StepSum *s, MicroLoss *mean, Err *err) {
    if (s->share.n == 0 && s->way->start(s, NULL, err)) return -1;
    s->way->end(s);
    ranks->gather(s->mine, (size_t)s->share.most * sizeof *s->mine, s->all);
    *mean = (MicroLoss){0};
    for (const MicroLoss *one = s->all; one < s->all + s->micro_batches; one++) { /* in the same order on every rank */
        mean->loss += one->loss / (double)s->micro_batches;
        mean->kl += one->kl / (double)s->micro_batches;
        mean->draws += one->draws / (double)s->micro_batches;
    }
    return 0;
}
