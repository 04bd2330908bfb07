/* --noise-assign: which component of a sequence a window learns under, and what is said of all of them. */
#include "base/err.h"
#include "base/random.h"
#include "model/ops/op.h"
#include "tests/support/models.h"
#include "tests/support/test.h"
#include "trainer/micro_batch.h"
#include "trainer/text/evaluate.h"

#include <math.h>
#include <string.h>

enum { WINDOWS = 40, LENGTH = 9, TOKENS = WINDOWS * LENGTH + 1, K = 3 };

typedef struct Bench {
    TestModel model;
    uint16_t ids[TOKENS];
    TokenSpan span;
    Windows windows;
    Settings settings;
} Bench;

static bool bench_open(Bench *b, int assign, const char *variant) {
    Config c = test_variant(attention_kind_find("symmetric"), variant);
    *b = (Bench){
        .settings = {
            .batch = WINDOWS, .accumulate = 1, .noise_draws = 1, .noise_assign = assign, .seed = 7, .kl_weight = 1e-2}};
    if (!test_model_init(&b->model, &c, 21)) return false;
    Draws d = draws_open(3, DRAW_TEST, 53);
    for (int i = 0; i < TOKENS; i++) b->ids[i] = (uint16_t)draw_below(&d, (uint64_t)c.vocab_size);
    Err err;
    b->span = (TokenSpan){.ids = (const unsigned char *)b->ids, .width = 2, .n = TOKENS};
    return windows_init(&b->windows, b->span, LENGTH, 7, &err) == 0;
}

static void bench_close(Bench *b) {
    windows_free(&b->windows);
    test_model_free(&b->model);
}

/* The summed nats of n tokens that are a sequence. */
static double sequence_nats(const Bench *b, const int *tokens, const int *targets, int n, NoiseKey noise) {
    Segment s = {.n = n, .noise = noise};
    Batch rows = {.tokens = tokens, .n = n, .segments = &s, .n_segments = 1};
    Tape t;
    tape_init(&t, false);
    double sum = op_cross_entropy(&t, model_forward(&b->model.model, &t, &rows, NULL), targets, NULL)->x[0] * n;
    tape_free(&t);
    return sum;
}

/* Of window i of the micro-batch under one noise. */
static double nats(const Bench *b, const MicroBatch *m, int i, NoiseKey noise) {
    int pieces = (m->first + (uint64_t)i) % 2 && b->settings.pieces ? (int)b->settings.pieces : LENGTH;
    double sum = 0;
    for (int at = i * LENGTH, end = at + LENGTH; at < end; at += pieces)
        sum += sequence_nats(b, m->tokens + at, m->targets + at, MIN(pieces, end - at), noise);
    return sum;
}

static double marginal_of(const double of[K]) {
    double p = 0;
    for (int z = 0; z < K; z++) p += exp(-of[z]) / K;
    return -log(p);
}

static void check_hard(const char *variant, int pieces) {
    Bench b;
    MicroBatch m;
    Tape tape;
    Err err;
    double sum = 0, chosen = 0;
    int left_out = 0, seen[K] = {0};
    REQUIRE(bench_open(&b, ASSIGN_HARD, variant));
    b.settings.pieces = pieces;
    micro_batch_init(&m, &b.settings, &b.model.model, &b.windows);
    tape_init(&tape, true);
    REQUIRE(micro_batch_read(&m, 2, 0, &err) == 0);
    MicroLoss r = micro_batch_gradient(&m, &tape);
    for (int i = 0; i < WINDOWS; i++) {
        double of[K];
        NoiseKey own = m.noise[i];
        int best = 0;
        for (int z = 0; z < K; z++) {
            NoiseKey mean = own;
            mean.component = 1 + z;
            mean.means_only = true;
            of[z] = nats(&b, &m, i, mean);
            if (of[z] < of[best]) best = z;
        }
        sum += marginal_of(of);
        chosen += nats(&b, &m, i, own);
        left_out += own.scale == 0;
        if (own.scale != 0) seen[best]++;
        CHECK_MSG(own.component == 1 + best, "window %d learns under component %d, the likeliest is %d", i,
                  own.component - 1, best);
        CHECK(!own.means_only && own.sequence == (uint32_t)i);
    }
    double mean = sum / (WINDOWS * LENGTH);
    CHECK_MSG(fabs(r.loss - mean) < 1e-5 && r.draws > 1 && r.draws < K, "loss %g, -log mean p is %g; %g draws", r.loss,
              mean, r.draws);
    chosen /= WINDOWS * LENGTH;
    CHECK_MSG(fabs(r.chosen - chosen) < 1e-5 && fabs(chosen - mean) > 1e-4, "under the chosen %g, not %g", r.chosen,
              chosen);
    CHECK(left_out > 0 && left_out < WINDOWS / 3);
    CHECK(seen[0] && seen[1] && seen[2]);
    tape_free(&tape);
    micro_batch_free(&m);
    bench_close(&b);
}

TEST(assign_hard_learns_under_the_likeliest) {
    check_hard("components", 0);
    check_hard("residual", 0);
    check_hard("residual", 4);
}

/* Component 0 learns the text alone, so that `hard` leaves the others nothing. */
static void favour_first(Bench *b, MicroBatch *m, Tape *tape) {
    Err err;
    ParamSet *set = &b->model.model.params;
    b->settings.noise_assign = ASSIGN_DRAW;
    for (int step = 0; step < 100; step++) {
        memset(b->model.grad, 0, b->model.count * sizeof *b->model.grad);
        CHECK(micro_batch_read(m, step, 0, &err) == 0);
        for (int i = 0; i < WINDOWS; i++) m->noise[i].component = 1;
        micro_batch_gradient(m, tape);
        for (int i = 0; i < set->n; i++) {
            Weight *mu = set->params[i].weight; /* [1, K, width] */
            for (int k = 0; strstr(set->params[i].name, "noise.mu") && k < mu->dims[2]; k++)
                weight_f32(mu)[k] -= 5 * mu->grad[k];
        }
    }
    b->settings.noise_assign = ASSIGN_BALANCED;
}

/* No two windows would together be likelier with their components changed, which holds of sums of likelihoods under any
 * numbers that components are to be used, and these numbers are about equal. */
TEST(assign_balanced_uses_all_alike) {
    Bench b;
    MicroBatch m;
    Tape tape;
    Err err;
    static double of[WINDOWS][K];
    int seen[K] = {0}, likeliest = 0;
    REQUIRE(bench_open(&b, ASSIGN_BALANCED, "residual"));
    micro_batch_init(&m, &b.settings, &b.model.model, &b.windows);
    tape_init(&tape, true);
    favour_first(&b, &m, &tape);
    REQUIRE(micro_batch_read(&m, 2, 0, &err) == 0);
    micro_batch_gradient(&m, &tape);
    for (int i = 0; i < WINDOWS; i++) {
        NoiseKey mean = m.noise[i];
        mean.means_only = true;
        if (mean.scale != 0) seen[mean.component - 1]++;
        for (int z = 0; z < K; z++) {
            mean.component = 1 + z;
            of[i][z] = nats(&b, &m, i, mean);
        }
        likeliest += of[i][0] <= fmin(of[i][1], of[i][2]);
    }
    for (int i = 0; i < WINDOWS; i++)
        for (int j = 0; j < i; j++) {
            int zi = m.noise[i].component - 1, zj = m.noise[j].component - 1;
            CHECK_MSG(of[i][zi] + of[j][zj] < of[i][zj] + of[j][zi] + 1e-4, "windows %d and %d would change", i, j);
        }
    CHECK_MSG(likeliest > WINDOWS * 3 / 4, "of %d windows component 0 is the likeliest for %d", WINDOWS, likeliest);
    for (int z = 0; z < K; z++)
        CHECK_MSG(seen[z] > WINDOWS / K / 2 && seen[z] < WINDOWS / K * 3 / 2, "component %d has %d windows", z,
                  seen[z]);
    tape_free(&tape);
    micro_batch_free(&m);
    bench_close(&b);
}

TEST(assign_soft_and_draw) {
    Bench b;
    MicroBatch m;
    Err err;
    REQUIRE(bench_open(&b, ASSIGN_SOFT, "residual"));
    micro_batch_init(&m, &b.settings, &b.model.model, &b.windows);
    REQUIRE(micro_batch_read(&m, 0, 0, &err) == 0);
    for (int i = 0; i < WINDOWS * K; i++) {
        CHECK(m.noise[i].component == 1 + i % K && m.noise[i].sequence == (uint32_t)i);
        CHECK(m.noise[i].scale == m.noise[i - i % K].scale);
        CHECK(m.tokens[i * LENGTH + 4] == m.tokens[(i - i % K) * LENGTH + 4]);
    }
    micro_batch_free(&m);
    bench_close(&b);
    REQUIRE(bench_open(&b, ASSIGN_DRAW, "residual"));
    micro_batch_init(&m, &b.settings, &b.model.model, &b.windows);
    int left_out = 0;
    for (int step = 0; step < 50; step++) {
        REQUIRE(micro_batch_read(&m, step, 0, &err) == 0);
        for (int i = 0; i < WINDOWS; i++) {
            CHECK(m.noise[i].component == 0 && m.noise[i].sequence == (uint32_t)i);
            left_out += m.noise[i].scale == 0;
        }
    }
    CHECK_MSG(left_out > 140 && left_out < 260, "%d of 2000 windows without a component, not one in ten", left_out);
    micro_batch_free(&m);
    bench_close(&b);
}

/* Texts of which each has tokens of its own: a window is recognised by them. */
TEST(assign_source_is_the_row_of_the_window) {
    enum { ROW = 20 * LENGTH + 1, EACH = 12 };
    static const int weights[K] = {1, 2, 1};
    Bench b;
    MicroBatch m;
    Err err;
    uint16_t ids[K][ROW];
    TokenSpan spans[K];
    Windows mixed;
    int left_out = 0;
    REQUIRE(bench_open(&b, ASSIGN_SOURCE, "residual"));
    for (int z = 0; z < K; z++) {
        for (int i = 0; i < ROW; i++) ids[z][i] = (uint16_t)(3 * (i % 5) + z);
        spans[z] = (TokenSpan){.ids = (const unsigned char *)ids[z], .width = 2, .n = ROW};
    }
    REQUIRE(windows_init_mixed(&mixed, spans, weights, K, LENGTH, 7, &err) == 0);
    b.settings.batch = EACH;
    micro_batch_init(&m, &b.settings, &b.model.model, &mixed);
    for (int step = 0; step < 20; step++) {
        REQUIRE(micro_batch_read(&m, step, 0, &err) == 0);
        for (int i = 0; i < EACH; i++) {
            CHECK_MSG(m.noise[i].component == 1 + m.tokens[i * LENGTH] % K,
                      "window %d of step %d: component %d of row %d", i, step, m.noise[i].component - 1,
                      m.tokens[i * LENGTH] % K);
            left_out += m.noise[i].scale == 0;
        }
    }
    CHECK_MSG(left_out > 8 && left_out < 48, "%d of 240 windows without a component, not one in ten", left_out);
    micro_batch_free(&m);
    windows_free(&mixed);
    bench_close(&b);
}

/* Of whole windows and those in pieces, whose noise is one draw for all pieces: with a component its eps too. */
TEST(assign_pieces_are_sequences_of_their_own) {
    static const char *const variants[] = {"components", "residual", "sequence"};
    for (size_t v = 0; v < COUNTOF(variants); v++) {
        Bench b;
        MicroBatch m;
        Tape tape;
        Err err;
        double sum = 0;
        REQUIRE(bench_open(&b, ASSIGN_DRAW, variants[v]));
        b.settings.pieces = 4;
        b.settings.batch = 5; /* so that a micro-batch begins with a window in pieces */
        b.settings.kl_weight = 0;
        b.settings.noise_per_sequence = true;
        micro_batch_init(&m, &b.settings, &b.model.model, &b.windows);
        tape_init(&tape, true);
        REQUIRE(micro_batch_read(&m, 1, 0, &err) == 0);
        MicroLoss r = micro_batch_gradient(&m, &tape);
        for (int i = 0; i < 5; i++) sum += nats(&b, &m, i, m.noise[i]);
        CHECK_MSG(fabs(r.loss - sum / (5 * LENGTH)) < 1e-5, "%s: loss %g, by sequences of their own %g", variants[v],
                  r.loss, sum / (5 * LENGTH));
        tape_free(&tape);
        micro_batch_free(&m);
        bench_close(&b);
    }
}

/* -log mean_z p over windows, and what they tell of z, against sums by hand. */
TEST(assign_evaluation_is_marginal) {
    Bench b;
    Evaluation e, one;
    Err err;
    NoiseKey noise = {.seed = 5, .scale = 1};
    double sum = 0, mean[K] = {0}, own = 0, whole = 0, first = 0;
    REQUIRE(bench_open(&b, ASSIGN_HARD, "residual"));
    REQUIRE(evaluate(&b.model.model, b.span, LENGTH, 0, noise, NULL, &e, &err) == 0);
    for (int w = 0; w < WINDOWS; w++) {
        int tokens[LENGTH], targets[LENGTH];
        double of[K], total = 0;
        for (int i = 0; i < LENGTH; i++) tokens[i] = b.ids[w * LENGTH + i], targets[i] = b.ids[w * LENGTH + i + 1];
        for (int z = 0; z < K; z++) {
            noise.component = 1 + z;
            of[z] = sequence_nats(&b, tokens, targets, LENGTH, noise);
            total += exp(-of[z]);
        }
        sum += marginal_of(of);
        first += of[0];
        for (int z = 0; z < K; z++) {
            double p = exp(-of[z]) / total;
            mean[z] += p / WINDOWS;
            own -= p * log(p) / WINDOWS;
        }
    }
    for (int z = 0; z < K; z++) whole -= mean[z] * log(mean[z]);
    CHECK_MSG(e.complete && fabs(e.nats / sum - 1) < 1e-6, "%g nats, by hand %g", e.nats, sum);
    CHECK_MSG(fabs(e.entropy - whole) < 1e-5 && fabs(e.information - (whole - own)) < 1e-5, "%g, %g; by hand %g, %g",
              e.entropy, e.information, whole, whole - own);
    noise.component = 1;
    REQUIRE(evaluate(&b.model.model, b.span, LENGTH, 0, noise, NULL, &one, &err) == 0);
    CHECK(fabs(one.nats / first - 1) < 1e-6 && one.entropy == 0 && one.information == 0);
    bench_close(&b);
}
