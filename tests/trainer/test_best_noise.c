/* Which noise and masks a row of a micro-batch has; and --noise-draws-weight best: of the noises of a window the
 * likeliest, and the gradient under it alone. */
#include "base/err.h"
#include "base/memory.h"
#include "base/random.h"
#include "model/ops/op.h"
#include "tests/support/models.h"
#include "tests/support/test.h"
#include "trainer/micro_batch.h"
#include "trainer/text/masks.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { WINDOWS = 3, DRAWS = 4, LENGTH = 9, TOKENS = 5 * LENGTH + 1 };

typedef struct Bench {
    TestModel model;
    uint16_t ids[TOKENS];
    Windows windows;
    Settings settings;
} Bench;

static bool bench_open(Bench *b) {
    Config c = test_variant(attention_kind_find("symmetric"), "sequence");
    *b = (Bench){.settings = {.batch = WINDOWS,
                              .accumulate = 1,
                              .noise_draws = DRAWS,
                              .noise_draws_weight = DRAWS_BEST,
                              .seed = 7,
                              .kl_weight = 1e-2}};
    if (!test_model_init(&b->model, &c, 21)) return false;
    Draws d = draws_open(3, DRAW_TEST, 52);
    for (int i = 0; i < TOKENS; i++) b->ids[i] = (uint16_t)draw_below(&d, (uint64_t)c.vocab_size);
    Err err;
    TokenSpan span = {.ids = (const unsigned char *)b->ids, .width = 2, .n = TOKENS};
    return windows_init(&b->windows, span, LENGTH, 7, &err) == 0;
}

static void bench_close(Bench *b) {
    windows_free(&b->windows);
    test_model_free(&b->model);
}

/* Of window i under draw k; the noise of a micro-batch's row is counted over windows and their draws. */
static float loss_of(const Bench *b, const MicroBatch *m, int i, int k) {
    Segment s = {.n = LENGTH, .noise = m->noise[i]};
    s.noise.sequence = (uint32_t)(i * DRAWS + k);
    Batch rows = {.tokens = m->tokens + i * LENGTH, .n = LENGTH, .segments = &s, .n_segments = 1};
    Tape t;
    tape_init(&t, false);
    float loss =
        op_cross_entropy(&t, model_forward(&b->model.model, &t, &rows, NULL), m->targets + i * LENGTH, NULL)->x[0];
    tape_free(&t);
    return loss;
}

/* docs/spec.md 4: row b has number b, whichever windows and draws the rows are. */
TEST(noise_of_a_micro_batch_is_numbered_by_row) {
    static const struct {
        int64_t windows, draws;
        bool per_sequence;
    } cases[] = {{3, 4, false}, {5, 1, true}, {5, 1, false}, {1024, 63, false}};
    for (size_t c = 0; c < COUNTOF(cases); c++) {
        Bench b;
        Err err;
        MicroBatch m;
        REQUIRE(bench_open(&b));
        b.settings.noise_draws_weight = DRAWS_IMPORTANCE;
        b.settings.batch = cases[c].windows;
        b.settings.noise_draws = cases[c].draws;
        b.settings.noise_per_sequence = cases[c].per_sequence;
        micro_batch_init(&m, &b.settings, &b.model.model, &b.windows);
        REQUIRE(micro_batch_read(&m, 2, 0, &err) == 0);
        bool numbered = cases[c].draws > 1 || cases[c].per_sequence;
        for (uint32_t row = 0; row < cases[c].windows * cases[c].draws; row++) {
            const NoiseKey *k = &m.noise[row];
            CHECK_MSG(k->sequence == (numbered ? row : 0), "case %zu, row %u: number %u", c, row, k->sequence);
            CHECK(k->seed == 7 && k->stream == 3);
        }
        micro_batch_free(&m);
        bench_close(&b);
    }
}

/* docs/spec.md 5: step t = 1, 2, ... has scale min(1, t / W). */
TEST(noise_of_a_micro_batch_warms_up) {
    static const float scales[] = {0.25f, 0.5f, 0.75f, 1, 1};
    Bench b;
    Err err;
    MicroBatch m;
    REQUIRE(bench_open(&b));
    b.settings.noise_warmup = 4;
    micro_batch_init(&m, &b.settings, &b.model.model, &b.windows);
    for (int step = 0; step < (int)COUNTOF(scales); step++) {
        REQUIRE(micro_batch_read(&m, step, 0, &err) == 0);
        CHECK_MSG(m.noise[0].scale == scales[step], "step %d: %g", step, (double)m.noise[0].scale);
    }
    micro_batch_free(&m);
    bench_close(&b);
}

/* The masks of a micro-batch are those of the run's seed and of its windows' numbers in the run. */
TEST(masks_of_a_micro_batch_are_the_windows) {
    Bench b;
    Err err;
    MicroBatch m;
    REQUIRE(bench_open(&b));
    b.settings.noise_draws = 1;
    b.settings.accumulate = 2;
    Config *c = &b.model.model.cfg;
    c->task = TASK_FILL_MASK;
    c->mask_token_id = 1;
    micro_batch_init(&m, &b.settings, &b.model.model, &b.windows);
    int masked = 0;
    for (int64_t step = 0; step < 3; step++)
        for (int64_t micro = 0; micro < 2; micro++) {
            REQUIRE(micro_batch_read(&m, step, micro, &err) == 0);
            for (int i = 0; i < WINDOWS; i++) {
                int tokens[LENGTH], targets[LENGTH], at = i * LENGTH;
                float weights[LENGTH];
                uint64_t window = (uint64_t)((step * 2 + micro) * WINDOWS + i);
                REQUIRE(windows_read(&b.windows, window, c->vocab_size, tokens, targets, &err) == 0);
                masked += masks_apply(c, 7, window, LENGTH, tokens, targets, weights);
                CHECK(!memcmp(m.tokens + at, tokens, sizeof tokens) &&
                      !memcmp(m.targets + at, targets, sizeof targets));
                CHECK(!memcmp(m.weights + at, weights, sizeof weights));
            }
        }
    CHECK(masked > 5);
    micro_batch_free(&m);
    bench_close(&b);
}

TEST(best_noise_is_the_likeliest) {
    Bench b;
    REQUIRE(bench_open(&b));
    MicroBatch m;
    Tape tape;
    Err err;
    micro_batch_init(&m, &b.settings, &b.model.model, &b.windows);
    tape_init(&tape, true);
    bool apart = false;
    for (int64_t step = 0; step < 3; step++) {
        REQUIRE(micro_batch_read(&m, step, 0, &err) == 0);
        double best = 0;
        int winners[WINDOWS] = {0};
        for (int i = 0; i < WINDOWS; i++) {
            float loss[DRAWS];
            for (int k = 0; k < DRAWS; k++) {
                loss[k] = loss_of(&b, &m, i, k);
                if (loss[k] < loss[winners[i]]) winners[i] = k;
            }
            apart |= winners[i] > 0;
            best += (double)loss[winners[i]] / WINDOWS;
        }
        MicroLoss r = micro_batch_gradient(&m, &tape);
        CHECK_MSG(fabs(r.loss - best) < 1e-5 && r.draws == 1, "step %d: %g, the least is %g", (int)step, r.loss, best);
        for (int i = 0; i < WINDOWS; i++)
            CHECK(m.noise[i].sequence == (uint32_t)(i * DRAWS + winners[i]) && m.segments[i].n == LENGTH);
    }
    CHECK(apart);
    tape_free(&tape);
    micro_batch_free(&m);
    bench_close(&b);
}

static double loss_of_micro_batch(const Model *m, void *context, bool backward) {
    Bench *b = context;
    MicroBatch batch;
    Tape tape;
    Err err;
    micro_batch_init(&batch, &b->settings, m, &b->windows);
    tape_init(&tape, true);
    BUG_ON(micro_batch_read(&batch, 0, 0, &err));
    float *grad = b->model.grad, *kept = NULL;
    if (!backward) {
        kept = xcalloc(b->model.count, sizeof *kept);
        memcpy(kept, grad, b->model.count * sizeof *kept);
    }
    MicroLoss r = micro_batch_gradient(&batch, &tape);
    if (kept) memcpy(grad, kept, b->model.count * sizeof *kept);
    free(kept);
    tape_free(&tape);
    micro_batch_free(&batch);
    return r.loss + b->settings.kl_weight * r.kl;
}

/* A small step changes no winner, so that its gradient is that of the least loss. */
TEST(best_noise_gradient) {
    Bench b;
    REQUIRE(bench_open(&b));
    test_gradient(&b.model, "best of 4", loss_of_micro_batch, &b);
    bench_close(&b);
}
