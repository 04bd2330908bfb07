/* Networks that see whole sequences: attention that is not causal, and attention over the rows of another batch. */
#include "base/err.h"
#include "base/random.h"
#include "base/team.h"
#include "model/ops/op.h"
#include "tests/support/models.h"
#include "tests/support/test.h"
#include "tests/trainer/test_trainer.h"
#include "trainer/text/evaluate.h"
#include "weights/checkpoint.h"
#include "weights/config_json.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static const NoiseKey KEY = {.seed = 77, .scale = 1.5f};

/* Rows of up to two sequences, with tokens, targets and weights of their own. */
typedef struct Rows {
    int tokens[160], targets[160];
    float weights[160];
    Segment segments[2];
    Batch batch;
} Rows;

static void rows_init(Rows *r, int vocab, int first, int second, uint32_t index) {
    Draws d = draws_open(21, DRAW_TEST, index);
    *r = (Rows){.segments = {{.n = first, .noise = KEY}, {.row0 = first, .n = second, .noise = KEY}}};
    r->segments[1].noise.sequence = 1;
    r->batch = (Batch){.tokens = r->tokens, .n = first + second, .segments = r->segments, .n_segments = second ? 2 : 1};
    for (int i = 0; i < r->batch.n; i++) {
        r->tokens[i] = (int)draw_below(&d, (uint64_t)vocab);
        r->targets[i] = (int)draw_below(&d, (uint64_t)vocab);
        r->weights[i] = (float)draw_below(&d, 3);
    }
}

/* check of every kind and variant, not causal. */
static void each_encoder(void (*check)(TestModel *t, const char *name)) {
    for (int k = 0; attention_kinds[k]; k++)
        for (size_t v = 0; v < COUNTOF(test_variants); v++)
            for (int conditioned = 0; conditioned < 2; conditioned++) {
                Config c = test_variant(attention_kinds[k], test_variants[v]);
                if (conditioned && (c.noise.scope == NOISE_NONE || c.noise.span != SPAN_PAIR)) continue;
                if (c.noble.rank && c.noise.scope == NOISE_NONE) continue; /* a branch of the linears is no news here */
                c.causal = false;
                c.sliding_window = 0;
                c.noise.condition_dim = conditioned ? 4 : 0;
                const char *name = test_text("%s %s%s", attention_kinds[k]->name, test_variants[v],
                                             conditioned ? ", conditioned" : "");
                TestModel t;
                if (test_model_init(&t, &c, 19)) check(&t, name);
                test_model_free(&t);
            }
}

static double worst_of(const Mat *a, const Mat *b) {
    double worst = 0;
    for (int i = 0; i < a->n * a->d; i++) worst = fmax(worst, fabs((double)a->x[i] - b->x[i]));
    return worst;
}

/* One layer of attention: the first batch over the second, each embedded. */
static Mat *cross_attend(const Model *m, Tape *t, const Batch *rows, const Batch *source) {
    Forward *f = model_layers(m, t, rows, NULL), *of_source = model_layers(m, t, source, NULL);
    Mat *x = op_embed(t, &m->embed, rows->tokens, rows->n), *s = op_embed(t, &m->embed, source->tokens, source->n);
    return attention_cross(f, &m->blocks[0].attention, x, of_source, s);
}

/* ---- not causal ---- */

static double encoder_loss(const Model *m, void *context, bool backward) {
    const Rows *r = context;
    Tape tape;
    tape_init(&tape, true);
    Mat *loss = model_loss(&tape, model_forward(m, &tape, &r->batch, NULL), r->targets, r->weights, 1e-3f, NULL);
    if (backward) tape_backward(&tape, loss);
    double value = loss->x[0];
    tape_free(&tape);
    return value;
}

static void check_gradient(TestModel *t, const char *name) {
    Rows r;
    rows_init(&r, t->model.cfg.vocab_size, 13, 6, 1);
    test_gradient(t, name, encoder_loss, &r);
}

TEST(encoder_gradients) { each_encoder(check_gradient); }

/* Every row reacts to every token; recorded or not, the same numbers; two sequences have the bits of each alone. */
static void check_whole(TestModel *t, const char *name) {
    enum { FIRST = 75, SECOND = 40 };
    int vocab = t->model.cfg.vocab_size, before = team_size();
    Rows r;
    Tape recorded, tape;
    rows_init(&r, vocab, FIRST, SECOND, 2);
    tape_init(&recorded, true);
    tape_init(&tape, false);
    const Mat *training = model_forward(&t->model, &recorded, &r.batch, NULL);
    const Mat *both = model_forward(&t->model, &tape, &r.batch, NULL);
    double worst = 0;
    for (int i = 0; i < both->n * vocab; i++)
        worst = fmax(worst, fabs((double)both->x[i] - training->x[i]) / (1 + fabs(training->x[i])));
    CHECK_MSG(worst < 5e-5, "%s: recorded and not, the logits differ by %g", name, worst);
    for (int s = 0; s < 2; s++) {
        team_resize(1 + s);
        const Segment *seg = &r.segments[s];
        float *alone = test_serve(&t->model, r.tokens + seg->row0, seg->n, seg->noise, NULL, 0);
        CHECK_MSG(!memcmp(alone, both->x + seg->row0 * vocab, (size_t)(seg->n * vocab) * sizeof(float)),
                  "%s: sequence %d differs in a batch", name, s);
        free(alone);
    }
    team_resize(before);
    r.tokens[FIRST - 1] = (r.tokens[FIRST - 1] + 1) % vocab;
    const Mat *changed = model_forward(&t->model, &tape, &r.batch, NULL);
    for (int i = 0; i < FIRST; i++)
        CHECK_MSG(memcmp(changed->x + i * vocab, both->x + i * vocab, (size_t)vocab * sizeof(float)) != 0,
                  "%s: row %d does not see the last token", name, i);
    CHECK(!memcmp(changed->x + FIRST * vocab, both->x + FIRST * vocab, (size_t)(SECOND * vocab) * sizeof(float)));
    tape_free(&tape);
    tape_free(&recorded);
}

TEST(encoder_sees_whole_sequences) { each_encoder(check_whole); }

/* BF16 weights: scratch keys and values in pairs, odd counts of keys among them. */
static void check_bf16(TestModel *t, const char *name) {
    const char *dir = test_dir();
    Checkpoint c;
    Err err;
    Rows r, source;
    Tape tape[2];
    if (checkpoint_save(dir, &t->model, NULL, DTYPE_BF16, 1, &err) || checkpoint_open(&c, dir, &err))
        return test_fail(__FILE__, __LINE__, "%s: %s", name, err.msg);
    int vocab = c.model.cfg.vocab_size;
    rows_init(&r, vocab, 75, 40, 7);
    rows_init(&source, vocab, 33, 5, 8);
    for (int k = 0; k < 2; k++) tape_init(&tape[k], false);
    const Model *models[2] = {&t->model, &c.model};
    const Mat *logits[2], *cross[2];
    for (int k = 0; k < 2; k++) {
        logits[k] = model_forward(models[k], &tape[k], &r.batch, NULL);
        cross[k] = cross_attend(models[k], &tape[k], &r.batch, &source.batch);
    }
    CHECK_MSG(worst_of(logits[0], logits[1]) < 0.3, "%s: bf16 is off by %g", name, worst_of(logits[0], logits[1]));
    CHECK_MSG(worst_of(cross[0], cross[1]) < 0.05, "%s: bf16 is off by %g", name, worst_of(cross[0], cross[1]));
    for (int s = 0; s < 2; s++) {
        const Segment *seg = &r.segments[s];
        float *alone = test_serve(&c.model, r.tokens + seg->row0, seg->n, seg->noise, NULL, 0);
        CHECK_MSG(!memcmp(alone, logits[1]->x + seg->row0 * vocab, (size_t)(seg->n * vocab) * sizeof(float)),
                  "%s: sequence %d differs in a batch", name, s);
        free(alone);
        tape_free(&tape[s]);
    }
    checkpoint_close(&c);
}

TEST(encoder_bf16) { each_encoder(check_bf16); }

/* What has no past keys has no cache of them, and a file says whether it is causal. */
TEST(encoder_has_no_cache) {
    Config c = test_config(attention_kind_find("mha")), back;
    KvCache kv;
    Err err;
    c.causal = false;
    c.sliding_window = 0;
    CHECK(kv_init(&kv, &c, 4, DTYPE_F32, KV_EXPANDED, &err) == -1 && strstr(err.msg, "causal is false"));
    char *text = config_json_print(&c, NULL);
    CHECK(strstr(text, "\"causal\": false") && !config_json_parse(&back, NULL, text, strlen(text), &err) &&
          !back.causal);
    free(text);
    c.causal = true;
    c.task = TASK_TEXT_CLASSIFICATION;
    CHECK(kv_init(&kv, &c, 4, DTYPE_F32, KV_EXPANDED, &err) == -1 && strstr(err.msg, "task is text-classification"));
    c.task = TASK_TEXT_GENERATION;
    text = config_json_print(&c, NULL);
    CHECK(!strstr(text, "causal") && !config_json_parse(&back, NULL, text, strlen(text), &err) && back.causal);
    free(text);
}

/* Nor can it be asked for the next token, which it sees. */
TEST(encoder_predicts_no_next_token) {
    const char *dir = test_dir(), *text = trainer_text_file(4000);
    Config c = test_config(attention_kind_find("mha"));
    c.causal = false;
    c.sliding_window = 0;
    char *json = config_json_print(&c, NULL);
    const char *path = test_text("%s/config.json", dir);
    FILE *f = fopen(path, "w");
    REQUIRE(f && fputs(json, f) >= 0 && fclose(f) == 0);
    ChildResult child =
        trainer_run(test_text("pretrain --config %s --data %s --out %s/out --vocab-size 300", path, text, dir));
    CHECK_MSG(child.status == 1 && strstr(child.output, "causal is false"), "%s", child.output);
    TestModel t;
    Evaluation out;
    Err err = {""};
    REQUIRE(test_model_init(&t, &c, 3));
    CHECK(evaluate(&t.model, (TokenSpan){0}, 0, 0, KEY, NULL, &out, &err) == -1 && strstr(err.msg, "causal is false"));
    test_model_free(&t);
    free(child.output);
    free(json);
}

/* ---- cross-attention ---- */

typedef struct CrossCase {
    Rows rows, source;
} CrossCase;

static double cross_loss(const Model *m, void *context, bool backward) {
    const CrossCase *c = context;
    Tape tape;
    tape_init(&tape, true);
    Mat *y = cross_attend(m, &tape, &c->rows.batch, &c->source.batch);
    Mat *loss = model_loss(&tape, model_logits(m, &tape, y), c->rows.targets, c->rows.weights, 1e-3f, NULL);
    if (backward) tape_backward(&tape, loss);
    double value = loss->x[0];
    tape_free(&tape);
    return value;
}

static void check_cross_gradient(TestModel *t, const char *name) {
    CrossCase c;
    rows_init(&c.rows, t->model.cfg.vocab_size, 5, 9, 3);
    rows_init(&c.source, t->model.cfg.vocab_size, 12, 4, 4);
    test_gradient(t, name, cross_loss, &c);
}

TEST(cross_attention_gradients) { each_encoder(check_cross_gradient); }

/* Over a copy of its own rows it is self-attention; recorded or not, the same numbers; in a batch, the bits of alone.
 */
static void check_cross(TestModel *t, const char *name) {
    const Model *m = &t->model;
    Rows rows, source;
    Tape recorded, tape;
    rows_init(&rows, m->cfg.vocab_size, 33, 50, 5);
    rows_init(&source, m->cfg.vocab_size, 70, 3, 6);
    tape_init(&recorded, true);
    tape_init(&tape, false);
    Mat *x = op_embed(&tape, &m->embed, rows.tokens, rows.batch.n);
    const Mat *self = attention(model_layers(m, &tape, &rows.batch, NULL), &m->blocks[0].attention, x);
    double gap = worst_of(cross_attend(m, &tape, &rows.batch, &rows.batch), self);
    CHECK_MSG(gap < 1e-5, "%s: over its own rows it differs from self-attention by %g", name, gap);
    const Mat *both = cross_attend(m, &tape, &rows.batch, &source.batch);
    gap = worst_of(cross_attend(m, &recorded, &rows.batch, &source.batch), both);
    CHECK_MSG(gap < 1e-5, "%s: recorded and not, they differ by %g", name, gap);
    for (int s = 0; s < 2; s++) {
        Segment a = rows.segments[s], b = source.segments[s];
        Batch one = {.tokens = rows.tokens + a.row0, .n = a.n, .segments = &a, .n_segments = 1};
        Batch other = {.tokens = source.tokens + b.row0, .n = b.n, .segments = &b, .n_segments = 1};
        int row0 = a.row0;
        a.row0 = b.row0 = 0;
        const Mat *alone = cross_attend(m, &tape, &one, &other);
        CHECK_MSG(!memcmp(alone->x, both->x + row0 * both->d, (size_t)(alone->n * alone->d) * sizeof(float)),
                  "%s: sequence %d differs in a batch", name, s);
    }
    tape_free(&recorded);
    tape_free(&tape);
}

TEST(cross_attention_reads_other_rows) { each_encoder(check_cross); }
