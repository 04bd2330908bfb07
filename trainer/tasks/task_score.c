#include "trainer/tasks/task_score.h"

#include "base/json_write.h"
#include "base/memory.h"
#include "model/ops/op.h"
#include "trainer/ranks/ranks.h"
#include "trainer/tasks/entities.h"
#include "trainer/tasks/scores.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { ROWS = 512 }; /* computed together, unless one example is longer */

const char *const task_metrics[] = {"accuracy", "f1", "matthews", "entity-f1"};
const char *const task_metric_keys[] = {"accuracy", "f1", "matthews", "entity_f1"};

/* Of examples first, first + 1, ... as many as have up to ROWS rows. */
static int count(const TaskData *d, int first) {
    int n = 0, rows = 0;
    for (int i = first; i < d->examples->n && n < ROWS; i++, n++) {
        rows += task_data_rows(d, i);
        if (n && rows > ROWS) break;
    }
    return n;
}

/* These into b; how many they are. */
static int fill(TaskBatch *b, const TaskData *d, int first, NoiseKey noise) {
    uint32_t chosen[ROWS];
    int n = count(d, first);
    for (int i = 0; i < n; i++) chosen[i] = (uint32_t)(first + i);
    task_batch_fill(b, d, chosen, n, noise, false);
    return n;
}

/* first[n + 1] of the n batches that d is cut into; malloc'ed. */
static int *cut(const TaskData *d, int *n) {
    int *first = xcalloc((size_t)d->examples->n + 1, sizeof *first);
    for (*n = 0; first[*n] < d->examples->n; ++*n) first[*n + 1] = first[*n] + count(d, first[*n]);
    return first;
}

int task_features(const Model *m, const TaskData *d, NoiseKey noise, int (*stopped)(void), float *features) {
    TaskBatch b = {0};
    Tape tape;
    int rc = 0;
    tape_init(&tape, false);
    for (int i = 0; i < d->examples->n && rc == 0;) {
        i += fill(&b, d, i, noise);
        tape_reset(&tape);
        const Mat *x = model_pool(m, &tape, &b.batch, model_hidden(m, &tape, &b.batch, NULL));
        size_t n = (size_t)x->n * (size_t)x->d;
        memcpy(features, x->x, n * sizeof *features);
        features += n;
        rc = stopped && stopped() ? 1 : 0;
    }
    tape_free(&tape);
    task_batch_free(&b);
    return rc;
}

static int best_of(const float *logits, int n) {
    int best = 0;
    for (int k = 1; k < n; k++)
        if (logits[k] > logits[best]) best = k;
    return best;
}

static Mat *compute_logits(const Model *m, Tape *tape, const TaskBatch *b, const float *features) {
    if (!features) return model_forward(m, tape, &b->batch, NULL);
    Mat *x = tape_mat(tape, b->n_units, m->cfg.hidden_size);
    memcpy(x->x, features, (size_t)x->n * (size_t)x->d * sizeof *x->x);
    return model_logits(m, tape, x);
}

/* Batch k of those that begin at first[], into answers and nats[k]. */
static void answer_batch(const Model *m, const TaskData *d, const float *features, NoiseKey noise, const int *first,
                         int k, TaskBatch *b, Tape *tape, int *answers, double *nats) {
    int unit = d->examples->first[first[k]];
    fill(b, d, first[k], noise);
    tape_reset(tape);
    const float *rows = features ? features + (size_t)unit * (size_t)m->cfg.hidden_size : NULL;
    Mat *logits = compute_logits(m, tape, b, rows);
    BUG_ON(logits->n != b->n_units);
    for (int i = 0; i < logits->n; i++)
        answers[unit + i] = best_of(logits->x + (size_t)i * (size_t)logits->d, logits->d);
    nats[k] = (double)op_cross_entropy(tape, logits, b->targets, NULL)->x[0] * b->n_units;
}

/* What each rank has computed of n batches, to all. */
static void collect(const TaskData *d, const int *first, const int64_t *starts, int *answers, double *nats) {
    int64_t *units = ranks_starts(0);
    for (int r = 0; r <= ranks->n; r++) units[r] = d->examples->first[first[starts[r]]];
    ranks_collect(nats, sizeof *nats, starts);
    ranks_collect(answers, sizeof *answers, units);
    free(units);
}

/* answers[n_units], and the summed cross-entropy, in the order of batches. */
static int answer(const Model *m, const TaskData *d, const float *features, NoiseKey noise, int (*stopped)(void),
                  int *answers, double *sum) {
    TaskBatch b = {0};
    Tape tape;
    int rc = 0, n, *first = cut(d, &n);
    int64_t *starts = ranks_starts(n);
    double *nats = xcalloc((size_t)n, sizeof *nats);
    tape_init(&tape, false);
    for (int64_t k = starts[ranks->rank]; k < starts[ranks->rank + 1] && rc == 0; k++) {
        answer_batch(m, d, features, noise, first, (int)k, &b, &tape, answers, nats);
        rc = stopped && stopped() ? 1 : 0;
    }
    rc = ranks_most(rc);
    if (rc == 0) collect(d, first, starts, answers, nats);
    *sum = 0;
    for (int k = 0; k < n; k++) *sum += nats[k];
    tape_free(&tape);
    task_batch_free(&b);
    free(first);
    free(starts);
    free(nats);
    return rc;
}

static double mean_f1(const Examples *e, const int *answers) {
    double sum = 0;
    if (e->labels.n == 2) return score_f1(e->label, answers, e->n_units, 1);
    for (int k = 0; k < e->labels.n; k++) sum += score_f1(e->label, answers, e->n_units, k);
    return sum / e->labels.n;
}

static double entity_f1(const Examples *e, const int *answers) {
    EntityCounts c = {0};
    if (e->kind != EXAMPLES_SENTENCES || !entities_tagged(&e->labels)) return NAN;
    for (int i = 0; i < e->n; i++) {
        int first = e->first[i];
        entities_count(&c, &e->labels, e->label + first, answers + first, e->first[i + 1] - first);
    }
    return entities_f1(&c);
}

int task_score(const Model *m, const TaskData *d, const float *features, NoiseKey noise, int majority,
               int (*stopped)(void), TaskScore *out) {
    const Examples *e = d->examples;
    int *answers = xcalloc((size_t)e->n_units, sizeof *answers), same = 0;
    double nats;
    int rc = answer(m, d, features, noise, stopped, answers, &nats);
    for (int u = 0; u < e->n_units; u++) same += e->label[u] == majority;
    if (rc == 0)
        *out =
            (TaskScore){.n = e->n_units,
                        .loss = nats / e->n_units,
                        .metric = {score_accuracy(e->label, answers, e->n_units), mean_f1(e, answers),
                                   score_matthews(e->label, answers, e->n_units, e->labels.n), entity_f1(e, answers)},
                        .majority = (double)same / e->n_units,
                        .chance = 1.0 / e->labels.n};
    free(answers);
    return rc;
}

int task_majority(const Examples *e) {
    int count[LABELS_MOST] = {0}, best = 0;
    for (int u = 0; u < e->n_units; u++) count[e->label[u]]++;
    for (int k = 1; k < e->labels.n; k++)
        if (count[k] > count[best]) best = k;
    return best;
}

void task_score_put(Buffer *b, const TaskScore *s) {
    json_put_int(b, "n", s->n);
    json_put_double(b, "loss", s->loss);
    for (int k = 0; k < METRICS; k++)
        if (!isnan(s->metric[k])) json_put_double(b, task_metric_keys[k], s->metric[k]);
    json_put_double(b, "majority", s->majority);
    json_put_double(b, "chance", s->chance);
}
