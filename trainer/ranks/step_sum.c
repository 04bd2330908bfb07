#include "trainer/ranks/step_sum.h"

#include "base/memory.h"
#include "base/team.h"
#include "trainer/ranks/fixed_sum.h"

#include <stdlib.h>
#include <string.h>

/* The last micro-batch is about to run backwards; it has run. */
struct SumWay {
    int (*start)(StepSum *s, Tape *last, Err *err);
    void (*end)(StepSum *s);
};

static void keep_first(Misfit *m, Misfit other) {
    if (other.micro_batch < m->micro_batch || (other.micro_batch == m->micro_batch && other.at < m->at)) *m = other;
}

/* Floats of the gradient of this rank's i-th micro-batch. */
static void add(StepSum *s, int64_t i, Stretch piece) {
    size_t misfit = fixed_sum_add(s->unit, piece.n, s->g + piece.first, i == 0, s->sum + piece.first);
    if (misfit == SIZE_MAX) return;
    size_t at = piece.first + misfit;
    keep_first(&s->misfit, (Misfit){.micro_batch = s->share.first + i, .at = at, .value = s->g[at]});
}

static Stretch everything(const StepSum *s) { return (Stretch){.n = params_trained(s->ps)}; }

/* ---- alone ---- */

static int start_alone(StepSum *s, Tape *last, Err *err) {
    (void)s, (void)last, (void)err;
    return 0;
}

static void end_alone(StepSum *s) {
    add(s, s->share.n - 1, everything(s));
    fixed_sum_read(s->unit, everything(s).n, s->sum, s->g);
}

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
        Stretch bucket = slices_bucket(s->slices, b), mine = slices_bucket_mine(s->slices, b);
        await(s, bucket.first);
        add(s, s->share.n - 1, bucket);
        slices_reduce_scatter(s->slices, s->sum, b, s->arrived);
        fixed_sum_read(s->unit, mine.n, s->arrived, s->g + mine.first);
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
    last->reached = reached;
    last->reached_context = s;
    pthread_mutex_init(&s->mutex, NULL);
    pthread_cond_init(&s->changed, NULL);
    int rc = pthread_create(&s->thread, NULL, run, s);
    return rc ? err_set(err, "cannot start a thread to talk to the other ranks with: %s", strerror(rc)) : 0;
}

static void end_thread(StepSum *s) {
    s->last->reached = NULL;
    advance(s, 0);
    pthread_join(s->thread, NULL);
    pthread_mutex_destroy(&s->mutex);
    pthread_cond_destroy(&s->changed);
}

static const SumWay with_others = {.start = start_thread, .end = end_thread};

/* ---- both ---- */

/* Of a bucket a rank owns a few slices; the integers of these are small beside those of all. */
size_t step_sum_memory(size_t n_params) { return n_params * sizeof(int64_t); }

static size_t most_of_bucket(const Slices *slices) {
    size_t most = 0;
    for (int b = 0; b < slices_buckets(slices); b++) most = MAX(most, slices_bucket_mine(slices, b).n);
    return most;
}

static int64_t most_of_share(const StepSum *s) { return (s->micro_batches + ranks->n - 1) / ranks->n; }

void step_sum_init(StepSum *s, const ParamSet *ps, const Slices *slices, float *g, int64_t micro_batches) {
    *s = (StepSum){.ps = ps,
                   .slices = slices,
                   .g = g,
                   .micro_batches = micro_batches,
                   .share = ranks_share(micro_batches, ranks->rank, ranks->n),
                   .unit = fixed_sum_unit(micro_batches),
                   .way = ranks->n > 1 ? &with_others : &alone};
    s->sum = xcalloc(params_trained(ps), sizeof *s->sum);
    s->mine = xcalloc((size_t)most_of_share(s), sizeof *s->mine);
    s->all = xcalloc((size_t)(most_of_share(s) * ranks->n), sizeof *s->all);
    if (ranks->n > 1) s->arrived = xcalloc(most_of_bucket(slices), sizeof *s->arrived);
}

void step_sum_free(StepSum *s) {
    free(s->sum);
    free(s->mine);
    free(s->all);
    free(s->arrived);
}

int step_sum_begin(StepSum *s, int64_t i, Tape *tape, Err *err) {
    slices_clear(s->slices, s->g);
    if (i == 0) s->misfit = (Misfit){.micro_batch = INT64_MAX};
    return i == s->share.n - 1 ? s->way->start(s, tape, err) : 0;
}

void step_sum_add(StepSum *s, int64_t i, MicroLoss loss) {
    s->mine[i] = loss;
    if (i < s->share.n - 1) add(s, i, everything(s));
}

static void gather_losses(StepSum *s, MicroLoss *mean) {
    double n = (double)s->micro_batches;
    ranks->gather(s->mine, (size_t)most_of_share(s) * sizeof *s->mine, s->all);
    *mean = (MicroLoss){0};
    for (int r = 0; r < ranks->n; r++) { /* in the order of micro-batches */
        const MicroLoss *of_rank = s->all + r * most_of_share(s);
        for (int64_t i = 0; i < ranks_share(s->micro_batches, r, ranks->n).n; i++) {
            mean->loss += of_rank[i].loss / n;
            mean->kl += of_rank[i].kl / n;
            mean->draws += of_rank[i].draws / n;
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
    s->way->end(s);
    gather_losses(s, mean);
    s->misfit = gather_misfits(s);
}

const char *step_sum_tensor(const StepSum *s, size_t at) {
    const Param *p = s->ps->params;
    for (; at >= param_trained(p); p++) at -= param_trained(p);
    return p->name;
}
