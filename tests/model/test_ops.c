/* Every op's hand-written derivative against central differences of a random projection of its output. */
#include "base/err.h"
#include "base/memory.h"
#include "base/random.h"
#include "base/team.h"
#include "model/ops/op.h"
#include "tests/support/test.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { N = 5 };

/* An op under test: builds its output from x[0], x[1] (inputs) and w[0], w[1] (weights). */
typedef struct OpCase {
    const char *name;
    int x_dims[2]; /* widths of the inputs, 0 = unused; each has N rows */
    int w_dims[2][3];
    Mat *(*build)(Tape *t, Mat **x, Weight *w);
    float center; /* added to every input: away from kinks */
} OpCase;

static const int ids[N] = {3, 0, 2, 3, 1}, rows[3] = {4, 0, 2}, positions[N] = {0, 1, 5, 6, 40};

static Mat *build_linear(Tape *t, Mat **x, Weight *w) { return op_linear(t, x[0], &w[0], &w[1]); }
static Mat *build_embed(Tape *t, Mat **x, Weight *w) { return (void)x, op_embed(t, &w[0], ids, N); }
static Mat *build_rows(Tape *t, Mat **x, Weight *w) { return (void)w, op_rows(t, x[0], rows, 3); }
static Mat *build_layernorm(Tape *t, Mat **x, Weight *w) { return op_layernorm(t, x[0], &w[0], &w[1], 1e-5f); }
static Mat *build_rmsnorm(Tape *t, Mat **x, Weight *w) { return op_rmsnorm(t, x[0], &w[0], 1e-5f); }
static Mat *build_add(Tape *t, Mat **x, Weight *w) { return (void)w, op_add_scaled(t, x[0], x[1], -1.5f); }
static Mat *build_residual(Tape *t, Mat **x, Weight *w) { return (void)w, op_residual(t, x[0], x[1]); }
static Mat *build_gelu(Tape *t, Mat **x, Weight *w) { return (void)w, op_activation(t, x[0], ACT_GELU); }
static Mat *build_gelu_tanh(Tape *t, Mat **x, Weight *w) { return (void)w, op_activation(t, x[0], ACT_GELU_TANH); }
static Mat *build_silu(Tape *t, Mat **x, Weight *w) { return (void)w, op_activation(t, x[0], ACT_SILU); }
static Mat *build_sigmoid(Tape *t, Mat **x, Weight *w) { return (void)w, op_activation(t, x[0], ACT_SIGMOID); }
static Mat *build_tanh(Tape *t, Mat **x, Weight *w) { return (void)w, op_activation(t, x[0], ACT_TANH); }
static Mat *build_relu(Tape *t, Mat **x, Weight *w) { return (void)w, op_activation(t, x[0], ACT_RELU); }
static Mat *build_leaky(Tape *t, Mat **x, Weight *w) { return (void)w, op_activation(t, x[0], ACT_LEAKY_RELU); }
static Mat *build_gate(Tape *t, Mat **x, Weight *w) { return (void)w, op_gate(t, x[0], ACT_SILU); }
static Mat *build_cos(Tape *t, Mat **x, Weight *w) { return op_cos(t, x[0], &w[0], &w[1]); }
static Mat *build_rope(Tape *t, Mat **x, Weight *w) {
    static const Config line = {.rope_theta = 10000, .position = POSITION_ROPE};
    return (void)w, op_rope(t, x[0], 2, 6, 1, rope_table(t, N, positions, 6, &line));
}
static Mat *build_rope2d(Tape *t, Mat **x, Weight *w) {
    static const Config places = {.rope_theta = 100, .position = POSITION_ROPE2D, .input = {.height = 7, .width = 6}};
    return (void)w, op_rope(t, x[0], 2, 8, 2, rope_table(t, N, positions, 8, &places));
}
static const Segment two_segments[2] = {{.n = 2}, {.row0 = 2, .n = 3}};
static const Batch two_sequences = {.n = N, .segments = two_segments, .n_segments = 2};
static Mat *build_mean(Tape *t, Mat **x, Weight *w) { return (void)w, op_mean(t, x[0], &two_sequences); }
static Mat *build_class_rows(Tape *t, Mat **x, Weight *w) { return op_class_rows(t, x[0], &w[0], N); }
static Mat *build_sinusoids(Tape *t, Mat **x, Weight *w) { return (void)w, op_add_sinusoids(t, x[0], positions); }
static Mat *build_columns(Tape *t, Mat **x, Weight *w) { return (void)w, op_head_columns(t, x[0], 3, 1, 2); }
static Mat *build_join(Tape *t, Mat **x, Weight *w) { return (void)w, op_head_join(t, x[0], 4, x[1], 2, 3); }
static Mat *build_join_shared(Tape *t, Mat **x, Weight *w) { return (void)w, op_head_join(t, x[0], 4, x[1], 2, 3); }
static Mat *build_repeat(Tape *t, Mat **x, Weight *w) { return (void)w, op_head_repeat(t, x[0], 2, 3); }
static Mat *build_average(Tape *t, Mat **x, Weight *w) { return (void)w, op_head_average(t, x[0], 3); }
static Mat *build_matmul(Tape *t, Mat **x, Weight *w) { return op_head_matmul(t, x[0], &w[0]); }
static Mat *build_scale(Tape *t, Mat **x, Weight *w) { return (void)w, op_scale(t, x[0], -1.5f); }
static Mat *build_difference(Tape *t, Mat **x, Weight *w) {
    Weight *vectors = tape_alloc(t, 4 * sizeof *vectors); /* the halves of w[0] and w[1] */
    for (int k = 0; k < 4; k++) {
        const Weight *from = &w[k / 2];
        vectors[k] = (Weight){.n_dims = 1,
                              .dims = {3},
                              .data = weight_f32(from) + k % 2 * 3,
                              .grad = from->grad ? from->grad + k % 2 * 3 : NULL};
    }
    return op_head_difference(t, x[0], 4, vectors, 0.3f);
}
static Mat *build_conv(Tape *t, Mat **x, Weight *w) { return op_head_conv(t, x[0], &w[0], &w[1], 6); }
static Mat *build_factors(Tape *t, Mat **x, Weight *w) { return (void)w, op_head_factors(t, x[0], x[1], 2, 5); }
/* Three sentences in two directions; or one direction alone. */
static const Segment sentences[3] = {{.row0 = 0, .n = 1}, {.row0 = 1, .n = 3}, {.row0 = 4, .n = 1}};
static Mat *build_lstm(Tape *t, Mat **x, Weight *w) { return op_lstm(t, x[0], &w[0], sentences, 3); }
static Mat *build_lstm_one_way(Tape *t, Mat **x, Weight *w) {
    static const Segment all = {.n = N};
    return op_lstm(t, x[0], &w[0], &all, 1);
}
static Mat *build_loss(Tape *t, Mat **x, Weight *w) { return (void)w, op_cross_entropy(t, x[0], ids, NULL); }
static Mat *build_weighted_loss(Tape *t, Mat **x, Weight *w) {
    static const int targets[N] = {3, 0, -100, 3, 1};
    static const float weights[N] = {1, 0.25f, 0, 3, 0};
    return (void)w, op_cross_entropy(t, x[0], targets, weights);
}

static const OpCase op_cases[] = {
    {"linear", {7}, {{6, 7}, {6}}, build_linear, 0},
    {"embed", {0}, {{4, 6}}, build_embed, 0},
    {"rows", {6}, {{0}}, build_rows, 0},
    {"layernorm", {9}, {{9}, {9}}, build_layernorm, 0},
    {"rmsnorm", {9}, {{9}}, build_rmsnorm, 0},
    {"add_scaled", {4, 4}, {{0}}, build_add, 0},
    {"residual", {4, 4}, {{0}}, build_residual, 0},
    {"gelu", {33}, {{0}}, build_gelu, 0},
    {"gelu_tanh", {33}, {{0}}, build_gelu_tanh, 0},
    {"silu", {33}, {{0}}, build_silu, 0},
    {"sigmoid", {33}, {{0}}, build_sigmoid, 0},
    {"tanh", {33}, {{0}}, build_tanh, 0},
    {"relu", {8}, {{0}}, build_relu, 6},
    {"leaky_relu", {8}, {{0}}, build_leaky, -6},
    {"gate", {10}, {{0}}, build_gate, 0},
    {"cos", {7}, {{7}, {7}}, build_cos, 0},
    {"rope", {12}, {{0}}, build_rope, 0},
    {"rope2d", {16}, {{0}}, build_rope2d, 0},
    {"mean", {6}, {{0}}, build_mean, 0},
    {"class_rows", {6}, {{6}}, build_class_rows, 0},
    {"sinusoids", {7}, {{0}}, build_sinusoids, 0},
    {"head_columns", {12}, {{0}}, build_columns, 0},
    {"head_join", {12, 6}, {{0}}, build_join, 0},
    {"head_join_shared", {12, 2}, {{0}}, build_join_shared, 0},
    {"head_repeat", {6}, {{0}}, build_repeat, 0},
    {"head_average", {12}, {{0}}, build_average, 0},
    {"head_matmul", {12}, {{3, 4, 4}}, build_matmul, 0},
    {"scale", {7}, {{0}}, build_scale, 0},
    {"head_difference", {16}, {{6}, {6}}, build_difference, 0},
    {"head_conv", {18}, {{4, 3, 5}, {4}}, build_conv, 0},
    {"head_factors", {6, 10}, {{0}}, build_factors, 0},
    {"lstm", {24}, {{2, 12, 3}}, build_lstm, 0},
    {"lstm_one_way", {12}, {{1, 12, 3}}, build_lstm_one_way, 0},
    {"cross_entropy", {11}, {{0}}, build_loss, 0},
    {"weighted_cross_entropy", {11}, {{0}}, build_weighted_loss, 0},
};

typedef struct OpState {
    const OpCase *c;
    float *x[2], *dx[2], *w[2], *dw[2];
    Weight weights[2];
} OpState;

static void state_init(OpState *s, const OpCase *c) {
    Draws d = draws_open(7, DRAW_TEST, 1);
    *s = (OpState){.c = c};
    for (int k = 0; k < 2; k++) {
        size_t nx = (size_t)(N * c->x_dims[k]);
        s->x[k] = xcalloc(nx + 1, sizeof(float));
        s->dx[k] = xcalloc(nx + 1, sizeof(float));
        for (size_t i = 0; i < nx; i++) s->x[k][i] = c->center + (float)draw_normal(&d);
        Weight *w = &s->weights[k];
        while (w->n_dims < 3 && c->w_dims[k][w->n_dims]) {
            w->dims[w->n_dims] = c->w_dims[k][w->n_dims];
            w->n_dims++;
        }
        size_t nw = w->n_dims ? weight_count(w) : 0;
        s->w[k] = w->data = xcalloc(nw + 1, sizeof(float));
        s->dw[k] = w->grad = xcalloc(nw + 1, sizeof(float));
        for (size_t i = 0; i < nw; i++) s->w[k][i] = (float)draw_normal(&d);
    }
}

static void state_free(OpState *s) {
    for (int k = 0; k < 2; k++) {
        free(s->x[k]);
        free(s->dx[k]);
        free(s->w[k]);
        free(s->dw[k]);
    }
}

/* sum_i r_i y_i with r fixed random; gradients into dx and dw when wanted. */
static double project(OpState *s, bool backward) {
    Tape t;
    Mat *x[2] = {0};
    double sum = 0;
    tape_init(&t, true);
    for (int k = 0; k < 2; k++) {
        if (!s->c->x_dims[k]) continue;
        x[k] = tape_mat(&t, N, s->c->x_dims[k]);
        memcpy(x[k]->x, s->x[k], (size_t)(N * s->c->x_dims[k]) * sizeof(float));
    }
    Mat *y = s->c->build(&t, x, s->weights);
    Draws d = draws_open(9, DRAW_TEST, 2);
    Mat *seed = tape_mat(&t, 1, 1); /* starts the backward pass; y's own gradient is the projection */
    float *dy = mat_gradient(y);
    for (int i = 0; i < y->n * y->d; i++) {
        float r = (float)draw_normal(&d);
        dy[i] = r;
        sum += (double)r * y->x[i];
    }
    if (backward) {
        tape_backward(&t, y->n * y->d == 1 ? y : seed);
        if (y->n * y->d == 1) sum = y->x[0];
        for (int k = 0; k < 2; k++)
            if (x[k]) memcpy(s->dx[k], x[k]->dx, (size_t)(N * s->c->x_dims[k]) * sizeof(float));
    } else if (y->n * y->d == 1) {
        sum = y->x[0];
    }
    tape_free(&t);
    return sum;
}

static void check_values(OpState *s, float *value, const float *gradient, size_t n, const char *what) {
    for (size_t i = 0; i < n; i++) {
        const float h = 4e-3f;
        float kept = value[i];
        value[i] = kept + h;
        double up = project(s, false);
        value[i] = kept - h;
        double down = project(s, false);
        value[i] = kept;
        double numeric = (up - down) / (2 * (double)h), error = fabs(numeric - gradient[i]);
        CHECK_MSG(error <= 3e-3 * (1 + fabs(numeric)), "%s: d%s[%zu] is %g, difference quotient %g", s->c->name, what,
                  i, (double)gradient[i], numeric);
    }
}

TEST(op_gradients) {
    for (size_t k = 0; k < COUNTOF(op_cases); k++) {
        OpState s;
        state_init(&s, &op_cases[k]);
        project(&s, true);
        for (int i = 0; i < 2; i++) {
            if (s.c->x_dims[i]) check_values(&s, s.x[i], s.dx[i], (size_t)(N * s.c->x_dims[i]), i ? "x1" : "x0");
            if (s.weights[i].n_dims) check_values(&s, s.w[i], s.dw[i], weight_count(&s.weights[i]), i ? "w1" : "w0");
        }
        state_free(&s);
    }
}

/* Gradients of a weight accumulate over two uses and over two passes. */
TEST(op_gradients_accumulate) {
    OpState s;
    state_init(&s, &op_cases[0]);
    project(&s, true);
    float once = s.dw[0][0];
    project(&s, true);
    CHECK(fabsf(s.dw[0][0] - 2 * once) < 1e-5f * fabsf(once) + 1e-6f);
    state_free(&s);
}

/* The serving body of every op gives the training body's numbers. */
TEST(op_serving_equals_training) {
    for (size_t k = 0; k < COUNTOF(op_cases); k++) {
        OpState s;
        Mat *x[2][2] = {{0}}, *y[2];
        Tape t[2];
        state_init(&s, &op_cases[k]);
        for (int mode = 0; mode < 2; mode++) {
            tape_init(&t[mode], mode == 0);
            for (int i = 0; i < 2; i++)
                if (s.c->x_dims[i]) {
                    x[mode][i] = tape_mat(&t[mode], N, s.c->x_dims[i]);
                    memcpy(x[mode][i]->x, s.x[i], (size_t)(N * s.c->x_dims[i]) * sizeof(float));
                }
            y[mode] = s.c->build(&t[mode], x[mode], s.weights);
        }
        for (int i = 0; i < y[0]->n * y[0]->d; i++)
            CHECK_MSG(fabsf(y[0]->x[i] - y[1]->x[i]) <= 1e-5f * (1 + fabsf(y[0]->x[i])),
                      "%s[%d]: %g training, %g serving", s.c->name, i, (double)y[0]->x[i], (double)y[1]->x[i]);
        tape_free(&t[0]);
        tape_free(&t[1]);
        state_free(&s);
    }
}

/* Weights of 1 are no weights, bit for bit; a weight of 0 is as if the row were not there; all 0 are a loss of 0. */
TEST(op_cross_entropy_weights) {
    enum { V = 7 };
    static const float ones[N] = {1, 1, 1, 1, 1}, some[N] = {1, 0, 1, 1, 0}, zeros[N];
    static const int kept_targets[3] = {3, 2, 3};
    Draws d = draws_open(5, DRAW_TEST, 3);
    float logits[N * V], loss[5], gradient[5][N * V];
    const float *weights[5] = {NULL, ones, some, NULL, zeros};
    for (int i = 0; i < N * V; i++) logits[i] = (float)draw_normal(&d);
    for (int k = 0; k < 5; k++) {
        Tape t;
        tape_init(&t, true);
        Mat *x = tape_mat(&t, k == 3 ? 3 : N, V);
        for (int i = 0; i < x->n; i++) {
            static const int kept_rows[3] = {0, 2, 3};
            memcpy(x->x + i * V, logits + (k == 3 ? kept_rows[i] : i) * V, V * sizeof(float));
        }
        Mat *y = op_cross_entropy(&t, x, k == 3 ? kept_targets : ids, weights[k]);
        loss[k] = y->x[0];
        tape_backward(&t, y);
        memcpy(gradient[k], x->dx, (size_t)(x->n * V) * sizeof(float));
        tape_free(&t);
    }
    CHECK(loss[0] == loss[1] && !memcmp(gradient[0], gradient[1], sizeof gradient[0]));
    CHECK(loss[2] == loss[3] && loss[2] != loss[0]);
    CHECK(!memcmp(gradient[2], gradient[3], V * sizeof(float)) &&
          !memcmp(gradient[2] + 2 * V, gradient[3] + V, 2 * V * sizeof(float)));
    for (int i = 0; i < V; i++) CHECK(gradient[2][V + i] == 0 && gradient[2][4 * V + i] == 0);
    CHECK(loss[4] == 0);
    for (int i = 0; i < N * V; i++) CHECK(gradient[4][i] == 0);
}

/* Sentences of many lengths through a bidirectional op_lstm: what it gives is what each gives alone, and all gradients
 * have the same bits on every team. */
TEST(op_lstm_batch_and_team) {
    enum { H = 37, SENTENCES = 7, ROWS = 60, GATES = 8 * H, WEIGHTS = 2 * 4 * H * H };
    static const int lengths[SENTENCES] = {9, 1, 20, 9, 3, 17, 1}, teams[3] = {1, 2, 5};
    static float x[ROWS * GATES], w[WEIGHTS], dw[3][WEIGHTS], y[3][ROWS * 2 * H], dx[3][ROWS * GATES];
    Weight weight = {.n_dims = 3, .dims = {2, 4 * H, H}, .data = w};
    Segment parts[SENTENCES];
    Draws d = draws_open(11, DRAW_TEST, 4);
    for (int i = 0; i < ROWS * GATES; i++) x[i] = (float)draw_normal(&d);
    for (int i = 0; i < WEIGHTS; i++) w[i] = 0.2f * (float)draw_normal(&d);
    for (int s = 0, row = 0; s < SENTENCES; row += lengths[s++]) parts[s] = (Segment){.row0 = row, .n = lengths[s]};
    int team = team_size();
    Tape t;
    for (int k = 0; k < 3; k++) {
        team_resize(teams[k]);
        tape_init(&t, true);
        weight.grad = dw[k];
        Mat *gates = tape_mat(&t, ROWS, GATES);
        memcpy(gates->x, x, sizeof x);
        Mat *out = op_lstm(&t, gates, &weight, parts, SENTENCES);
        memcpy(y[k], out->x, sizeof y[k]);
        memcpy(mat_gradient(out), x, sizeof y[k]);
        tape_backward(&t, tape_mat(&t, 1, 1));
        memcpy(dx[k], gates->dx, sizeof dx[k]);
        tape_free(&t);
        CHECK(!memcmp(y[k], y[0], sizeof y[0]) && !memcmp(dx[k], dx[0], sizeof dx[0]) &&
              !memcmp(dw[k], dw[0], sizeof dw[0]));
    }
    team_resize(team);
    tape_init(&t, false);
    for (int s = 0; s < SENTENCES; s++) {
        Mat *gates = tape_mat(&t, lengths[s], GATES);
        memcpy(gates->x, x + parts[s].row0 * GATES, (size_t)(lengths[s] * GATES) * sizeof *x);
        const Mat *out = op_lstm(&t, gates, &weight, &(Segment){.n = lengths[s]}, 1);
        CHECK(!memcmp(out->x, y[0] + parts[s].row0 * 2 * H, (size_t)(lengths[s] * 2 * H) * sizeof *x));
    }
    tape_free(&t);
}
