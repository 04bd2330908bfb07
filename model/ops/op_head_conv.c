#include "base/arena.h"
#include "base/err.h"
#include "base/team.h"
#include "model/kernels/kernels.h"
#include "model/ops/op.h"

#include <string.h>

/* y[o, l] = b[o] + sum_c sum_u W[o, c, u] x[c, l + u - p], p = (k - 1) / 2: a convolution along the features of a row,
 * heads being channels. Per row it is W [O, C k] times the taps [C k, D], shifted copies of a padded row that are laid
 * out straight as a packed operand. The derivative to x is the convolution of dy with
 * W'[c, o, u] = W[o, c, k - 1 - u]; that to W is dy [O, R D] times the taps' transpose, R rows together. */
typedef struct ConvContext {
    Tape *tape;
    Mat *x, *y;
    const Weight *w, *b;
    int in, out, kernel, dim, taps; /* taps = in kernel */
    float *partial;                 /* [CHUNKS, O taps + O D]: sums of dW, of dy per feature */
} ConvContext;

/* Rows are dealt to a fixed number of chunks and the chunks' weight gradients added in order: the same bits on any
 * team. GROUP rows make a product that is worth packing for. */
enum { CHUNKS = 16, GROUP = 16 };

static int chunk_begin(int n, int chunk) { return (int)((int64_t)n * chunk / CHUNKS); }

static int round_up(int n, int to) { return (n + to - 1) / to * to; }

/* One direction of the convolution: packed weights [outs, ins kernel] and scratch for a row. */
typedef struct Direction {
    bool pairs;
    int ins, outs, kernel, dim, padded, units; /* padded = dim + kernel - 1; units of the taps */
    const uint32_t *weights;
    size_t row_floats, panel_words;
    float *rows;      /* [threads, row_floats] */
    uint32_t *panels; /* [threads, panel_words] */
} Direction;

static int units_of(bool pairs, int k) { return pairs ? (k + 1) / 2 : k; }

static Direction direction_open(Tape *t, int ins, int outs, int kernel, int dim, const float *w) {
    const TrainKernels *k = kernels->train;
    bool pairs = t->bf16;
    Direction d = {.pairs = pairs, .ins = ins, .outs = outs, .kernel = kernel, .dim = dim};
    size_t taps = (size_t)(ins * kernel);
    d.padded = dim + kernel - 1;
    d.units = units_of(pairs, (int)taps);
    uint32_t *packed = tape_alloc(t, (size_t)round_up(outs, k->tile_rows) * taps * sizeof *packed);
    k->pack_rows(pairs, &(PackSource){.x = w, .n = outs, .k = (int)taps, .stride = taps, .step = 1}, packed);
    d.weights = packed;
    d.row_floats = (size_t)(ins * d.padded + k->tile_columns);
    d.panel_words = taps * (size_t)k->tile_columns;
    d.rows = arena_calloc(&t->arena, (size_t)team_size() * d.row_floats * sizeof(float));
    d.panels = tape_alloc(t, (size_t)team_size() * d.panel_words * sizeof *d.panels);
    return d;
}

/* Every head between zeros, which are there already. */
static void pad_row(int heads, int dim, int kernel, const float *x, float *padded) {
    for (int h = 0; h < heads; h++)
        memcpy(padded + h * (dim + kernel - 1) + (kernel - 1) / 2, x + h * dim, (size_t)dim * sizeof *x);
}

static void convolve_row(const Direction *d, const float *x, float *y, bool add) {
    const TrainKernels *k = kernels->train;
    float *padded = d->rows + (size_t)team_member() * d->row_floats;
    uint32_t *panel = d->panels + (size_t)team_member() * d->panel_words;
    Panels weights = {d->weights, (size_t)(d->units * k->tile_rows)};
    pad_row(d->ins, d->dim, d->kernel, x, padded);
    for (int l = 0; l < d->dim; l += k->tile_columns) {
        int n = MIN(k->tile_columns, d->dim - l);
        k->pack_taps(d->pairs, d->ins, d->padded, d->kernel, n, padded + l, panel);
        k->multiply(d->pairs, d->outs, n, d->units, weights, (Panels){.at = panel}, y + l, (size_t)d->dim, add);
    }
}

/* ---- backward ---- */

/* dW += dy taps^T over the rows of a chunk, `groups` holding both packed operands of a group. */
static void weight_gradient_chunk(const ConvContext *c, int chunk, const float *dy, float *padded, uint32_t *groups,
                                  float *sums) {
    const TrainKernels *k = kernels->train;
    bool pairs = c->tape->bf16;
    int end = chunk_begin(c->x->n, chunk + 1), dim = c->dim, wide = c->dim + c->kernel - 1,
        units = units_of(pairs, dim);
    size_t row_panel = (size_t)(GROUP * units * k->tile_rows), column_panel = (size_t)(GROUP * units * k->tile_columns);
    uint32_t *columns = groups + (size_t)round_up(c->out, k->tile_rows) * (size_t)(GROUP * dim);
    for (int first = chunk_begin(c->x->n, chunk); first < end; first += GROUP) {
        int rows = MIN(GROUP, end - first);
        for (int r = 0; r < rows; r++) {
            const float *dyr = dy + (size_t)(first + r) * (size_t)c->y->d;
            pad_row(c->in, dim, c->kernel, c->x->x + (size_t)(first + r) * (size_t)c->x->d, padded);
            k->pack_rows(
                pairs,
                &(PackSource){
                    .x = dyr, .n = c->out, .k = dim, .stride = (size_t)dim, .step = 1, .panel_words = row_panel},
                groups + r * units * k->tile_rows);
            k->pack_columns(pairs,
                            &(PackSource){.x = padded,
                                          .n = c->taps,
                                          .k = dim,
                                          .stride = (size_t)wide,
                                          .step = 1,
                                          .run = c->kernel,
                                          .panel_words = column_panel},
                            columns + r * units * k->tile_columns);
            kernels->add_row(c->y->d, dyr, sums + c->out * c->taps);
        }
        k->multiply(pairs, c->out, c->taps, rows * units, (Panels){groups, row_panel}, (Panels){columns, column_panel},
                    sums, (size_t)c->taps, true);
    }
}

static void weight_gradient(const ConvContext *c, const float *dy) {
    const TrainKernels *k = kernels->train;
    Tape *t = c->tape;
    size_t weights = (size_t)(c->out * c->taps), partial = weights + (size_t)c->y->d;
    size_t padded = (size_t)(c->in * (c->dim + c->kernel - 1));
    size_t words =
        (size_t)(round_up(c->out, k->tile_rows) + round_up(c->taps, k->tile_columns)) * (size_t)(GROUP * c->dim);
    float *rows = arena_calloc(&t->arena, CHUNKS * padded * sizeof *rows);
    uint32_t *groups = tape_alloc(t, CHUNKS * words * sizeof *groups);
#pragma omp parallel for schedule(static)
    for (int chunk = 0; chunk < CHUNKS; chunk++) {
        float *sums = c->partial + (size_t)chunk * partial;
        memset(sums, 0, partial * sizeof *sums);
        weight_gradient_chunk(c, chunk, dy, rows + (size_t)chunk * padded, groups + (size_t)chunk * words, sums);
    }
    for (int chunk = 0; chunk < CHUNKS; chunk++) {
        const float *sums = c->partial + (size_t)chunk * partial;
        kernels->add_row((int)weights, sums, c->w->grad);
        for (int i = 0; i < c->y->d; i++) c->b->grad[i / c->dim] += sums[weights + (size_t)i];
    }
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
