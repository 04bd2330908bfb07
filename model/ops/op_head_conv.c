#include "base/arena.h"
#include "base/err.h"
#include "base/team.h"
#include "model/kernels/kernels.h"
#include "model/ops/op.h"

#include <string.h>

/* y[o, l] = b[o] + sum_c sum_u W[o, c, u] x[c, l + u - p], p = (k - 1) / 2: a convolution along the features of a row,
 * heads being channels. Per row it is W [O, C k] times the taps [C k, D], shifted copies of a padded row, which are
 * read from it (Panels). The derivative to x is the convolution of dy with W'[c, o, u] = W[o, c, k - 1 - u]; that to W
 * is dy [O, D] times the taps' transpose, which are read from the padded row transposed, [D + k - 1, C]: tap u of
 * feature l begins at its row l + u. */
typedef struct ConvContext {
    Tape *tape;
    Mat *x, *y;
    const Weight *w, *b;
    int in, out, kernel, dim, taps; /* taps = in kernel */
    float *partial;                 /* [CHUNKS, O taps + O D]: sums of dW as [O, k, C], of dy per feature */
} ConvContext;

/* Rows are dealt to a fixed number of chunks and the chunks' weight gradients added in order: the same bits on any
 * team. */
enum { CHUNKS = 16 };

static int chunk_begin(int n, int chunk) { return (int)((int64_t)n * chunk / CHUNKS); }

static const uint32_t *words_of(const float *x) { return (const uint32_t *)(const void *)x; }

/* A row of heads, each between zeros; in bf16 besides every element paired with the next, and the last tap of every
 * other head with the first of the head behind. */
typedef struct Padded {
    bool pairs;
    int heads, kernel, dim, wide, seam; /* wide = dim + kernel - 1; elements of a seam */
    size_t floats, words;               /* of one thread */
    float *rows;                        /* [threads, floats], zero where no head is */
    uint32_t *paired;                   /* [threads, words] */
} Padded;

static Padded padded_open(Tape *t, int heads, int kernel, int dim) {
    int columns = kernels->train->tile_columns;
    Padded p = {.pairs = t->bf16, .heads = heads, .kernel = kernel, .dim = dim, .wide = dim + kernel - 1};
    p.seam = (dim + columns - 1) / columns * columns;
    p.floats = (size_t)((heads + 1) * p.wide + columns);
    p.words = p.floats + (size_t)((heads + 1) / 2 * p.seam);
    p.rows = arena_calloc(&t->arena, (size_t)team_size() * p.floats * sizeof *p.rows);
    if (p.pairs) p.paired = arena_calloc(&t->arena, (size_t)team_size() * p.words * sizeof *p.paired);
    return p;
}

/* Head by head in place of the thread's last row; the words of which units are made. */
static const uint32_t *pad_row(const Padded *p, const float *x) {
    float *row = p->rows + (size_t)team_member() * p->floats;
    for (int h = 0; h < p->heads; h++)
        memcpy(row + h * p->wide + (p->kernel - 1) / 2, x + h * p->dim, (size_t)p->dim * sizeof *x);
    if (!p->pairs) return words_of(row);
    uint32_t *paired = p->paired + (size_t)team_member() * p->words;
    kernels->train->pair_with(p->heads * p->wide, row, row + 1, paired);
    return paired;
}

/* One direction of the convolution: weights [outs, ins kernel] and where each of their units meets a padded row. */
typedef struct Direction {
    Padded in;
    int outs, units;
    const uint32_t *weights;
    int *taps;
} Direction;

/* Unit u as it lies in a padded row; of pairs that are no neighbours, in the seam behind it. */
static int tap_at(const Padded *p, int u) {
    int tap = p->pairs ? 2 * u : u, head = tap / p->kernel, at = tap % p->kernel;
    if (p->pairs && at == p->kernel - 1) return (int)p->floats + head / 2 * p->seam;
    return head * p->wide + at;
}

static Direction direction_open(Tape *t, int ins, int outs, int kernel, int dim, const float *w) {
    int taps = ins * kernel;
    Direction d = {.in = padded_open(t, ins, kernel, dim), .outs = outs, .units = train_units(t->bf16, taps)};
    d.weights = words_of(w);
    d.taps = tape_alloc(t, (size_t)d.units * sizeof *d.taps);
    for (int u = 0; u < d.units; u++) d.taps[u] = tap_at(&d.in, u);
    if (!t->bf16) return d;
    uint32_t *paired = tape_alloc(t, (size_t)(outs * d.units) * sizeof *paired);
    for (int o = 0; o < outs; o++) kernels->train->pair_row(taps, w + o * taps, paired + o * d.units);
    d.weights = paired;
    return d;
}

static void convolve_row(const Direction *d, const float *x, float *y, bool add) {
    const TrainKernels *k = kernels->train;
    const Padded *p = &d->in;
    const uint32_t *row = pad_row(p, x);
    for (int h = 0; p->pairs && h < p->heads; h += 2) {
        const float *seam = p->rows + (size_t)team_member() * p->floats + (h + 1) * p->wide - p->dim;
        uint32_t *paired = p->paired + (size_t)team_member() * p->words + p->floats;
        k->pair_with(p->dim, seam, seam + p->dim, paired + h / 2 * p->seam);
    }
    Panels weights = {.at = d->weights, .words = (size_t)(k->tile_rows[p->pairs] * d->units), .row = (size_t)d->units};
    Panels taps = {.at = row, .words = (size_t)k->tile_columns, .taps = d->taps};
    k->multiply(p->pairs, d->outs, p->dim, d->units, weights, taps, y, (size_t)p->dim, add);
}

/* ---- backward ---- */

/* The operands of a row's part of dW. */
typedef struct GradientRow {
    Padded in;
    int *taps;          /* [units of a head] */
    size_t words;       /* of one thread */
    uint32_t *operands; /* [threads, words]: the transposed row; in bf16 the pairs of dy behind it */
    size_t dy;          /* where those begin */
} GradientRow;

static GradientRow gradient_open(const ConvContext *c) {
    Tape *t = c->tape;
    GradientRow g = {.in = padded_open(t, c->in, c->kernel, c->dim)};
    int units = train_units(t->bf16, c->dim);
    g.dy = (size_t)((g.in.wide + c->kernel) * c->in + kernels->train->tile_columns);
    g.words = g.dy + (size_t)(t->bf16 ? c->out * units : 0);
    g.operands = arena_calloc(&t->arena, (size_t)team_size() * g.words * sizeof *g.operands);
    g.taps = tape_alloc(t, (size_t)units * sizeof *g.taps);
    for (int u = 0; u < units; u++) g.taps[u] = (t->bf16 ? 2 * u : u) * c->in;
    return g;
}

/* dW += dy taps^T of one row */
static void weight_gradient_row(const ConvContext *c, const GradientRow *g, const float *x, const float *dy,
                                float *sums) {
    const TrainKernels *k = kernels->train;
    bool pairs = c->tape->bf16;
    int units = train_units(pairs, c->dim);
    uint32_t *transposed = g->operands + (size_t)team_member() * g->words, *paired = transposed + g->dy;
    k->transpose(c->in, g->in.wide, (size_t)g->in.wide, pad_row(&g->in, x), transposed);
    for (int o = 0; pairs && o < c->out; o++) k->pair_row(c->dim, dy + o * c->dim, paired + o * units);
    Panels left = {
        .at = pairs ? paired : words_of(dy), .words = (size_t)(k->tile_rows[pairs] * units), .row = (size_t)units};
    Panels right = {.at = transposed, .words = (size_t)k->tile_columns, .taps = g->taps};
    k->multiply(pairs, c->out, c->taps, units, left, right, sums, (size_t)c->taps, true);
}

static void weight_gradient_chunk(const ConvContext *c, const GradientRow *g, int chunk, const float *dy, float *sums) {
    int weights = c->out * c->taps;
    memset(sums, 0, (size_t)(weights + c->y->d) * sizeof *sums);
    for (int i = chunk_begin(c->x->n, chunk); i < chunk_begin(c->x->n, chunk + 1); i++) {
        const float *dyr = dy + (size_t)i * (size_t)c->y->d;
        weight_gradient_row(c, g, c->x->x + (size_t)i * (size_t)c->x->d, dyr, sums);
        kernels->add_row(c->y->d, dyr, sums + weights);
    }
}

/* Each of [outs, a, b] to [outs, b, a]. */
static void turn_weights(int outs, int a, int b, const float *from, float *to) {
    for (int o = 0; o < outs; o++)
        kernels->train->transpose(a, b, (size_t)b, words_of(from + o * a * b), (uint32_t *)(void *)(to + o * a * b));
}

static void weight_gradient(const ConvContext *c, const float *dy) {
    Tape *t = c->tape;
    size_t weights = (size_t)(c->out * c->taps), partial = weights + (size_t)c->y->d;
    GradientRow g = gradient_open(c);
    float *turned = tape_alloc(t, weights * sizeof *turned);
#pragma omp parallel for schedule(static)
    for (int chunk = 0; chunk < CHUNKS; chunk++)
        weight_gradient_chunk(c, &g, chunk, dy, c->partial + (size_t)chunk * partial);
    turn_weights(c->out, c->in, c->kernel, c->w->grad, turned);
    for (int chunk = 0; chunk < CHUNKS; chunk++) {
        const float *sums = c->partial + (size_t)chunk * partial;
        kernels->add_row((int)weights, sums, turned);
        for (int i = 0; i < c->y->d; i++) c->b->grad[i / c->dim] += sums[weights + (size_t)i];
    }
    turn_weights(c->out, c->kernel, c->in, turned, c->w->grad);
}

/* W'[c, o, u] = W[o, c, k - 1 - u] */
static float *transposed_weights(const ConvContext *c) {
    float *transposed = tape_alloc(c->tape, (size_t)(c->out * c->taps) * sizeof *transposed);
    const float *w = weight_f32(c->w);
    for (int o = 0; o < c->out; o++)
        for (int i = 0; i < c->in; i++)
            for (int u = 0; u < c->kernel; u++)
                transposed[(i * c->out + o) * c->kernel + u] = w[(o * c->in + i) * c->kernel + c->kernel - 1 - u];
    return transposed;
}

static void conv_backward(void *context) {
    const ConvContext *c = context;
    const float *dy = mat_gradient(c->y);
    bool add = !mat_first(c->x);
    float *dx = c->x->dx;
    ArenaMark mark = arena_mark(&c->tape->arena);
    Direction d = direction_open(c->tape, c->out, c->in, c->kernel, c->dim, transposed_weights(c));
#pragma omp parallel for schedule(static)
    for (int chunk = 0; chunk < CHUNKS; chunk++)
        for (int i = chunk_begin(c->x->n, chunk); i < chunk_begin(c->x->n, chunk + 1); i++)
            convolve_row(&d, dy + (size_t)i * (size_t)c->y->d, dx + (size_t)i * (size_t)c->x->d, add);
    if (c->w->grad) weight_gradient(c, dy);
    arena_rewind(&c->tape->arena, mark);
}

/* ---- forward ---- */

static void forward_chunk(const ConvContext *c, const Direction *d, int chunk) {
    const float *bias = weight_f32(c->b);
    for (int i = chunk_begin(c->x->n, chunk); i < chunk_begin(c->x->n, chunk + 1); i++) {
        float *y = c->y->x + (size_t)i * (size_t)c->y->d;
        for (int o = 0; o < c->out; o++)
            for (int l = 0; l < c->dim; l++) y[o * c->dim + l] = bias[o];
        convolve_row(d, c->x->x + (size_t)i * (size_t)c->x->d, y, true);
    }
}

Mat *op_head_conv(Tape *t, Mat *x, const Weight *w, const Weight *b, int dim) {
    int out = w->dims[0], in = w->dims[1], kernel = w->dims[2];
    BUG_ON(in * dim != x->d);
    Mat *y = tape_mat(t, x->n, out * dim);
    ConvContext *c = tape_alloc(t, sizeof *c);
    *c = (ConvContext){.tape = t,
                       .x = x,
                       .y = y,
                       .w = w,
                       .b = b,
                       .in = in,
                       .out = out,
                       .kernel = kernel,
                       .dim = dim,
                       .taps = in * kernel};
    ArenaMark mark = arena_mark(&t->arena);
    Direction d = direction_open(t, in, out, kernel, dim, weight_f32(w));
#pragma omp parallel for schedule(static) if (team_pays((size_t)x->n * (size_t)c->taps * (size_t)y->d, TEAM_PRODUCTS))
    for (int chunk = 0; chunk < CHUNKS; chunk++) forward_chunk(c, &d, chunk);
    arena_rewind(&t->arena, mark);
    if (t->recording) {
        c->partial = tape_alloc(t, CHUNKS * (size_t)(out * (c->taps + dim)) * sizeof(float));
        tape_push(t, conv_backward, c);
    }
    return y;
}
