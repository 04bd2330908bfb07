#include "trainer/train.h"

#include "base/clock.h"
#include "trainer/ranks/fixed_sum.h"
#include "trainer/stop.h"

typedef struct Loop {
    Training *t;
    Perturb perturb;
    Tape tape;
    StepSum sum;
} Loop;

static int sum_micro_batches(Loop *l, MicroLoss *mean, Err *err) {
    const Training *t = l->t;
    StepSum *sum = &l->sum;
    for (int64_t i = 0; i < sum->share.n; i++) {
        if (t->objective->read(t->self, t->step, sum->share.first + i, err)) return -1;
        if (step_sum_begin(sum, i, &l->tape, err)) return -1;
        step_sum_add(sum, i, t->objective->gradient(t->self, &l->tape));
    }
    step_sum_end(sum, mean);
    return 0;
}

static int refuse_misfit(const Loop *l, const Step *s, Err *err) {
    const Misfit *m = &l->sum.misfit;
    const Training *t = l->t;
    char what[256];
    if (training_settle(l->t, err)) return -1;
    snprintf(what, sizeof what,
             "step %lld: the gradient of %.100s in micro-batch %lld has a %g, where less than %d is taken (loss %g, ",
             (long long)t->step + 1, step_sum_tensor(&l->sum, m->at), (long long)m->micro_batch, (double)m->value,
             FIXED_SUM_LIMIT, s->mean.loss);
    if (t->step == 0)
        return ranks_refuse(err,
                            "%sbefore any weight has moved): the weights it begins with or their noise "
                            "(--perturb-sigma) are too large, or a part of the loss counts too much (--kl-weight)",
                            what);
    return ranks_refuse(err,
                        "%slearning rate %g); what was saved after step %lld stands: try a lower --lr or a longer "
                        "warm-up",
                        what, s->lr, (long long)t->saved);
}

static int train_step(Loop *l, Step *s, Err *err) {
    Training *t = l->t;
    Optimizer *o = &t->optimizer;
    double started = now_seconds();
    *s = (Step){.lr = schedule_lr(&t->schedule, t->step)};
    perturb_apply(&l->perturb, &t->trained, o->w, t->step);
    if (sum_micro_batches(l, &s->mean, err)) return -1;
    perturb_restore(&l->perturb, &t->trained, o->w);
    if (l->sum.misfit.micro_batch != INT64_MAX) return refuse_misfit(l, s, err);
    s->norm = optimizer_step(o, t->recipe, s->lr, t->step + 1, t->accumulate);
    s->number = ++t->step;
    s->seconds = now_seconds() - started;
    return 0;
}

static int run_steps(Loop *l, Err *err) {
    Training *t = l->t;
    const Objective *o = t->objective;
    const int64_t begun = t->step;
    while (!o->done(t->self, t->step)) {
        Step s;
        bool save = false;
        if (train_step(l, &s, err)) return -1;
        /* Who has seen a step may go on from what the run began with. */
        if (t->step == begun + 1 && training_settle(t, err)) return -1;
        if (o->finish(t->self, &s, &save, err)) return -1;
        int stopped = ranks_most(stop_signal()); /* one that comes to any rank stops all */
        bool last = stopped || o->done(t->self, t->step);
        if (training_look(t, err)) return -1;
        if ((save || (stopped && o->stops_anywhere)) && training_save(t, !last, err)) return -1;
        if (stopped) return stopped;
    }
    return 0;
}

int training_loop(Training *t, Err *err) {
    const Recipe *r = t->recipe;
    Loop l = {.t = t, .perturb = {.mode = (PerturbMode)r->perturb, .sigma = r->perturb_sigma, .seed = t->seed}};
    tape_init(&l.tape, true);
    ranks_follow(&t->best, sizeof t->best);
    step_sum_init(&l.sum, &t->trained, &t->optimizer.slices, t->optimizer.sum, t->accumulate);
    int rc = run_steps(&l, err);
    if (rc >= 0 && training_settle(t, err)) rc = -1;
    if (rc < 0 && ranks->n == 1) training_settle(t, NULL); /* what was begun is whole, whatever failed since */
    step_sum_free(&l.sum);
    tape_free(&l.tape);
    perturb_free(&l.perturb);
    if (runlog_close(&t->log, rc < 0 ? NULL : err) && rc >= 0) rc = -1;
    return rc;
}
