/* Several noises for one window: the importance-weighted bound. */
#include "base/err.h"
#include "base/memory.h"
#include "base/random.h"
#include "model/ops/op.h"
#include "tests/support/models.h"
#include "tests/support/test.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { WINDOWS = 2, DRAWS = 3, LENGTH = 9, ROWS = WINDOWS * DRAWS * LENGTH };

typedef struct Case {
    NoiseDraws draws;
    int tokens[ROWS], targets[ROWS];
    double effective;
} Case;

static Case case_of(int vocab) {
    Case c = {.draws = {.n = DRAWS, .length = LENGTH}};
    Draws d = draws_open(3, DRAW_TEST, 50);
    for (int w = 0; w < WINDOWS; w++) {
        int *first = c.tokens + w * DRAWS * LENGTH, *targets = c.targets + w * DRAWS * LENGTH;
        for (int i = 0; i < LENGTH; i++) {
            first[i] = (int)draw_below(&d, (uint64_t)vocab);
            targets[i] = (int)draw_below(&d, (uint64_t)vocab);
        }
        for (int i = LENGTH; i < DRAWS * LENGTH; i++) {
            first[i] = first[i % LENGTH];
            targets[i] = targets[i % LENGTH];
        }
    }
    return c;
}

static double model_of_draws(const Model *m, void *context, bool backward) {
    Case *c = context;
    Segment segments[WINDOWS * DRAWS];
    for (int s = 0; s < WINDOWS * DRAWS; s++)
        segments[s] = (Segment){
            .row0 = s * LENGTH, .n = LENGTH, .noise = {.seed = 8, .stream = 5, .sequence = (uint32_t)s, .scale = 3}};
    Batch batch = {.tokens = c->tokens, .n = ROWS, .segments = segments, .n_segments = WINDOWS * DRAWS};
    Tape tape;
    tape_init(&tape, true);
    Mat *loss = op_cross_entropy_draws(&tape, model_forward(m, &tape, &batch, NULL), c->targets, NULL, &c->draws,
                                       &c->effective);
    loss = model_penalised(&tape, loss, 1e-3f, NULL);
    if (backward) tape_backward(&tape, loss);
    double value = loss->x[0];
    tape_free(&tape);
    return value;
}

/* The shares are no constants of the loss, and yet its gradient is the draws' gradients weighted by them. */
TEST(draws_gradient) {
    for (int span = SPAN_PAIR; span <= SPAN_SEQUENCE; span++) {
        Config cfg = test_variant(attention_kind_find("symmetric"), span ? span_names[span] : "noise");
        Case c = case_of(cfg.vocab_size);
        TestModel t;
        REQUIRE(test_model_init(&t, &cfg, 21));
        test_gradient(&t, span_names[span], model_of_draws, &c);
        CHECK_MSG(c.effective > 1 && c.effective < DRAWS, "span %s: %g draws", span_names[span], c.effective);
        test_model_free(&t);
    }
}

/* Logits by hand: -log of the mean of three likelihoods. */
TEST(draws_by_hand) {
    enum { V = 5 };
    Tape t;
    tape_init(&t, false);
    Mat *logits = tape_mat(&t, ROWS, V);
    Draws d = draws_open(3, DRAW_TEST, 51);
    for (int i = 0; i < ROWS * V; i++) logits->x[i] = (float)draw_normal(&d);
    Case c = case_of(V);
    double bound = 0;
    for (int w = 0; w < WINDOWS; w++) {
        double mean = 0;
        for (int k = 0; k < DRAWS; k++) {
            double p = 1;
            for (int i = 0; i < LENGTH; i++) {
                int row = (w * DRAWS + k) * LENGTH + i;
                double sum = 0;
                for (int v = 0; v < V; v++) sum += exp((double)logits->x[row * V + v]);
                p *= exp((double)logits->x[row * V + c.targets[row]]) / sum;
            }
            mean += p / DRAWS;
        }
        bound -= log(mean) / LENGTH / WINDOWS;
    }
    double got = op_cross_entropy_draws(&t, logits, c.targets, NULL, &c.draws, NULL)->x[0];
    CHECK_MSG(fabs(got - bound) < 1e-5, "%g, by hand %g", got, bound);
    tape_free(&t);
}

/* One draw is the plain loss; equal draws are one, for the gradient too. */
TEST(draws_of_one) {
    enum { V = 5 };
    float gradient[3][ROWS * V], loss[3], weights[ROWS];
    for (int i = 0; i < ROWS; i++) weights[i] = (float)(i % LENGTH % 3);
    for (int k = 0; k < 3; k++) {
        Tape t;
        tape_init(&t, true);
        Mat *logits = tape_mat(&t, ROWS, V);
        Case c = case_of(V);
        for (int i = 0; i < ROWS; i++)
            for (int v = 0; v < V; v++)
                logits->x[i * V + v] = (float)((i / (DRAWS * LENGTH) + i % LENGTH * (v + 1)) % 4);
        c.draws = k == 1 ? (NoiseDraws){.n = 1, .length = LENGTH} : c.draws;
        Mat *l = k == 0 ? op_cross_entropy(&t, logits, c.targets, weights)
                        : op_cross_entropy_draws(&t, logits, c.targets, weights, &c.draws, NULL);
        tape_backward(&t, l);
        loss[k] = l->x[0];
        memcpy(gradient[k], logits->dx, sizeof gradient[k]);
        tape_free(&t);
    }
    CHECK(loss[0] == loss[1] && !memcmp(gradient[0], gradient[1], sizeof gradient[0]));
    CHECK(fabsf(loss[0] - loss[2]) < 1e-6f);
    for (int i = 0; i < ROWS * V; i++) CHECK(fabsf(gradient[0][i] - gradient[2][i]) < 1e-6f);
}
