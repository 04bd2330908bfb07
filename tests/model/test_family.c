/* The whole registry x {plain, noise, sas, noble, all}: whatever kind is registered is differentiated, chunked,
 * batched, threaded, saved and loaded here without a word about it in this file. */
#include "base/err.h"
#include "base/memory.h"
#include "base/random.h"
#include "base/team.h"
#include "model/shape.h"
#include "tests/support/models.h"
#include "tests/support/test.h"
#include "weights/checkpoint.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

typedef struct Case {
    char name[64];
    Config cfg;
    TestModel t;
} Case;

/* Runs check over every member. */
static void each_member(void (*check)(Case *c)) {
    for (int k = 0; attention_kinds[k]; k++)
        for (size_t v = 0; v < COUNTOF(test_variants); v++) {
            Case c = {.cfg = test_variant(attention_kinds[k], test_variants[v])};
            snprintf(c.name, sizeof c.name, "%s %s", attention_kinds[k]->name, test_variants[v]);
            if (test_model_init(&c.t, &c.cfg, 11)) check(&c);
            test_model_free(&c.t);
        }
}

static void fill_tokens(int *tokens, int n, int vocab, uint32_t index) {
    Draws d = draws_open(3, DRAW_TEST, index);
    for (int i = 0; i < n; i++) tokens[i] = (int)draw_below(&d, (uint64_t)vocab);
}

static const NoiseKey KEY = {.seed = 0x123456789abcdef, .scale = 1.5f};

/* ---- gradients of the whole model ---- */

typedef struct LossCase {
    int tokens[32], lengths[2], n_sequences;
} LossCase;

static double training_loss(const Model *m, void *context, bool backward) {
    const LossCase *l = context;
    Segment segments[4];
    Tape tape;
    int row = 0, inputs[64], targets[64];
    tape_init(&tape, true);
    for (int s = 0, at = 0; s < l->n_sequences; at += l->lengths[s] + 1, s++) {
        segments[s] = (Segment){.row0 = row, .n = l->lengths[s], .noise = KEY};
        segments[s].noise.stream = 5;
        for (int i = 0; i < l->lengths[s]; i++, row++) {
            inputs[row] = l->tokens[at + i];
            targets[row] = l->tokens[at + i + 1];
        }
    }
    Batch batch = {.tokens = inputs, .n = row, .segments = segments, .n_segments = l->n_sequences};
    Mat *loss = model_loss(&tape, model_forward(m, &tape, &batch, NULL), targets, NULL, 1e-3f, NULL);
    if (backward) tape_backward(&tape, loss);
    double value = loss->x[0];
    tape_free(&tape);
    return value;
}

/* Ragged: two sequences of different lengths. */
static void check_gradient(Case *c) {
    LossCase l = {.lengths = {13, 6}, .n_sequences = 2};
    fill_tokens(l.tokens, COUNTOF(l.tokens), c->cfg.vocab_size, 1);
    test_gradient(&c->t, c->name, training_loss, &l);
}

TEST(family_gradients) { each_member(check_gradient); }

/* Each density, scope and span of noise; the straight-through weight of a mixture has no difference quotient (its draw
 * jumps), so it is left where it is: tests/golden holds it to the formula. Components of a sequence have no weight. */
TEST(family_noise_gradients) {
    for (int k = 0; attention_kinds[k]; k++)
        for (int form = 0; form < 18; form++) {
            int density = form % 6, span = form / 6;
            bool draws_pairs = density % 3 == 2 && span != SPAN_SEQUENCE;
            if (span == SPAN_SEQUENCE && density % 3 == 1) continue;
            Case c = {.cfg = test_variant(attention_kinds[k], density % 2 ? "sas" : "plain")};
            c.cfg.noise.scope = density < 3 ? NOISE_LAYER : NOISE_HEAD;
            c.cfg.noise.span = (NoiseSpan)span;
            if (density % 3 == 1) c.cfg.noise.condition_dim = 4;
            if (density % 3 == 2) {
                c.cfg.noise.density = DENSITY_MIXTURE;
                c.cfg.noise.components = 3;
            }
            snprintf(c.name, sizeof c.name, "%s noise %d", attention_kinds[k]->name, form);
            if (!test_model_init(&c.t, &c.cfg, 12)) continue;
            for (int l = 0; l < c.cfg.n_layers && draws_pairs; l++) {
                /* equal weights draw on exact thirds; nudged, no draw sits on an edge */
                float *w = weight_f32(&c.t.model.blocks[l].attention.noise.weight);
                for (int i = 0; i < 3; i++) w[i] = 0.1f * (float)i;
            }
            if (!draws_pairs) check_gradient(&c);
            test_model_free(&c.t);
        }
}

/* The mean of gaussian noise cancels in the softmax: no output moves with it, and its gradient sums to zero. */
static void check_mean_cancels(const char *variant) {
    Config cfg = test_variant(attention_kind_find("symmetric"), variant);
    Case c = {.cfg = cfg};
    LossCase loss = {.lengths = {13}, .n_sequences = 1};
    int *tokens = loss.tokens, chunk[1] = {13};
    REQUIRE(test_model_init(&c.t, &cfg, 13));
    fill_tokens(tokens, 14, cfg.vocab_size, 2);
    training_loss(&c.t.model, &loss, true);
    float *before = test_serve(&c.t.model, tokens, 13, KEY, chunk, 1);
    for (int l = 0; l < cfg.n_layers; l++) {
        Noise *z = &c.t.model.blocks[l].attention.noise;
        for (int h = 0; h < cfg.n_heads; h++) {
            double kl = 1e-3 * weight_f32(&z->mu)[h]; /* all that is left is the pull of the KL term */
            CHECK_MSG(fabs(z->mu.grad[h] - kl) < 1e-6, "layer %d head %d: d mu %g, KL alone %g", l, h,
                      (double)z->mu.grad[h], kl);
            CHECK(fabs(z->sigma.grad[h]) > 1e-5);
            weight_f32(&z->mu)[h] += 2;
        }
    }
    float *after = test_serve(&c.t.model, tokens, 13, KEY, chunk, 1);
    for (int i = 0; i < 13 * cfg.vocab_size; i++) CHECK(fabsf(before[i] - after[i]) < 1e-4f);
    free(before);
    free(after);
    test_model_free(&c.t);
}

TEST(family_noise_mean_cancels) {
    check_mean_cancels("noise");
    check_mean_cancels("key");
}

/* ---- one forward for all: the same bits however the rows arrive ---- */

enum { LENGTH = 75 };

static bool same_bits(const float *a, const float *b, size_t n) { return !memcmp(a, b, n * sizeof(float)); }

static void check_chunks(Case *c) {
    static const int chunks[][3] = {{1, 1, 1}, {7, 7, 7}, {32, 1, 16}, {33, 40, 2}};
    int tokens[LENGTH], whole = LENGTH;
    size_t n = (size_t)LENGTH * (size_t)c->cfg.vocab_size;
    fill_tokens(tokens, LENGTH, c->cfg.vocab_size, 3);
    float *want = test_serve(&c->t.model, tokens, LENGTH, KEY, &whole, 1);
    for (size_t k = 0; k < COUNTOF(chunks); k++) {
        float *got = test_serve(&c->t.model, tokens, LENGTH, KEY, chunks[k], 3);
        CHECK_MSG(same_bits(got, want, n), "%s: chunks of %d, %d, %d change the logits", c->name, chunks[k][0],
                  chunks[k][1], chunks[k][2]);
        free(got);
    }
    free(want);
}

TEST(family_prefill_equals_decode) { each_member(check_chunks); }

/* The compact cache restores what the expanded one keeps: the same logits to rounding, and itself blind to chunks. */
static void check_forms(Case *c) {
    static const int chunks[3] = {33, 1, 5};
    int tokens[LENGTH], whole = LENGTH;
    size_t n = (size_t)LENGTH * (size_t)c->cfg.vocab_size;
    fill_tokens(tokens, LENGTH, c->cfg.vocab_size, 8);
    float *expanded = test_serve_form(&c->t.model, tokens, LENGTH, KEY, &whole, 1, KV_EXPANDED, DTYPE_F32);
    float *compact = test_serve_form(&c->t.model, tokens, LENGTH, KEY, &whole, 1, KV_COMPACT, DTYPE_F32);
    float *chunked = test_serve_form(&c->t.model, tokens, LENGTH, KEY, chunks, 3, KV_COMPACT, DTYPE_F32);
    CHECK_MSG(same_bits(compact, chunked, n), "%s: chunks change the logits of the compact cache", c->name);
    double worst = 0;
    for (size_t i = 0; i < n; i++)
        worst = fmax(worst, fabs((double)expanded[i] - compact[i]) / (1 + fabs(expanded[i])));
    CHECK_MSG(worst < 5e-5, "%s: compact and expanded cache differ by %g", c->name, worst);
    free(expanded);
    free(compact);
    free(chunked);
}

TEST(family_compact_cache) { each_member(check_forms); }

/* Keys that turn behind SAS are stored as they were before, and turned when they are restored. */
TEST(family_compact_cache_turns_late) {
    int n = 0;
    for (int k = 0; attention_kinds[k]; k++) {
        if (!attention_kinds[k]->rotates_late) continue;
        Case c = {.cfg = test_variant(attention_kinds[k], "sas")};
        c.cfg.position = POSITION_ROPE;
        c.cfg.sas.rope_post = true;
        snprintf(c.name, sizeof c.name, "%s sas, rope post", attention_kinds[k]->name);
        REQUIRE(test_model_init(&c.t, &c.cfg, 11));
        check_forms(&c);
        test_model_free(&c.t);
        n++;
    }
    CHECK(n > 0);
}

/* Floats a token and layer keeps, as the papers count them for a width of 768. */
TEST(family_cache_sizes) {
    Config c = test_config(attention_kind_find("mla"));
    memcpy(c.attention.values, (int[]){512, 256, 64, 32, 64}, 5 * sizeof(int));
    c.n_layers = 1;
    c.n_heads = c.n_kv_heads = 13;
    CHECK(config_kv_form(&c) == KV_COMPACT && kv_bytes_per_token(&c, DTYPE_F32, KV_COMPACT) == 4 * 288);
    c = test_config(attention_kind_find("tpa"));
    memcpy(c.attention.values, (int[]){6, 2}, 2 * sizeof(int));
    c.n_layers = 1;
    c.head_dim = 64;
    c.n_heads = c.n_kv_heads = 36;
    CHECK(config_kv_form(&c) == KV_COMPACT && kv_bytes_per_token(&c, DTYPE_F32, KV_COMPACT) == 4 * 400);
    c = test_config(attention_kind_find("mha"));
    c.n_layers = 1;
    c.n_heads = c.n_kv_heads = 12;
    c.head_dim = 64;
    CHECK(kv_bytes_per_token(&c, DTYPE_F32, KV_EXPANDED) == 4 * 1536);
    Config halved = c; /* two keys and one value of twice the width a head */
    halved.attention.kind = attention_kind_find("differential");
    halved.n_heads = halved.n_kv_heads = 6;
    CHECK(kv_bytes_per_token(&halved, DTYPE_F32, KV_EXPANDED) == 4 * 1536);
    c.sas.heads = 36;
    c.sas.head_dim = 96;
    c.sas.kernel = 5;
    CHECK(kv_bytes_per_token(&c, DTYPE_F32, KV_EXPANDED) == 4 * 5760);
    CHECK(kv_bytes_per_token(&c, DTYPE_F32, KV_COMPACT) == 4 * 1536);
}

/* No cache at all: the same bits as with one. */
static void check_uncached(Case *c) {
    int tokens[LENGTH], chunk = 20;
    fill_tokens(tokens, LENGTH, c->cfg.vocab_size, 9);
    float *cached = test_serve(&c->t.model, tokens, LENGTH, KEY, &chunk, 1);
    Segment seg = {.n = LENGTH, .noise = KEY};
    Batch batch = {.tokens = tokens, .n = LENGTH, .segments = &seg, .n_segments = 1};
    Tape tape;
    tape_init(&tape, false);
    const Mat *alone = model_forward(&c->t.model, &tape, &batch, NULL);
    CHECK_MSG(same_bits(alone->x, cached, (size_t)(LENGTH * c->cfg.vocab_size)), "%s: other logits without a cache",
              c->name);
    tape_free(&tape);
    free(cached);
}

TEST(family_without_cache) { each_member(check_uncached); }

static void check_threads(Case *c) {
    int tokens[LENGTH], chunk = 40, before = team_size();
    fill_tokens(tokens, LENGTH, c->cfg.vocab_size, 4);
    float *logits[3];
    for (int k = 0; k < 3; k++) {
        team_resize(k + 1);
        logits[k] = test_serve(&c->t.model, tokens, LENGTH, KEY, &chunk, 1);
        CHECK_MSG(same_bits(logits[k], logits[0], (size_t)(LENGTH * c->cfg.vocab_size)),
                  "%s: %d threads change the logits", c->name, k + 1);
    }
    team_resize(before);
    for (int k = 0; k < 3; k++) free(logits[k]);
}

TEST(family_threads) { each_member(check_threads); }

/* Four sequences of their own seeds and lengths in one batch, blocks interleaved, against each alone. */
static void check_batch(Case *c) {
    enum { SEQUENCES = 4, BLOCKS = 3 };
    static const int length[SEQUENCES] = {1, 33, 64, 17};
    int tokens[SEQUENCES][64], all[1 + 33 + 64 + 17], blocks[SEQUENCES][BLOCKS], vocab = c->cfg.vocab_size, row = 0;
    Segment segments[SEQUENCES];
    KvCache kv;
    Tape tape;
    REQUIRE(!kv_init(&kv, &c->cfg, SEQUENCES * BLOCKS, DTYPE_F32, config_kv_form(&c->cfg), NULL));
    tape_init(&tape, false);
    for (int s = 0; s < SEQUENCES; s++) {
        fill_tokens(tokens[s], length[s], vocab, (uint32_t)(10 + s));
        for (int b = 0; b < BLOCKS; b++) blocks[s][b] = b * SEQUENCES + (s + b) % SEQUENCES;
        segments[s] = (Segment){.row0 = row, .n = length[s], .noise = KEY, .blocks = blocks[s]};
        segments[s].noise.seed += (uint64_t)s;
        memcpy(all + row, tokens[s], (size_t)length[s] * sizeof(int));
        row += length[s];
    }
    Batch batch = {.tokens = all, .n = row, .segments = segments, .n_segments = SEQUENCES};
    Mat *out = model_forward(&c->t.model, &tape, &batch, &kv);
    for (int s = 0; s < SEQUENCES; s++) {
        float *alone = test_serve(&c->t.model, tokens[s], length[s], segments[s].noise, &length[s], 1);
        CHECK_MSG(same_bits(out->x + (size_t)(segments[s].row0 * vocab), alone, (size_t)(length[s] * vocab)),
                  "%s: sequence %d differs in a batch", c->name, s);
        free(alone);
    }
    tape_free(&tape);
    kv_free(&kv);
}

TEST(family_batch_equals_alone) { each_member(check_batch); }

static void check_causality(Case *c) {
    int tokens[LENGTH], chunk = 50, vocab = c->cfg.vocab_size, changed = 41;
    fill_tokens(tokens, LENGTH, vocab, 5);
    float *before = test_serve(&c->t.model, tokens, LENGTH, KEY, &chunk, 1);
    tokens[changed] = (tokens[changed] + 1) % vocab;
    float *after = test_serve(&c->t.model, tokens, LENGTH, KEY, &chunk, 1);
    CHECK_MSG(same_bits(before, after, (size_t)(changed * vocab)), "%s: token %d acts on earlier rows", c->name,
              changed);
    CHECK_MSG(!same_bits(before + changed * vocab, after + changed * vocab, (size_t)vocab),
              "%s: token %d acts on nothing", c->name, changed);
    free(before);
    free(after);
}

TEST(family_causality) { each_member(check_causality); }

/* Noise acts exactly where the config says: a seed matters with it, never without, and scale 0 takes it away. */
static void check_noise_seed(Case *c) {
    int tokens[20], chunk = 20;
    size_t n = (size_t)(20 * c->cfg.vocab_size);
    fill_tokens(tokens, 20, c->cfg.vocab_size, 6);
    NoiseKey other = KEY, off = KEY, off_other = KEY;
    other.seed ^= 1;
    off.scale = off_other.scale = 0;
    off_other.seed ^= 1;
    const NoiseKey keys[4] = {KEY, other, off, off_other};
    float *logits[4];
    for (int k = 0; k < 4; k++) logits[k] = test_serve(&c->t.model, tokens, 20, keys[k], &chunk, 1);
    bool noisy = c->cfg.noise.scope != NOISE_NONE;
    CHECK_MSG(same_bits(logits[0], logits[1], n) == !noisy, "%s: noise seed", c->name);
    CHECK_MSG(same_bits(logits[2], logits[3], n), "%s: seed acts at scale 0", c->name);
    for (int k = 0; k < 4; k++) free(logits[k]);
}

TEST(family_noise_seed) { each_member(check_noise_seed); }

/* ---- save -> load -> save ---- */

static void check_save(Case *c) {
    static const char *const files[] = {"config.json", "model.safetensors"};
    const char *dir[2] = {test_dir(), test_dir()};
    char path[2][1024];
    int tokens[20], chunk = 20;
    Checkpoint loaded;
    Err err;
    fill_tokens(tokens, 20, c->cfg.vocab_size, 7);
    if (checkpoint_save(dir[0], &c->t.model, NULL, DTYPE_F32, 3, &err) || checkpoint_open(&loaded, dir[0], &err)) {
        test_fail(__FILE__, __LINE__, "%s: %s", c->name, err.msg);
        goto done;
    }
    CHECK_MSG(!checkpoint_save(dir[1], &loaded.model, NULL, DTYPE_F32, 3, &err), "%s: %s", c->name, err.msg);
    for (size_t k = 0; k < COUNTOF(files); k++) {
        char *text[2];
        size_t n[2] = {0};
        for (int i = 0; i < 2; i++) {
            snprintf(path[i], sizeof path[i], "%s/%s", dir[i], files[k]);
            text[i] = test_read_file(path[i], &n[i]);
        }
        CHECK_MSG(n[0] > 0 && n[0] == n[1] && !memcmp(text[0], text[1], n[0]), "%s: %s differs", c->name, files[k]);
        free(text[0]);
        free(text[1]);
    }
    float *a = test_serve(&c->t.model, tokens, 20, KEY, &chunk, 1);
    float *b = test_serve(&loaded.model, tokens, 20, KEY, &chunk, 1);
    CHECK_MSG(same_bits(a, b, (size_t)(20 * c->cfg.vocab_size)), "%s: the loaded model gives other logits", c->name);
    free(a);
    free(b);
    checkpoint_close(&loaded);
done:
}

TEST(family_save_load_save) { each_member(check_save); }
