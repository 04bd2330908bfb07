/* minGPT's trained sorter of six digits 0..2, in Hugging Face's gpt2 layout: every intermediate activation of its own
 * forward pass is on file, and so must ours be; and it must sort. */
#include "base/err.h"
#include "base/json/json.h"
#include "base/memory.h"
#include "model/ops/op.h"
#include "tests/support/checkpoints.h"
#include "tests/support/http_client.h"
#include "tests/support/models.h"
#include "tests/support/test.h"
#include "weights/convert.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { SEQUENCES = 3, LENGTH = 11, ROWS = SEQUENCES * LENGTH, DIGITS = 6 };

#define FOLDER "checkpoints/gpt-nano-sort"
#define NO_DATA "no " FOLDER " beside the checkout"

/* The imported checkpoint; false without the data. */
static bool open_sorter(Checkpoint *c) {
    const char *dir = test_dir(), *from = test_shared(FOLDER);
    Err err = {""};
    const char *to = test_text("%s/sorter", dir);
    bool open = from && test_convert(from, to, NULL, &err) == 0 && checkpoint_open(c, to, &err) == 0;
    CHECK_MSG(open || !from, "%s", err.msg);
    return open;
}

static cJSON *read_json(const char *name) {
    const char *path = test_shared(name);
    char *text = path ? test_read_file(path, NULL) : NULL;
    cJSON *json = text ? cJSON_Parse(text) : NULL;
    free(text);
    return json;
}

/* ---- activations ---- */

static int base64_digit(char c) {
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    const char *at = c ? strchr(digits, c) : NULL;
    return at ? (int)(at - digits) : -1;
}

/* n floats, little endian, in base 64. */
static void decode_floats(const char *text, float *out, size_t n) {
    unsigned char *bytes = (unsigned char *)out;
    uint32_t bits = 0;
    size_t filled = 0, at = 0;
    for (; at < n * sizeof *out && base64_digit(*text) >= 0; text++) {
        bits = bits << 6 | (uint32_t)base64_digit(*text);
        filled += 6;
        if (filled < 8) continue;
        filled -= 8;
        bytes[at++] = (unsigned char)(bits >> filled);
    }
    BUG_ON(at != n * sizeof *out);
}

/* x against columns first.. of the expected [ROWS, width]. */
static void compare(const cJSON *partials, const char *name, const Mat *x, int first, int width) {
    const cJSON *data = cJSON_GetObjectItemCaseSensitive(cJSON_GetObjectItemCaseSensitive(partials, name), "data");
    float *want = xmalloc((size_t)(ROWS * width) * sizeof *want);
    decode_floats(data->valuestring, want, (size_t)(ROWS * width));
    double worst = 0;
    for (int i = 0; i < ROWS; i++)
        for (int k = 0; k < x->d; k++) {
            double d = fabs((double)x->x[i * x->d + k] - want[i * width + first + k]);
            if (!(d <= worst)) worst = d;
        }
    CHECK_MSG(worst < 1e-5, "%s differs by %.2e", name, worst);
    free(want);
}

/* The block as transformer.c has it, a step at a time; the first one is on file in full. */
static Mat *compare_block(Forward *f, const Model *m, const cJSON *partials, Mat *x) {
    static const char *const names[] = {"q", "k", "v"};
    const Block *b = &m->blocks[f->layer];
    bool full = f->layer == 0;
    Mat *y = norm(f, &b->attention_norm, x);
    if (full) compare(partials, "ln1", y, 0, 48);
    for (int i = 0; i < 3 && full; i++) {
        const Weight *w =
            params_find(&m->params, test_text("model.layers.0.self_attn.%s_proj.weight", names[i]))->weight;
        compare(
            partials, "qkv",
            op_linear(f->tape, y, w,
                      params_find(&m->params, test_text("model.layers.0.self_attn.%s_proj.bias", names[i]))->weight),
            48 * i, 144);
    }
    y = attention(f, &b->attention, y);
    if (full) compare(partials, "yProj", y, 0, 48);
    x = op_residual(f->tape, x, y);
    if (full) compare(partials, "attnResid", x, 0, 48);
    y = norm(f, &b->mlp_norm, x);
    if (full) compare(partials, "ln2", y, 0, 48);
    if (full) {
        Mat *h = linear(f, &b->mlp.up, y);
        compare(partials, "fc", h, 0, 192);
        compare(partials, "gelu", op_activation(f->tape, h, m->cfg.mlp.activation), 0, 192);
    }
    y = mlp(f, &b->mlp, y);
    if (full) compare(partials, "mlp", y, 0, 48);
    x = op_residual(f->tape, x, y);
    if (full) compare(partials, "mlpResid", x, 0, 48);
    compare(partials, test_text("block%d", f->layer), x, 0, 48);
    return x;
}

static void compare_forward(const Model *m, const cJSON *partials, bool training) {
    static const int blocks[SEQUENCES] = {2, 0, 1};
    float ids[ROWS];
    int tokens[ROWS], positions[ROWS];
    Segment segments[SEQUENCES];
    KvCache kv;
    Tape tape;
    decode_floats(
        cJSON_GetObjectItemCaseSensitive(cJSON_GetObjectItemCaseSensitive(partials, "idx"), "data")->valuestring, ids,
        ROWS);
    for (int i = 0; i < ROWS; i++) {
        tokens[i] = (int)ids[i];
        positions[i] = i % LENGTH;
    }
    for (int s = 0; s < SEQUENCES; s++)
        segments[s] = (Segment){.row0 = s * LENGTH, .n = LENGTH, .blocks = training ? NULL : &blocks[s]};
    Batch batch = {.tokens = tokens, .n = ROWS, .segments = segments, .n_segments = SEQUENCES};
    BUG_ON(kv_init(&kv, &m->cfg, SEQUENCES, DTYPE_F32, KV_EXPANDED, NULL));
    tape_init(&tape, training);
    Forward *layers = model_layers(m, &tape, &batch, training ? NULL : &kv);
    Mat *x = op_embed(&tape, &m->embed, tokens, ROWS);
    compare(partials, "tok_emb", x, 0, 48);
    x = op_residual(&tape, x, op_embed(&tape, &m->positions, positions, ROWS));
    compare(partials, "x", x, 0, 48);
    for (int l = 0; l < m->cfg.n_layers; l++) x = compare_block(&layers[l], m, partials, x);
    x = norm(layers, &m->norm, x);
    compare(partials, "ln_f", x, 0, 48);
    compare(partials, "lm_head", op_linear(&tape, x, &m->lm_head, NULL), 0, 3);
    compare(partials, "lm_head", model_forward(m, &tape, &batch, training ? NULL : &kv), 0, 3);
    tape_free(&tape);
    kv_free(&kv);
}

TEST(import_sort_activations) {
    Checkpoint c;
    cJSON *partials = read_json(FOLDER "/gpt-nano-sort-t0-partials.json");
    if (!partials || !open_sorter(&c)) SKIP(NO_DATA);
    compare_forward(&c.model, partials, false);
    compare_forward(&c.model, partials, true);
    checkpoint_close(&c);
    cJSON_Delete(partials);
}

TEST(import_sort_logits) {
    Checkpoint c;
    cJSON *expected = read_json(FOLDER "/expected.json");
    if (!expected || !open_sorter(&c)) SKIP(NO_DATA);
    for (int s = 0; s < SEQUENCES; s++) {
        int tokens[LENGTH];
        const cJSON *ids = cJSON_GetArrayItem(cJSON_GetObjectItemCaseSensitive(expected, "input_ids"), s);
        const cJSON *rows = cJSON_GetArrayItem(cJSON_GetObjectItemCaseSensitive(expected, "logits"), s);
        for (int i = 0; i < LENGTH; i++) tokens[i] = cJSON_GetArrayItem(ids, i)->valueint;
        float *logits = test_serve(&c.model, tokens, LENGTH, (NoiseKey){0}, (int[]){4}, 1);
        for (int i = 0; i < LENGTH * 3; i++) {
            double want = cJSON_GetArrayItem(cJSON_GetArrayItem(rows, i / 3), i % 3)->valuedouble;
            CHECK_MSG(fabs(logits[i] - want) < 1e-5, "[%d, %d, %d]: %g, %g", s, i / 3, i % 3, (double)logits[i], want);
        }
        free(logits);
    }
    checkpoint_close(&c);
    cJSON_Delete(expected);
}

/* ---- sorting ---- */

/* Six digits in, six greedy digits out: all 729 inputs in batches of prompts through the daemon, by token ids, for the
 * model has no tokenizer. */
TEST(import_sort_sorts_everything_through_the_daemon) {
    enum { INPUTS = 729, BATCH = 81 };
    const char *from = test_shared(FOLDER);
    Err err;
    Daemon d;
    if (!from) SKIP(NO_DATA);
    const char *dir = test_dir();
    const char *to = test_text("%s/sorter", dir);
    REQUIRE(test_convert(from, to, NULL, &err) == 0);
    REQUIRE(daemon_start_at(&d, to, NULL));
    int n_sorted = 0;
    for (int first = 0; first < INPUTS; first += BATCH) {
        int count[BATCH][3] = {{0}};
        char body[8192];
        size_t n = (size_t)sprintf(body, "{\"max_tokens\":6,\"temperature\":0,\"return_token_ids\":true,\"prompt\":");
        for (int k = 0; k < BATCH; k++) {
            for (int i = 0, rest = first + k; i < DIGITS; i++, rest /= 3) {
                count[k][rest % 3]++;
                n += (size_t)sprintf(body + n, "%s%d", i ? "," : k ? ",[" : "[[", rest % 3);
            }
            n += (size_t)sprintf(body + n, "]");
        }
        sprintf(body + n, "]}");
        Answer a = http_post(&d, "/v1/completions", body);
        for (int k = 0; k < BATCH; k++) {
            bool sorted = a.status == 200;
            for (int i = 0; i < DIGITS && sorted; i++) {
                sorted = json_number(a.json, test_text("choices.%d.token_ids.%d", k, i)) ==
                         (i < count[k][0]                 ? 0
                          : i < count[k][0] + count[k][1] ? 1
                                                          : 2);
            }
            n_sorted += sorted;
        }
    }
    CHECK_MSG(n_sorted == INPUTS, "%d of %d", n_sorted, INPUTS);
    CHECK(daemon_stop(&d) == 0);
}
