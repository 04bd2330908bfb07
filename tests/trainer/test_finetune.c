/* pretrain --init: from our own demo, and from a folder of another program's. */
#include "base/buffer.h"
#include "base/err.h"
#include "base/memory.h"
#include "base/random.h"
#include "tests/support/checkpoints.h"
#include "tests/support/http_client.h"
#include "tests/support/test.h"
#include "tests/trainer/test_trainer.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { VOCAB = 300, WIDTH = 32, HIDDEN = 48 };

static void check_run(const char *args, int status, const char *says) {
    ChildResult r = trainer_run(args);
    CHECK_MSG(r.status == status && strstr(r.output, says), "%s: status %d, wanted \"%s\":\n%s", args, r.status, says,
              r.output);
    free(r.output);
}

/* Two heads of 16, one layer, untied, BF16, a context of 4,096, and an end of its own that is no special token. */
static void write_llama(const char *dir) {
    static const struct {
        const char *name;
        int rows, columns;
    } tensors[] = {{"model.embed_tokens.weight", VOCAB, WIDTH},
                   {"model.layers.0.input_layernorm.weight", WIDTH, 0},
                   {"model.layers.0.self_attn.q_proj.weight", WIDTH, WIDTH},
                   {"model.layers.0.self_attn.k_proj.weight", WIDTH / 2, WIDTH},
                   {"model.layers.0.self_attn.v_proj.weight", WIDTH / 2, WIDTH},
                   {"model.layers.0.self_attn.o_proj.weight", WIDTH, WIDTH},
                   {"model.layers.0.post_attention_layernorm.weight", WIDTH, 0},
                   {"model.layers.0.mlp.gate_proj.weight", HIDDEN, WIDTH},
                   {"model.layers.0.mlp.up_proj.weight", HIDDEN, WIDTH},
                   {"model.layers.0.mlp.down_proj.weight", WIDTH, HIDDEN},
                   {"model.norm.weight", WIDTH, 0},
                   {"lm_head.weight", VOCAB, WIDTH}};
    SafeOut out[COUNTOF(tensors)];
    const char *path = test_text("%s/model.safetensors", dir);
    Draws d = draws_open(3, DRAW_TEST, 1);
    Err err;
    for (size_t i = 0; i < COUNTOF(tensors); i++) {
        size_t n = (size_t)(tensors[i].rows * (tensors[i].columns ? tensors[i].columns : 1));
        float *x = xmalloc(n * sizeof *x);
        for (size_t k = 0; k < n; k++) x[k] = tensors[i].columns ? 0.1f * (float)draw_normal(&d) : 1;
        out[i] = (SafeOut){.name = tensors[i].name,
                           .dtype = DTYPE_BF16,
                           .source = DTYPE_F32,
                           .n_dims = tensors[i].columns ? 2 : 1,
                           .dims = {tensors[i].rows, tensors[i].columns},
                           .data = x};
    }
    CHECK_MSG(safe_save(path, out, COUNTOF(tensors), 0, &err) == 0, "%s", err.msg);
    test_strip_metadata(dir, "model.safetensors");
    test_write_text(dir, "config.json",
                    "{\"architectures\":[\"LlamaForCausalLM\"],\"model_type\":\"llama\",\"vocab_size\":300,"
                    "\"hidden_size\":32,\"num_hidden_layers\":1,\"num_attention_heads\":2,\"num_key_value_heads\":1,"
                    "\"intermediate_size\":48,\"max_position_embeddings\":4096,\"rms_norm_eps\":1e-5,"
                    "\"hidden_act\":\"silu\",\"tie_word_embeddings\":false,\"bos_token_id\":6,\"eos_token_id\":7,"
                    "\"torch_dtype\":\"bfloat16\"}");
    for (size_t i = 0; i < COUNTOF(tensors); i++) free((void *)out[i].data);
}

static double loss_of_at(const char *dir, const char *text, double noise_scale) {
    ChildResult r =
        trainer_run(test_text("eval --model %s --data %s --window 16 --noise-scale %g", dir, text, noise_scale));
    const char *loss = strstr(r.output, "\"loss\":");
    CHECK_MSG(r.status == 0 && loss, "%s", r.output);
    double v = loss ? atof(loss + 7) : 0;
    free(r.output);
    return v;
}

static double loss_of(const char *dir, const char *text) { return loss_of_at(dir, text, 1); }

TEST(finetune_a_llama_folder) {
    const char *dir = test_dir(), *text = trainer_text_file(6000);
    write_llama(dir);
    check_run(test_text("pretrain --init %s --data %s --out %s/none --window 16", dir, text, dir), 1,
              "has no tokenizer.json: --tokenizer FILE names one");
    check_run(test_text("tokenizer --data %s --vocab-size 290 --out %s/tokenizer.json", text, dir), 0, "290 tokens");
    check_run(test_text("pretrain --init %s --data %s --out %s/none --window 5000", dir, text, dir), 1,
              "--window is 5000, max_position_embeddings of the config 4096");
    check_run(
        test_text(
            "pretrain --init %s --data %s --out %s/tuned --window 16 --batch 4 --steps 40 --lr 3e-3 --eval-every 0",
            dir, text, dir),
        0, "windows of 16");
    const char *out = test_text("%s/tuned", dir);
    double before = loss_of(dir, text), after = loss_of(out, text);
    CHECK_MSG(after < before - 0.5, "loss %g before, %g after", before, after);
    Checkpoint c;
    Err err;
    int rc = checkpoint_open(&c, out, &err);
    REQUIRE(rc == 0);
    CHECK(c.model.cfg.max_positions == 4096 && c.model.cfg.eos_token_id == 7 && c.model.cfg.bos_token_id == 6);
    CHECK(tokenizer_vocab_size(c.tokenizer) == 290);
    checkpoint_close(&c);
    check_run(test_text("pretrain --out %s/tuned --resume --window 8", dir), 1,
              "--window is 8, the run to be resumed has 16");
    check_run(test_text("sample --model %s/tuned --prompt we --max-tokens 5", dir), 0, "seed ");
}

/* Next to no learning rate: what comes out is what went in. */
TEST(finetune_the_demo) {
    const char *dir = test_dir(), *text = trainer_text_file(1000);
    char args[1024], out[256];
    snprintf(
        args, sizeof args,
        "pretrain --init weights/demo --data %s --out %s/a --window 16 --batch 1 --steps 1 --lr 1e-9 --eval-every 0",
        text, dir);
    check_run(args, 0, "windows of 16");
    snprintf(out, sizeof out, "%s/a", dir);
    double before = loss_of("weights/demo", text), after = loss_of(out, text);
    CHECK_MSG(before - after < 0.01 && after - before < 0.01, "loss %g before, %g after", before, after);
    snprintf(args, sizeof args, "pretrain --init %s/x.gguf --data %s --out %s/b", dir, text, dir);
    test_write_text(dir, "x.gguf", "GGUF");
    check_run(args, 1, "is GGUF");
}

static bool is_same_file(const char *a, const char *b) { return system(test_text("cmp -s %s %s", a, b)) == 0; }

/* A model that talks still does when it was trained on; what does not come along is named. */
TEST(finetune_carries_over_what_the_folder_is_served_with) {
    static const char *const names[] = {"tokenizer_config.json", "generation_config.json", "chat_template.jinja"};
    const char *dir = test_dir(), *text = trainer_text_file(1000);
    char from[300], to[300];
    REQUIRE(system(test_text("mkdir %s/talks && cp weights/demo/* %s/talks", dir, dir)) == 0);
    snprintf(to, sizeof to, "%s/talks", dir);
    for (size_t i = 0; i < COUNTOF(names); i++) test_write_text(to, names[i], "{}");
    check_run(test_text("pretrain --init %s/talks --data %s --out %s/a --window 16 --batch 1 --steps 1 --eval-every 0",
                        dir, text, dir),
              0, "/talks: chat_template.jinja, generation_config.json, tokenizer_config.json\nleft behind in ");
    check_run(test_text("pretrain --init %s/talks --data %s --out %s/b --window 16 --batch 1 --steps 1 --eval-every 0",
                        dir, text, dir),
              0, "/talks: README.md, log.jsonl\n");
    for (size_t i = 0; i < COUNTOF(names); i++) {
        snprintf(from, sizeof from, "%s/talks/%s", dir, names[i]);
        snprintf(to, sizeof to, "%s/a/%s", dir, names[i]);
        CHECK_MSG(is_same_file(from, to), "%s", to);
    }
    check_run(test_text("pretrain --init %s/talks --data %s --out %s/c --window 5000", dir, text, dir), 1,
              "--window is 5000");
    snprintf(to, sizeof to, "%s/c", dir);
    CHECK_MSG(access(to, F_OK), "a refused run leaves its folder");
    check_run(
        test_text("pretrain --init %s/talks --tokenizer weights/demo/tokenizer.json --data %s --out %s/d --window 16 "
                  "--batch 1 --steps 1 --eval-every 0",
                  dir, text, dir),
        0, "/talks: all but the weights, because --tokenizer brings other tokens");
    snprintf(to, sizeof to, "%s/d/tokenizer_config.json", dir);
    CHECK(access(to, F_OK));
}

/* The demo's configuration with this for its noise, or with none. */
static void write_demo_config(const char *dir, const char *name, const char *noise) {
    char *text = test_read_file("weights/demo/config.json", NULL);
    REQUIRE(text);
    char *line = strstr(text, "  \"noise\""), *rest = line ? strchr(line, '\n') + 1 : NULL;
    REQUIRE(rest);
    Buffer out = {0};
    buffer_append(&out, text, (size_t)(line - text));
    buffer_text(&out, noise);
    buffer_text(&out, rest);
    buffer_append(&out, "", 1);
    test_write_text(dir, name, out.data);
    buffer_free(&out);
    free(text);
}

/* Noise may be left out and added; the network is the same without it, sigma begins where it is told to, and the text
 * that is held out is evaluated under it. */
TEST(finetune_adds_noise_and_leaves_it_out) {
    const char *dir = test_dir(), *text = trainer_text_file(1000);
    char out[3][256];
    const char *run = "pretrain --init %s --config %s/%s.json --data %s --out %s --window 16 --batch 1 --steps 1 "
                      "--lr 1e-9 %s";
    write_demo_config(dir, "none.json", "");
    write_demo_config(dir, "code.json", "  \"noise\": {\"scope\": \"head\", \"span\": \"sequence\"},\n");
    write_demo_config(dir, "conditioned.json",
                      "  \"noise\": {\"scope\": \"head\", \"conditioned\": true, "
                      "\"condition_dim\": 8},\n");
    snprintf(out[0], sizeof out[0], "%s/none", dir);
    snprintf(out[1], sizeof out[1], "%s/code", dir);
    snprintf(out[2], sizeof out[2], "%s/conditioned", dir);
    check_run(test_text(run, "weights/demo", dir, "none", text, out[0], "--eval-every 0"), 0, "done: ");
    check_run(test_text(run, out[0], dir, "code", text, out[1],
                        test_text("--sigma-start 0.5 --noise-warmup 3 --val %s", text)),
              0, "done: ");
    double before = loss_of_at("weights/demo", text, 0), without = loss_of_at(out[0], text, 0);
    double again = loss_of_at(out[1], text, 0);
    CHECK_MSG(fabs(before - without) < 0.01 && fabs(again - without) < 1e-4, "%g, %g, %g", before, without, again);
    char *line = test_read_file(test_text("%s/log.jsonl", out[1]), NULL);
    CHECK_MSG(line && strstr(line, "\"sigma\":[[0.5,0.5,0.5,0.5,0.5],"), "%s", line ? line : "no log");
    cJSON *logged = line ? cJSON_Parse(line) : NULL;
    double noisy = loss_of(out[1], text), held = json_number(logged, "val_loss");
    CHECK_MSG(fabs(held - noisy) < 1e-4 && fabs(noisy - again) > 1e-3, "%g, %g, without noise %g", held, noisy, again);
    cJSON_Delete(logged);
    free(line);
    check_run(test_text(run, out[0], dir, "conditioned", text, out[2], "--sigma-start 0.5 --eval-every 0"), 1,
              "--sigma-start is 0.5, but the config's noise has no sigma of its own");
}
