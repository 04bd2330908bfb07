#include "trainer/evaluate.h"

#include "base/err.h"
#include "base/memory.h"
#include "model/ops/op.h"

#include <stdlib.h>

enum { ROWS = 512 }; /* computed together, unless one window is longer */

typedef struct Group {
    int *tokens, *targets; /* [rows] */
    Segment *segments;
    int n_rows, n_windows;
} Group;

static void group_add(Group *g, const TokenSpan *span, size_t first, int n, NoiseKey noise) {
    g->segments[g->n_windows] = (Segment){.row0 = g->n_rows, .n = n, .noise = noise};
    for (int i = 0; i < n; i++) {
        g->tokens[g->n_rows + i] = token_at(span, first + (size_t)i);
        g->targets[g->n_rows + i] = token_at(span, first + (size_t)i + 1);
    }
    g->n_rows += n;
    g->n_windows++;
}

static double group_nats(const Model *m, Tape *tape, const Group *g) {
    Batch batch = {.tokens = g->tokens, .n = g->n_rows, .segments = g->segments, .n_segments = g->n_windows};
    tape_reset(tape);
    Mat *logits = model_forward(m, tape, &batch, NULL);
    return (double)op_cross_entropy(tape, logits, g->targets, NULL)->x[0] * g->n_rows;
}

static void evaluate_windows(const Model *m, const TokenSpan *span, size_t chosen, size_t total, NoiseKey noise,
                             int (*stopped)(void), Group *g, Evaluation *out) {
    int length = m->cfg.max_positions, most = MAX(1, ROWS / length);
    Tape tape;
    tape_init(&tape, false);
    for (size_t w = 0; w < chosen && !(stopped && stopped());) {
        g->n_rows = g->n_windows = 0;
        for (; w < chosen && g->n_windows < most; w++) {
            size_t first = w * total / chosen * (size_t)length;
            group_add(g, span, first, (int)MIN(span->n - 1 - first, (size_t)length), noise);
        }
        out->nats += group_nats(m, &tape, g);
        out->tokens += (size_t)g->n_rows;
        out->complete = w == chosen;
    }
    tape_free(&tape);
}

int evaluate(const Model *m, TokenSpan span, size_t max_windows, NoiseKey noise, int (*stopped)(void), Evaluation *out,
             Err *err) {
    size_t length = (size_t)m->cfg.max_positions, most = MAX(1, ROWS / length);
    *out = (Evaluation){0};
    if (!m->cfg.causal)
        return err_set(err, "causal is false: such a network sees the next token, which it would be asked for");
    if (span.n < 2) return err_set(err, "%zu tokens to evaluate on, at least 2 are needed", span.n);
    size_t total = (span.n - 1 + length - 1) / length, chosen = max_windows ? MIN(max_windows, total) : total;
    Group g = {.tokens = xcalloc(most * length, sizeof(int)),
               .targets = xcalloc(most * length, sizeof(int)),
               .segments = xcalloc(most, sizeof(Segment))};
    evaluate_windows(m, &span, chosen, total, noise, stopped, &g, out);
    free(g.tokens);
    free(g.targets);
    free(g.segments);
    return 0;
}
