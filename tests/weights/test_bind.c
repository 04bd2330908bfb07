#include "base/err.h"
#include "tests/support/checkpoints.h"
#include "tests/support/models.h"
#include "tests/support/test.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define LAYER "model.layers.1."

typedef enum Operation { REMOVE, RENAME, DIMS, DTYPE, ADD } Operation;

static const float zeros[64 * 300];

static const struct {
    Operation what;
    const char *name, *to;
    int dims[3];
    Dtype dtype;
    const char *why;
} bad[] = {
    {REMOVE, "model.norm.weight", .why = "1 tensor missing, first model.norm.weight"},
    {REMOVE, "model.embed_tokens.weight", .why = "missing, first model.embed_tokens.weight"},
    {REMOVE, LAYER "self_attn.noise.sigma", .why = "missing, first " LAYER "self_attn.noise.sigma"},
    {REMOVE, LAYER "self_attn.q_proj.noble.freq_in", .why = "missing, first " LAYER "self_attn.q_proj.noble.freq_in"},
    {REMOVE, LAYER "mlp.gate_up_proj.weight", .why = "missing, first " LAYER "mlp.gate_up_proj.weight"},
    {RENAME, LAYER "mlp.gate_up_proj.weight", LAYER "mlp.gate_proj.weight",
     .why = "missing, first " LAYER "mlp.up_proj.weight"},
    {RENAME, LAYER "mlp.gate_up_proj.weight", LAYER "mlp.up_proj.weight",
     .why = "missing, first " LAYER "mlp.gate_proj.weight"},
    {RENAME, LAYER "self_attn.k_proj.weight", LAYER "self_attn.k_proj.Weight",
     .why =
         "1 tensor missing, first " LAYER "self_attn.k_proj.weight; 1 unknown, first " LAYER "self_attn.k_proj.Weight"},
    {RENAME, LAYER "self_attn.k_proj.weight", "model.layers.2.self_attn.k_proj.weight",
     .why = "1 unknown, first model.layers.2"},
    {DIMS, LAYER "self_attn.k_proj.weight", .dims = {64, 32},
     .why = LAYER "self_attn.k_proj.weight is [64,32], config wants [32,64]"},
    {DIMS, LAYER "self_attn.k_proj.weight", .dims = {64 * 32}, .why = "is [2048], config wants [32,64]"},
    {DIMS, LAYER "self_attn.k_proj.weight", .dims = {1, 32, 64}, .why = "is [1,32,64], config wants [32,64]"},
    {DIMS, LAYER "self_attn.noise.mu", .dims = {2, 4}, .why = LAYER "self_attn.noise.mu is [2,4], config wants [8]"},
    {DIMS, "model.embed_tokens.weight", .dims = {299, 64}, .why = "is [299,64], config wants [300,64]"},
    {DIMS, LAYER "self_attn.sas.q.head_in.weight", .dims = {8, 3, 4}, .why = "is [8,3,4], config wants [8,4,3]"},
    {DTYPE, LAYER "self_attn.noise.mu", .dtype = DTYPE_I8, .why = "missing, first " LAYER "self_attn.noise.mu_scale"},
    {DTYPE, LAYER "self_attn.q_proj.weight", .dtype = DTYPE_I8,
     .why = "missing, first " LAYER "self_attn.q_proj.weight_scale"},
    {ADD, "lm_head.bias", .dims = {300}, .why = "1 unknown tensor, first lm_head.bias"},
    {ADD, "lm_head.weight", .dims = {300, 64}, .why = "unknown tensor, first lm_head.weight"},
    {ADD, "lm_head.weight", .dims = {1}, .why = "unknown tensor, first lm_head.weight"},
    {ADD, "model.embed_positions.weight", .dims = {32, 64},
     .why = "unknown tensor, first model.embed_positions.weight"},
    {ADD, LAYER "self_attn.q_proj.weight_scale", .dims = {64, 1},
     .why = "unknown tensor, first " LAYER "self_attn.q_proj.weight_scale"},
    {ADD, LAYER "mlp.gate_proj.weight", .dims = {96, 64}, .why = "unknown tensor, first " LAYER "mlp.gate_proj.weight"},
    {ADD, "rotary_emb.inv_freq", .dims = {8}, .why = "unknown tensor, first rotary_emb.inv_freq"},
};

TEST(checkpoint_bad_tensors) {
    Config cfg = test_checkpoint_config();
    const char *dir = test_dir(), *to = test_config_folder(&cfg);
    test_checkpoint_save(dir, &cfg, DTYPE_F32);
    for (size_t i = 0; i < COUNTOF(bad); i++) {
        Edit e;
        edit_open(&e, dir);
        SafeOut *t = bad[i].what == ADD ? edit_add(&e, (SafeOut){.name = bad[i].name, .data = zeros})
                                        : edit_find(&e, bad[i].name);
        if (bad[i].what == REMOVE) edit_remove(&e, bad[i].name);
        if (bad[i].what == RENAME) t->name = bad[i].to;
        if (bad[i].what == DTYPE) t->dtype = t->source = bad[i].dtype;
        if (bad[i].what == DIMS || bad[i].what == ADD) {
            memset(t->dims, 0, sizeof t->dims);
            memcpy(t->dims, bad[i].dims, sizeof bad[i].dims);
            for (t->n_dims = 0; t->n_dims < 3 && t->dims[t->n_dims]; t->n_dims++) continue;
        }
        edit_save(&e, to);
        test_checkpoint_open(to, bad[i].why, bad[i].name);
    }
}

/* CosNet of three layers as it was before its middle cosine had a frequency and a phase. */
TEST(checkpoint_without_the_middle_cosine) {
    Config cfg = test_checkpoint_config();
    cfg.noble.layers = 3;
    const char *dir = test_dir(), *to = test_config_folder(&cfg);
    test_checkpoint_save(dir, &cfg, DTYPE_F32);
    test_checkpoint_open(dir, NULL, "three cosines");
    Edit e;
    edit_open(&e, dir);
    for (int i = e.n - 1; i >= 0; i--)
        if (strstr(e.out[i].name, "_mid")) edit_remove(&e, e.out[i].name);
    edit_save(&e, to);
    test_checkpoint_open(to, "tensors missing, first model.layers.0.self_attn.q_proj.noble.freq_mid", "two of three");
}

TEST(checkpoint_vectors_of_other_dtypes) {
    Config cfg = test_checkpoint_config();
    const char *dir = test_dir(), *to = test_config_folder(&cfg);
    static const uint16_t halves[8] = {0x3C00, 0xC000, 0x0001, 0x8000, 0x7BFF, 0x3555, 0x03FF, 0xFBFF};
    static const float values[8] = {1, -2, 5.9604645e-8f, -0.0f, 65504, 0.333251953125f, 6.0975552e-5f, -65504};
    test_checkpoint_save(dir, &cfg, DTYPE_F32);
    Edit e;
    edit_open(&e, dir);
    SafeOut *mu = edit_find(&e, LAYER "self_attn.noise.mu"),
            *conv = edit_find(&e, LAYER "self_attn.sas.q.head_out.weight");
    *mu =
        (SafeOut){.name = mu->name, .dtype = DTYPE_F16, .source = DTYPE_F16, .n_dims = 1, .dims = {8}, .data = halves};
    conv->dtype = DTYPE_BF16;
    edit_save(&e, to);
    Checkpoint c;
    Err err = {""};
    int rc = checkpoint_open(&c, to, &err);
    CHECK_MSG(rc == 0, "%s", err.msg);
    REQUIRE(rc == 0);
    const Weight *w = params_find(&c.model.params, LAYER "self_attn.noise.mu")->weight;
    CHECK(w->dtype == DTYPE_F32 && !memcmp(w->data, values, sizeof values) && c.owned && !test_is_mapped(&c, w->data));
    w = params_find(&c.model.params, LAYER "self_attn.sas.q.head_out.weight")->weight;
    CHECK(w->dtype == DTYPE_F32 && !test_is_mapped(&c, w->data));
    CHECK(test_is_mapped(&c, params_find(&c.model.params, LAYER "self_attn.noise.sigma")->weight->data));
    checkpoint_close(&c);
}

#define K_PROJ LAYER "self_attn.k_proj.weight"

/* Into folder `to` the checkpoint of `dir` whose tensor `name` is codes, beside them their scales if there is data. */
static void codes_save(const char *dir, const char *to, const char *name, SafeOut codes, SafeOut scales) {
    Edit e;
    edit_open(&e, dir);
    SafeOut *t = edit_find(&e, name);
    codes.name = t->name;
    codes.source = codes.dtype;
    *t = codes;
    scales.name = test_text("%s_scale", name);
    scales.source = scales.dtype;
    if (scales.data) edit_add(&e, scales);
    edit_save(&e, to);
}

/* What was quantized is no source for a checkpoint of another dtype. */
static void codes_are_final(Checkpoint *c, const char *to, const char *dtype) {
    Err err = {""};
    const char *why = test_text("k_proj.weight is %s, whose exact values are gone: save from the original", dtype);
    CHECK(checkpoint_save(to, &c->model, NULL, DTYPE_F32, 0, &err) == -1);
    CHECK_MSG(strstr(err.msg, why), "%s", err.msg);
}

TEST(checkpoint_int8) {
    static const int8_t codes[32 * 64] = {1, -2, 127};
    static const float scales[64] = {0.5f};
    static const struct {
        Dtype scale_dtype;
        int rows, groups;
        const char *why;
    } cases[] = {
        {DTYPE_F32, 32, 1, NULL},
        {DTYPE_BF16, 32, 1, K_PROJ "_scale is BF16, must be F32"},
        {DTYPE_F32, 32, 2, K_PROJ "_scale is [32,2], config wants [32,1]"},
        {DTYPE_F32, 1, 32, "is [1,32], config wants [32,1]"},
    };
    Config cfg = test_checkpoint_config();
    const char *dir = test_dir(), *to = test_config_folder(&cfg);
    test_checkpoint_save(dir, &cfg, DTYPE_F32);
    for (size_t i = 0; i < COUNTOF(cases); i++) {
        codes_save(
            dir, to, K_PROJ, (SafeOut){.dtype = DTYPE_I8, .n_dims = 2, .dims = {32, 64}, .data = codes},
            (SafeOut){
                .dtype = cases[i].scale_dtype, .n_dims = 2, .dims = {cases[i].rows, cases[i].groups}, .data = scales});
        test_checkpoint_open(to, cases[i].why, "int8");
        Checkpoint c;
        if (cases[i].why || checkpoint_open(&c, to, NULL)) continue;
        const Weight *w = params_find(&c.model.params, K_PROJ)->weight;
        CHECK(w->dtype == DTYPE_I8 && w->scale[0] == 0.5f && ((const int8_t *)w->data)[1] == -2 &&
              test_is_mapped(&c, w->scale));
        codes_are_final(&c, to, "I8");
        checkpoint_close(&c);
    }
}

TEST(checkpoint_int4) {
    enum { OUT = 32, IN = 64, BLOCKS = OUT / INT4_OUTS, GROUPS = IN / INT4_GROUP };
    static uint8_t codes[BLOCKS * GROUPS * INT4_BLOCK];
    static uint16_t scales[BLOCKS * GROUPS * INT4_OUTS];
    codes[0] = 0x7a; /* 2 of input 0, -1 of input 16 */
    scales[0] = 0x3800;
    static const struct {
        int blocks, groups;
        Dtype scale_dtype;
        int scale_groups;
        const char *why;
    } cases[] = {
        {BLOCKS, GROUPS, DTYPE_F16, GROUPS, NULL},
        {GROUPS * BLOCKS, 1, DTYPE_F16, GROUPS, K_PROJ " is [4,1,256], config wants [2,2,256]"},
        {BLOCKS, GROUPS, DTYPE_BF16, GROUPS, K_PROJ "_scale is BF16, must be F16"},
        {BLOCKS, GROUPS, DTYPE_F16, 1, K_PROJ "_scale is [2,1,16], config wants [2,2,16]"},
    };
    Config cfg = test_checkpoint_config();
    const char *dir = test_dir(), *to = test_config_folder(&cfg);
    test_checkpoint_save(dir, &cfg, DTYPE_F32);
    for (size_t i = 0; i < COUNTOF(cases); i++) {
        codes_save(
            dir, to, K_PROJ,
            (SafeOut){
                .dtype = DTYPE_I4, .n_dims = 3, .dims = {cases[i].blocks, cases[i].groups, INT4_BLOCK}, .data = codes},
            (SafeOut){.dtype = cases[i].scale_dtype,
                      .n_dims = 3,
                      .dims = {BLOCKS, cases[i].scale_groups, INT4_OUTS},
                      .data = scales});
        test_checkpoint_open(to, cases[i].why, "int4");
        Checkpoint c;
        if (cases[i].why || checkpoint_open(&c, to, NULL)) continue;
        const Weight *w = params_find(&c.model.params, K_PROJ)->weight;
        float row[IN];
        weight_read(w, 0, IN, row);
        CHECK(w->dtype == DTYPE_I4 && row[0] == 1 && row[16] == -0.5f && row[1] == -4 && row[32] == 0);
        CHECK(test_is_mapped(&c, w->scale16));
        codes_are_final(&c, to, "I4");
        checkpoint_close(&c);
    }
}

/* Rows of 96 are no whole number of groups of x, a vector is no matrix, and without scales codes of 4 bits are a mask.
 */
TEST(checkpoint_codes_of_other_shapes) {
    static const struct {
        const char *name;
        SafeOut codes, scales;
        const char *why;
    } cases[] = {
        {LAYER "mlp.down_proj.weight",
         {.dtype = DTYPE_I8, .n_dims = 2, .dims = {64, 96}, .data = zeros},
         {.n_dims = 2, .dims = {64, 1}, .data = zeros},
         LAYER "mlp.down_proj.weight is I8 with rows of 96, not a multiple of 64"},
        {LAYER "self_attn.noise.mu",
         {.dtype = DTYPE_I8, .n_dims = 1, .dims = {8}, .data = zeros},
         {.n_dims = 1, .dims = {1}, .data = zeros},
         LAYER "self_attn.noise.mu is I8, must be F32, BF16 or F16"},
        {LAYER "mlp.down_proj.weight",
         {.dtype = DTYPE_I4, .n_dims = 3, .dims = {4, 3, INT4_BLOCK}, .data = zeros},
         {.dtype = DTYPE_F16, .n_dims = 3, .dims = {4, 3, INT4_OUTS}, .data = zeros},
         "config wants [64,96], and codes of 4 bits are of multiples of 16 and 64"},
        {K_PROJ,
         {.dtype = DTYPE_I4, .n_dims = 2, .dims = {32, 64}, .data = zeros},
         {.data = NULL},
         K_PROJ " is BOOL or U8, must be F32, BF16 or F16"},
        {LAYER "self_attn.noise.mu",
         {.dtype = DTYPE_I4, .n_dims = 1, .dims = {8}, .data = zeros},
         {.n_dims = 1, .dims = {1}, .data = zeros},
         LAYER "self_attn.noise.mu is U8, must be F32, BF16 or F16"},
    };
    Config cfg = test_checkpoint_config();
    const char *dir = test_dir(), *to = test_config_folder(&cfg);
    test_checkpoint_save(dir, &cfg, DTYPE_F32);
    for (size_t i = 0; i < COUNTOF(cases); i++) {
        codes_save(dir, to, cases[i].name, cases[i].codes, cases[i].scales);
        test_checkpoint_open(to, cases[i].why, cases[i].name);
    }
}

/* ---- Hugging Face's llama ---- */

static Config llama_config(bool tied) {
    Config c = test_checkpoint_config();
    c.noise.scope = NOISE_NONE;
    c.sas.heads = 0;
    c.noble.rank = 0;
    c.bias = false;
    c.tie_embeddings = tied;
    return c;
}

static const char *llama_folder(bool tied) {
    const char *dir = test_dir();
    char path[256], text[600];
    snprintf(path, sizeof path, "%s/config.json", dir);
    int n = snprintf(text, sizeof text,
                     "{\"architectures\":[\"LlamaForCausalLM\"],\"model_type\":\"llama\",\"vocab_size\":300,"
                     "\"hidden_size\":64,\"num_hidden_layers\":2,\"num_attention_heads\":4,\"num_key_value_heads\":2,"
                     "\"max_position_embeddings\":32,\"intermediate_size\":96,\"rms_norm_eps\":1e-5,"
                     "\"hidden_act\":\"silu\",\"tie_word_embeddings\":%s,\"rope_scaling\":null}",
                     tied ? "true" : "false");
    test_write_file(path, text, (size_t)n);
    return dir;
}

/* Replaces every gate_up_proj by gate_proj and up_proj, of dtypes of their own. */
static void split_gates(Edit *e, char names[4][64], Dtype gate, Dtype up) {
    for (int l = 0; l < 2; l++) {
        const char *joined = test_text("model.layers.%d.mlp.gate_up_proj.weight", l);
        snprintf(names[2 * l], 64, "model.layers.%d.mlp.gate_proj.weight", l);
        snprintf(names[2 * l + 1], 64, "model.layers.%d.mlp.up_proj.weight", l);
        SafeOut *t = edit_find(e, joined), half = *t;
        half.dims[0] /= 2;
        const float *data = t->data;
        *t = half;
        t->name = names[2 * l];
        t->dtype = gate;
        half.name = names[2 * l + 1];
        half.dtype = up;
        half.data = data + half.dims[0] * half.dims[1];
        edit_add(e, half);
    }
}

TEST(checkpoint_llama) {
    Config cfg = llama_config(true);
    const char *dir = test_dir();
    const char *to = llama_folder(true);
    char names[4][64];
    TestModel t;
    BUG_ON(!test_model_init(&t, &cfg, 5));
    REQUIRE(checkpoint_save(dir, &t.model, NULL, DTYPE_F32, 1, NULL) == 0);
    for (int bf16 = 0; bf16 < 2; bf16++) {
        Edit e;
        Checkpoint c;
        Err err = {""};
        edit_open(&e, dir);
        split_gates(&e, names, bf16 ? DTYPE_BF16 : DTYPE_F32, bf16 ? DTYPE_BF16 : DTYPE_F32);
        SafeOut head = *edit_find(&e, "model.embed_tokens.weight");
        head.name = "lm_head.weight";
        edit_add(&e, head);
        edit_add(&e, (SafeOut){.name = LAYER "self_attn.rotary_emb.inv_freq", .n_dims = 1, .dims = {8}, .data = zeros});
        edit_save(&e, to);
        int rc = checkpoint_open(&c, to, &err);
        CHECK_MSG(rc == 0, "%s", err.msg);
        REQUIRE(rc == 0);
        const Weight *w = params_find(&c.model.params, LAYER "mlp.gate_up_proj.weight")->weight;
        const Weight *from = params_find(&t.model.params, LAYER "mlp.gate_up_proj.weight")->weight;
        CHECK(w->dtype == (bf16 ? DTYPE_BF16 : DTYPE_F32) && w->dims[0] == 192 && c.owned);
        for (size_t k = 0; k < weight_count(w); k++) {
            float v = weight_f32(from)[k], got;
            weight_read(w, k, 1, &got);
            CHECK(got == (bf16 ? bf16_to_f32(f32_to_bf16(v)) : v));
        }
        checkpoint_close(&c);
    }
    Edit e;
    edit_open(&e, dir);
    split_gates(&e, names, DTYPE_F32, DTYPE_BF16);
    edit_save(&e, to);
    test_checkpoint_open(
        to, "model.layers.0.mlp.up_proj.weight is BF16, but model.layers.0.mlp.gate_proj.weight is F32", "mixed");
    edit_open(&e, dir);
    split_gates(&e, names, DTYPE_F32, DTYPE_F32);
    edit_find(&e, LAYER "mlp.up_proj.weight")->dims[0] = 95;
    edit_save(&e, to);
    test_checkpoint_open(to, LAYER "mlp.up_proj.weight is [95,64], config wants [96,64]", "half");
    edit_open(&e, dir);
    split_gates(&e, names, DTYPE_F32, DTYPE_F32);
    edit_remove(&e, LAYER "mlp.up_proj.weight");
    edit_save(&e, to);
    test_checkpoint_open(to, "1 tensor missing, first " LAYER "mlp.up_proj.weight", "a gate alone");
    test_model_free(&t);
}

TEST(checkpoint_llama_untied) {
    Config cfg = llama_config(false);
    const char *dir = test_dir();
    const char *to = llama_folder(false), *tied = llama_folder(true);
    test_checkpoint_save(dir, &cfg, DTYPE_F32);
    Edit e;
    edit_open(&e, dir);
    edit_save(&e, to);
    test_checkpoint_open(to, NULL, "untied");
    edit_open(&e, dir);
    edit_save(&e, tied);
    test_checkpoint_open(tied, "1 unknown tensor, first lm_head.weight", "tied to something else");
    edit_open(&e, dir);
    edit_remove(&e, "lm_head.weight");
    edit_save(&e, to);
    test_checkpoint_open(to, "missing, first lm_head.weight", "no head");
}
