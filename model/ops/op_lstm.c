#include "base/arena.h"
#include "base/err.h"
#include "base/team.h"
#include "model/kernels/kernels.h"
#include "model/ops/op.h"
#include "model/ops/train_gemm.h"

#include <stdlib.h>
#include <string.h>

/* Some sentences in one direction: the unit of work of a thread, which needs nobody else. A step of the recurrence
 * takes all of them that have one, which, the longest being first, are the first m. */
typedef struct Lane {
    int direction, n, rows;   /* rows: of all its segments */
    const Segment **segments; /* [n] longest first */
    /* What the backward pass reads, step after step: the gates after their nonlinearities, [4][m, h], and the cell
     * states, [m, h]. */
    float *z, *c;
    float *hidden, *cell_before; /* [n, h] scratch; cell_before is zeros */
    float *carry, *dz;           /* [n, h], [4][n, h]: backward */
    uint32_t *packed;            /* [4] left operands [n, h]: forward uses one */
} Lane;

enum { GATES = 4 };

typedef struct LstmContext {
    Tape *tape;
    Mat *gates, *y;
    const Weight *w;
    Lane *lanes;
    int n_lanes, h;
} LstmContext;

/* ---- operands ---- */

static size_t right_words(const LstmContext *c) {
    return train_panels_words(kernels->train->tile_columns, c->h, (size_t)c->h);
}
static size_t left_words(const LstmContext *c, int n) {
    return train_panels_words(kernels->train->tile_rows[false], n, (size_t)c->h);
}

/* Every gate's matrix [h, h] of every direction as a right operand: W_g^T, or with `back` W_g. */
static uint32_t *pack_weights(const LstmContext *c, bool back) {
    Tape *t = c->tape;
    int h = c->h, n = c->w->dims[0] * GATES;
    size_t each = (size_t)h * (size_t)h, words = right_words(c);
    uint32_t *packed = tape_alloc(t, (size_t)n * words * sizeof *packed);
    const float *w = weight_f32(c->w);
#pragma omp parallel for schedule(static) if (team_pays((size_t)n * each, TEAM_COPIES))
    for (int g = 0; g < n; g++) {
        PackSource s = {.x = w + (size_t)g * each, .n = h, .k = h, .stride = back ? 1 : (size_t)h, .step = 1};
        if (back) s.step = (size_t)h;
        kernels->train->pack_columns(false, &s, packed + (size_t)g * words);
    }
    return packed;
}

static void pack_left(const LstmContext *c, const float *x, int n, uint32_t *out) {
    size_t h = (size_t)c->h;
    kernels->train->pack_rows(false, &(PackSource){.x = x, .n = n, .k = c->h, .stride = h, .step = 1}, out);
}

/* y [m, h] += left right */
static void multiply_add(const LstmContext *c, int m, const uint32_t *left, const uint32_t *right, float *y) {
    const TrainKernels *t = kernels->train;
    Panels a = {.at = left, .words = (size_t)t->tile_rows[false] * (size_t)c->h};
    Panels b = {.at = right, .words = (size_t)t->tile_columns * (size_t)c->h};
    t->multiply(false, m, c->h, c->h, a, b, y, (size_t)c->h, true);
}

/* ---- lanes ---- */

static int longest_first(const void *a, const void *b) {
    const Segment *x = *(const Segment *const *)a, *y = *(const Segment *const *)b;
    return x->n != y->n ? y->n - x->n : x->row0 - y->row0;
}

/* The row of step t of segment s. */
static size_t row_of(const Lane *l, int s, int t) {
    const Segment *seg = l->segments[s];
    return (size_t)(seg->row0 + (l->direction ? seg->n - 1 - t : t));
}

static int lane_steps(const Lane *l) { return l->segments[0]->n; }

/* How many segments have a step t. */
static int lane_width(const Lane *l, int t) {
    int m = l->n;
    while (m && l->segments[m - 1]->n <= t) m--;
    return m;
}

static void make_lanes(LstmContext *c, const Segment *segments, int n) {
    Tape *t = c->tape;
    int directions = c->w->dims[0], shares = MIN(n, (team_size() + directions - 1) / directions);
    const Segment **sorted = tape_alloc(t, (size_t)n * sizeof *sorted);
    for (int s = 0; s < n; s++) sorted[s] = &segments[s];
    qsort(sorted, (size_t)n, sizeof *sorted, longest_first);
    c->n_lanes = directions * shares;
    c->lanes = tape_alloc(t, (size_t)c->n_lanes * sizeof *c->lanes);
    for (int k = 0; k < c->n_lanes; k++) {
        Lane *l = &c->lanes[k];
        *l = (Lane){.direction = k % directions, .segments = tape_alloc(t, (size_t)n * sizeof *l->segments)};
        for (int s = k / directions; s < n; s += shares) {
            l->segments[l->n++] = sorted[s];
            l->rows += sorted[s]->n;
        }
        size_t h = (size_t)c->h, plane = (size_t)l->n * h * sizeof(float);
        l->z = tape_alloc(t, GATES * (size_t)l->rows * h * sizeof(float));
        l->c = tape_alloc(t, (size_t)l->rows * h * sizeof(float));
        l->hidden = tape_alloc(t, plane);
        l->cell_before = tape_alloc(t, plane);
        l->packed = tape_alloc(t, left_words(c, l->n) * sizeof(uint32_t));
        memset(l->cell_before, 0, plane);
    }
}

/* ---- forward ---- */

/* Between the rows of a matrix [n, directions width], of which step t takes those of its m segments, and m rows of
 * `plane`: features first..first+h-1. */
static void gather(const LstmContext *c, const Lane *l, int t, int m, const Mat *x, const float *from, int first,
                   float *plane) {
    size_t h = (size_t)c->h, d = (size_t)x->d;
    for (int s = 0; s < m; s++) memcpy(plane + (size_t)s * h, from + row_of(l, s, t) * d + first, h * sizeof(float));
}

static void scatter(const LstmContext *c, const Lane *l, int t, int m, const Mat *x, float *to, int first,
                    const float *plane) {
    size_t h = (size_t)c->h, d = (size_t)x->d;
    for (int s = 0; s < m; s++) memcpy(to + row_of(l, s, t) * d + first, plane + (size_t)s * h, h * sizeof(float));
}

static void lane_forward(const LstmContext *c, const Lane *l, const uint32_t *weights) {
    int h = c->h, m;
    const float *cell_before = l->cell_before;
    float *z = l->z, *cell = l->c;
    for (int t = 0; (m = lane_width(l, t)); t++) {
        int plane = m * h;
        for (int g = 0; g < GATES; g++) {
            const uint32_t *w = weights + (size_t)(l->direction * GATES + g) * right_words(c);
            gather(c, l, t, m, c->gates, c->gates->x, (l->direction * GATES + g) * h, z + g * plane);
            if (t) multiply_add(c, m, l->packed, w, z + g * plane);
        }
        kernels->lstm_row(plane, z, cell_before, cell, l->hidden);
        scatter(c, l, t, m, c->y, c->y->x, l->direction * h, l->hidden);
        pack_left(c, l->hidden, m, l->packed);
        cell_before = cell;
        cell += plane;
        z += GATES * plane;
    }
}

/* ---- backward ---- */

static void lane_backward(const LstmContext *c, const Lane *l, const uint32_t *weights) {
    int h = c->h, after = 0;
    const float *z = l->z + (size_t)GATES * (size_t)l->rows * (size_t)h, *cell = l->c + (size_t)l->rows * (size_t)h;
    size_t left = left_words(c, l->n), right = right_words(c);
    memset(l->carry, 0, (size_t)l->n * (size_t)h * sizeof(float));
    for (int t = lane_steps(l) - 1; t >= 0; t--) {
        int m = lane_width(l, t), plane = m * h, before = t ? lane_width(l, t - 1) * h : 0;
        z -= GATES * plane;
        cell -= plane;
        gather(c, l, t, m, c->y, c->y->dx, l->direction * h, l->hidden);
        for (int g = 0; g < GATES && after; g++)
            multiply_add(c, after, l->packed + (size_t)g * left, weights + (size_t)(l->direction * GATES + g) * right,
                         l->hidden);
        kernels->train->lstm_slope_row(plane, z, t ? cell - before : l->cell_before, cell, l->hidden, l->carry, l->dz);
        for (int g = 0; g < GATES; g++) {
            scatter(c, l, t, m, c->gates, c->gates->dx, (l->direction * GATES + g) * h, l->dz + g * plane);
            pack_left(c, l->dz + g * plane, m, l->packed + (size_t)g * left);
        }
        after = m;
    }
}

/* The hidden states before every row, in the direction; zeros at the first step. [n, h] */
static void states_before(const LstmContext *c, int direction, float *out) {
    size_t h = (size_t)c->h, d = (size_t)c->y->d;
    for (int k = 0; k < c->n_lanes; k++) {
        const Lane *l = &c->lanes[k];
        for (int s = 0; l->direction == direction && s < l->n; s++) {
            memset(out + row_of(l, s, 0) * h, 0, h * sizeof *out);
            for (int t = 1; t < l->segments[s]->n; t++)
                memcpy(out + row_of(l, s, t) * h, c->y->x + row_of(l, s, t - 1) * d + (size_t)direction * h,
                       h * sizeof *out);
        }
    }
}

/* dW_g += dz_g^T h_before, all rows of the batch in one product. */
static void weights_backward(const LstmContext *c) {
    int rows = GATES * c->h;
    float *before = tape_alloc(c->tape, (size_t)c->y->n * (size_t)c->h * sizeof *before);
    for (int k = 0; k < c->w->dims[0]; k++) {
        states_before(c, k, before);
        train_gemm(c->tape, &(TrainGemm){.m = rows,
                                         .n = c->h,
                                         .k = c->y->n,
                                         .a = {c->gates->dx + k * rows, c->gates->d, true},
                                         .b = {before, c->h, false},
                                         .c = c->w->grad + (size_t)k * (size_t)rows * (size_t)c->h,
                                         .ldc = c->h,
                                         .add = true});
    }
}

static void lstm_backward(void *context) {
    const LstmContext *c = context;
    Tape *t = c->tape;
    ArenaMark mark = arena_mark(&t->arena);
    const uint32_t *weights = pack_weights(c, true);
    BUG_ON(!mat_first(c->gates));
    mat_gradient(c->y);
    for (int k = 0; k < c->n_lanes; k++) {
        Lane *l = &c->lanes[k];
        size_t plane = (size_t)l->n * (size_t)c->h * sizeof(float);
        l->carry = tape_alloc(t, plane);
        l->dz = tape_alloc(t, GATES * plane);
        l->packed = tape_alloc(t, GATES * left_words(c, l->n) * sizeof(uint32_t));
    }
#pragma omp parallel for schedule(                                                                                     \
    static, 1) if (team_pays((size_t)c->gates->n * (size_t)c->gates->d * (size_t)c->h, TEAM_PRODUCTS))
    for (int k = 0; k < c->n_lanes; k++) lane_backward(c, &c->lanes[k], weights);
    if (c->w->grad) weights_backward(c);
    arena_rewind(&t->arena, mark);
}

Mat *op_lstm(Tape *t, Mat *gates, const Weight *w, const Segment *segments, int n) {
    int h = w->dims[2];
    BUG_ON(w->dims[1] != GATES * h || gates->d != w->dims[0] * GATES * h);
    Mat *y = tape_mat(t, gates->n, w->dims[0] * h);
    ArenaMark mark = arena_mark(&t->arena);
    LstmContext *c = tape_alloc(t, sizeof *c);
    *c = (LstmContext){.tape = t, .gates = gates, .y = y, .w = w, .h = h};
    make_lanes(c, segments, n);
    ArenaMark kept = arena_mark(&t->arena);
    const uint32_t *weights = pack_weights(c, false);
#pragma omp parallel for schedule(static,                                                                              \
                                  1) if (team_pays((size_t)gates->n * (size_t)gates->d * (size_t)h, TEAM_PRODUCTS))
    for (int k = 0; k < c->n_lanes; k++) lane_forward(c, &c->lanes[k], weights);
    arena_rewind(&t->arena, t->recording ? kept : mark);
    if (t->recording) tape_push(t, lstm_backward, c);
    return y;
}
