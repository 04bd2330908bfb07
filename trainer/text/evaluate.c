#include "trainer/text/evaluate.h"

#include "base/err.h"
#include "base/fixed_math.h"
#include "base/memory.h"
#include "model/ops/op.h"
#include "model/shape.h"
#include "trainer/ranks/ranks.h"
#include "trainer/text/masks.h"

#include <math.h>
#include <stdlib.h>

enum { ROWS = 512 }; /* computed together, unless one window is longer */

/* What is computed: windows first, first + 1, ... of the chosen ones side by side are a group. */
typedef struct Plan {
    const Model *m;
    TokenSpan span;
    int length, most;     /* tokens of a window, windows of a group */
    size_t chosen, total; /* windows: those that are evaluated, evenly spaced, of how many */
    NoiseKey noise;
    int components; /* each of which every window is asked under; 0: under its noise alone */
    int64_t groups;
    double *nats; /* [groups], or [groups, most, components] */
    int *targets; /* [groups] */
} Plan;

typedef struct Group {
    int *tokens, *targets; /* [rows] */
    float *weights;        /* [rows] of the targets */
    Segment *segments;
    int *counts; /* [windows] of targets */
    int n_rows, n_windows, n_targets;
} Group;

/* What windows say of components, so far. */
typedef struct Shares {
    double sum[NOISE_COMPONENTS_MAX], entropy; /* of p(z | w), over windows */
    int windows;
} Shares;

/* The n tokens from `first` on are window number `window` of the span. */
static int group_add(Group *g, const Config *c, const TokenSpan *span, size_t first, int n, size_t window,
                     NoiseKey noise, Err *err) {
    int at = g->n_rows, *tokens = g->tokens + at, *targets = g->targets + at;
    g->segments[g->n_windows] = (Segment){.row0 = at, .n = n, .noise = noise};
    g->n_rows += n;
    if (span_read(span, first, n, c->vocab_size, tokens, targets, err)) return -1;
    g->counts[g->n_windows] = masks_apply(c, 0, window, n, tokens, targets, g->weights + at);
    g->n_targets += g->counts[g->n_windows++];
    return 0;
}

static double group_nats(const Model *m, Tape *tape, const Group *g) {
    Batch batch = {.tokens = g->tokens, .n = g->n_rows, .segments = g->segments, .n_segments = g->n_windows};
    tape_reset(tape);
    Mat *logits = model_forward(m, tape, &batch, NULL);
    return (double)op_cross_entropy(tape, logits, g->targets, g->weights)->x[0] * g->n_targets;
}

/* The nats of every window under component z, into nats[n_windows, components]. */
static void component_nats(const Model *m, Tape *tape, const Group *g, int z, int components, double *nats) {
    Batch batch = {.tokens = g->tokens, .n = g->n_rows, .segments = g->segments, .n_segments = g->n_windows};
    for (int w = 0; w < g->n_windows; w++) g->segments[w].noise.component = 1 + z;
    tape_reset(tape);
    const Mat *logits = model_forward(m, tape, &batch, NULL);
    for (int w = 0; w < g->n_windows; w++) {
        const Segment *seg = &g->segments[w];
        Mat own = {.n = seg->n, .d = logits->d, .x = logits->x + (size_t)seg->row0 * (size_t)logits->d};
        float mean = op_cross_entropy(tape, &own, g->targets + seg->row0, g->weights + seg->row0)->x[0];
        nats[w * components + z] = (double)mean * g->counts[w];
    }
}

static int compute_group(const Plan *p, int64_t number, Group *g, Tape *tape, Err *err) {
    size_t first = (size_t)number * (size_t)p->most, end = MIN(first + (size_t)p->most, p->chosen);
    g->n_rows = g->n_windows = g->n_targets = 0;
    for (size_t w = first; w < end; w++) {
        size_t window = w * p->total / p->chosen, at = window * (size_t)p->length;
        int n = (int)MIN(p->span.n - 1 - at, (size_t)p->length);
        if (group_add(g, &p->m->cfg, &p->span, at, n, window, p->noise, err)) return -1;
    }
    p->targets[number] = g->n_targets;
    if (!p->components) p->nats[number] = group_nats(p->m, tape, g);
    for (int z = 0; z < p->components; z++)
        component_nats(p->m, tape, g, z, p->components, p->nats + number * p->most * p->components);
    return 0;
}

/* Groups first .. end - 1; *done is where it stopped. */
static int compute_groups(const Plan *p, int64_t first, int64_t end, const EvaluationWatch *watch, int64_t *done,
                          Err *err) {
    size_t room = (size_t)p->most * (size_t)p->length, most = (size_t)p->most;
    Group g = {.tokens = xcalloc(room, sizeof(int)),
               .targets = xcalloc(room, sizeof(int)),
               .weights = xcalloc(room, sizeof(float)),
               .counts = xcalloc(most, sizeof(int)),
               .segments = xcalloc(most, sizeof(Segment))};
    Tape tape;
    int rc = 0;
    tape_init(&tape, false);
    for (*done = first; *done < end && rc == 0 && !(watch && watch->part(watch->self, *done, end)); ++*done)
        rc = compute_group(p, *done, &g, &tape, err);
    tape_free(&tape);
    free(g.tokens);
    free(g.targets);
    free(g.weights);
    free(g.counts);
    free(g.segments);
    return rc;
}

/* ---- what they come to ---- */

/* -log mean_z p of one window, from its nats[components]. */
static double window_marginal(const double *nats, int components, Shares *shares) {
    double least = INFINITY, sum = 0, entropy = 0;
    for (int z = 0; z < components; z++) least = fmin(least, nats[z]);
    for (int z = 0; z < components; z++) sum += fixed_exp(least - nats[z]);
    for (int z = 0; z < components; z++) {
        double p = fixed_exp(least - nats[z]) / sum;
        shares->sum[z] += p;
        if (p > 0) entropy -= p * fixed_log(p);
    }
    shares->entropy += entropy;
    shares->windows++;
    return least - fixed_log(sum / components);
}

static double group_marginal(const Plan *p, int64_t number, Shares *shares) {
    size_t first = (size_t)number * (size_t)p->most, n = MIN((size_t)p->most, p->chosen - first);
    size_t components = (size_t)p->components;
    double sum = 0;
    for (size_t w = first; w < first + n; w++) sum += window_marginal(p->nats + w * components, p->components, shares);
    return sum;
}

static void put_shares(const Shares *s, int components, Evaluation *out) {
    for (int z = 0; z < components && s->windows; z++) {
        double p = s->sum[z] / s->windows;
        if (p > 0) out->entropy -= p * fixed_log(p);
    }
    if (s->windows) out->information = out->entropy - s->entropy / s->windows;
}

/* Of the groups before `done`, in their order, whoever has computed them. */
static void add_up(const Plan *p, int64_t done, Evaluation *out) {
    Shares shares = {0};
    for (int64_t g = 0; g < done; g++) {
        out->nats += p->components ? group_marginal(p, g, &shares) : p->nats[g];
        out->tokens += (size_t)p->targets[g];
    }
    put_shares(&shares, p->components, out);
    out->complete = done == p->groups;
}

/* ---- the whole ---- */

static size_t nats_bytes(const Plan *p) {
    return (p->components ? (size_t)p->most * (size_t)p->components : 1) * sizeof *p->nats;
}

static int plan(Plan *p, size_t max_windows, Err *err) {
    const Config *c = &p->m->cfg;
    if (config_classifies(c)) return err_set(err, "task is %s: such a network predicts no tokens", task_names[c->task]);
    if (!c->causal && c->task == TASK_TEXT_GENERATION)
        return err_set(err, "causal is false: such a network sees the next token, which it would be asked for");
    if (p->length == 0) p->length = c->max_positions;
    BUG_ON(p->length < 0 || p->length > c->max_positions);
    if (p->span.n < 2) return err_set(err, "%zu tokens to evaluate on, at least 2 are needed", p->span.n);
    p->most = MAX(1, ROWS / p->length);
    p->total = (p->span.n - 2) / (size_t)p->length + 1;
    p->chosen = max_windows ? MIN(max_windows, p->total) : p->total;
    p->groups = (int64_t)((p->chosen - 1) / (size_t)p->most + 1);
    if (p->noise.scale != 0 && !p->noise.component) p->components = config_noise_components(c);
    p->nats = xcalloc((size_t)p->groups, nats_bytes(p));
    p->targets = xcalloc((size_t)p->groups, sizeof *p->targets);
    return 0;
}

int evaluate(const Model *m, TokenSpan span, int length, size_t max_windows, NoiseKey noise,
             const EvaluationWatch *watch, Evaluation *out, Err *err) {
    Plan p = {.m = m, .span = span, .length = length, .noise = noise};
    int64_t done;
    *out = (Evaluation){0};
    if (plan(&p, max_windows, err)) return -1;
    int rc = compute_groups(&p, 0, p.groups, watch, &done, err);
    if (rc == 0) add_up(&p, done, out);
    free(p.nats);
    free(p.targets);
    return rc;
}

int evaluate_on_ranks(const Model *m, TokenSpan span, int length, NoiseKey noise, Evaluation *out, Err *err) {
    Plan p = {.m = m, .span = span, .length = length, .noise = noise};
    int64_t done;
    *out = (Evaluation){0};
    if (plan(&p, 0, err)) return -1;
    int64_t *starts = ranks_starts(p.groups), *own = starts + ranks->rank;
    int rc = compute_groups(&p, own[0], own[1], NULL, &done, err);
    if (rc == 0) {
        ranks_collect(p.nats, nats_bytes(&p), starts);
        ranks_collect(p.targets, sizeof *p.targets, starts);
        add_up(&p, p.groups, out);
    }
    free(starts);
    free(p.nats);
    free(p.targets);
    return rc;
}
