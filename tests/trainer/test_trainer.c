/* The trainer's parts: data order, held-out part, ids cache, flags, evaluation, masks, log. */
#include "tests/trainer/test_trainer.h"
#include "trainer/commands/commands.h"

#include "base/err.h"
#include "base/memory.h"
#include "base/random.h"
#include "model/ops/op.h"
#include "tests/support/test.h"
#include "tokenizer/tokenizer_json.h"
#include "trainer/text/windows.h"
#include "trainer/text/pieces.h"
#include "trainer/text/evaluate.h"
#include "trainer/text/masks.h"
#include "trainer/optimizer.h"
#include "trainer/runlog.h"
#include "trainer/settings.h"
#include "weights/config_json.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* ---- data ---- */

TEST(trainer_held_out_part_starts_a_line) {
    char text[1000];
    memset(text, 'a', sizeof text);
    CHECK(texts_cut(text, 1000) == 950 && texts_cut(text, 19) == 19);
    text[960] = '\n';
    CHECK(texts_cut(text, 1000) == 961);
    text[949] = '\n';
    CHECK(texts_cut(text, 1000) == 950);
    memset(text, 'a', sizeof text);
    memcpy(text + 949, "\xE2\x82\xAC", 3);
    CHECK(texts_cut(text, 1000) == 952);
}

typedef struct Data {
    const char *text_path, *cache;
    Texts texts;
    Tokenizer *tok;
} Data;

static void data_open(Data *d, size_t n) {
    Err err;
    const char *dir = test_dir();
    *d = (Data){.text_path = trainer_text_file(n), .cache = test_text("%s/tokens.bin", dir)};
    const char *path = d->text_path;
    BUG_ON(texts_load(&d->texts, &path, 1, NULL, &err));
    BUG_ON(bpe_train(&d->tok, &(BpeCorpus){.texts = d->texts.train, .n = 1}, 300, &err));
}

static void data_close(Data *d) {
    tokenizer_free(d->tok);
    texts_free(&d->texts);
}

TEST(trainer_windows_cover_every_epoch_once) {
    enum { LENGTH = 4, N = 10 };
    uint16_t ids[LENGTH * N + 1];
    int tokens[LENGTH], targets[LENGTH], again[LENGTH];
    Windows w, other;
    Err err;
    for (int i = 0; i <= LENGTH * N; i++) ids[i] = (uint16_t)i;
    TokenSpan span = {.ids = (unsigned char *)ids, .width = 2, .n = LENGTH * N + 1};
    REQUIRE(windows_init(&w, span, LENGTH, 3, &err) == 0 && windows_init(&other, span, LENGTH, 3, &err) == 0);
    CHECK(w.rows[0].n == N);
    int order[2][N];
    for (int p = 0; p < 2 * N; p++) {
        REQUIRE(windows_read(&w, (uint64_t)p, LENGTH * N + 1, tokens, targets, &err) == 0);
        order[p / N][p % N] = tokens[0] / LENGTH;
        CHECK(tokens[0] % LENGTH == 0 && targets[0] == tokens[1] && targets[LENGTH - 1] == tokens[LENGTH - 1] + 1);
    }
    for (int epoch = 0; epoch < 2; epoch++)
        for (int k = 0, seen = 0; k < N; k++, seen = 0) {
            for (int i = 0; i < N; i++) seen += order[epoch][i] == k;
            CHECK(seen == 1);
        }
    CHECK(memcmp(order[0], order[1], sizeof order[0]));
    /* straight to a position: the same window */
    CHECK(windows_read(&other, 2 * N - 1, LENGTH * N + 1, again, targets, &err) == 0 &&
          !memcmp(again, tokens, sizeof tokens));
    windows_free(&w);
    windows_free(&other);
    span.n = LENGTH + 1;
    REQUIRE(windows_init(&w, span, LENGTH, 3, &err) == 0);
    CHECK(w.rows[0].n == 1);
    windows_free(&w);
    span.n = LENGTH;
    CHECK(windows_init(&w, span, LENGTH, 3, &err) == -1 && strstr(err.msg, "4 tokens") && strstr(err.msg, "needs 5"));
}

/* A mapped file may get any ids at any time. */
TEST(trainer_ids_out_of_range) {
    uint16_t narrow[] = {1, 2, 299, 3, 65535, 4};
    uint32_t wide[] = {1, 2, 299, 3, 4, 0x80000001};
    int tokens[5], targets[5];
    Err err;
    TokenSpan span = {.ids = (unsigned char *)narrow, .width = 2, .n = COUNTOF(narrow)};
    CHECK(span_read(&span, 0, 3, 300, tokens, targets, &err) == 0 && tokens[2] == 299 && targets[1] == 299);
    CHECK(span_read(&span, 0, 3, 299, tokens, targets, &err) == -1 && strstr(err.msg, "a token 299"));
    CHECK(span_read(&span, 0, 4, 300, tokens, targets, &err) == -1 && strstr(err.msg, "a token 65535"));
    CHECK(span_read(&span, 4, 1, 300, tokens, targets, &err) == -1 && strstr(err.msg, "vocab_size is 300"));
    span = (TokenSpan){.ids = (unsigned char *)wide, .width = 4, .n = COUNTOF(wide)};
    CHECK(span_read(&span, 0, 4, 300, tokens, targets, &err) == 0);
    CHECK(span_read(&span, 0, 5, 300, tokens, targets, &err) == -1 && strstr(err.msg, "a token 2147483649"));
}

static void check_cache(Data *d, const char *tokenizer_hash, int separator, bool rebuilt) {
    Corpus c;
    Err err;
    int rc = corpus_open(&c, d->cache, &d->texts, d->tok, tokenizer_hash, separator, &err);
    CHECK_MSG(rc == 0, "%s", err.msg);
    if (rc) return;
    CHECK_MSG(c.rebuilt == rebuilt, "rebuilt %d", c.rebuilt);
    TokenList want = {0};
    CHECK(text_encode(d->tok, d->texts.train[0].data, d->texts.train[0].n, &want, &err) == 0);
    CHECK(c.train.n == want.n && c.val.n > 10 && c.train_bytes + c.val_bytes == 20000);
    for (size_t i = 0; i < want.n && i < c.train.n; i++) CHECK(token_at(&c.train, i) == want.ids[i]);
    token_list_free(&want);
    corpus_close(&c);
}

TEST(trainer_ids_cache_notices_when_it_is_stale) {
    Data d;
    data_open(&d, 20000);
    check_cache(&d, "one", 0, true);
    check_cache(&d, "one", 0, false);
    check_cache(&d, "two", 0, true);
    check_cache(&d, "two", 5, true);
    size_t n;
    char *bytes = test_read_file(d.cache, &n);
    test_write_file(d.cache, bytes, n - 2);
    check_cache(&d, "two", 5, true);
    bytes[n - 1] = (char)0xFF; /* an id out of range */
    test_write_file(d.cache, bytes, n);
    check_cache(&d, "two", 5, true);
    test_write_file(d.cache, "", 0);
    check_cache(&d, "two", 5, true);
    free(bytes);
    char *text = test_read_file(d.text_path, &n);
    text[100] = '#';
    test_write_file(d.text_path, text, n);
    free(text);
    texts_free(&d.texts);
    Err err;
    const char *path = d.text_path;
    REQUIRE(texts_load(&d.texts, &path, 1, NULL, &err) == 0);
    check_cache(&d, "two", 5, true);
    check_cache(&d, "two", 5, false);
    data_close(&d);
}

TEST(trainer_separator_stands_between_files_only) {
    Data d;
    data_open(&d, 20000);
    const char *paths[] = {d.text_path, d.text_path, d.text_path};
    Texts texts;
    Corpus c;
    TokenList one = {0};
    Err err;
    REQUIRE(texts_load(&texts, paths, 3, VAL_NONE, &err) == 0 && texts.n_val == 0);
    REQUIRE(corpus_open(&c, d.cache, &texts, d.tok, "", 0, &err) == 0);
    REQUIRE(text_encode(d.tok, texts.train[0].data, texts.train[0].n, &one, &err) == 0);
    CHECK(c.train.n == 3 * one.n + 2 && c.val.n == 0);
    CHECK(token_at(&c.train, one.n) == 0 && token_at(&c.train, 2 * one.n + 1) == 0);
    CHECK(token_at(&c.train, c.train.n - 1) == one.ids[one.n - 1]);
    one.n = 0;
    REQUIRE(text_encode(d.tok, "a<|endoftext|>b", 15, &one, &err) == 0);
    CHECK(one.n == 3 && one.ids[1] == 0);
    token_list_free(&one);
    corpus_close(&c);
    texts_free(&texts);
    data_close(&d);
}

TEST(trainer_texts_that_cannot_be_read) {
    Texts t;
    Err err;
    const char *dir = test_dir(), *empty = test_text("%s/empty", dir);
    test_write_file(empty, "", 0);
    const char *bad[] = {"/nonexistent/x.txt", dir, empty};
    const char *message[] = {"No such file", "not a regular file", "is empty"};
    for (size_t i = 0; i < COUNTOF(bad); i++) {
        CHECK(texts_load(&t, &bad[i], 1, NULL, &err) == -1);
        CHECK_MSG(strstr(err.msg, bad[i]) && strstr(err.msg, message[i]), "%s", err.msg);
    }
}

/* ---- evaluation: the serving path against a recording forward ---- */

static double training_loss(const Model *m, const TokenSpan *span, size_t first, int n, NoiseKey noise) {
    int *tokens = xcalloc(2 * (size_t)n, sizeof *tokens), *targets = tokens + n;
    for (int i = 0; i < n; i++) {
        tokens[i] = token_at(span, first + (size_t)i);
        targets[i] = token_at(span, first + (size_t)i + 1);
    }
    Segment segment = {.n = n, .noise = noise};
    Batch batch = {.tokens = tokens, .n = n, .segments = &segment, .n_segments = 1};
    Tape tape;
    tape_init(&tape, true);
    double loss = op_cross_entropy(&tape, model_forward(m, &tape, &batch, NULL), targets, NULL)->x[0];
    tape_free(&tape);
    free(tokens);
    return loss;
}

/* Of an evaluation: how far it has come, and where it is cut short. */
typedef struct Seen {
    int64_t done, parts, end;
} Seen;

static int see_part(void *self, int64_t done, int64_t parts) {
    Seen *s = self;
    CHECK(done == s->done++ && done < parts && (done == 0 || parts == s->parts));
    s->parts = parts;
    return done == s->end;
}

TEST(trainer_evaluation_equals_the_training_loss) {
    enum { N = 32 * 20 + 11 };
    const char *path = trainer_config_file();
    Config cfg;
    Model m;
    Optimizer o;
    Err err;
    REQUIRE(config_json_load(&cfg, NULL, path, &err) == 0 && model_init(&m, &cfg, &err) == 0);
    optimizer_init(&o, &m.params, false, 1);
    Draws d = draws_open(5, DRAW_TEST, 2);
    for (size_t i = 0; i < o.n; i++) o.w[i] = (float)(0.3 * draw_normal(&d));
    uint16_t ids[N];
    for (int i = 0; i < N; i++) ids[i] = (uint16_t)draw_below(&d, 300);
    TokenSpan span = {.ids = (unsigned char *)ids, .width = 2, .n = N};
    NoiseKey noise = {.seed = 11, .scale = 1};
    double nats = 0;
    for (size_t first = 0; first < N - 1; first += 32) {
        int n = (int)MIN((size_t)32, N - 1 - first);
        nats += n * training_loss(&m, &span, first, n, noise);
    }
    Evaluation e, off;
    REQUIRE(evaluate(&m, span, 0, 0, noise, NULL, &e, &err) == 0);
    CHECK(e.complete && e.tokens == N - 1);
    double mean = e.nats / (double)e.tokens, wanted = nats / (N - 1);
    CHECK_MSG(fabs(mean - wanted) <= 1e-5 * (1 + wanted), "%.7f and %.7f", mean, wanted);
    noise.scale = 0;
    REQUIRE(evaluate(&m, span, 0, 0, noise, NULL, &off, &err) == 0);
    CHECK(fabs(off.nats - e.nats) > 1e-3);
    Seen whole = {.end = -1}, cut = {.end = 1};
    EvaluationWatch watch = {.part = see_part, .self = &whole};
    REQUIRE(evaluate(&m, span, 0, 0, noise, &watch, &e, &err) == 0 && e.complete && e.nats == off.nats);
    CHECK(whole.parts > 1 && whole.done == whole.parts);
    watch.self = &cut;
    REQUIRE(evaluate(&m, span, 0, 0, noise, &watch, &off, &err) == 0 && !off.complete);
    CHECK(off.tokens > 0 && off.tokens < e.tokens && cut.done == 2);
    REQUIRE(evaluate(&m, span, 0, 7, noise, NULL, &off, &err) == 0);
    CHECK(off.complete && off.tokens <= 7 * 32 && off.tokens > 6 * 32);
    span.n = 1;
    CHECK(evaluate(&m, span, 0, 0, noise, NULL, &off, &err) == -1);
    optimizer_free(&o);
    model_free(&m);
}

/* ---- flags and log ---- */

static int read_settings(CommandLine *line, Settings *s, int argc, char **argv, Err *err) {
    return command_line_read(line, &command_pretrain, s, argc, argv, err);
}

TEST(trainer_settings_survive_saving) {
    static char *argv[] = {"--data",     "a b",    "c",     "--lr=0.1", "--betas",  "0.8,0.123456789012345",
                           "--schedule", "linear", "--out", "x",        "--config", "y"};
    Settings a, b, c;
    CommandLine line_a, line_b, line_c;
    Err err;
    REQUIRE(read_settings(&line_a, &a, COUNTOF(argv), argv, &err) == 0 && settings_check(&line_a, &err) == 0);
    REQUIRE(settings_finish(&a, &err) == 0);
    cJSON *saved = settings_save(&command_pretrain, &a);
    static char *resumed[] = {"--out", "x", "--resume"};
    REQUIRE(read_settings(&line_b, &b, COUNTOF(resumed), resumed, &err) == 0);
    REQUIRE(settings_restore(&line_b, saved, NULL, &err) == 0);
    CHECK(b.recipe.lr == 0.1 && b.recipe.min_lr == a.recipe.min_lr && b.recipe.betas[1] == 0.123456789012345 &&
          b.recipe.schedule == SCHEDULE_LINEAR);
    CHECK(b.data.n == 2 && !strcmp(b.data.items[0], "a b") && b.warmup == 100 && isnan(b.recipe.perturb_sigma) &&
          !b.val);
    static char *other[] = {"--seed", "2", "--resume", "--out", "x"};
    REQUIRE(read_settings(&line_c, &c, COUNTOF(other), other, &err) == 0);
    CHECK(settings_restore(&line_c, saved, NULL, &err) == -1);
    CHECK_MSG(strstr(err.msg, "--seed is 2") && strstr(err.msg, "has 1"), "%s", err.msg);
    command_line_free(&line_c);

    /* of a build that did not know --dropout and --noise-per-sequence yet */
    cJSON_DeleteItemFromObject(saved, "dropout");
    cJSON_DeleteItemFromObject(saved, "noise-per-sequence");
    cJSON_DeleteItemFromObject(saved, "seed");
    static char *newer[] = {"--seed", "1", "--dropout", "0.1", "--out", "x", "--resume"};
    REQUIRE(read_settings(&line_c, &c, COUNTOF(newer), newer, &err) == 0);
    CHECK(settings_restore(&line_c, saved, NULL, &err) == -1);
    CHECK_MSG(strstr(err.msg, "--dropout is 0.1") && strstr(err.msg, "without it"), "%s", err.msg);
    command_line_free(&line_b);
    REQUIRE(read_settings(&line_b, &b, COUNTOF(resumed), resumed, &err) == 0);
    REQUIRE(settings_restore(&line_b, saved, NULL, &err) == 0);
    CHECK(b.seed == 1 && isnan(b.dropout) && !b.noise_per_sequence);
    command_line_free(&line_a);
    command_line_free(&line_b);
    command_line_free(&line_c);
    cJSON_Delete(saved);
}

/* BERT's shares, and no others at the same window; at another, or under another seed, other places. */
TEST(trainer_masks) {
    enum { N = 40000, V = 1000, END = 7 };
    Config c = {.task = TASK_FILL_MASK, .vocab_size = V, .mask_token_id = 3, .eos_token_id = END};
    int *tokens = xcalloc(4 * N, sizeof *tokens), *targets = tokens + N, *again = targets + N, *ignored = again + N;
    float *weights = xcalloc(2 * N, sizeof *weights);
    int masked = 0, same = 0, chosen = 0;
    for (int i = 0; i < N; i++) tokens[i] = again[i] = i % 10 ? 10 + i % 900 : END;
    int n = masks_apply(&c, 5, 1ull << 33, N, tokens, targets, weights);
    for (int i = 0; i < N; i++) {
        CHECK(targets[i] == again[i] && (weights[i] == 0 || weights[i] == 1));
        CHECK(weights[i] == 1 ? targets[i] != END : tokens[i] == targets[i]);
        chosen += weights[i] == 1;
        masked += weights[i] == 1 && tokens[i] == 3;
        same += weights[i] == 1 && tokens[i] == targets[i];
    }
    CHECK(n == chosen);
    CHECK_MSG(abs(n - N * 135 / 1000) < 300, "%d of %d chosen", n, N);
    CHECK_MSG(abs(masked - n * 8 / 10) < 120 && abs(same - n / 10) < 90, "of %d, %d masked and %d left", n, masked,
              same);
    memcpy(ignored, again, N * sizeof *again);
    masks_apply(&c, 5, 1ull << 33, N, again, ignored, weights + N);
    CHECK(!memcmp(again, tokens, N * sizeof *again) && !memcmp(weights, weights + N, N * sizeof *weights));
    static const struct { uint64_t seed, window; } others[] = {{5, 1ull << 33 | 1}, {5, 1ull << 34}, {6, 1ull << 33}};
    for (size_t k = 0; k < COUNTOF(others); k++) {
        int shared = 0;
        memcpy(again, targets, N * sizeof *again);
        masks_apply(&c, others[k].seed, others[k].window, N, again, ignored, weights + N);
        for (int i = 0; i < N; i++) shared += weights[i] == 1 && weights[N + i] == 1;
        CHECK_MSG(abs(shared - N * 9 * 225 / 100000) < 150, "%zu: %d shared", k, shared);
    }
    free(tokens);
    free(weights);
}

TEST(trainer_masks_the_class_behind_an_image) {
    Config c = {.vocab_size = 9, .input = {.kind = INPUT_TOKENS, .height = 2, .width = 3}};
    int tokens[8] = {8, 1, 2, 3, 4, 5, 6, 7}, targets[8] = {1, 2, 3, 4, 5, 6, 7, 8};
    float weights[8] = {0};
    CHECK(masks_any(&c, 7) && !masks_any(&c, 6) && !masks_any(&c, 8));
    CHECK(masks_apply(&c, 5, 0, 7, tokens, targets, weights) == 6);
    for (int i = 0; i < 7; i++) CHECK(weights[i] == (i < 6) && targets[i] == i + 1);
    CHECK(masks_apply(&c, 5, 0, 8, tokens, targets, weights) == 8 && weights[6] == 1 && weights[7] == 1);
    c.input.height = 0; /* of text */
    CHECK(!masks_any(&c, 1) && masks_apply(&c, 5, 0, 1, tokens, targets, weights) == 1);
}

TEST(trainer_log_is_cut_back_to_the_resumed_step) {
    const char *dir = test_dir(), *path = test_text("%s/log.jsonl", dir);
    static const char text[] = "{\"step\":1}\n{\"step\":2}\n{\"step\":3}\n{\"st";
    test_write_file(path, text, strlen(text));
    RunLog log;
    Err err;
    REQUIRE(runlog_open(&log, dir, 2, &err) == 0);
    Buffer line = runlog_line(3);
    json_put_double(&line, "loss", 3.5);
    CHECK(runlog_write(&log, &line, &err) == 0 && runlog_close(&log, &err) == 0);
    char *now = test_read_file(path, NULL);
    CHECK_MSG(now && !strcmp(now, "{\"step\":1}\n{\"step\":2}\n{\"step\":3,\"loss\":3.5}\n"), "%s", now);
    free(now);
}
