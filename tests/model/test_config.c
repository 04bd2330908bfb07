#include "base/buffer.h"
#include "base/err.h"
#include "base/memory.h"
#include "model/kind.h"
#include "model/config_check.h"
#include "model/shape.h"
#include "tests/model/test_config.h"
#include "weights/config_json.h"
#include "weights/presets.h"

#include <stdlib.h>
#include <string.h>

static const char good[] =
    "{\"model_type\":\"noised\",\"vocab_size\":64,\"hidden_size\":24,\"num_hidden_layers\":2,\"num_attention_heads\":4,"
    "\"num_key_value_heads\":4,\"head_dim\":6,\"max_position_embeddings\":32,\"norm\":\"layernorm\",\"norm_eps\":1e-5,"
    "\"position\":\"rope\",\"rope_theta\":10000.0,\"bias\":false,\"tie_word_embeddings\":true,"
    "\"mlp\":{\"activation\":\"gelu\",\"gated\":false,\"intermediate_size\":48},\"attention\":{\"kind\":\"symmetric\"},"
    "\"noise\":{\"scope\":\"head\",\"density\":\"gaussian\"},"
    "\"sas\":{\"heads\":8,\"head_dim\":10,\"kernel\":5,\"activation\":\"relu\",\"rope\":\"pre\"},"
    "\"noble\":{\"rank\":4,\"activation\":\"cosnet\",\"layers\":2},"
    "\"bos_token_id\":0,\"eos_token_id\":1,\"torch_dtype\":\"bfloat16\"}";

char *config_with(const char *text, const char *from, const char *to) {
    const char *at = strstr(text, from);
    BUG_ON(!at || strstr(at + 1, from));
    size_t n = strlen(text) + strlen(to) + 1;
    char *out = xmalloc(n);
    snprintf(out, n, "%.*s%s%s", (int)(at - text), text, to, at + strlen(from));
    return out;
}

void check_changes(const char *text, const Change *changes, size_t n) {
    for (size_t i = 0; i < n; i++) {
        const Change *c = &changes[i];
        Config cfg;
        Err err = {""};
        char *changed = config_with(text, c->from, c->to);
        int rc = config_json_parse(&cfg, NULL, changed, strlen(changed), &err);
        if (c->why)
            CHECK_MSG(rc == -1 && strstr(err.msg, c->why), "%s -> %s: %d, %s", c->from, c->to, rc, err.msg);
        else
            CHECK_MSG(rc == 0, "%s -> %s: %s", c->from, c->to, err.msg);
        free(changed);
    }
}

#define SYMMETRIC "\"attention\":{\"kind\":\"symmetric\"}"
#define NOISE "\"noise\":{\"scope\":\"head\",\"density\":\"gaussian\"}"
#define SAS "\"sas\":{\"heads\":8,\"head_dim\":10,\"kernel\":5,\"activation\":\"relu\",\"rope\":\"pre\"}"
#define NOBLE "\"noble\":{\"rank\":4,\"activation\":\"cosnet\",\"layers\":2}"
#define MLA(rope)                                                                                                      \
    "\"attention\":{\"kind\":\"mla\",\"q_lora_rank\":8,\"kv_lora_rank\":8,\"qk_nope_head_dim\":6,"                     \
    "\"qk_rope_head_dim\":" rope ",\"v_head_dim\":6}"

#define TASK(keys) "\"torch_dtype\":\"bfloat16\"", keys
#define CLASSES(names) "\"task\":\"text-classification\",\"id2label\":{" names "}"

static const Change changes[] = {
    {"{\"model_type\":\"noised\",", "{", "model_type is missing"},
    {"\"noised\"", "\"bert\"",
     "model_type is \"bert\", must be noised, llama, mistral, qwen2, qwen3 or gpt2: other networks cannot be read"},
    {"\"noised\"", "null", "model_type is null"},
    {"\"noised\"", "\"Noised\"", "model_type is \"Noised\""},
    {"\"bias\":false", "\"bias\":\"mlp\"", "bias is \"mlp\", must be attention or qkv"},
    {"\"bias\":false", "\"bias\":\"qkv\"", NULL},
    {"\"bias\":false", "\"qk_norm\":true", "qk_norm is true, but attention.kind is symmetric, which has no norms"},
    {"\"bias\":false", "\"sliding_window\":7", NULL},
    {"\"bias\":false", "\"sliding_window\":7,\"causal\":false", "sliding_window is 7, but causal is false"},
    {"\"bias\":false", "\"rope_scaling\":{\"type\":\"linear\",\"factor\":2}", "rope_scaling.rope_type is missing"},
    {"\"vocab_size\":64,", "", "vocab_size is missing"},
    {"\"vocab_size\"", "\"Vocab_size\"", "vocab_size is missing"},
    {"\"vocab_size\":64", "\"vocab_size\":0", "vocab_size is 0, must be 1 to 1048576"},
    {"\"vocab_size\":64", "\"vocab_size\":1048577", "vocab_size is 1048577, must be 1 to 1048576"},
    {"\"vocab_size\":64", "\"vocab_size\":1048576", NULL},
    {"\"vocab_size\":64", "\"vocab_size\":-64", "vocab_size is -64"},
    {"\"vocab_size\":64", "\"vocab_size\":64.5", "vocab_size is 64.5, must be an integer"},
    {"\"vocab_size\":64", "\"vocab_size\":\"64\"", "vocab_size is \"64\", must be an integer"},
    {"\"vocab_size\":64", "\"vocab_size\":null", "vocab_size is null, must be an integer"},
    {"\"vocab_size\":64", "\"vocab_size\":1e99", "vocab_size is 1e+99, must be an integer"},
    {"\"vocab_size\":64", "\"vocab_size\":[64]", "vocab_size is an array, must be an integer"},
    {"\"vocab_size\":64", "\"vocab_size\":1e999", "out of range"},
    {"\"vocab_size\":64", "\"vocab_size\":64,\"vocab_size\":64", "\"vocab_size\" occurs twice"},
    {"\"hidden_size\":24", "\"hidden_size\":65537", "hidden_size is 65537, must be 1 to 65536"},
    {"\"num_hidden_layers\":2", "\"num_hidden_layers\":1025", "num_hidden_layers is 1025, must be 1 to 1024"},
    {"\"num_hidden_layers\":2", "\"num_hidden_layers\":0", "num_hidden_layers is 0"},
    {"\"num_attention_heads\":4", "\"num_attention_heads\":0", "num_attention_heads is 0, must be a positive integer"},
    {"\"num_attention_heads\":4", "\"num_attention_heads\":1025", "num_attention_heads is 1025"},
    {"\"num_attention_heads\":4", "\"num_attention_heads\":5",
     "num_key_value_heads 4 is not num_attention_heads 5, as attention.kind symmetric needs"},
    {"\"num_key_value_heads\":4", "\"num_key_value_heads\":0", "num_key_value_heads is 0"},
    {"\"num_key_value_heads\":4,", "", NULL},
    {"\"head_dim\":6,", "", NULL},
    {"\"head_dim\":6", "\"head_dim\":7", "head_dim is 7, but position rope needs an even one"},
    {"\"head_dim\":6", "\"head_dim\":4097", "head_dim is 4097"},
    {"\"head_dim\":6", "\"head_dim\":null", "head_dim is null"},
    {"\"hidden_size\":24,\"num_hidden_layers\":2,\"num_attention_heads\":4,\"num_key_value_heads\":4,\"head_dim\":6",
     "\"hidden_size\":25,\"num_hidden_layers\":2,\"num_attention_heads\":4", "head_dim is missing"},
    {"\"max_position_embeddings\":32", "\"max_position_embeddings\":1048577", "max_position_embeddings is 1048577"},
    {"\"norm\":\"layernorm\"", "\"norm\":\"batchnorm\"", "norm is \"batchnorm\", must be layernorm or rmsnorm"},
    {"\"norm\":\"layernorm\",", "", "norm is missing"},
    {"\"norm_eps\":1e-5", "\"norm_eps\":0", "norm_eps is 0"},
    {"\"norm_eps\":1e-5", "\"norm_eps\":-1e-5", "norm_eps is -1"},
    {"\"norm_eps\":1e-5", "\"norm_eps\":1.5", "norm_eps is 1.5"},
    {"\"norm_eps\":1e-5", "\"norm_eps\":1e-300", "norm_eps is 0"},
    {"\"norm_eps\":1e-5", "\"norm_eps\":\"x\"", "norm_eps is \"x\", must be a number"},
    {"\"norm_eps\":1e-5,", "", NULL},
    {"\"position\":\"rope\"", "\"position\":\"alibi\"",
     "position is \"alibi\", must be learned, rope, none, sinusoidal"},
    {"\"rope_theta\":10000.0", "\"rope_theta\":0.5", "rope_theta is 0.5"},
    {"\"rope_theta\":10000.0", "\"rope_theta\":1e200", "rope_theta is inf"},
    {"\"bias\":false", "\"bias\":0", "bias is 0, must be true or false"},
    {"\"tie_word_embeddings\":true", "\"tie_word_embeddings\":\"yes\"", "tie_word_embeddings is \"yes\""},
    {"\"activation\":\"gelu\"", "\"activation\":\"tanh\"", "mlp.activation is tanh"},
    {"\"activation\":\"gelu\"", "\"activation\":\"swish\"",
     "mlp.activation is \"swish\", must be gelu, gelu_tanh, silu"},
    {"\"activation\":\"gelu\",", "", "mlp.activation is missing"},
    {"\"intermediate_size\":48", "\"intermediate_size\":-1", "mlp.intermediate_size is -1, must be 0 to 1048576"},
    {"\"intermediate_size\":48", "\"intermediate_size\":0", NULL},
    {"\"gated\":false,\"intermediate_size\":48", "\"gated\":true,\"intermediate_size\":0",
     "mlp.gated is true, but mlp.intermediate_size is 0: there is no hidden layer to gate"},
    {"\"intermediate_size\":48", "\"intermediate_size\":48,\"width\":1", "unknown key mlp.width"},
    {"\"mlp\":{\"activation\":\"gelu\",\"gated\":false,\"intermediate_size\":48},", "", "mlp is missing"},
    {"\"mlp\":{\"activation\":\"gelu\",\"gated\":false,\"intermediate_size\":48}", "\"mlp\":4",
     "mlp is 4, must be an object"},
    {SYMMETRIC ",", "", "attention is missing"},
    {SYMMETRIC, "\"attention\":{}", "attention.kind is missing"},
    {SYMMETRIC, "\"attention\":{\"kind\":\"linear\"}", "attention.kind is \"linear\", must be mha, symmetric"},
    {SYMMETRIC, "\"attention\":{\"kind\":\"symmetric\",\"rank\":2}", "unknown key attention.rank"},
    {SYMMETRIC, "\"attention\":{\"kind\":\"tpa\",\"rank\":2}", "attention.q_rank is missing"},
    {SYMMETRIC, "\"attention\":{\"kind\":\"tpa\",\"rank\":2,\"q_rank\":0}",
     "attention.q_rank is 0, must be 1 to 65536"},
    {SYMMETRIC, "\"attention\":{\"kind\":\"tpa\",\"rank\":2,\"q_rank\":3}", NULL},
    {SYMMETRIC, MLA("2"), NULL},
    {SYMMETRIC, MLA("3"), "qk_rope_head_dim"},
    {SYMMETRIC, MLA("-2"), "attention.qk_rope_head_dim is -2"},
    {NOISE, "\"noise\":{\"density\":\"gaussian\"}", "noise.scope is missing"},
    {NOISE, "\"noise\":{\"scope\":\"none\"}", "noise.scope is \"none\", must be layer or head"},
    {NOISE, "\"noise\":{\"scope\":\"head\",\"density\":\"cauchy\"}", "noise.density is \"cauchy\""},
    {NOISE, "\"noise\":{\"scope\":\"head\",\"density\":\"mixture\"}", "noise.components is missing"},
    {NOISE, "\"noise\":{\"scope\":\"head\",\"density\":\"mixture\",\"components\":0}", "noise.components is 0"},
    {NOISE, "\"noise\":{\"scope\":\"head\",\"density\":\"mixture\",\"components\":65}", "noise.components is 65"},
    {NOISE, "\"noise\":{\"scope\":\"head\",\"density\":\"mixture\",\"components\":64}", NULL},
    {NOISE, "\"noise\":{\"scope\":\"head\",\"density\":\"gaussian\",\"components\":2}", "is gaussian, not mixture"},
    {NOISE, "\"noise\":{\"scope\":\"head\",\"span\":\"row\"}", "noise.span is \"row\""},
    {NOISE, "\"noise\":{\"scope\":\"head\",\"span\":\"sequence\"}", NULL},
    {NOISE, "\"noise\":{\"scope\":\"head\",\"span\":\"key\",\"density\":\"mixture\",\"components\":2}", NULL},
    {NOISE, "\"noise\":{\"scope\":\"head\",\"span\":\"sequence\",\"density\":\"mixture\",\"components\":2}", NULL},
    {NOISE, "\"noise\":{\"scope\":\"head\",\"span\":\"sequence\",\"density\":\"mixture\"}",
     "noise.components is missing"},
    {NOISE,
     "\"noise\":{\"scope\":\"layer\",\"span\":\"sequence\",\"site\":\"residual\",\"density\":\"mixture\","
     "\"components\":2}",
     NULL},
    {NOISE, "\"noise\":{\"scope\":\"layer\",\"span\":\"key\",\"site\":\"residual\"}",
     "noise.site is residual, but noise.span is key"},
    {NOISE, "\"noise\":{\"scope\":\"layer\",\"span\":\"sequence\",\"site\":\"residual\"}",
     "noise.site is residual, but noise.density is gaussian"},
    {NOISE,
     "\"noise\":{\"scope\":\"head\",\"span\":\"sequence\",\"site\":\"residual\",\"density\":\"mixture\",\"components\":"
     "2}",
     "noise.site is residual, but noise.scope is head"},
    {NOISE, "\"noise\":{\"scope\":\"layer\",\"site\":\"logits\"}", "noise.site is \"logits\""},
    {NOISE, "\"noise\":{\"scope\":\"head\",\"span\":\"sequence\",\"conditioned\":true,\"condition_dim\":3}",
     "noise.span is sequence, but noise.conditioned is true"},
    {NOISE, "\"noise\":{\"scope\":\"head\",\"conditioned\":true}", "noise.condition_dim is missing"},
    {NOISE, "\"noise\":{\"scope\":\"head\",\"conditioned\":true,\"condition_dim\":0}", "noise.condition_dim is 0"},
    {NOISE, "\"noise\":{\"scope\":\"head\",\"condition_dim\":3}", "noise.conditioned is not true"},
    {NOISE, "\"noise\":{\"scope\":\"head\",\"conditioned\":true,\"condition_dim\":3}", NULL},
    {NOISE,
     "\"noise\":{\"scope\":\"head\",\"density\":\"mixture\",\"components\":2,\"conditioned\":true,\"condition_dim\":3}",
     "noise.density is mixture, not gaussian"},
    {NOISE, "\"noise\":{\"scope\":\"head\",\"sigma\":1}", "unknown key noise.sigma"},
    {NOISE, "\"noise\":null", "noise is null, must be an object"},
    {NOISE ",", "", NULL},
    {SAS, "\"sas\":{}", "sas.heads is missing"},
    {SAS, "\"sas\":{\"heads\":0,\"head_dim\":10,\"kernel\":5}", "sas.heads is 0, must be a positive integer"},
    {SAS, "\"sas\":{\"heads\":10,\"head_dim\":10,\"kernel\":5}",
     "sas.heads 10 is not a multiple of 4, the heads of attention.kind symmetric"},
    {SAS, "\"sas\":{\"heads\":4100,\"head_dim\":10,\"kernel\":5}", "sas.heads is 4100"},
    {SAS, "\"sas\":{\"heads\":8,\"head_dim\":10,\"kernel\":4}", "sas.kernel is 4, must be odd"},
    {SAS, "\"sas\":{\"heads\":8,\"head_dim\":10,\"kernel\":65}", "sas.kernel is 65"},
    {SAS, "\"sas\":{\"heads\":8,\"head_dim\":10,\"kernel\":-1}", "sas.kernel is -1"},
    {SAS, "\"sas\":{\"heads\":8,\"head_dim\":10,\"kernel\":0}",
     "sas.kernel is 0, so there are no more heads than 4, but sas.heads is 8"},
    {SAS, "\"sas\":{\"heads\":4,\"head_dim\":6,\"kernel\":0}",
     "sas.kernel is 0 and sas.head_dim 6 as without sas: no layer is left of it"},
    {SAS, "\"sas\":{\"heads\":4,\"head_dim\":10,\"kernel\":0}", NULL},
    {SAS, "\"sas\":{\"heads\":4,\"head_dim\":6,\"kernel\":1}", NULL},
    {SAS, "\"sas\":{\"heads\":8,\"head_dim\":10,\"kernel\":5,\"activation\":\"gelu\"}", "sas.activation is \"gelu\""},
    {SAS, "\"sas\":{\"heads\":8,\"head_dim\":10,\"kernel\":5,\"activation\":\"none\",\"rope\":\"post\"}", NULL},
    {SAS, "\"sas\":{\"heads\":8,\"head_dim\":9,\"kernel\":5,\"rope\":\"post\"}",
     "sas.head_dim is 9, but position rope needs an even one"},
    {SAS, "\"sas\":{\"heads\":8,\"head_dim\":9,\"kernel\":5}", NULL},
    {SYMMETRIC "," NOISE "," SAS,
     "\"attention\":{\"kind\":\"pairwise\"},\"sas\":{\"heads\":8,\"head_dim\":10,\"kernel\":5,\"rope\":\"post\"}",
     "sas.rope is post, but attention.kind is pairwise"},
    {"\"attention\":{\"kind\":\"symmetric\"}", "\"attention\":{\"kind\":\"lecture\"}",
     "head_dim is 6, but attention.kind lecture needs hidden_size, 24"},
    {"\"torch_dtype\":\"bfloat16\"", "\"causal\":1", "causal is 1"},
    {NOBLE, "\"noble\":{\"activation\":\"relu\"}", "noble.rank is missing"},
    {NOBLE, "\"noble\":{\"rank\":0}", NULL},
    {NOBLE, "\"noble\":{\"rank\":0,\"recipe\":\"kaiming\"}", NULL},
    {NOBLE, "\"noble\":{\"rank\":4,\"recipe\":\"kaiming\"}",
     "noble.recipe is kaiming, which is a host's, but noble.rank is 4"},
    {NOBLE, "\"noble\":{\"rank\":-1}", "noble.rank is -1, must be 0 to 16384"},
    {NOBLE, "\"noble\":{\"rank\":4,\"layers\":4}", "noble.layers is 4, must be 1 to 3"},
    {NOBLE, "\"noble\":{\"rank\":4,\"layers\":3}", NULL},
    {NOBLE, "\"noble\":{\"rank\":4,\"layers\":3,\"activation\":\"relu\"}",
     "noble.layers is 3, but noble.activation is relu"},
    {NOBLE, "\"noble\":{\"rank\":4,\"activation\":\"silu\"}", "noble.activation is \"silu\""},
    {NOBLE, "\"Noble\":{}", "unknown key Noble"},
    {"\"bos_token_id\":0", "\"bos_token_id\":64", "bos_token_id is 64, must be -1 to 63"},
    {"\"eos_token_id\":1", "\"eos_token_id\":[1,\"x\"]", "eos_token_id: element 1 is no token id"},
    {"\"eos_token_id\":1", "\"eos_token_id\":[1,2,3,4,5,6,7,8,9]", "eos_token_id is a list of 9 ids, must be 1 to 8"},
    {"\"eos_token_id\":1", "\"eos_token_id\":[1,99]", "eos_token_id names 99, must be 0 to 63"},
    {"\"eos_token_id\":1", "\"eos_token_id\":[1,5]", NULL},
    {"\"eos_token_id\":1", "\"eos_token_id\":null", NULL},
    {"\"torch_dtype\":\"bfloat16\"", "\"torch_dtype\":7", "torch_dtype is 7, must be a string of at most 15 bytes"},
    {"\"torch_dtype\":\"bfloat16\"", "\"torch_dtype\":\"sixteen characters\"", "torch_dtype"},
    {"\"torch_dtype\":\"bfloat16\"", "\"torch_dtype\":\"\\\"\"", "torch_dtype is no plain word"},
    {"\"torch_dtype\":\"bfloat16\"", "\"dropout\":0.1", NULL},
    {"\"torch_dtype\":\"bfloat16\"", "\"dropout\":1", "dropout is 1, must be 0 or more and below 1"},
    {"\"torch_dtype\":\"bfloat16\"", "\"dropped\":0.1", "unknown key dropped"},
    {TASK("\"task\":\"summarization\""), "task is \"summarization\", must be text-generation"},
    {TASK("\"task\":\"fill-mask\",\"causal\":false,\"mask_token_id\":3"), NULL},
    {TASK("\"task\":\"fill-mask\",\"causal\":false"), "mask_token_id is missing"},
    {TASK("\"task\":\"fill-mask\",\"causal\":false,\"mask_token_id\":64"), "mask_token_id is 64, must be 0 to 63"},
    {TASK("\"task\":\"fill-mask\",\"mask_token_id\":3"), "task is fill-mask, but causal is true"},
    {TASK("\"mask_token_id\":3"), "mask_token_id is given, but task is text-generation"},
    {TASK("\"pool\":\"mean\""), "pool is given, but task is text-generation"},
    {TASK("\"id2label\":{\"0\":\"a\",\"1\":\"b\"}"), "id2label is given, but task is text-generation"},
    {TASK(CLASSES("\"0\":\"a\",\"1\":\"b\"")), NULL},
    {TASK(CLASSES("\"1\":\"a\",\"0\":\"b\"") ",\"pool\":\"mean\""), NULL},
    {TASK(CLASSES("\"1\":\"a\",\"0\":\"b\"") ",\"pool\":\"max\""), "pool is \"max\", must be last, mean or first"},
    {TASK(CLASSES("\"0\":\"a\"")), "id2label has 1 names, but task is text-classification, which has two or more"},
    {TASK(CLASSES("\"0\":\"a\",\"2\":\"b\"")), "id2label has 2 names, but none for 1"},
    {TASK(CLASSES("\"0\":\"a\",\"1\":\"a\"")), "id2label.1 is a, which has an id before"},
    {TASK(CLASSES("\"0\":\"a\",\"1\":\"\"")), "id2label.1 is empty"},
    {TASK(CLASSES("\"0\":\"a\",\"1\":7")), "id2label.1 is 7, must be a string"},
    {TASK("\"task\":\"token-classification\""), "id2label is missing, but task is token-classification"},
    {TASK("\"task\":\"token-classification\",\"id2label\":{\"0\":\"O\",\"1\":\"B\"},\"pool\":\"last\""),
     "pool is given, but task is token-classification"},
    {TASK("\"input\":{\"kind\":\"words\"}"), "input.kind is \"words\", must be tokens, patches or vectors"},
    {TASK("\"input\":{\"kind\":\"tokens\",\"image_size\":[14,14]}"), NULL},
    {TASK("\"input\":{\"kind\":\"tokens\",\"image_size\":[14]}"), "input.image_size must be [height, width]"},
    {TASK("\"input\":{\"kind\":\"tokens\",\"patch_size\":2}"), "unknown key input.patch_size"},
    {TASK("\"input\":{\"kind\":\"patches\",\"image_size\":[14,14],\"patch_size\":7}"),
     "vocab_size is 64, must be 0 to 0"},
    {TASK("\"block\":{\"norm\":\"post\",\"residual\":false}"), NULL},
    {TASK("\"block\":{\"norm\":\"sandwich\"}"), "block.norm is \"sandwich\", must be pre, post or none"},
    {"\"position\":\"rope\"", "\"position\":\"rope2d\"", "head_dim is 6, but position rope2d needs a multiple of 4"},
    {"\"activation\":\"gelu\"", "\"activation\":\"sigmoid\"", NULL},
    {"\"bfloat16\"}", "\"bfloat16\"}}", "behind the end"},
    {"\"bfloat16\"}", "\"bfloat16\"", "not valid JSON"},
};

TEST(config_rules) { check_changes(good, changes, COUNTOF(changes)); }

/* {"0": ..., "1": ...}: n names of LABEL_BYTES with their end. */
static char *labelled(int n) {
    Buffer b = {0};
    buffer_text(&b, "\"torch_dtype\":\"bfloat16\",\"task\":\"text-classification\",\"id2label\":{");
    for (int i = 0; i < n; i++) buffer_print(&b, "%s\"%d\":\"%0*d\"", i ? "," : "", i, LABEL_BYTES - 1, i);
    buffer_append(&b, "}", sizeof "}");
    char *text = config_with(good, "\"torch_dtype\":\"bfloat16\"", b.data);
    buffer_free(&b);
    return text;
}

TEST(config_labels_fill_their_room) {
    enum { MOST = LABELS_BYTES / LABEL_BYTES };
    char *full = labelled(MOST), *above = labelled(MOST + 1);
    Config c;
    Labels labels;
    Err err = {""};
    CHECK_MSG(config_json_parse(&c, &labels, full, strlen(full), &err) == 0, "%s", err.msg);
    CHECK(c.n_labels == MOST && labels.used == LABELS_BYTES && !strtol(labels_name(&labels, 0), NULL, 10));
    CHECK(labels.n == MOST && strtol(labels_name(&labels, MOST - 1), NULL, 10) == MOST - 1);
    CHECK(config_json_parse(&c, &labels, above, strlen(above), &err) == -1);
    CHECK_MSG(strstr(err.msg, "id2label.64: the names have more than 4096 bytes"), "%s", err.msg);
    free(full);
    free(above);
}

TEST(config_products_fit) {
    static const Change large[] = {
        {"\"vocab_size\":64,\"hidden_size\":24", "\"vocab_size\":1048576,\"hidden_size\":4096",
         "vocab_size 1048576 times hidden_size 4096 is above"},
        {"\"intermediate_size\":48", "\"intermediate_size\":1048576", NULL},
        {"\"head_dim\":6", "\"head_dim\":4096", NULL},
        {SYMMETRIC "," NOISE "," SAS, "\"attention\":{\"kind\":\"tpa\",\"q_rank\":65536,\"rank\":65536}",
         "the widest linear"},
    };
    check_changes(good, large, COUNTOF(large));
    Config c;
    Err err;
    REQUIRE(config_json_parse(&c, NULL, good, strlen(good), &err) == 0);
    c.hidden_size = 65536;
    c.mlp.width = 65536;
    CHECK(config_check(&c, &err) == -1 && strstr(err.msg, "the widest linear"));
    c = (Config){0};
    CHECK(config_check(&c, &err) == -1);
}

/* print(parse(print(c))) == print(c), and what is printed is accepted. */
static void check_printing(const Config *c, const char *name) {
    Config again;
    Labels labels = {0};
    Err err = {""};
    for (char digit[] = "0"; labels.n < c->n_labels; digit[0]++) labels_add(&labels, digit, &err);
    char *text = config_json_print(c, &labels);
    int rc = config_json_parse(&again, &labels, text, strlen(text), &err);
    CHECK_MSG(rc == 0, "%s: %s in\n%s", name, err.msg, text);
    if (rc == 0) {
        char *twice = config_json_print(&again, &labels);
        CHECK_MSG(!strcmp(text, twice), "%s: %s", name, twice);
        CHECK_MSG(again.norm_eps == c->norm_eps && again.rope_theta == c->rope_theta, "%s", name);
        free(twice);
    }
    free(text);
}

/* Byte by byte what earlier versions wrote: hashes of runs are made of it. */
TEST(config_printing_keeps_its_bytes) {
    static const char *const texts[] = {
        "{\n  \"model_type\": \"noised\",\n  \"dropout\": 0.1,\n  \"vocab_size\": 300,\n  \"hidden_size\": 8,\n"
        "  \"num_hidden_layers\": 2,\n  \"max_position_embeddings\": 64,\n  \"num_attention_heads\": 2,\n"
        "  \"num_key_value_heads\": 1,\n  \"head_dim\": 4,\n  \"norm\": \"rmsnorm\",\n  \"norm_eps\": 1e-05,\n"
        "  \"position\": \"rope\",\n  \"rope_theta\": 5e+05,\n  \"rope_scaling\": {\n  \"low_freq_factor\": 1,\n"
        "  \"high_freq_factor\": 4,\n  \"original_max_position_embeddings\": 32,\n  \"factor\": 8,\n"
        "  \"rope_type\": \"llama3\"},\n  \"bias\": \"qkv\",\n  \"qk_norm\": true,\n  \"sliding_window\": 16,\n"
        "  \"tie_word_embeddings\": false,\n"
        "  \"mlp\": {\"activation\": \"silu\", \"gated\": true, \"intermediate_size\": 12},\n"
        "  \"attention\": {\"kind\": \"gqa\"},\n"
        "  \"noise\": {\"scope\": \"head\", \"density\": \"gaussian\", \"span\": \"key\", "
        "\"conditioned\": true, \"condition_dim\": 2},\n"
        "  \"noble\": {\"rank\": 2, \"activation\": \"tanh\", \"layers\": 2, \"recipe\": \"repository\"},\n"
        "  \"bos_token_id\": 0,\n  \"eos_token_id\": [1, 2, 3],\n  \"torch_dtype\": \"bfloat16\"\n}\n",
        "{\n  \"model_type\": \"noised\",\n  \"task\": \"image-classification\",\n"
        "  \"id2label\": {\"0\": \"a \\\"quoted\\\" one\", \"1\": \"d\u00e9j\u00e0\\tvu\"},\n  \"pool\": \"first\",\n"
        "  \"input\": {\"kind\": \"patches\", \"image_size\": [6, 4], \"channels\": 3, \"patch_size\": 2},\n"
        "  \"block\": {\"norm\": \"post\", \"residual\": true},\n  \"hidden_size\": 8,\n"
        "  \"num_hidden_layers\": 2,\n  \"max_position_embeddings\": 8,\n  \"num_attention_heads\": 2,\n"
        "  \"num_key_value_heads\": 2,\n  \"head_dim\": 4,\n  \"norm\": \"layernorm\",\n  \"norm_eps\": 1.5e-07,\n"
        "  \"position\": \"learned\",\n  \"rope_theta\": 12345.678,\n  \"bias\": true,\n"
        "  \"tie_word_embeddings\": true,\n  \"causal\": false,\n"
        "  \"mlp\": {\"activation\": \"gelu\", \"gated\": false, \"intermediate_size\": 16},\n"
        "  \"attention\": {\"kind\": \"mha\"},\n"
        "  \"noise\": {\"scope\": \"layer\", \"density\": \"mixture\", \"components\": 3},\n"
        "  \"sas\": {\"heads\": 4, \"head_dim\": 4, \"kernel\": 3, \"activation\": \"relu\", \"rope\": \"pre\"},\n"
        "  \"torch_dtype\": \"float32\"\n}\n"};
    for (size_t i = 0; i < COUNTOF(texts); i++) {
        Config c;
        Labels labels;
        Err err = {""};
        int rc = config_json_parse(&c, &labels, texts[i], strlen(texts[i]), &err);
        CHECK_MSG(rc == 0, "%s", err.msg);
        if (rc) continue;
        char *text = config_json_print(&c, &labels);
        CHECK_MSG(!strcmp(text, texts[i]), "%s", text);
        free(text);
    }
}

TEST(config_printing) {
    static const char *const members[] = {"mha",
                                          "symmetric",
                                          "noiseformer-v1",
                                          "noiseformer-v2",
                                          "noiseformer-key",
                                          "noiseformer-seq",
                                          "noiseformer-code",
                                          "pairwise",
                                          "gqa",
                                          "mqa",
                                          "mla",
                                          "tpa",
                                          "differential",
                                          "lecture",
                                          "sas",
                                          "noble",
                                          "noble-host",
                                          "noble-repository",
                                          "mlm",
                                          "mlm-noble",
                                          "vit",
                                          "vit-noble",
                                          "image-tokens",
                                          "image-tokens-noble"};
    static const char *const sizes[] = {"", "-nano", "-tiny", "-124m", "-250m", "-350m", "-1.4b", "-1.5b"};
    for (size_t m = 0; m < COUNTOF(members); m++)
        for (size_t s = 0; s < COUNTOF(sizes); s++) {
            Config c;
            Err err = {""};
            const char *name = test_text("%s%s", members[m], sizes[s]);
            int rc = preset_config(&c, name, &err);
            CHECK_MSG(rc == 0, "%s: %s", name, err.msg);
            if (rc == 0) check_printing(&c, name);
        }
    Config c;
    REQUIRE(config_json_parse(&c, NULL, good, strlen(good), NULL) == 0);
    c.norm_eps = 1.1920929e-7f;
    c.rope_theta = 12345.678f;
    c.bos_token_id = -1;
    c.noise.condition_dim = 3;
    check_printing(&c, "good");
    c.noise.condition_dim = 0;
    c.noise.span = SPAN_SEQUENCE;
    check_printing(&c, "sequence");
    c.noise.span = SPAN_KEY;
    c.noise.density = DENSITY_MIXTURE;
    c.noise.components = 2;
    check_printing(&c, "mixture");
    c.noise.span = SPAN_SEQUENCE;
    check_printing(&c, "components of a sequence");
    c.noise.scope = NOISE_LAYER;
    c.noise.site = SITE_RESIDUAL;
    check_printing(&c, "residual");
}
