#include "trainer/text/evaluate.h"

#include "base/err.h"
#include "base/fixed_math.h"
#include "base/memory.h"
#include "model/ops/op.h"
#include "model/shape.h"
#include "trainer/text/masks.h"

#include <math.h>
#include <stdlib.h>

enum { ROWS = 512 }; /* computed together, unless one window is longer */

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

/* The nats of every window under component z, into nats[n_windows]. */
static void component_nats(const Model *m, Tape *tape, const Group *g, int z, double *nats) {
    Batch batch = {.tokens = g->tokens, .n = g->n_rows, .segments = g->segments, .n_segments = g->n_windows};
    for (int w = 0; w < g->n_windows; w++) g->segments[w].noise.component = 1 + z;
    tape_reset(tape);
    const Mat *logits = model_forward(m, tape, &batch, NULL);
    for (int w = 0; w < g->n_windows; w++) {
        const Segment *seg = &g->segments[w];
        Mat own = {.n = seg->n, .d = logits->d, .x = logits->x + (size_t)seg->row0 * (size_t)logits->d};
        float mean = op_cross_entropy(tape, &own, g->targets + seg->row0, g->weights + seg->row0)->x[0];
        nats[w] = (double)mean * g->counts[w];
    }
}

/* -log mean_z p of one window, from its nats[K] under each component, `stride` apart. */
static double window_marginal(const double *nats, int components, int stride, Shares *shares) {
    double least = INFINITY, sum = 0, entropy = 0;
    for (int z = 0; z < components; z++) least = fmin(least, nats[z * stride]);
    for (int z = 0; z < components; z++) sum += fixed_exp(least - nats[z * stride]);
    for (int z = 0; z < components; z++) {
        double p = fixed_exp(least - nats[z * stride]) / sum;
        shares->sum[z] += p;
        if (p > 0) entropy -= p * fixed_log(p);
    }
    shares->entropy += entropy;
    shares->windows++;
    return least - fixed_log(sum / components);
}

static double group_marginal(const Model *m, Tape *tape, const Group *g, Shares *shares) {
    int components = config_noise_components(&m->cfg);
    double *nats = xcalloc((size_t)(components * g->n_windows), sizeof *nats), sum = 0;
    for (int z = 0; z < components; z++) component_nats(m, tape, g, z, nats + z * g->n_windows);
    for (int w = 0; w < g->n_windows; w++) sum += window_marginal(nats + w, components, g->n_windows, shares);
    free(nats);
    return sum;
}

static void put_shares(const Shares *s, int components, Evaluation *out) {
    for (int z = 0; z < components && s->windows; z++) {
        double p = s->sum[z] / s->windows;
        if (p > 0) out->entropy -= p * fixed_log(p);
    }
    if (s->windows) out->information = out->entropy - s->entropy / s->windows;
}

static int evaluate_windows(const Model *m, const TokenSpan *span, int length, size_t chosen, size_t total,
                            NoiseKey noise, int (*stopped)(void), Group *g, Evaluation *out, Err *err) {
    int most = MAX(1, ROWS / length), rc = 0;
    bool mixes = config_noise_components(&m->cfg) && noise.scale != 0 && !noise.component;
    Shares shares = {0};
    Tape tape;
    tape_init(&tape, false);
    for (size_t w = 0; w < chosen && !(stopped && stopped());) {
        g->n_rows = g->n_windows = g->n_targets = 0;
        for (; w < chosen && g->n_windows < most && rc == 0; w++) {
            size_t window = w * total / chosen, first = window * (size_t)length;
            int n = (int)MIN(span->n - 1 - first, (size_t)length);
            rc = group_add(g, &m->cfg, span, first, n, window, noise, err);
        }
        if (rc) break;
        out->nats += mixes ? group_marginal(m, &tape, g, &shares) : group_nats(m, &tape, g);
        out->tokens += (size_t)g->n_targets;
        out->complete = w == chosen;
    }
    put_shares(&shares, config_noise_components(&m->cfg), out);
    tape_free(&tape);
    return rc;
}

int evaluate(const Model *m, TokenSpan span, int length, size_t max_windows, NoiseKey noise, int (*stopped)(void),
             Evaluation *out, Err *err) {
    *out = (Evaluation){0};
    if (config_classifies(&m->cfg))
        return err_set(err, "task is %s: such a network predicts no tokens", task_names[m->cfg.task]);
    if (!m->cfg.causal && m->cfg.task == TASK_TEXT_GENERATION)
        return err_set(err, "causal is false: such a network sees the next token, which it would be asked for");
    if (length == 0) length = m->cfg.max_positions;
    BUG_ON(length < 0 || length > m->cfg.max_positions);
    if (span.n < 2) return err_set(err, "%zu tokens to evaluate on, at least 2 are needed", span.n);
    size_t most = (size_t)MAX(1, ROWS / length), room = most * (size_t)length;
    size_t total = (span.n - 2) / (size_t)length + 1, chosen = max_windows ? MIN(max_windows, total) : total;
    Group g = {.tokens = xcalloc(room, sizeof(int)),
               .targets = xcalloc(room, sizeof(int)),
               .weights = xcalloc(room, sizeof(float)),
               .counts = xcalloc(most, sizeof(int)),
               .segments = xcalloc(most, sizeof(Segment))};
    int rc = evaluate_windows(m, &span, length, chosen, total, noise, stopped, &g, out, err);
    free(g.tokens);
    free(g.targets);
    free(g.weights);
    free(g.counts);
    free(g.segments);
    return rc;
}
