/* Recomputed blocks against kept ones: the same loss, gradients and checkpoint in every bit, in less memory. */
#include "base/arena.h"
#include "base/err.h"
#include "base/memory.h"
#include "base/random.h"
#include "tests/support/models.h"
#include "tests/support/test.h"
#include "tests/trainer/test_trainer.h"

#include <stdlib.h>
#include <string.h>

enum { SEQUENCES = 2, ROWS = 13 + 6 };

typedef struct Pass {
    bool bf16, recompute;
    float kl_weight;
} Pass;

/* Loss, noise KL and, in m's grad, the gradient of two micro-batches of two sequences with noise of their own. */
static void run_pass(TestModel *m, const Pass *p, double loss[4]) {
    static const int lengths[SEQUENCES] = {13, 6};
    int tokens[ROWS], targets[ROWS];
    Tape tape;
    tape_init(&tape, true);
    tape.bf16 = p->bf16;
    tape.recompute = p->recompute;
    memset(m->grad, 0, m->count * sizeof(float));
    for (uint32_t micro = 0; micro < 2; micro++) {
        Segment segments[SEQUENCES];
        Draws d = draws_open(3, DRAW_TEST, micro);
        for (int i = 0; i < ROWS; i++) {
            tokens[i] = (int)draw_below(&d, (uint64_t)m->model.cfg.vocab_size);
            targets[i] = (int)draw_below(&d, (uint64_t)m->model.cfg.vocab_size);
        }
        for (int s = 0, row = 0; s < SEQUENCES; row += lengths[s++])
            segments[s] = (Segment){.row0 = row,
                                    .n = lengths[s],
                                    .noise = {.seed = 7, .stream = 1 + micro, .sequence = (uint32_t)s, .scale = 1.5f}};
        Batch batch = {.tokens = tokens, .n = ROWS, .segments = segments, .n_segments = SEQUENCES};
        tape_reset(&tape);
        Mat *logits = model_forward(&m->model, &tape, &batch, NULL);
        Mat *mean = model_loss(&tape, logits, targets, NULL, p->kl_weight, &loss[2 * micro + 1]);
        loss[2 * micro] = mean->x[0];
        tape_backward(&tape, mean);
    }
    tape_free(&tape);
}

/* Under a sanitizer only one of the passes, by turns: the networks and the passes are all met, the pairs are about
 * numbers. */
static void check_config(const Config *cfg, const char *name, int turn) {
    static const Pass passes[] = {{.kl_weight = 1e-3f}, {.kl_weight = 1}, {.bf16 = true, .kl_weight = 1e-3f}};
    TestModel m;
    if (test_model_init(&m, cfg, 17)) {
        float *kept = xmalloc(m.count * sizeof *kept);
        for (size_t i = 0; i < COUNTOF(passes); i++) {
            if (SANITIZED && i != (size_t)turn % COUNTOF(passes)) continue;
            Pass p = passes[i];
            double loss[2][4];
            run_pass(&m, &p, loss[0]);
            memcpy(kept, m.grad, m.count * sizeof *kept);
            p.recompute = true;
            run_pass(&m, &p, loss[1]);
            CHECK_MSG(!memcmp(loss[0], loss[1], sizeof loss[0]), "%s: the loss is %.9g, recomputed %.9g", name,
                      loss[0][0], loss[1][0]);
            CHECK_MSG(!memcmp(kept, m.grad, m.count * sizeof *kept), "%s, pass %zu: other gradients", name, i);
        }
        free(kept);
    }
    test_model_free(&m);
}

TEST(recompute_same_gradients) {
    int turn = 0;
    for (int k = 0; attention_kinds[k]; k++)
        for (size_t v = 0; v < COUNTOF(test_variants); v++)
            for (int density = 0; density < 3; density++) {
                Config c = test_variant(attention_kinds[k], test_variants[v]);
                if (density && (!c.noise.scope || c.noise.span != SPAN_PAIR)) continue;
                c.n_layers = 3;
                if (density == 1) c.noise.condition_dim = 4;
                if (density == 2) {
                    c.noise.density = DENSITY_MIXTURE;
                    c.noise.components = 3;
                }
                check_config(&c, test_text("%s %s, density %d", attention_kinds[k]->name, test_variants[v], density),
                             turn++);
            }
}

/* ---- memory ---- */

/* What the tape of one step of eight layers holds after the forward pass; the blocks it took. */
static size_t tape_bytes(TestModel *m, bool recompute, size_t *blocks) {
    enum { N = 128 };
    int tokens[N] = {0};
    Segment segment = {.n = N, .noise = {.seed = 1, .stream = 1, .scale = 1}};
    Batch batch = {.tokens = tokens, .n = N, .segments = &segment, .n_segments = 1};
    Tape tape;
    tape_init(&tape, true);
    tape.recompute = recompute;
    Mat *loss = model_loss(&tape, model_forward(&m->model, &tape, &batch, NULL), tokens, NULL, 0, NULL);
    size_t bytes = arena_used(&tape.arena);
    tape_backward(&tape, loss);
    *blocks = tape.arena.grown;
    tape_free(&tape);
    return bytes;
}

TEST(recompute_takes_less_memory) {
    for (int k = 0; attention_kinds[k]; k++) {
        Config c = test_variant(attention_kinds[k], "noise");
        if (c.head_dim == c.hidden_size) c.head_dim = 64;
        c.hidden_size = 64;
        c.mlp.width = 256;
        c.n_layers = 8;
        TestModel m;
        if (test_model_init(&m, &c, 18)) {
            size_t blocks[2], kept = tape_bytes(&m, false, &blocks[0]), recomputed = tape_bytes(&m, true, &blocks[1]);
            CHECK_MSG(recomputed < kept / 5, "%s: %zu bytes kept, %zu when recomputed", c.attention.kind->name, kept,
                      recomputed);
            /* every block is at least twice the one before: one fewer is half of the memory at the peak */
            CHECK_MSG(blocks[1] < blocks[0], "%s: %zu arena blocks, %zu when recomputed", c.attention.kind->name,
                      blocks[0], blocks[1]);
        }
        test_model_free(&m);
    }
}

/* ---- the trainer ---- */

static void pretrain(const char *config, const char *text, const char *out, const char *more) {
    trainer_done(test_text("pretrain --config %s --data %s --out %s --vocab-size 300 --batch 2 --accumulate 2 "
                           "--warmup 4 --eval-every 0 --noise-per-sequence --kl-weight 0.01 --perturb layer-after "
                           "--perturb-sigma 0.001 --schedule constant %s",
                           config, text, out, more));
}

static void check_files(const char *a, const char *b, const char *what) {
    static const char *const files[] = {"model.safetensors", "optimizer.safetensors", "trainer_state.json"};
    for (size_t i = 0; i < COUNTOF(files); i++) {
        char hash_a[65], hash_b[65];
        trainer_hash_file(a, files[i], hash_a);
        trainer_hash_file(b, files[i], hash_b);
        CHECK_MSG(!strcmp(hash_a, hash_b), "%s: %s differs", what, files[i]);
    }
}

/* The flag is not remembered: a run may be resumed with it or without. */
static void check_trainer(const char *preset, const char *precision) {
    const char *dir = test_dir(), *text = trainer_text_file(8000);
    const char *kept = test_text("%s/kept", dir), *recomputed = test_text("%s/recomputed", dir);
    pretrain(preset, text, kept, test_text("--steps 12 --precision %s", precision));
    pretrain(preset, text, recomputed, test_text("--steps 12 --precision %s --recompute", precision));
    check_files(kept, recomputed, preset);
    pretrain(preset, text, kept, test_text("--steps 16 --precision %s --resume --recompute", precision));
    pretrain(preset, text, recomputed, test_text("--steps 16 --precision %s --resume", precision));
    check_files(kept, recomputed, "resumed");
}

TEST(recompute_same_checkpoint) {
    static const char *const presets[] = {"noiseformer-v2-nano", "sas-nano", "noble-nano"};
    size_t n = SANITIZED ? 1 : COUNTOF(presets); /* the others are about numbers */
    for (size_t i = 0; i < n; i++) {
        check_trainer(presets[i], "f32");
        check_trainer(presets[i], "bf16");
    }
}
