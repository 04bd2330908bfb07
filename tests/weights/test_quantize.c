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
#include <sys/stat.h>
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

/* Quotients at and beside ties round as a division does, whatever the scale. */
TEST(int8_codes_beside_ties) {
    enum { SCALES = 2000 };
    const Kernels *levels[KERNELS_LEVELS];
    int n_levels = kernels_available(levels);
    Draws d = draws_open(31, DRAW_TEST, 0);
    for (int trial = 0; trial < SCALES; trial++) {
        float s = ldexpf(1 + (float)draw_below(&d, 1 << 23) * 0x1p-23f, (int)draw_below(&d, 140) - 125);
        float x[G] = {127 * s}, scale;
        s = x[0] / 127;
        for (int i = 1; i < G; i++) {
            float tie = (float)draw_below(&d, 127) + 0.5f;
            x[i] = tie * s;
            for (unsigned ulps = draw_below(&d, 4); ulps; ulps--) x[i] = nextafterf(x[i], i % 2 ? 0 : INFINITY);
            if (i % 3 == 0) x[i] = -x[i];
        }
        for (int l = 0; l < n_levels; l++) {
            int8_t code[G];
            levels[l]->to_int8(G, x, code, &scale);
            CHECK(scale == s);
            for (int i = 0; i < G; i++)
                CHECK_MSG(code[i] == (int)nearbyintf(x[i] / s), "%s: %a / %a: %d", levels[l]->name, x[i], s, code[i]);
        }
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

static double largest_of_group(const Weight *w, size_t k) {
    double largest = 0;
    const float *x = weight_f32(w) + k / INT4_GROUP * INT4_GROUP;
    for (int i = 0; i < INT4_GROUP; i++) largest = fmax(largest, fabs((double)x[i]));
    return largest;
}

static void check_weight(const Param *p, const Weight *to, Dtype dtype) {
    const Weight *from = p->weight;
    bool matrix = p->matrix;
    size_t n = weight_count(from);
    bool fits = matrix && from->n_dims == 2 && from->dims[1] % G == 0;
    bool in_blocks = fits && dtype == DTYPE_I4 && p->bin > 0 && from->dims[0] % INT4_OUTS == 0;
    Dtype want = in_blocks ? DTYPE_I4 : fits ? DTYPE_I8 : matrix ? DTYPE_BF16 : DTYPE_F32;
    CHECK_MSG(to->dtype == want, "%s is %s", to->name, dtype_name(to->dtype));
    for (size_t k = 0; k < n; k++) {
        float v = weight_f32(from)[k], got;
        weight_read(to, k, 1, &got);
        double limit = in_blocks ? largest_of_group(from, k) / 5
                       : fits    ? to->scale[k / G] * 0.5001
                       : matrix  ? fabs(v) / 256
                                 : 0;
        CHECK_MSG(fabs((double)got - v) <= limit, "%s[%zu] is %g, was %g", to->name, k, (double)got, (double)v);
    }
}

/* Noise off: what is compared is the rounding, which these wild weights amplify (bf16 comes to 0.02). */
static double distance(const Model *a, const Model *b, KvForm form) {
    enum { LENGTH = 20 };
    int tokens[LENGTH], vocab = a->cfg.vocab_size;
    for (int i = 0; i < LENGTH; i++) tokens[i] = (31 * i + 5) % vocab;
    float *x = test_serve_form(a, tokens, LENGTH, (NoiseKey){0}, (int[]){7}, 1, form, DTYPE_F32);
    float *y = test_serve_form(b, tokens, LENGTH, (NoiseKey){0}, (int[]){3, 1}, 2, form, DTYPE_F32);
    float *again = test_serve_form(b, tokens, LENGTH, (NoiseKey){0}, (int[]){LENGTH}, 1, form, DTYPE_F32);
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

static void check_quantized(const Config *cfg, Dtype dtype, const char *what) {
    const char *dir = test_dir(), *parent = test_dir();
    char to[256], again[256];
    Checkpoint a, b;
    Err err = {""};
    test_checkpoint_save(dir, cfg, DTYPE_F32);
    snprintf(to, sizeof to, "%s/new/int8", parent); /* parents are made */
    snprintf(again, sizeof again, "%s/newer/again", parent);
    int rc = test_convert(dir, to, &dtype, &err);
    CHECK_MSG(rc == 0, "%s: %s", what, err.msg);
    REQUIRE(rc == 0 && checkpoint_open(&a, dir, NULL) == 0);
    rc = checkpoint_open(&b, to, &err);
    CHECK_MSG(rc == 0, "%s: %s", what, err.msg);
    REQUIRE(rc == 0);
    CHECK(!strcmp(b.model.cfg.torch_dtype, dtype == DTYPE_I8 ? "int8" : "int4") &&
          !strcmp(b.shards.files[0].metadata_step, "7"));
    for (int i = 0; i < a.model.params.n; i++)
        check_weight(&a.model.params.params[i], b.model.params.params[i].weight, dtype);
    for (int form = KV_EXPANDED; form <= KV_COMPACT; form++) {
        double d = distance(&a.model, &b.model, (KvForm)form);
        CHECK_MSG(d < (dtype == DTYPE_I8 ? 0.15 : 1), "%s: logits differ by %.3f of their size", what, d);
    }
    checkpoint_close(&a);
    checkpoint_close(&b);
    CHECK(test_convert(to, again, &dtype, &err) == -1 &&
          strstr(err.msg, "model.embed_tokens.weight is I8, whose exact values are gone: save from the original"));
    snprintf(again, sizeof again, "%s/newer", parent);
    CHECK(access(again, F_OK)); /* and go again with what was refused */
}

static void check_folders(Dtype dtype) {
    Config c = test_checkpoint_config();
    check_quantized(&c, dtype, "gqa, all switches on");
    c.attention.kind = attention_kind_find("mla");
    c.n_kv_heads = c.n_heads;
    c.sas.heads = c.noble.rank = 0;
    for (int k = 0; k < 5; k++) c.attention.values[k] = (int[]){64, 64, 16, 8, 16}[k];
    check_quantized(&c, dtype, "mla");
    c.attention.kind = attention_kind_find("symmetric");
    c.position = POSITION_LEARNED;
    c.tie_embeddings = false;
    c.mlp.gated = false;
    check_quantized(&c, dtype, "symmetric, untied");
}

TEST(int8_folders) { check_folders(DTYPE_I8); }

TEST(int4_folders) { check_folders(DTYPE_I4); }

/* ---- codes of 4 bits ---- */

static double squares_off(const Weight *w, const uint8_t *codes, const uint16_t *scales) {
    double sum = 0;
    for (size_t k = 0; k < weight_count(w); k++) {
        size_t in = (size_t)w->dims[1];
        double off = (double)weight_f32(w)[k] - int4_element(codes, scales, in, k / in, k % in);
        sum += off * off;
    }
    return sum;
}

/* max / 7 of a group to the nearest code, which is what int8 does with 127. */
static double squares_off_plain(const Weight *w) {
    double sum = 0;
    for (size_t k = 0; k < weight_count(w); k++) {
        double x = (double)weight_f32(w)[k], scale = largest_of_group(w, k) / 7;
        sum += (x - scale * rint(x / scale)) * (x - scale * rint(x / scale));
    }
    return sum;
}

TEST(int4_scales_are_better_than_the_largest_element) {
    enum { OUT = 32, IN = 128, GROUPS = IN / INT4_GROUP };
    static float x[OUT * IN];
    static uint8_t codes[OUT * IN / 2];
    static uint16_t scales[OUT * GROUPS];
    Weight w = {.name = "w", .n_dims = 2, .dims = {OUT, IN}, .data = x};
    Draws d = draws_open(3, DRAW_TEST, 0);
    for (int i = 0; i < OUT * IN; i++) x[i] = (float)draw_normal(&d);
    REQUIRE(quantize_weight4(&w, codes, scales, NULL) == 0);
    double best = squares_off(&w, codes, scales), plain = squares_off_plain(&w);
    CHECK_MSG(best < 0.8 * plain, "%g against %g", best, plain);

    for (int i = 0; i < OUT * IN; i++) x[i] = 0.25f * (float)(i * 7 % 16 - 8); /* what codes hold exactly */
    REQUIRE(quantize_weight4(&w, codes, scales, NULL) == 0);
    CHECK(squares_off(&w, codes, scales) == 0);
    memset(x, 0, sizeof x);
    REQUIRE(quantize_weight4(&w, codes, scales, NULL) == 0);
    CHECK(squares_off(&w, codes, scales) == 0);
    Err err;
    x[100] = 1e6f;
    CHECK(quantize_weight4(&w, codes, scales, &err) == -1 &&
          strstr(err.msg, "w holds NaN, infinity or more than 524032"));
    x[100] = NAN;
    CHECK(quantize_weight4(&w, codes, scales, &err) == -1 && strstr(err.msg, "cannot become int4"));
}

TEST(int4_scales_are_rounded_to_f16) {
    for (uint32_t h = 0; h < 0x10000; h++) {
        float f = f16_to_f32((uint16_t)h);
        if ((h & 0x7fff) > 0x7c00 ? isnan(f16_to_f32(f32_to_f16(f))) : f32_to_f16(f) == h) continue;
        CHECK_MSG(false, "%#x comes back as %#x", h, f32_to_f16(f));
        break;
    }
    CHECK(f32_to_f16(1 + 0x1p-11f) == 0x3c00 && f32_to_f16(1 + 0x1.8p-10f) == 0x3c02); /* ties to even */
    CHECK(f32_to_f16(0x1.8p-24f) == 2 && f32_to_f16(0x1p-25f) == 0 && f32_to_f16(0x1.ffffp-15f) == 0x0400);
    CHECK(f32_to_f16(65519) == 0x7bff && f32_to_f16(65520) == 0x7c00 && f32_to_f16(-1e30f) == 0xfc00);
}

TEST(int8_refuses_what_is_not_finite) {
    const char *dir = test_dir(), *to = test_dir();
    char out[4096];
    Config cfg = test_checkpoint_config();
    TestModel t;
    REQUIRE(test_model_init(&t, &cfg, 5));
    weight_f32(params_find(&t.model.params, "model.layers.1.mlp.gate_up_proj.weight")->weight)[100] = -INFINITY;
    REQUIRE(checkpoint_save(dir, &t.model, NULL, DTYPE_F32, 0, NULL) == 0);
    static const char *const commands[] = {"quantize --dtype int8", "import --dtype f32", "import"};
    for (size_t i = 0; i < COUNTOF(commands); i++) {
        CHECK_MSG(test_run_tool(test_text("%s %s %s/new/int8", commands[i], dir, to), out) == 1 &&
                      strstr(out, "model.layers.1.mlp.gate_up_proj.weight holds NaN or infinity, first at element 100"),
                  "%s: %s", commands[i], out);
        CHECK_MSG(access(test_text("%s/new", to), F_OK), "%s leaves a folder", commands[i]);
    }
    weight_f32(params_find(&t.model.params, "model.layers.1.mlp.gate_up_proj.weight")->weight)[100] = 0;
    REQUIRE(checkpoint_save(dir, &t.model, NULL, DTYPE_F32, 0, NULL) == 0);
    CHECK_MSG(
        test_run_tool(test_text("quantize %s %s/good && ${BUILD:-build}/noised-weights verify %s/good", dir, to, to),
                      out) == 0 &&
            strstr(out, "\nok "),
        "%s", out);
    test_model_free(&t);
}

/* The folder that is renamed at the end is not the one that is read, nor where a link leads. */
TEST(checkpoint_tool_keeps_what_it_reads) {
    Config cfg = test_checkpoint_config();
    const char *dir = test_dir();
    char out[4096], source[300];
    snprintf(source, sizeof source, "%s/q.unfinished", dir);
    REQUIRE(mkdir(source, 0777) == 0);
    test_checkpoint_save(source, &cfg, DTYPE_F32);
    CHECK_MSG(test_run_tool(test_text("quantize %s %s/q", source, dir), out) == 1 &&
                  strstr(out, "q.unfinished is the folder to read"),
              "%s", out);
    CHECK(symlink(dir, test_text("%s/r.unfinished", dir)) == 0);
    CHECK_MSG(test_run_tool(test_text("quantize %s %s/r", source, dir), out) == 1 &&
                  strstr(out, "r.unfinished is no folder"),
              "%s", out);
    CHECK_MSG(test_run_tool(test_text("verify %s", source), out) == 0, "%s", out);
}

TEST(checkpoint_tool_says_what_it_wrote) {
    Config cfg = test_checkpoint_config();
    const char *dir = test_dir(), *to = test_dir();
    char out[4096];
    test_checkpoint_save(dir, &cfg, DTYPE_F32);
    test_write_text(dir, GENERATION_FILE, "{\"temperature\":0.6,\"num_beams\":4}");
    static const struct {
        const char *command, *said;
    } cases[] = {
        {"quantize",
         "\nmatrices: 21 I8, 28 BF16, whose rows are no whole groups of 64; vectors and the like: 109 F32\n"},
        {"quantize --dtype int4",
         "\nmatrices: 10 I4, 11 I8, 28 BF16, whose rows are no whole groups of 64; vectors and the like: 109 F32\n"},
        {"import --dtype bf16", "\nmatrices: 49 BF16; vectors and the like: 109 F32\n"},
    };
    for (size_t i = 0; i < COUNTOF(cases); i++) {
        CHECK_MSG(test_run_tool(test_text("%s %s %s/%zu", cases[i].command, dir, to, i), out) == 0 &&
                      strstr(out, cases[i].said),
                  "%s", out);
    }
    CHECK_MSG(test_run_tool(test_text("verify %s", dir), out) == 0 &&
                  strstr(out, "\ntokenizer: none, so prompts are token ids and answers have no text\n"
                              "chat: the model has no chat template, neither chat_template.jinja nor in "
                              "tokenizer_config.json; the option --chat-template NAME|FILE says which to use\n"
                              "requests that do not say: temperature 0.6\n"
                              "not used of generation_config.json: num_beams\n"),
              "%s", out);
}
