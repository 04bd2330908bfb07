/* The feed-forward layer that serves, whose hidden rows are made in pieces, against the ops that it is composed of, bit
 * for bit. */
#include "base/err.h"
#include "base/memory.h"
#include "base/random.h"
#include "base/team.h"
#include "model/ops/op.h"
#include "tests/support/test.h"

#include <stdlib.h>
#include <string.h>

enum { MOST_THREADS = 3 };

typedef struct Shape {
    int n, d, width, out;
    Dtype up, down;
    bool gated, bias;
    Activation activation;
} Shape;

/* A weight of [rows, columns] of small numbers; codes and scales are anything. */
static Weight weight_new(Draws *d, Dtype dtype, int rows, int columns) {
    Weight w = {.dtype = dtype, .n_dims = 2, .dims = {rows, columns}};
    size_t n = (size_t)rows * (size_t)columns;
    float *x = xcalloc(n, sizeof *x);
    uint16_t *halves = xcalloc(n, sizeof *halves);
    for (size_t i = 0; i < n; i++) {
        x[i] = (float)draw_normal(d) / 8;
        if (dtype == DTYPE_BF16) halves[i] = f32_to_bf16(x[i]);
        if (dtype == DTYPE_F16) halves[i] = (uint16_t)(0x2000 | (f32_to_bf16(x[i]) & 0x83ff));
        if (dtype == DTYPE_I8 || dtype == DTYPE_I4) ((int8_t *)halves)[i] = (int8_t)(f32_to_bf16(x[i]) % 251 - 125);
    }
    if (dtype == DTYPE_I8) {
        float *scale = xcalloc(n / INT8_GROUP, sizeof *scale);
        for (size_t i = 0; i < n / INT8_GROUP; i++) scale[i] = 1e-3f * (float)(1 + i % 7);
        w.scale = scale;
    }
    if (dtype == DTYPE_I4) {
        uint16_t *scale = xcalloc(n / INT4_GROUP, sizeof *scale);
        for (size_t i = 0; i < n / INT4_GROUP; i++) scale[i] = (uint16_t)(0x2000 + i % 31);
        w.scale16 = scale;
    }
    w.data = dtype == DTYPE_F32 ? (void *)x : (void *)halves;
    free(dtype == DTYPE_F32 ? (void *)halves : (void *)x);
    return w;
}

static void weight_drop(Weight *w) {
    free(w->data);
    free((void *)w->scale);
    free((void *)w->scale16);
}

static Mat *of_ops(Tape *t, Mat *x, const FeedForward *m) {
    Mat *up = op_linear(t, x, m->up, m->up_b);
    Mat *hidden = m->gated ? op_gate(t, up, m->activation) : op_activation(t, up, m->activation);
    return op_linear(t, hidden, m->down, m->down_b);
}

static void check_shape(const Shape *s) {
    int team = team_size(), outputs = s->width * (1 + s->gated);
    Draws d = draws_open(11, DRAW_TEST, 5);
    Weight up = weight_new(&d, s->up, outputs, s->d), down = weight_new(&d, s->down, s->out, s->width);
    Weight up_b = weight_new(&d, DTYPE_F32, 1, outputs), down_b = weight_new(&d, DTYPE_F32, 1, s->out);
    FeedForward m = {&up, s->bias ? &up_b : NULL, &down, s->bias ? &down_b : NULL, s->activation, s->gated};
    Tape t;
    tape_init(&t, false);
    Mat *x = tape_mat(&t, s->n, s->d);
    for (int i = 0; i < s->n * s->d; i++) x->x[i] = (float)draw_normal(&d);
    Mat *want = of_ops(&t, x, &m);
    for (int threads = 1; threads <= MOST_THREADS; threads++) {
        team_resize(threads);
        Mat *got = op_feed_forward(&t, x, &m);
        CHECK_MSG(!memcmp(got->x, want->x, (size_t)s->n * (size_t)s->out * sizeof(float)),
                  "%d rows of %d, %d hidden, dtypes %d and %d, gated %d, bias %d, activation %d: not the bits of its "
                  "parts with %d threads",
                  s->n, s->d, s->width, s->up, s->down, s->gated, s->bias, s->activation, threads);
    }
    team_resize(team);
    tape_free(&t);
    weight_drop(&up), weight_drop(&down), weight_drop(&up_b), weight_drop(&down_b);
}

TEST(feed_forward_is_its_parts) {
    static const Dtype dtypes[] = {DTYPE_F32, DTYPE_F16, DTYPE_BF16, DTYPE_I8, DTYPE_I4};
    static const int rows[] = {1, 5, 140};
    for (size_t up = 0; up < COUNTOF(dtypes); up++)
        for (size_t down = 0; down < COUNTOF(dtypes); down++)
            for (size_t r = 0; r < COUNTOF(rows); r++)
                for (int more = 0; more < 4; more++)
                    check_shape(&(Shape){rows[r], 128, 320, 64, dtypes[up], dtypes[down], more & 1, more & 2,
                                         more & 1 ? ACT_SILU : ACT_GELU});
}

TEST(feed_forward_of_any_width_and_activation) {
    for (int a = ACT_GELU; a <= ACT_LEAKY_RELU; a++)
        for (int gated = 0; gated < 2; gated++) {
            check_shape(&(Shape){150, 7, 70, 3, DTYPE_F32, DTYPE_F32, gated, true, (Activation)a});
            check_shape(&(Shape){150, 7, 1, 3, DTYPE_BF16, DTYPE_BF16, gated, true, (Activation)a});
        }
}

/* Codes of 4 bits are in blocks of 16 outputs: what is gated begins in the middle of one here. */
TEST(feed_forward_of_gates_that_end_inside_a_block) {
    for (int rows = 1; rows < 150; rows += 70)
        check_shape(&(Shape){rows, 64, 72, 3, DTYPE_I4, DTYPE_BF16, true, rows > 1, ACT_SILU});
}

/* More hidden features than one piece has room for, at the number of rows where a piece is narrowest. */
TEST(feed_forward_in_many_pieces) {
    for (int gated = 0; gated < 2; gated++)
        check_shape(&(Shape){130, 64, 1600, 64, DTYPE_I8, DTYPE_I8, gated, true, ACT_GELU_TANH});
}
