#include "base/err.h"
#include "base/memory.h"
#include "base/random.h"
#include "base/sha256.h"
#include "tests/support/checkpoints.h"
#include "tests/support/models.h"
#include "tests/support/test.h"
#include "tokenizer/bpe_train.h"
#include "tokenizer/tokenizer_json.h"
#include "weights/config_json.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static bool same_file(const char *a_dir, const char *b_dir, const char *name) {
    size_t n = 0, m = 1;
    char *a = test_read_file(test_text("%s/%s", a_dir, name), &n);
    char *b = test_read_file(test_text("%s/%s", b_dir, name), &m);
    bool same = a && b && n == m && !memcmp(a, b, n);
    free(a);
    free(b);
    return same;
}

/* ---- what is saved comes back ---- */

static void check_round_trip(const Config *cfg, Dtype dtype, const char *what) {
    const char *dir = test_dir(), *again = test_dir();
    TestModel t;
    Checkpoint c;
    Err err;
    BUG_ON(!test_model_init(&t, cfg, 5));
    REQUIRE(checkpoint_save(dir, &t.model, NULL, dtype, 7, &err) == 0);
    int rc = checkpoint_open(&c, dir, &err);
    CHECK_MSG(rc == 0, "%s: %s", what, err.msg);
    REQUIRE(rc == 0);
    CHECK(c.model.params.n == t.model.params.n && !c.tokenizer && !c.owned && strlen(c.hash) == 64);
    CHECK(!strcmp(c.shards.files[0].metadata_step, "7") &&
          !strcmp(c.model.cfg.torch_dtype, dtype == DTYPE_F32 ? "float32" : "bfloat16"));
    for (int i = 0; i < c.model.params.n; i++) {
        const Param *p = &c.model.params.params[i];
        const Weight *w = p->weight, *from = t.model.params.params[i].weight;
        CHECK_MSG(w->dtype == (p->matrix ? dtype : DTYPE_F32) && test_is_mapped(&c, w->data), "%s", w->name);
        for (size_t k = 0; k < weight_count(w); k++) {
            float v = weight_f32(from)[k], got;
            weight_read(w, k, 1, &got);
            CHECK_MSG(got == (w->dtype == DTYPE_F32 ? v : bf16_to_f32(f32_to_bf16(v))), "%s[%zu]", w->name, k);
        }
    }
    REQUIRE(checkpoint_save(again, &c.model, NULL, dtype, 7, &err) == 0);
    CHECK_MSG(same_file(dir, again, "model.safetensors") && same_file(dir, again, "config.json"), "%s", what);
    checkpoint_close(&c);
    test_model_free(&t);
}

TEST(checkpoint_round_trip) {
    Config c = test_checkpoint_config();
    check_round_trip(&c, DTYPE_F32, "f32");
    check_round_trip(&c, DTYPE_BF16, "bf16");
    for (int k = 0; attention_kinds[k]; k++)
        for (size_t v = 0; v < COUNTOF(test_variants); v++) {
            c = test_variant(attention_kinds[k], test_variants[v]);
            check_round_trip(&c, DTYPE_F32, attention_kinds[k]->name);
            check_round_trip(&c, DTYPE_BF16, attention_kinds[k]->name);
        }
}

TEST(checkpoint_bf16_saves_as_f32) {
    const char *dir = test_dir(), *again = test_dir();
    Config cfg = test_checkpoint_config();
    Checkpoint a, b;
    test_checkpoint_save(dir, &cfg, DTYPE_BF16);
    REQUIRE(checkpoint_open(&a, dir, NULL) == 0 && checkpoint_save(again, &a.model, NULL, DTYPE_F32, 8, NULL) == 0);
    REQUIRE(checkpoint_open(&b, again, NULL) == 0);
    const Weight *x = &a.model.embed, *y = &b.model.embed;
    CHECK(x->dtype == DTYPE_BF16 && y->dtype == DTYPE_F32);
    CHECK(weight_f32(y)[77] == bf16_to_f32(((const uint16_t *)x->data)[77]));
    CHECK(strcmp(a.hash, b.hash));
    checkpoint_close(&a);
    checkpoint_close(&b);
}

/* ---- the folder ---- */

TEST(checkpoint_bad_folders) {
    Config cfg = test_checkpoint_config();
    const char *dir = test_dir();
    char path[256];
    test_checkpoint_open("/nonexistent", "/nonexistent/config.json: No such file", "no folder");
    test_checkpoint_open(dir, "config.json: No such file", "empty");
    test_checkpoint_save(dir, &cfg, DTYPE_F32);
    test_checkpoint_open(dir, NULL, "good");
    snprintf(path, sizeof path, "%s/model.safetensors", dir);
    test_checkpoint_open(path, "is a file: a folder with config.json", "a file");
    unlink(path);
    test_checkpoint_open(dir, "model.safetensors: No such file", "no weights");
    test_write_file(path, "", 0);
    test_checkpoint_open(dir, "no safetensors file", "empty weights");
    unlink(path);
    mkdir(path, 0700);
    test_checkpoint_open(dir, "not a regular file", "a folder for weights");
    rmdir(path);
    mkfifo(path, 0600);
    test_checkpoint_open(dir, "not a regular file", "a FIFO for weights");
    snprintf(path, sizeof path, "%s/config.json", dir);
    test_write_file(path, "{\"model_type\":\"noised\"}", 23);
    test_checkpoint_open(dir, "config.json: vocab_size is missing", "short config");
    char *large = xcalloc(1, 2 << 20);
    test_write_file(path, large, 2 << 20);
    test_checkpoint_open(dir, "2097152 bytes, at most 1048576", "large config");
    free(large);
    char name[2000];
    memset(name, 'x', sizeof name);
    name[sizeof name - 1] = 0;
    test_checkpoint_open(name, "path is too long", "long name");
}

TEST(checkpoint_tokenizer) {
    Config cfg = test_checkpoint_config();
    const char *dir = test_dir();
    static const char text[] = "a small text, a small text indeed";
    BpeText part = {.data = text, .n = sizeof text - 1};
    BpeCorpus corpus = {.texts = &part, .n = 1};
    Tokenizer *t;
    Err err;
    REQUIRE(bpe_train(&t, &corpus, 262, &err) == 0);
    const char *path = test_text("%s/tokenizer.json", dir);
    REQUIRE(tokenizer_json_save(t, path, &err) == 0);
    tokenizer_free(t);
    cfg.vocab_size = 261;
    test_checkpoint_save(dir, &cfg, DTYPE_F32);
    test_checkpoint_open(dir, "the tokenizer has 262 tokens, but vocab_size of config.json is 261", "too many tokens");
    cfg.vocab_size = 262;
    test_checkpoint_save(dir, &cfg, DTYPE_F32);
    Checkpoint c;
    REQUIRE(checkpoint_open(&c, dir, NULL) == 0);
    CHECK(c.tokenizer && tokenizer_vocab_size(c.tokenizer) == 262);
    checkpoint_close(&c);
    test_write_file(path, "{}", 2);
    test_checkpoint_open(dir, "tokenizer.json", "bad tokenizer");
}

/* Any file that differs from a good one in its header is refused or opens whole; nothing crashes or leaks. */
TEST(checkpoint_flipped_bits) {
    Config cfg = test_checkpoint_config();
    cfg.n_layers = 1;
    cfg.noble.rank = cfg.sas.heads = 0;
    const char *dir = test_dir();
    size_t n;
    test_checkpoint_save(dir, &cfg, DTYPE_F32);
    const char *path = test_text("%s/model.safetensors", dir);
    char *file = test_read_file(path, &n);
    SafeFile f;
    REQUIRE(safe_open(&f, path, NULL) == 0);
    size_t header = safe_header_bytes(&f);
    safe_close(&f);
    Draws d = draws_open(9, DRAW_TEST, 3);
    enum { FILES = FEWER(3000) };
    int n_open = 0;
    for (int round = 0; round < FILES; round++) {
        uint64_t at[4];
        int flips = 1 + (int)draw_below(&d, 4);
        for (int k = 0; k < flips; k++) {
            at[k] = draw_below(&d, 8 * header);
            file[at[k] / 8] = (char)(file[at[k] / 8] ^ 1 << at[k] % 8);
        }
        test_write_file(path, file, n);
        Checkpoint c;
        Err err = {""};
        if (checkpoint_open(&c, dir, &err) == 0) {
            n_open++; /* a flip in the padding or the metadata */
            checkpoint_close(&c);
        } else {
            CHECK(err.msg[0]);
        }
        for (int k = 0; k < flips; k++) file[at[k] / 8] = (char)(file[at[k] / 8] ^ 1 << at[k] % 8);
    }
    CHECK_MSG(n_open < FILES / 5, "%d of %d opened", n_open, FILES);
    free(file);
}

TEST(checkpoint_tool) {
    static const char *const wrong[] = {"",
                                        "inspect",
                                        "verify",
                                        "verify a b",
                                        "verify --x",
                                        "frobnicate .",
                                        "--x",
                                        "verify --dtype f32 a",
                                        "import a",
                                        "import a b c",
                                        "import --dtype int8 a b",
                                        "import --dtype f32 --dtype f32 a b",
                                        "quantize --dtype f32 a b",
                                        "quantize a --dtype"};
    Config cfg = test_checkpoint_config();
    const char *dir = test_dir();
    char out[4096];
    TestModel t;
    for (size_t i = 0; i < COUNTOF(wrong); i++) {
        int rc = test_run_tool(wrong[i], out);
        CHECK_MSG(rc == 2 && strstr(out, i ? "see noised-weights" : "usage:"), "%s: %d %s", wrong[i], rc, out);
    }
    CHECK(test_run_tool("--help", out) == 0 && strstr(out, "usage:"));
    test_checkpoint_save(dir, &cfg, DTYPE_BF16);
    CHECK_MSG(test_run_tool(test_text("verify %s", dir), out) == 0 && !strncmp(out, "ok ", 3), "%s", out);
    CHECK_MSG(test_run_tool(test_text("inspect %s | head -2", dir), out) == 0 &&
                  strstr(out, "{\n  \"model_type\": \"noised\",") == out,
              "%s", out);
    CHECK_MSG(test_run_tool(test_text("inspect %s | tail -8", dir), out) == 0 &&
                  strstr(out, " distributions each:\n") && strstr(out, "layer  1:") && strstr(out, "step: 7"),
              "%s", out);
    REQUIRE(test_model_init(&t, &cfg, 5));
    t.data[t.count - 1] = NAN; /* of the last parameter, the final norm's gain */
    REQUIRE(checkpoint_save(dir, &t.model, NULL, DTYPE_F32, 0, NULL) == 0);
    CHECK_MSG(test_run_tool(test_text("verify %s", dir), out) == 1 && strstr(out, "model.norm.weight holds NaN"), "%s",
              out);
    test_model_free(&t);
}
