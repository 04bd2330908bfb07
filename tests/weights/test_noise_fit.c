/* noised-weights noise: what a budget buys, asked of the daemon, and that nothing else has changed. */
#include "weights/noise_fit.h"

#include "base/memory.h"
#include "base/random.h"
#include "tests/support/checkpoints.h"
#include "tests/support/http_client.h"
#include "tests/support/models.h"
#include "tests/support/test.h"
#include "tests/trainer/test_trainer.h"
#include "tokenizer/tokenizer_json.h"
#include "weights/noise_add.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { VOCAB = 19, TEXT_WORDS = 700 };

static const char *const words[VOCAB] = {"?",     "the",   "river", "mill", "stone", "wheel", "turns",
                                         "again", "slow",  "a",     "boat", "goes",  "down",  "and",
                                         "water", "night", "up",    "by",   "light"};

static int word_at(int i) {
    Draws d = draws_open(5, DRAW_TEST, (uint32_t)i);
    return 1 + (int)draw_below(&d, VOCAB - 1);
}

static void write_words(const char *dir) {
    Tokenizer *t = tokenizer_of_words(words, VOCAB, NULL);
    CHECK(t && tokenizer_json_save(t, test_text("%s/tokenizer.json", dir), NULL) == 0);
    tokenizer_free(t);
}

/* dir/text.txt, of which word i is word_at(i). */
static void write_text(const char *dir, int n) {
    char *text = xcalloc((size_t)n + 1, 8);
    for (int i = 0; i < n; i++) {
        strcat(text, words[word_at(i)]);
        strcat(text, " ");
    }
    test_write_text(dir, "text.txt", text);
    free(text);
}

/* A folder for the config, which must have VOCAB tokens. change, which may be NULL, does something to the weights. */
static const char *write_model(const Config *c, Dtype dtype, void (*change)(Model *m)) {
    TestModel t;
    Err err = {""};
    const char *dir = test_dir();
    if (!test_model_init(&t, c, 3)) return dir;
    if (change) change(&t.model);
    CHECK_MSG(checkpoint_save(dir, &t.model, NULL, dtype, 0, &err) == 0, "%s", err.msg);
    test_model_free(&t);
    write_words(dir);
    write_text(dir, TEXT_WORDS);
    return dir;
}

/* Of dir into dir/noisy. */
static bool add_noise(const char *dir, double budget) {
    FILE *said = fopen("/dev/null", "w");
    Err err = {""};
    bool ok =
        checkpoint_add_noise(dir, test_text("%s/noisy", dir), test_text("%s/text.txt", dir), budget, said, &err) == 0;
    CHECK_MSG(ok, "%s", err.msg);
    fclose(said);
    return ok;
}

/* ---- the budget ---- */

/* log p[length][VOCAB] of the token behind each of the window's, as the daemon says it. */
static bool ask(const Daemon *d, const int *tokens, int length, int seed, double (*p)[VOCAB]) {
    Buffer body = {0};
    buffer_print(&body,
                 "{\"max_tokens\":1,\"ignore_eos\":true,\"echo\":true,\"logprobs\":20,\"temperature\":0,"
                 "\"return_tokens_as_token_ids\":true,\"noise_seed\":%d,\"prompt\":[",
                 seed);
    for (int i = 0; i < length; i++) buffer_print(&body, i ? ",%d" : "%d", tokens[i]);
    buffer_text(&body, "]}");
    buffer_append(&body, "", 1);
    Answer a = http_post(d, "/v1/completions", body.data);
    const cJSON *all = json_at(a.json, "choices.0.logprobs.top_logprobs"), *row = all ? all->child : NULL, *x;
    CHECK_MSG(cJSON_GetArraySize(all) == length + 1, "%d: %s", a.status, a.body);
    for (int i = 0; row && (row = row->next) && i < length; i++) {
        CHECK(cJSON_GetArraySize(row) == VOCAB);
        cJSON_ArrayForEach(x, row) p[i][atoi(x->string + strlen("token_id:"))] = x->valuedouble;
    }
    bool ok = all && !row;
    buffer_free(&body);
    return ok;
}

/* The mean over windows, seeds and tokens of KL(plain || noisy), by two daemons. */
static double served_divergence(const char *dir, int length) {
    static double p[NOISE_FIT_LENGTH][VOCAB], q[NOISE_FIT_LENGTH][VOCAB];
    int tokens[NOISE_FIT_LENGTH];
    double sum = 0;
    Daemon d[2] = {0};
    bool ok = daemon_start_at(&d[0], dir, NULL) && daemon_start_at(&d[1], test_text("%s/noisy", dir), NULL);
    for (int w = 0; w < NOISE_FIT_WINDOWS && ok; w++) {
        int first = (TEXT_WORDS - length) * w / (NOISE_FIT_WINDOWS - 1);
        for (int i = 0; i < length; i++) tokens[i] = word_at(first + i);
        ok = ask(&d[0], tokens, length, w, p) && ask(&d[1], tokens, length, w, q);
        for (int i = 0; i < length; i++)
            for (int v = 0; v < VOCAB; v++) sum += exp(p[i][v]) * (p[i][v] - q[i][v]);
    }
    for (int i = 0; i < 2; i++)
        if (d[i].pid) daemon_stop(&d[i]);
    return ok ? sum / (NOISE_FIT_WINDOWS * length) : NAN;
}

static void check_budget(const Config *c, Dtype dtype, double budget, const char *what) {
    const char *dir = write_model(c, dtype, NULL);
    if (add_noise(dir, budget)) {
        double nats = served_divergence(dir, MIN(c->max_positions, NOISE_FIT_LENGTH));
        CHECK_MSG(fabs(nats - budget) <= 0.0055 * budget, "%s: %g nats of %g", what, nats, budget);
    }
}

static Config rotated(const char *kind) {
    Config c = test_config(attention_kind_find(kind));
    c.position = POSITION_ROPE;
    return c;
}

/* GPT-2's form, Qwen's, a kind whose queries are absorbed into latents; windows of 128, of 256 and of 64. */
TEST(noise_fit_meets_the_budget_as_served) {
    Config gpt2 = test_config(attention_kind_find("mha")), qwen = rotated("gqa"), mla = rotated("mla");
    qwen.bias = BIAS_QKV;
    qwen.max_positions = 300;
    mla.max_positions = 64;
    if (!SANITIZED) check_budget(&gpt2, DTYPE_F32, 0.05, "gpt2");
    if (!SANITIZED) check_budget(&qwen, DTYPE_BF16, 0.05, "qwen");
    check_budget(&mla, DTYPE_F32, 0.002, "mla");
}

/* ---- the share of each head ---- */

/* The same network with queries of layer 1, head 1, four times as long, and its keys a quarter. */
static void stretch(Model *m) {
    static const struct {
        const char *name;
        float factor;
    } parts[] = {{"q_proj.weight", 4}, {"q_proj.bias", 4}, {"k_proj.weight", 0.25f}, {"k_proj.bias", 0.25f}};
    for (size_t i = 0; i < COUNTOF(parts); i++) {
        const Weight *w = params_find(&m->params, test_text("model.layers.1.self_attn.%s", parts[i].name))->weight;
        size_t n = weight_count(w) / 2;
        for (size_t k = 0; k < n; k++) weight_f32(w)[n + k] *= parts[i].factor;
    }
}

TEST(noise_fit_gives_heads_equal_strength) {
    Config c = rotated("mha");
    const char *dir[2] = {write_model(&c, DTYPE_F32, NULL), write_model(&c, DTYPE_F32, stretch)};
    float sigma[2][4];
    for (int i = 0; i < 2; i++) {
        Checkpoint made;
        REQUIRE(add_noise(dir[i], 0.05));
        REQUIRE(checkpoint_open(&made, test_text("%s/noisy", dir[i]), NULL) == 0);
        for (int k = 0; k < 4; k++) sigma[i][k] = weight_f32(&made.model.blocks[k / 2].attention.noise.sigma)[k % 2];
        checkpoint_close(&made);
    }
    for (int k = 0; k < 4; k++)
        CHECK_MSG(sigma[1][k] == sigma[0][k] * (k == 3 ? 4 : 1) && sigma[0][k] > 0, "head %d: %g and %g", k,
                  (double)sigma[0][k], (double)sigma[1][k]);
}

/* ---- what comes of other programs' folders ---- */

static void check_weights(const Model *was, const Model *is, const char *what) {
    CHECK(is->params.n == was->params.n + was->cfg.n_layers);
    for (int i = 0; i < was->params.n; i++) {
        const Weight *a = was->params.params[i].weight;
        const Param *p = params_find(&is->params, a->name);
        size_t bytes = weight_count(a) * dtype_size(a->dtype);
        CHECK_MSG(p && p->weight->dtype == a->dtype && !memcmp(p->weight->data, a->data, bytes), "%s: %s", what,
                  a->name);
    }
}

static void check_silent(const Model *was, const Model *is, const char *what) {
    enum { LENGTH = 24 };
    int tokens[LENGTH], vocab = was->cfg.vocab_size;
    for (int i = 0; i < LENGTH; i++) tokens[i] = word_at(i);
    float *x = test_serve(was, tokens, LENGTH, (NoiseKey){0}, (int[]){5, 1}, 2);
    float *y = test_serve(is, tokens, LENGTH, (NoiseKey){0}, (int[]){5, 1}, 2);
    float *z = test_serve(is, tokens, LENGTH, (NoiseKey){.scale = 1}, (int[]){5, 1}, 2);
    size_t bytes = (size_t)(LENGTH * vocab) * sizeof *x;
    CHECK_MSG(!memcmp(x, y, bytes) && memcmp(x, z, bytes), "%s: logits at scale 0 and 1", what);
    free(x);
    free(y);
    free(z);
}

static const char *foreign_folder(const char *name) {
    static const char *const files[] = {"config.json", "model.safetensors"};
    const char *dir = test_dir();
    for (size_t i = 0; i < COUNTOF(files); i++) {
        BUG_ON(system(test_text("cp tests/golden_foreign/%s/%s %s", name, files[i], dir)));
    }
    write_words(dir);
    write_text(dir, TEXT_WORDS);
    return dir;
}

static void check_foreign(const char *name) {
    const char *dir = foreign_folder(name);
    Checkpoint was, is;
    REQUIRE(add_noise(dir, 0.02));
    REQUIRE(checkpoint_open(&was, dir, NULL) == 0 && checkpoint_open(&is, test_text("%s/noisy", dir), NULL) == 0);
    CHECK(is.model.cfg.noise.scope == NOISE_HEAD && is.model.cfg.noise.span == SPAN_SEQUENCE);
    check_weights(&was.model, &is.model, name);
    check_silent(&was.model, &is.model, name);
    checkpoint_close(&was);
    checkpoint_close(&is);
}

TEST(noise_fit_leaves_weights_alone) {
    static const char *const names[] = {"llama3", "mistral", "qwen2", "qwen3", "smollm2"};
    for (size_t i = 0; i < COUNTOF(names); i++) check_foreign(names[i]);
}

TEST(noise_fit_same_bytes_again) {
    char hex[2][65];
    for (int i = 0; i < 2; i++) {
        const char *dir = foreign_folder("qwen2");
        REQUIRE(add_noise(dir, 0.02));
        trainer_hash_file(test_text("%s/noisy", dir), "model.safetensors", hex[i]);
    }
    CHECK(!strcmp(hex[0], hex[1]));
}

/* ---- what is served ---- */

static char *greedy(const Daemon *d, int seed) {
    Answer a = http_post(
        d, "/v1/completions",
        test_text(
            "{\"prompt\":\"the river\",\"max_tokens\":40,\"temperature\":0,\"ignore_eos\":true,\"noise_seed\":%d}",
            seed));
    CHECK_MSG(a.status == 200, "%d %s", a.status, a.body);
    char *text = xstrdup(answer_text(&a, 0));
    return text;
}

TEST(noise_fit_gives_answers_seeds) {
    enum { SEEDS = 8 };
    Config c = rotated("gqa");
    const char *dir = write_model(&c, DTYPE_F32, NULL);
    char *text[SEEDS];
    Daemon d;
    int different = 0;
    REQUIRE(add_noise(dir, 0.05));
    REQUIRE(daemon_start_at(&d, test_text("%s/noisy", dir), NULL));
    for (int s = 0; s < SEEDS; s++) {
        bool seen = false;
        text[s] = greedy(&d, s);
        for (int k = 0; k < s; k++) seen = seen || !strcmp(text[k], text[s]);
        different += !seen;
    }
    CHECK_MSG(different > SEEDS / 2, "%d different answers of %d seeds", different, SEEDS);
    for (int s = 0; s < SEEDS; s++) {
        char *again = greedy(&d, s);
        CHECK_MSG(!strcmp(text[s], again), "seed %d: \"%s\", then \"%s\"", s, text[s], again);
        free(text[s]);
        free(again);
    }
    daemon_stop(&d);
}

/* ---- what is refused ---- */

static void check_refused(const char *dir, const char *options, const char *why) {
    char arguments[800], output[4096], path[300];
    snprintf(arguments, sizeof arguments, "noise %s --data %s/text.txt %s %s/noisy", options, dir, dir, dir);
    int status = test_run_tool(arguments, output);
    CHECK_MSG(status == 1 && strstr(output, why), "%s: status %d, wanted \"%s\":\n%s", arguments, status, why, output);
    snprintf(path, sizeof path, "%s/noisy", dir);
    CHECK_MSG(access(path, F_OK) != 0, "%s: left %s", arguments, path);
}

TEST(noise_fit_refusals) {
    Config plain = rotated("mha"), noisy = plain, masks = plain;
    const char *dir = write_model(&plain, DTYPE_F32, NULL);
    char output[4096];
    check_refused(dir, "--budget 50", "a budget of 50 nats cannot be reached: noise 64 times as long as the queries");
    write_text(dir, 20);
    check_refused(dir, "", "text.txt: the text has 20 tokens, a window has 128");
    const char *path = test_text("%s/text.txt", dir);
    test_write_file(path, "\x1F\x8B\x08", 3);
    check_refused(dir, "", "text.txt: byte 1 is 0x8B, so this is no text in UTF-8");
    test_write_file(path, "a\0b", 4);
    check_refused(dir, "", "text.txt: byte 1 is 0x00, so this is no text in UTF-8");
    REQUIRE(unlink(test_text("%s/tokenizer.json", dir)) == 0);
    check_refused(dir, "", "has no tokenizer.json, so no text can be read");
    CHECK(test_run_tool(test_text("noise --data %s/text.txt %s %s", dir, dir, dir), output) == 1 &&
          strstr(output, "exists already, must be a new folder"));
    noisy.noise.scope = NOISE_LAYER;
    dir = write_model(&noisy, DTYPE_F32, NULL);
    check_refused(dir, "", "has noise already: noise.scope is layer, noise.span pair");
    masks.causal = false;
    masks.task = TASK_FILL_MASK;
    dir = write_model(&masks, DTYPE_F32, NULL);
    check_refused(dir, "", "generates no text: task is fill-mask, causal is false");
    plain.hidden_size = 64;
    dir = write_model(&plain, DTYPE_I8, NULL);
    check_refused(dir, "", "is I8: add noise to what it was made from, then quantize");
}
