/* Networks with other ends than language models: what they read, how their blocks are built, what their heads make. */
#include "base/err.h"
#include "base/memory.h"
#include "base/random.h"
#include "base/team.h"
#include "model/bilstm.h"
#include "model/encoder_decoder.h"
#include "model/ops/op.h"
#include "model/shape.h"
#include "tests/support/checkpoints.h"
#include "tests/support/models.h"
#include "tests/support/test.h"
#include "weights/checkpoint.h"
#include "weights/convert.h"
#include "weights/presets.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { HEIGHT = 6, WIDTH = 4, CHANNELS = 2, SEGMENTS = 3, ROWS_MAX = 80 };

static const Labels names = {3, 20, "NEG\0POS\0n\303\251 \"ither\""};

static void classes(Config *c, TaskKind task, Pool pool) {
    c->task = task;
    c->pool = pool;
    c->n_labels = names.n;
}

static void make_fill_mask(Config *c) {
    c->task = TASK_FILL_MASK;
    c->causal = false;
    c->position = POSITION_ROPE;
    c->mask_token_id = 3;
}

static void make_last(Config *c) {
    classes(c, TASK_TEXT_CLASSIFICATION, POOL_LAST);
    c->noise.scope = NOISE_HEAD;
}

static void make_mean(Config *c) {
    classes(c, TASK_TEXT_CLASSIFICATION, POOL_MEAN);
    c->causal = false;
    c->position = POSITION_SINUSOIDAL;
    c->block.norm = BLOCK_POST;
}

static void make_first(Config *c) {
    classes(c, TASK_TEXT_CLASSIFICATION, POOL_FIRST);
    c->causal = false;
    c->block.norm = BLOCK_NO_NORM;
    c->block.no_residual = true;
    c->mlp.activation = ACT_SIGMOID;
}

/* The feed-forward part of the lecture notes: one layer behind the heads. */
static void make_one_layer(Config *c) {
    make_first(c);
    c->pool = POOL_MEAN;
    c->mlp.width = 0;
}

static void make_one_layer_added(Config *c) {
    make_one_layer(c);
    c->block.norm = BLOCK_PRE;
    c->block.no_residual = false;
}

static void make_tags(Config *c) {
    classes(c, TASK_TOKEN_CLASSIFICATION, POOL_LAST);
    c->causal = false;
    c->block.no_residual = true;
    c->bias = BIAS_NONE;
}

static void image(Config *c, int channels, int patch) {
    c->input.height = HEIGHT;
    c->input.width = WIDTH;
    c->input.channels = channels;
    c->input.patch = patch;
}

static void make_image(Config *c) {
    classes(c, TASK_IMAGE_CLASSIFICATION, POOL_FIRST);
    c->input.kind = INPUT_PATCHES;
    image(c, CHANNELS, 2);
    c->causal = false;
    c->vocab_size = 0;
    c->bos_token_id = c->eos_token_id = -1;
}

static void turn_by_place(Config *c) {
    const AttentionKind *kind = c->attention.kind;
    c->position = POSITION_ROPE2D;
    for (int k = 0; k < ATTENTION_VALUES && kind->keys[k]; k++)
        if (strstr(kind->keys[k], "rope")) c->attention.values[k] = 4;
}

static void make_image_places(Config *c) {
    make_image(c);
    c->pool = POOL_MEAN;
    c->max_positions = 6;
    turn_by_place(c);
}

static void make_pixels(Config *c) {
    c->input.height = HEIGHT;
    c->input.width = WIDTH;
    c->max_positions = 1 + HEIGHT * WIDTH;
    turn_by_place(c);
}

static void make_encoder_decoder(Config *c) {
    classes(c, TASK_TEXT_CLASSIFICATION, POOL_MEAN);
    c->network = &encoder_decoder_network;
    c->n_layers = 1;
    c->decoder_layers = 1;
    c->input.kind = INPUT_VECTORS;
    c->input.size = 7;
    c->causal = false;
    c->position = POSITION_SINUSOIDAL;
    c->block.norm = BLOCK_POST;
}

static void make_bilstm(Config *c) {
    *c = (Config){.vocab_size = 19, .hidden_size = 6, .n_layers = 2, .max_positions = 128};
    classes(c, TASK_TOKEN_CLASSIFICATION, POOL_LAST);
    c->network = &bilstm_network;
    c->input.kind = INPUT_VECTORS;
    c->input.size = 7;
    c->bos_token_id = c->eos_token_id = -1;
    memcpy(c->torch_dtype, "float32", sizeof "float32");
}

/* Language models whose blocks are not Llama's. */
static void make_post(Config *c) {
    c->block.norm = BLOCK_POST;
    c->position = POSITION_SINUSOIDAL;
    c->mlp.activation = ACT_SIGMOID;
}

static void make_bare(Config *c) {
    c->block.norm = BLOCK_NO_NORM;
    c->block.no_residual = true;
}

static const struct {
    const char *name;
    void (*make)(Config *c);
} ends[] = {{"fill-mask", make_fill_mask},
            {"last", make_last},
            {"mean", make_mean},
            {"first", make_first},
            {"one layer", make_one_layer},
            {"one layer, added", make_one_layer_added},
            {"tags", make_tags},
            {"image", make_image},
            {"places", make_image_places},
            {"pixels", make_pixels},
            {"post", make_post},
            {"bare", make_bare},
            {"encoder-decoder", make_encoder_decoder},
            {"bilstm", make_bilstm}};

static void each_end(void (*check)(TestModel *t, const char *name)) {
    for (int k = 0; attention_kinds[k]; k++)
        for (size_t e = 0; e < COUNTOF(ends); e++) {
            Config c = test_config(attention_kinds[k]);
            ends[e].make(&c);
            const char *name = test_text("%s %s", attention_kinds[k]->name, ends[e].name);
            TestModel t;
            if (test_model_init(&t, &c, 23)) check(&t, name);
            test_model_free(&t);
        }
}

/* Sequences of different lengths, or as many images, with a target for each row of logits. */
typedef struct Examples {
    int tokens[ROWS_MAX], targets[ROWS_MAX], n_targets;
    float images[SEGMENTS * CHANNELS * HEIGHT * WIDTH];
    Segment segments[SEGMENTS];
    Batch batch;
} Examples;

static void examples_init(Examples *e, const Config *c) {
    static const int lengths[SEGMENTS] = {7, 1, 20};
    Draws d = draws_open(31, DRAW_TEST, 1);
    *e = (Examples){.batch = {.segments = e->segments, .n_segments = SEGMENTS}};
    bool patches = c->input.kind == INPUT_PATCHES;
    for (int s = 0; s < SEGMENTS; s++) {
        int n = patches ? config_image_rows(c) : lengths[s];
        e->segments[s] = (Segment){.row0 = e->batch.n, .n = n, .noise = {.seed = 5, .stream = 2, .scale = 1.5f}};
        e->batch.n += n;
    }
    for (int i = 0; i < e->batch.n && !patches; i++) e->tokens[i] = (int)draw_below(&d, (uint64_t)c->vocab_size);
    for (size_t i = 0; i < COUNTOF(e->images); i++) e->images[i] = (float)draw_normal(&d);
    e->n_targets = config_pools(c) ? SEGMENTS : e->batch.n;
    for (int i = 0; i < e->n_targets; i++) e->targets[i] = (int)draw_below(&d, (uint64_t)config_outputs(c));
    if (patches)
        e->batch.images = e->images;
    else
        e->batch.tokens = e->tokens;
}

static double task_loss(const Model *m, void *context, bool backward) {
    const Examples *e = context;
    Tape tape;
    tape_init(&tape, true);
    Mat *logits = model_forward(m, &tape, &e->batch, NULL);
    BUG_ON(logits->n != e->n_targets || logits->d != config_outputs(&m->cfg));
    Mat *loss = model_loss(&tape, logits, e->targets, NULL, 1e-3f, NULL);
    if (backward) tape_backward(&tape, loss);
    double value = loss->x[0];
    tape_free(&tape);
    return value;
}

static void check_gradient(TestModel *t, const char *name) {
    Examples e;
    examples_init(&e, &t->model.cfg);
    test_gradient(t, name, task_loss, &e);
}

TEST(task_gradients) { each_end(check_gradient); }

/* With a layer computed again, and with dropout: the same masks each time. */
static void check_recomputed(TestModel *t, const char *name) {
    Examples e;
    float *logits[2], *grad[2];
    size_t n = 0;
    t->model.cfg.dropout = 0.3f;
    examples_init(&e, &t->model.cfg);
    test_gradient(t, name, task_loss, &e);
    for (int k = 0; k < 2; k++) {
        Tape tape;
        tape_init(&tape, true);
        tape.recompute = k;
        memset(t->grad, 0, t->count * sizeof(float));
        Mat *y = model_forward(&t->model, &tape, &e.batch, NULL);
        n = (size_t)(y->n * y->d);
        logits[k] = xmalloc(n * sizeof(float));
        memcpy(logits[k], y->x, n * sizeof(float));
        tape_backward(&tape, model_loss(&tape, y, e.targets, NULL, 1e-3f, NULL));
        grad[k] = xmalloc(t->count * sizeof(float));
        memcpy(grad[k], t->grad, t->count * sizeof(float));
        tape_free(&tape);
    }
    CHECK_MSG(!memcmp(logits[0], logits[1], n * sizeof(float)), "%s: logits with what is computed again differ", name);
    CHECK_MSG(!memcmp(grad[0], grad[1], t->count * sizeof(float)), "%s: gradients computed again differ", name);
    for (int k = 0; k < 2; k++) {
        free(logits[k]);
        free(grad[k]);
    }
}

TEST(task_dropout_and_recompute) { each_end(check_recomputed); }

/* Not recording: near what is trained; a sequence has the bits that it has alone, on any team. */
static void check_alone(TestModel *t, const char *name) {
    const Config *c = &t->model.cfg;
    int outputs = config_outputs(c), before = team_size();
    Examples e;
    Tape recorded, tape;
    examples_init(&e, c);
    tape_init(&recorded, true);
    tape_init(&tape, false);
    const Mat *training = model_forward(&t->model, &recorded, &e.batch, NULL);
    const Mat *both = model_forward(&t->model, &tape, &e.batch, NULL);
    double worst = 0;
    for (int i = 0; i < both->n * outputs; i++)
        worst = fmax(worst, fabs((double)both->x[i] - training->x[i]) / (1 + fabs(training->x[i])));
    CHECK_MSG(worst < 5e-5, "%s: recorded and not, the logits differ by %g", name, worst);
    for (int s = 0; s < SEGMENTS; s++) {
        team_resize(1 + s);
        Segment own = e.segments[s];
        int at = own.row0, rows = config_pools(c) ? 1 : own.n;
        own.row0 = 0;
        Batch one = {.n = own.n, .segments = &own, .n_segments = 1};
        if (e.batch.images)
            one.images = e.images + s * CHANNELS * HEIGHT * WIDTH;
        else
            one.tokens = e.tokens + at;
        const Mat *alone = model_forward(&t->model, &tape, &one, NULL);
        const float *wanted = both->x + (config_pools(c) ? s : at) * outputs;
        CHECK_MSG(alone->n == rows && !memcmp(alone->x, wanted, (size_t)(rows * outputs) * sizeof(float)),
                  "%s: sequence %d differs in a batch", name, s);
    }
    team_resize(before);
    tape_free(&tape);
    tape_free(&recorded);
}

/* What generates is served from a cache, in any chunks, in the bits of a whole sequence. */
static void check_cached(TestModel *t, const char *name) {
    const Config *c = &t->model.cfg;
    enum { N = 23 };
    Examples e;
    Tape tape;
    if (config_check_kv_form(c, KV_EXPANDED, NULL)) return;
    examples_init(&e, c);
    const Segment whole = {.n = N, .noise = e.segments->noise};
    const Batch batch = {.tokens = e.tokens, .n = N, .segments = &whole, .n_segments = 1};
    tape_init(&tape, false);
    const Mat *y = model_forward(&t->model, &tape, &batch, NULL);
    float *served = test_serve(&t->model, e.tokens, N, whole.noise, (int[]){3, 1, 7}, 3);
    CHECK_MSG(!memcmp(served, y->x, (size_t)(N * y->d) * sizeof(float)), "%s: served in chunks it differs", name);
    free(served);
    tape_free(&tape);
}

TEST(task_served_from_a_cache) { each_end(check_cached); }

TEST(task_alone_and_in_a_batch) { each_end(check_alone); }

/* Saved, opened and saved again: the same bytes, and of bf16 about the same logits. */
static void check_saved(TestModel *t, const char *name) {
    const AttentionKind *kind = t->model.cfg.attention.kind;
    if (kind && strcmp(kind->name, "mha")) return; /* other kinds change nothing here, and files take time */
    const char *dir = test_dir(), *again = test_dir();
    char path[2][512];
    Checkpoint c;
    Err err;
    Examples e;
    Tape tape[2];
    examples_init(&e, &t->model.cfg);
    for (int bf16 = 0; bf16 < 2; bf16++) {
        Dtype dtype = bf16 ? DTYPE_BF16 : DTYPE_F32;
        if (checkpoint_save(dir, &t->model, &names, dtype, 1, &err) || checkpoint_open(&c, dir, &err))
            return test_fail(__FILE__, __LINE__, "%s: %s", name, err.msg);
        CHECK(checkpoint_save(again, &c.model, &c.labels, dtype, 1, &err) == 0);
        for (int f = 0; f < 2; f++) {
            size_t n[2];
            char *bytes[2];
            for (int k = 0; k < 2; k++) {
                snprintf(path[k], sizeof path[k], "%s/%s", k ? again : dir, f ? "config.json" : "model.safetensors");
                bytes[k] = test_read_file(path[k], &n[k]);
            }
            CHECK_MSG(n[0] == n[1] && !memcmp(bytes[0], bytes[1], n[0]), "%s: %s changed", name, path[0]);
            for (int k = 0; k < 2; k++) free(bytes[k]);
        }
        const Model *models[2] = {&t->model, &c.model};
        const Mat *logits[2];
        double worst = 0;
        for (int k = 0; k < 2; k++) {
            tape_init(&tape[k], false);
            logits[k] = model_forward(models[k], &tape[k], &e.batch, NULL);
        }
        for (int i = 0; i < logits[0]->n * logits[0]->d; i++)
            worst = fmax(worst, fabs((double)logits[0]->x[i] - logits[1]->x[i]));
        CHECK_MSG(worst <= (bf16 ? 0.4 : 0), "%s: %s logits are off by %g", name, dtype_name(dtype), worst);
        for (int k = 0; k < 2; k++) tape_free(&tape[k]);
        checkpoint_close(&c);
    }
}

TEST(task_checkpoints) { each_end(check_saved); }

/* The presets of other tasks, as the programs see them: int8 of a network of patches, whose rows are no whole groups,
 * of one without a cache, of classes. */
TEST(task_presets_in_int8) {
    static const struct {
        const char *preset, *shows;
    } cases[] = {{"vit-nano", "score.weight                                             I8"},
                 {"mlm-noble-nano", "\"task\": \"fill-mask\""},
                 {"image-tokens-nano", "KV cache per token"}};
    for (size_t i = 0; i < COUNTOF(cases); i++) {
        static const Labels digits = {10, 20, "0\0001\0002\0003\0004\0005\0006\0007\0008\0009"};
        const char *dir = test_dir();
        char to[256], out[16384];
        Config c;
        TestModel t;
        Checkpoint q;
        Err err = {""};
        REQUIRE(preset_config(&c, cases[i].preset, &err) == 0 && test_model_init(&t, &c, 5));
        for (int p = 0; p < t.model.params.n; p++)
            param_init(&t.model.params.params[p], 1, weight_f32(t.model.params.params[p].weight));
        REQUIRE(checkpoint_save(dir, &t.model, &digits, DTYPE_F32, 1, &err) == 0);
        snprintf(to, sizeof to, "%s/int8", dir);
        CHECK_MSG(test_run_tool(test_text("quantize %s %s", dir, to), out) == 0, "%s: %s", cases[i].preset, out);
        CHECK_MSG(test_run_tool(test_text("verify %s", to), out) == 0 && !strncmp(out, "ok ", 3), "%s: %s",
                  cases[i].preset, out);
        CHECK_MSG(test_run_tool(test_text("inspect %s | grep -F '%s'", to, cases[i].shows), out) == 0, "%s: %s",
                  cases[i].preset, out);
        REQUIRE(checkpoint_open(&q, to, &err) == 0);
        static float image[28 * 28];
        static int tokens[17];
        Draws d = draws_open(3, DRAW_TEST, 1);
        for (size_t k = 0; k < COUNTOF(image); k++) image[k] = (float)draw_normal(&d);
        for (size_t k = 0; k < COUNTOF(tokens); k++) tokens[k] = (int)k;
        const Segment whole = {.n = 17};
        const bool patches = c.input.kind == INPUT_PATCHES;
        const Batch batch = {.tokens = patches ? NULL : tokens,
                             .images = patches ? image : NULL,
                             .n = 17,
                             .segments = &whole,
                             .n_segments = 1};
        Tape tape[2];
        double error = 0, sum = 0;
        tape_init(&tape[0], false);
        tape_init(&tape[1], false);
        const Mat *a = model_forward(&t.model, &tape[0], &batch, NULL);
        const Mat *b = model_forward(&q.model, &tape[1], &batch, NULL);
        for (int k = 0; k < a->n * a->d; k++) {
            error += pow((double)a->x[k] - b->x[k], 2);
            sum += pow(a->x[k], 2);
        }
        CHECK_MSG(sqrt(error / sum) < 0.1, "%s: int8 is off by %.3f", cases[i].preset, sqrt(error / sum));
        tape_free(&tape[0]);
        tape_free(&tape[1]);
        checkpoint_close(&q);
        test_model_free(&t);
    }
}
