/* int8: codes, products, folders. */
#include "base/err.h"
#include "base/random.h"
#include "model/kernels/blas.h"
#include "model/kernels/kernels.h"
#include "tests/support/checkpoints.h"
#include "tests/support/models.h"
#include "tests/support/test.h"
#include "weights/convert.h"
#include "weights/quantize.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { G = INT8_GROUP };

static void fill(float *x, size_t n, uint32_t index) {
    Draws d = draws_open(23, DRAW_TEST, index);
    for (size_t i = 0; i < n; i++) x[i] = (float)draw_normal(&d);
}

TEST(int8_codes) {
    const Kernels *levels[KERNELS_LEVELS];
    for (int l = 0, n_levels = kernels_available(levels); l < n_levels; l++) {
        float x[4 * G] = {0}, scale[4];
        int8_t code[4 * G];
        fill(x, G, 1);
        x[G] = 127, x[G + 1] = -127, x[G + 2] = 0.5f, x[G + 3] = 1.5f, x[G + 4] = -2.5f, x[G + 5] = 63.4f;
        x[2 * G + 9] = 190 * 0x1p-149f; /* a scale that rounds to one step of the subnormals: 190 must not wrap */
        levels[l]->to_int8(4 * G, x, code, scale);
        float largest = 0;
        for (int i = 0; i < G; i++) largest = fmaxf(largest, fabsf(x[i]));
        CHECK(scale[0] == largest / 127);
        for (int i = 0; i < G; i++) {
            CHECK(fabsf(x[i] - scale[0] * code[i]) <= scale[0] * 0.5001f);
            CHECK(code[i] == (int)nearbyintf(x[i] / scale[0]));
        }
        static const int8_t ties[6] = {127, -127, 0, 2, -2, 63};
        CHECK(scale[1] == 1 && !memcmp(code + G, ties, sizeof ties) && code[G + 6] == 0);
        CHECK(scale[2] == 0x1p-149f && code[2 * G + 9] == 127);
        CHECK(scale[3] == 0 && code[3 * G] == 0);
        x[5] = INFINITY, x[G] = NAN, x[3 * G] = -INFINITY;
        levels[l]->to_int8(4 * G, x, code, scale);
        CHECK(isnan(scale[0]) && isnan(scale[1]) && !isnan(scale[2]) && isnan(scale[3]) && code[0] == 0);
    }
}

/* Every level of the common arithmetic gives the bits of plain loops (how near blas comes has a test with its kernels);
 * on all that are fit to be chosen a row alone gives those it has among others. */
TEST(int8_products) {
    enum { N = 70, OUT = 39, GROUPS = 3, K = GROUPS * G };
    static int8_t x[N * K], w[OUT * K];
    static float xs[N * GROUPS], ws[OUT * GROUPS], y[N][OUT + 2], alone[OUT];
    const Kernels *levels[KERNELS_LEVELS];
    Draws d = draws_open(29, DRAW_TEST, 0);
    for (int i = 0; i < N * K; i++) x[i] = (int8_t)((int)draw_below(&d, 255) - 127);
    for (int i = 0; i < OUT * K; i++) w[i] = (int8_t)((int)draw_below(&d, 256) - 128);
    for (int i = 0; i < K; i++) x[i] = 127, w[i] = -128; /* the largest sum there is */
    fill(xs, N * GROUPS, 2);
    fill(ws, OUT * GROUPS, 3);
    xs[7] = NAN;
    for (int l = 0, n_levels = kernels_available(levels); l < n_levels; l++) {
        bool common = !strcmp(levels[l]->arithmetic, "common"), fit = common || !blas_fault();
        levels[l]->gemm_i8(N, OUT, K, x, xs, w, ws, &y[0][0], OUT + 2);
        for (int i = 0; i < N; i++) {
            for (int o = 0; o < OUT && common; o++) {
                float want = 0;
                for (int g = 0; g < GROUPS; g++) {
                    int dot = 0;
                    for (int k = 0; k < G; k++) dot += x[i * K + g * G + k] * w[o * K + g * G + k];
                    want = fmaf((float)dot, xs[i * GROUPS + g] * ws[o * GROUPS + g], want);
                }
                CHECK_MSG(y[i][o] == want || (isnan(want) && isnan(y[i][o])), "%s [%d, %d]: %g, %g", levels[l]->name, i,
                          o, (double)y[i][o], (double)want);
            }
            levels[l]->gemm_i8(1, OUT, K, x + i * K, xs + i * GROUPS, w, ws, alone, OUT);
            CHECK(i == 2 || !fit || !memcmp(alone, y[i], sizeof alone)); /* row 2 has the NaN */
        }
    }
}

/* ---- folders ---- */

static void check_weight(const Weight *from, const Weight *to, bool matrix) {
    size_t n = weight_count(from);
    bool fits = matrix && from->n_dims == 2 && from->dims[1] % G == 0;
    Dtype want = fits ? DTYPE_I8 : matrix ? DTYPE_BF16 : DTYPE_F32;
    CHECK_MSG(to->dtype == want, "%s is %s", to->name, dtype_name(to->dtype));
    for (size_t k = 0; k < n; k++) {
        float v = weight_f32(from)[k], got;
        weight_read(to, k, 1, &got);
        double limit = fits ? to->scale[k / G] * 0.5001 : matrix ? fabs(v) / 256 : 0;
        CHECK_MSG(fabs((double)got - v) <= limit, "%s[%zu] is %g, was %g", to->name, k, (double)got, (double)v);
    }
}

/* Noise off: what is compared is the rounding, which these wild weights amplify (bf16 comes to 0.02). */
static double distance(const Model *a, const Model *b, KvForm form) {
    enum { LENGTH = 20 };
    int tokens[LENGTH], vocab = a->cfg.vocab_size;
    for (int i = 0; i < LENGTH; i++) tokens[i] = (31 * i + 5) % vocab;
    float *x = test_serve_form(a, tokens, LENGTH, (NoiseKey){0}, (int[]){7}, 1, form);
    float *y = test_serve_form(b, tokens, LENGTH, (NoiseKey){0}, (int[]){3, 1}, 2, form);
    float *again = test_serve_form(b, tokens, LENGTH, (NoiseKey){0}, (int[]){LENGTH}, 1, form);
    CHECK(!memcmp(y, again, (size_t)(LENGTH * vocab) * sizeof *y)); /* whatever the chunks */
    double sum = 0, error = 0;
    for (int i = 0; i < LENGTH * vocab; i++) {
        sum += (double)x[i] * x[i];
        error += ((double)x[i] - y[i]) * ((double)x[i] - y[i]);
    }
    free(x);
    free(y);
    free(again);
    return sqrt(error / sum);
}

static void check_quantized(const Config *cfg, const char *what) {
    char *dir = test_dir(), *parent = test_dir(), to[256], again[256];
    Checkpoint a, b;
    Err err = {""};
    Dtype int8 = DTYPE_I8;
    test_checkpoint_save(dir, cfg, DTYPE_F32);
    test_path(to, parent, "new/int8"); /* parents are made */
    test_path(again, parent, "newer/again");
    int rc = test_convert(dir, to, &int8, &err);
    CHECK_MSG(rc == 0, "%s: %s", what, err.msg);
    REQUIRE(rc == 0 && checkpoint_open(&a, dir, NULL) == 0);
    rc = checkpoint_open(&b, to, &err);
    CHECK_MSG(rc == 0, "%s: %s", what, err.msg);
    REQUIRE(rc == 0);
    CHECK(!strcmp(b.model.cfg.torch_dtype, "int8") && !strcmp(b.shards.files[0].metadata_step, "7"));
    for (int i = 0; i < a.model.params.n; i++)
        check_weight(a.model.params.params[i].weight, b.model.params.params[i].weight, a.model.params.params[i].matrix);
    for (int form = KV_EXPANDED; form <= KV_COMPACT; form++) {
        double d = distance(&a.model, &b.model, (KvForm)form);
        CHECK_MSG(d < 0.15, "%s: logits differ by %.3f of their size", what, d);
    }
    checkpoint_close(&a);
    checkpoint_close(&b);
    CHECK(test_convert(to, again, &int8, &err) == -1 &&
          strstr(err.msg, "model.embed_tokens.weight is I8, whose exact values are gone: save from the original"));
    test_path(again, parent, "newer");
    CHECK(access(again, F_OK)); /* and go again with what was refused */
    free(dir);
    free(parent);
}

TEST(int8_folders) {
    Config c = test_checkpoint_config();
    check_quantized(&c, "gqa, all switches on");
    c.attention.kind = attention_kind_find("mla");
    c.n_kv_heads = c.n_heads;
    c.sas.heads = c.noble.rank = 0;
    for (int k = 0; k < 5; k++) c.attention.values[k] = (int[]){64, 64, 16, 8, 16}[k];
    check_quantized(&c, "mla");
    c.attention.kind = attention_kind_find("symmetric");
    c.position = POSITION_LEARNED;
    c.tie_embeddings = false;
    c.mlp.gated = false;
    check_quantized(&c, "symmetric, untied");
}

TEST(int8_refuses_what_is_not_finite) {
    char *dir = test_dir(), *to = test_dir(), out[4096], arguments[600];
    Config cfg = test_checkpoint_config();
    TestModel t;
    REQUIRE(test_model_init(&t, &cfg, 5));
    weight_f32(params_find(&t.model.params, "model.layers.1.mlp.gate_up_proj.weight")->weight)[100] = -INFINITY;
    REQUIRE(checkpoint_save(dir, &t.model, NULL, DTYPE_F32, 0, NULL) == 0);
    static const char *const commands[] = {"quantize --dtype int8", "import --dtype f32", "import"};
    for (size_t i = 0; i < COUNTOF(commands); i++) {
        snprintf(arguments, sizeof arguments, "%s %s %s/new/int8", commands[i], dir, to);
        CHECK_MSG(test_run_tool(arguments, out) == 1 &&
                      strstr(out, "model.layers.1.mlp.gate_up_proj.weight holds NaN or infinity, first at element 100"),
                  "%s: %s", commands[i], out);
        snprintf(arguments, sizeof arguments, "%s/new", to);
        CHECK_MSG(access(arguments, F_OK), "%s leaves a folder", commands[i]);
    }
    weight_f32(params_find(&t.model.params, "model.layers.1.mlp.gate_up_proj.weight")->weight)[100] = 0;
    REQUIRE(checkpoint_save(dir, &t.model, NULL, DTYPE_F32, 0, NULL) == 0);
    snprintf(arguments, sizeof arguments, "quantize %s %s/good && ${BUILD:-build}/noised-weights verify %s/good", dir,
             to, to);
    CHECK_MSG(test_run_tool(arguments, out) == 0 && strstr(out, "\nok "), "%s", out);
    test_model_free(&t);
    free(dir);
    free(to);
}

TEST(checkpoint_tool_says_what_it_wrote) {
    Config cfg = test_checkpoint_config();
    char *dir = test_dir(), *to = test_dir(), out[4096], arguments[700];
    test_checkpoint_save(dir, &cfg, DTYPE_F32);
    test_write_text(dir, GENERATION_FILE, "{\"temperature\":0.6,\"num_beams\":4}");
    static const struct {
        const char *command, *said;
    } cases[] = {
        {"quantize",
         "\nmatrices: 21 I8, 28 BF16, whose rows are no whole groups of 64; vectors and the like: 109 F32\n"},
        {"import --dtype bf16", "\nmatrices: 49 BF16; vectors and the like: 109 F32\n"},
    };
    for (size_t i = 0; i < COUNTOF(cases); i++) {
        snprintf(arguments, sizeof arguments, "%s %s %s/%zu", cases[i].command, dir, to, i);
        CHECK_MSG(test_run_tool(arguments, out) == 0 && strstr(out, cases[i].said), "%s", out);
    }
    snprintf(arguments, sizeof arguments, "verify %s", dir);
    CHECK_MSG(test_run_tool(arguments, out) == 0 &&
                  strstr(out, "\ntokenizer: none, so prompts are token ids and answers have no text\n"
                              "chat: the model has no chat template, neither chat_template.jinja nor in "
                              "tokenizer_config.json; the option --chat-template NAME|FILE says which to use\n"
                              "requests that do not say: temperature 0.6\n"
                              "not used of generation_config.json: num_beams\n"),
              "%s", out);
    free(dir);
    free(to);
}
