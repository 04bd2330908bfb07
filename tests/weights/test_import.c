/* Hugging Face's gpt2 folders, served as they stand or imported. */
#include "base/err.h"
#include "tests/support/checkpoints.h"
#include "tests/support/models.h"
#include "tests/support/talk.h"
#include "tests/support/test.h"
#include "weights/config_json.h"
#include "weights/convert.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- a folder made from a model of ours ---- */

static Config gpt2_config(bool tied) {
    Config c = test_config(attention_kind_find("mha"));
    c.tie_embeddings = tied;
    c.mlp.activation = ACT_GELU_TANH;
    c.n_heads = c.n_kv_heads = 3;
    return c;
}

static const char *gpt2_folder(const char *more) {
    const char *dir = test_dir();
    test_write_text(
        dir, "config.json",
        test_text(
            "{\"model_type\":\"gpt2\",\"vocab_size\":19,\"n_embd\":12,\"n_layer\":2,\"n_head\":3,\"n_positions\":128,"
            "\"n_inner\":20,\"layer_norm_epsilon\":1e-5%s}",
            more));
    return dir;
}

typedef struct Gpt2 {
    SafeOut out[64];
    char names[64][128];
    int n;
    float pool[8 << 10]; /* what was transposed */
    size_t used;
} Gpt2;

static SafeOut *add(Gpt2 *g, const char *prefix, const char *name, int n_dims, int rows, int columns,
                    const float *data) {
    SafeOut *t = &g->out[g->n];
    snprintf(g->names[g->n++], 128, "%s%s", prefix, name);
    *t = (SafeOut){.name = g->names[g->n - 1], .n_dims = n_dims, .dims = {rows, columns}, .data = data};
    return t;
}

static const float *value(const Model *m, int layer, const char *name) {
    char full[128];
    if (layer >= 0)
        snprintf(full, sizeof full, "model.layers.%d.%s", layer, name);
    else
        snprintf(full, sizeof full, "%s", name);
    return weight_f32(params_find(&m->params, full)->weight);
}

/* Conv1D: the transposed matrices of several linears side by side, and their biases. */
static void add_conv1d(Gpt2 *g, const char *prefix, const Model *m, int layer, const char *theirs,
                       const char *const *ours, int parts, int in, int out) {
    float *w = g->pool + g->used, *b = w + in * parts * out;
    g->used += (size_t)((in + 1) * parts * out);
    BUG_ON(g->used > COUNTOF(g->pool));
    for (int p = 0; p < parts; p++) {
        const float *from = value(m, layer, test_text("%s.weight", ours[p]));
        for (int o = 0; o < out; o++)
            for (int i = 0; i < in; i++) w[(i * parts + p) * out + o] = from[o * in + i];
        memcpy(b + p * out, value(m, layer, test_text("%s.bias", ours[p])), (size_t)out * sizeof *b);
    }
    add(g, prefix, test_text("h.%d.%s.weight", layer, theirs), 2, in, parts * out, w);
    add(g, prefix, test_text("h.%d.%s.bias", layer, theirs), 1, parts * out, 0, b);
}

static void add_norm(Gpt2 *g, const char *prefix, const Model *m, int layer, const char *theirs, const char *ours) {
    char name[64];
    for (int bias = 0; bias < 2; bias++) {
        const char *leaf = bias ? "bias" : "weight";
        if (layer >= 0)
            snprintf(name, sizeof name, "h.%d.%s.%s", layer, theirs, leaf);
        else
            snprintf(name, sizeof name, "%s.%s", theirs, leaf);
        add(g, prefix, name, 1, 12, 0, value(m, layer, test_text("%s.%s", ours, leaf)));
    }
}

static void gpt2_tensors(Gpt2 *g, const Model *m, const char *prefix) {
    static const char *const qkv[] = {"self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj"};
    static const char *const o[] = {"self_attn.o_proj"}, *const up[] = {"mlp.up_proj"},
                             *const down[] = {"mlp.down_proj"};
    static const float mask[16];
    g->n = 0;
    g->used = 0;
    add(g, prefix, "wte.weight", 2, 19, 12, value(m, -1, "model.embed_tokens.weight"));
    add(g, prefix, "wpe.weight", 2, 128, 12, value(m, -1, "model.embed_positions.weight"));
    for (int l = 0; l < 2; l++) {
        add_conv1d(g, prefix, m, l, "attn.c_attn", qkv, 3, 12, 12);
        add_conv1d(g, prefix, m, l, "attn.c_proj", o, 1, 12, 12);
        add_conv1d(g, prefix, m, l, "mlp.c_fc", up, 1, 12, 20);
        add_conv1d(g, prefix, m, l, "mlp.c_proj", down, 1, 20, 12);
        add_norm(g, prefix, m, l, "ln_1", "input_layernorm");
        add_norm(g, prefix, m, l, "ln_2", "post_attention_layernorm");
        SafeOut *t = add(g, prefix, test_text("h.%d.attn.bias", l), 4, 1, 1, mask);
        t->dims[2] = t->dims[3] = 4;
        add(g, prefix, test_text("h.%d.attn.masked_bias", l), 0, 0, 0, mask);
    }
    add_norm(g, prefix, m, -1, "ln_f", "model.norm");
    if (!m->cfg.tie_embeddings) add(g, "", "lm_head.weight", 2, 19, 12, value(m, -1, "lm_head.weight"));
}

static SafeOut *find(Gpt2 *g, const char *name) {
    for (int i = 0; i < g->n; i++)
        if (!strcmp(g->out[i].name, name)) return &g->out[i];
    bug_abort(__FILE__, __LINE__, name);
}

static void save(const Gpt2 *g, const char *dir) {
    BUG_ON(safe_save(test_text("%s/model.safetensors", dir), g->out, g->n, 0, NULL));
}

static void check_same_weights(const Model *want, const Model *got, bool bf16, const char *what) {
    for (int i = 0; i < want->params.n; i++) {
        const Param *p = &want->params.params[i];
        const Weight *w = got->params.params[i].weight;
        for (size_t k = 0; k < weight_count(w); k++) {
            float v = weight_f32(p->weight)[k], x;
            weight_read(w, k, 1, &x);
            bool same = x == (bf16 && p->matrix ? bf16_to_f32(f32_to_bf16(v)) : v);
            CHECK_MSG(same, "%s: %s[%zu] is %g, must be %g", what, w->name, k, (double)x, (double)v);
            if (!same) break;
        }
    }
}

/* Opens dir as it stands and imported, and compares both with m. */
static void check_import(const Model *m, const char *dir, const Dtype *dtype, const char *what) {
    const char *parent = test_dir();
    Checkpoint c;
    Err err = {""};
    int rc = checkpoint_open(&c, dir, &err);
    CHECK_MSG(rc == 0, "%s: %s", what, err.msg);
    if (rc == 0) {
        check_same_weights(m, &c.model, false, what);
        checkpoint_close(&c);
    }
    const char *to = test_text("%s/new", parent);
    rc = test_convert(dir, to, dtype, &err);
    CHECK_MSG(rc == 0, "%s: %s", what, err.msg);
    if (rc == 0 && checkpoint_open(&c, to, &err) == 0) {
        check_same_weights(m, &c.model, dtype && *dtype == DTYPE_BF16, what);
        CHECK(!c.owned && c.shards.n_owned == 0 && c.shards.files[0].metadata_sha256);
        checkpoint_close(&c);
    }
    rc = test_convert(dir, to, dtype, &err);
    CHECK_MSG(rc == -1 && strstr(err.msg, "new exists already, must be a new folder"), "%s", err.msg);
}

TEST(import_gpt2) {
    static const Dtype f32 = DTYPE_F32, bf16 = DTYPE_BF16;
    for (int tied = 0; tied < 2; tied++) {
        Config cfg = gpt2_config(tied);
        TestModel t;
        Gpt2 g;
        BUG_ON(!test_model_init(&t, &cfg, 11));
        const char *dir = gpt2_folder(tied ? "" : ",\"tie_word_embeddings\":false");
        gpt2_tensors(&g, &t.model, "");
        save(&g, dir);
        check_import(&t.model, dir, NULL, "bare names");
        gpt2_tensors(&g, &t.model, "transformer.");
        save(&g, dir);
        check_import(&t.model, dir, &f32, "prefixed names");
        check_import(&t.model, dir, &bf16, "to bf16");
        test_strip_metadata(dir, "model.safetensors");
        check_import(&t.model, dir, NULL, "no digest");
        if (tied) { /* the head may stand in the file too */
            add(&g, "", "lm_head.weight", 2, 19, 12, value(&t.model, -1, "model.embed_tokens.weight"));
            save(&g, dir);
            check_import(&t.model, dir, NULL, "tied head in the file");
        }
        test_model_free(&t);
    }
}

TEST(import_gpt2_talks_as_before) {
    Config cfg = gpt2_config(true);
    TestModel t;
    Gpt2 g;
    const char *to = test_dir();
    const char *dir = gpt2_folder(",\"n_ctx\":128");
    char out[4096];
    BUG_ON(!test_model_init(&t, &cfg, 11));
    gpt2_tensors(&g, &t.model, "transformer.");
    save(&g, dir);
    test_talks(dir, "gpt2");
    CHECK(test_run_tool(test_text("import %s %s/again", dir, to), out) == 0);
    CHECK_MSG(strstr(out, "left out: 4 tensors, first transformer.h.0.attn.bias"), "%s", out);
    CHECK_MSG(strstr(out, "/config.json: n_ctx\n"), "%s", out);
    test_model_free(&t);
}

/* Kept means kept: BF16 stays, F16 becomes the F32 that holds it. */
TEST(import_dtypes) {
    static const uint16_t halves[20 * 12] = {0x3C00, 0xC000, 0x0001};
    Config cfg = gpt2_config(true);
    TestModel t;
    Gpt2 g;
    Checkpoint c;
    BUG_ON(!test_model_init(&t, &cfg, 11));
    gpt2_tensors(&g, &t.model, "");
    const char *parent = test_dir();
    const char *dir = gpt2_folder("");
    char to[256];
    for (int i = 0; i < g.n; i++)
        if (g.out[i].n_dims == 2) g.out[i].dtype = DTYPE_BF16;
    save(&g, dir);
    snprintf(to, sizeof to, "%s/bf16", parent);
    REQUIRE(test_convert(dir, to, NULL, NULL) == 0 && checkpoint_open(&c, to, NULL) == 0);
    check_same_weights(&t.model, &c.model, true, "bf16");
    CHECK(c.model.embed.dtype == DTYPE_BF16 && !strcmp(c.model.cfg.torch_dtype, "bfloat16"));
    checkpoint_close(&c);
    SafeOut *up = find(&g, "h.0.mlp.c_fc.weight");
    up->dtype = up->source = DTYPE_F16;
    up->data = halves;
    save(&g, dir);
    snprintf(to, sizeof to, "%s/f16", parent);
    REQUIRE(test_convert(dir, to, NULL, NULL) == 0 && checkpoint_open(&c, to, NULL) == 0);
    const float *w = value(&c.model, 0, "mlp.up_proj.weight"); /* [20, 12] of their [12, 20] */
    CHECK(c.model.embed.dtype == DTYPE_F32 && w[0] == 1 && w[12] == -2 && w[24] == 5.9604645e-8f);
    checkpoint_close(&c);
    test_model_free(&t);
}

static const float zeros[128 * 36];

static const struct {
    const char *remove, *name;
    int n_dims, dims[2];
    Dtype dtype;
    const char *why;
} bad_tensors[] = {
    {"h.1.ln_2.bias", .why = "1 tensor missing, first h.1.ln_2.bias"},
    {"h.1.attn.c_attn.weight", .why = "1 tensor missing, first h.1.attn.c_attn.weight"},
    {NULL, "h.0.attn.c_attn.scale", 1, {3}, .why = "1 unknown tensor, first h.0.attn.c_attn.scale"},
    {NULL, "h.00.ln_1.weight", 1, {12}, .why = "1 unknown tensor, first h.00.ln_1.weight"},
    {NULL, "h.2.ln_1.weight", 1, {12}, .why = "1 unknown tensor, first h.2.ln_1.weight"},
    {NULL, "h..ln_1.weight", 1, {12}, .why = "1 unknown tensor, first h..ln_1.weight"},
    {NULL, "h.0.wte.weight", 2, {19, 12}, .why = "1 unknown tensor, first h.0.wte.weight"},
    {NULL, "mlp.c_fc.weight", 2, {12, 20}, .why = "1 unknown tensor, first mlp.c_fc.weight"},
    {NULL, "transformer.ln_f.weight", 1, {12}, .why = "1 unknown tensor, first transformer.ln_f.weight"},
    {NULL, "model.norm.weight", 1, {12}, .why = "model.norm.weight are the same tensor"},
    {NULL, "lm_head.weight", 2, {19, 12}, .why = "1 unknown tensor, first lm_head.weight"},
    {NULL, "lm_head.bias", 1, {19}, .why = "1 unknown tensor, first lm_head.bias"},
    {"h.0.attn.c_attn.weight",
     "h.0.attn.c_attn.weight",
     2,
     {12, 35},
     .why = "h.0.attn.c_attn.weight has 2 dimensions, the last 35; must be 2, the last a multiple of 3"},
    {"h.0.attn.c_attn.weight",
     "h.0.attn.c_attn.weight",
     1,
     {36},
     .why = "h.0.attn.c_attn.weight has 1 dimensions, the last 36; must be 2"},
    {"h.0.attn.c_attn.bias",
     "h.0.attn.c_attn.bias",
     1,
     {37},
     .why = "h.0.attn.c_attn.bias has 1 dimensions, the last 37; must be 1, the last a multiple of 3"},
    {"h.0.attn.c_attn.bias",
     "h.0.attn.c_attn.bias",
     0,
     {0},
     .why = "h.0.attn.c_attn.bias has 0 dimensions, the last 1; must be 1"},
    {"h.0.mlp.c_fc.weight",
     "h.0.mlp.c_fc.weight",
     2,
     {20, 12},
     .why = "h.0.mlp.c_fc.weight is [20,12], config wants [12,20]"},
    {"h.0.attn.c_attn.weight",
     "h.0.attn.c_attn.weight",
     2,
     {36, 12},
     .why = "h.0.attn.c_attn.weight is [36,12], config wants [12,36]"},
    {"wpe.weight", "wpe.weight", 2, {127, 12}, .why = "wpe.weight is [127,12], config wants [128,12]"},
    {"h.0.mlp.c_fc.weight",
     "h.0.mlp.c_fc.weight",
     2,
     {12, 20},
     DTYPE_I8,
     .why = "1 tensor missing, first h.0.mlp.c_fc.weight_scale"},
};

TEST(import_gpt2_bad_tensors) {
    Config cfg = gpt2_config(true);
    TestModel t;
    BUG_ON(!test_model_init(&t, &cfg, 11));
    const char *dir = gpt2_folder("");
    for (size_t i = 0; i < COUNTOF(bad_tensors); i++) {
        Gpt2 g;
        gpt2_tensors(&g, &t.model, "");
        if (bad_tensors[i].remove) *find(&g, bad_tensors[i].remove) = g.out[--g.n];
        if (bad_tensors[i].name)
            g.out[g.n++] = (SafeOut){.name = bad_tensors[i].name,
                                     .dtype = bad_tensors[i].dtype,
                                     .source = bad_tensors[i].dtype,
                                     .n_dims = bad_tensors[i].n_dims,
                                     .dims = {bad_tensors[i].dims[0], bad_tensors[i].dims[1]},
                                     .data = zeros};
        save(&g, dir);
        test_checkpoint_open(dir, bad_tensors[i].why,
                             bad_tensors[i].name ? bad_tensors[i].name : bad_tensors[i].remove);
    }
    test_model_free(&t);
}

TEST(import_gpt2_bad_configs) {
    static const struct {
        const char *more, *why;
    } cases[] = {
        {"", NULL},
        {",\"scale_attn_weights\":true,\"scale_attn_by_inverse_layer_idx\":false,\"reorder_and_upcast_attn\":false",
         NULL},
        {",\"scale_attn_weights\":false", "config.json: scale_attn_weights is false, must be true"},
        {",\"scale_attn_by_inverse_layer_idx\":true",
         "config.json: scale_attn_by_inverse_layer_idx is true, must be false"},
        {",\"reorder_and_upcast_attn\":true", "config.json: reorder_and_upcast_attn is true, must be false"},
        {",\"add_cross_attention\":true", "config.json: add_cross_attention is true, must be false"},
        {",\"activation_function\":\"gelu\"", NULL},
        {",\"activation_function\":\"gelu_fast\"",
         "activation_function is \"gelu_fast\", must be gelu_new, gelu_pytorch_tanh, gelu, silu or relu"},
        {",\"n_head\":5", "\"n_head\" occurs twice"},
        {",\"bos_token_id\":19", "bos_token_id is 19, must be -1 to 18"},
        {",\"tie_word_embeddings\":1", "tie_word_embeddings is 1, must be true or false"},
        {",\"n_layer2\":5", NULL},
    };
    static const char *const missing[] = {"vocab_size", "n_embd", "n_layer", "n_head", "n_positions"};
    Config cfg = gpt2_config(true), c;
    TestModel t;
    Gpt2 g;
    Err err;
    BUG_ON(!test_model_init(&t, &cfg, 11));
    gpt2_tensors(&g, &t.model, "");
    for (size_t i = 0; i < COUNTOF(cases); i++) {
        const char *dir = gpt2_folder(cases[i].more);
        save(&g, dir);
        test_checkpoint_open(dir, cases[i].why, cases[i].more);
    }
    for (size_t i = 0; i < COUNTOF(missing); i++) {
        char text[256] = "{\"model_type\":\"gpt2\"";
        for (size_t k = 0; k < COUNTOF(missing); k++)
            if (k != i) snprintf(text + strlen(text), 64, ",\"%s\":12", missing[k]);
        strcat(text, "}");
        CHECK_MSG(config_json_parse(&c, NULL, text, strlen(text), &err) == -1 &&
                      !strcmp(err.msg, test_text("%s is missing", missing[i])),
                  "%s", err.msg);
    }
    static const char odd[] = "{\"model_type\":\"gpt2\",\"vocab_size\":50257,\"n_embd\":100,\"n_layer\":1,\"n_head\":3,"
                              "\"n_positions\":8}";
    CHECK(config_json_parse(&c, NULL, odd, strlen(odd), &err) == -1 &&
          !strcmp(err.msg, "n_embd 100 is not a multiple of n_head 3"));
    static const char real[] = "{\"model_type\":\"gpt2\",\"vocab_size\":50257,\"n_embd\":768,\"n_layer\":12,"
                               "\"n_head\":12,\"n_positions\":1024,\"n_ctx\":1024}";
    REQUIRE(config_json_parse(&c, NULL, real, strlen(real), &err) == 0);
    CHECK(c.head_dim == 64 && c.mlp.width == 3072 && c.mlp.activation == ACT_GELU_TANH && !c.mlp.gated && c.bias);
    CHECK(c.norm == NORM_LAYER && c.norm_eps == 1e-5f && c.position == POSITION_LEARNED && c.tie_embeddings);
    CHECK(c.bos_token_id == 50256 && c.eos_token_id == 50256 && c.max_positions == 1024 && c.n_kv_heads == 12);
    test_model_free(&t);
}
