/* config.json as Hugging Face writes it, of Llama's architecture and its relatives. */
#include "base/err.h"
#include "model/kind.h"
#include "tests/model/test_config.h"
#include "weights/config_json.h"

#include <stdlib.h>
#include <string.h>

static const char llama[] =
    "{\"architectures\":[\"LlamaForCausalLM\"],\"attention_bias\":false,\"attention_dropout\":0.0,\"bos_token_id\":1,"
    "\"eos_token_id\":[2,7],\"hidden_act\":\"silu\",\"hidden_size\":24,\"initializer_range\":0.02,"
    "\"intermediate_size\":40,\"max_position_embeddings\":64,\"mlp_bias\":false,\"model_type\":\"llama\","
    "\"num_attention_heads\":4,\"num_hidden_layers\":2,\"num_key_value_heads\":2,\"pretraining_tp\":1,"
    "\"rms_norm_eps\":1e-06,\"rope_scaling\":null,\"rope_theta\":500000.0,\"tie_word_embeddings\":true,"
    "\"torch_dtype\":\"bfloat16\",\"transformers_version\":\"4.45.0\",\"use_cache\":true,\"vocab_size\":64}";

TEST(config_gqa_heads) {
    static const Change gqa[] = {
        {"\"num_attention_heads\":4,\"num_hidden_layers\":2,\"num_key_value_heads\":2",
         "\"num_attention_heads\":12,\"num_hidden_layers\":2,\"num_key_value_heads\":5",
         "num_attention_heads 12 is not a multiple of num_key_value_heads 5"},
        {"\"num_key_value_heads\":2", "\"num_key_value_heads\":8",
         "num_attention_heads 4 is not a multiple of num_key_value_heads 8"},
    };
    check_changes(llama, gqa, COUNTOF(gqa));
}

TEST(config_llama) {
    static const Change hf[] = {
        {"\"rope_scaling\":null", "\"rope_scaling\":{\"rope_type\":\"default\"}", NULL},
        {"\"rope_scaling\":null", "\"rope_scaling\":{\"rope_type\":\"llama3\",\"factor\":8.0}",
         "rope_scaling.original_max_position_embeddings is missing"},
        {"\"rope_scaling\":null",
         "\"rope_scaling\":{\"rope_type\":\"llama3\",\"factor\":8,\"low_freq_factor\":4,\"high_freq_factor\":4,"
         "\"original_max_position_embeddings\":8}",
         "rope_scaling.low_freq_factor is 4 and high_freq_factor 4, must be 0 < low < high"},
        {"\"rope_scaling\":null", "\"rope_scaling\":{\"type\":\"linear\",\"factor\":2}", NULL},
        {"\"rope_scaling\":null", "\"rope_scaling\":{\"type\":\"linear\",\"factor\":0.5}",
         "rope_scaling.factor is 0.5, must be 1 to 1e6"},
        {"\"rope_scaling\":null", "\"rope_scaling\":{\"type\":\"linear\"}", "rope_scaling.factor is nan, must be 1"},
        {"\"rope_scaling\":null", "\"rope_scaling\":2", "rope_scaling is 2, must be an object"},
        {"\"rope_scaling\":null", "\"rope_parameters\":{\"rope_type\":\"yarn\"}",
         "rope_parameters.rope_type is \"yarn\""},
        {"\"rope_scaling\":null", "\"partial_rotary_factor\":0.5", "partial_rotary_factor is 0.5, must be 1"},
        {"\"hidden_act\":\"silu\"", "\"hidden_act\":\"gelu\"", "hidden_act is \"gelu\", must be silu"},
        {"\"attention_bias\":false", "\"attention_bias\":true", NULL},
        {"\"mlp_bias\":false", "\"mlp_bias\":true", "mlp_bias is true, but attention_bias is false"},
        {"\"num_key_value_heads\":2,", "", NULL},
        {"\"num_key_value_heads\":2", "\"num_key_value_heads\":null,\"head_dim\":null", NULL},
        {"\"eos_token_id\":[2,7]", "\"eos_token_id\":[]", "eos_token_id is a list of 0 ids"},
        {"\"eos_token_id\":[2,7]", "\"eos_token_id\":\"2\"", "eos_token_id is \"2\", must be an integer"},
        {"\"eos_token_id\":[2,7]", "\"eos_token_id\":99", "eos_token_id is 99, must be -1 to 63"},
        {"\"intermediate_size\":40,", "", "intermediate_size is missing"},
        {"\"hidden_size\":24", "\"hidden_size\":30", "head_dim is missing"},
        {"\"hidden_size\":24", "\"hidden_size\":30,\"head_dim\":8", NULL},
        {"\"model_type\":\"llama\"", "\"model_type\":\"mistral\",\"sliding_window\":0", "sliding_window is 0"},
        {"\"model_type\":\"llama\"", "\"model_type\":\"mistral\"", NULL},
        {"\"model_type\":\"llama\"", "\"model_type\":\"qwen2\",\"use_sliding_window\":true,\"max_window_layers\":1",
         "max_window_layers is 1 of 2 layers, only none or all with the window are supported"},
        {"\"model_type\":\"llama\"",
         "\"model_type\":\"qwen2\",\"use_sliding_window\":true,\"max_window_layers\":2,"
         "\"layer_types\":[\"sliding_attention\",\"full_attention\"]",
         "layer_types has the window on 1 of 2 layers, only none or all are supported"},
        {"\"model_type\":\"llama\"", "\"model_type\":\"qwen2\",\"layer_types\":[\"full_attention\"]",
         "layer_types has 1 elements for 2 layers"},
        {"\"model_type\":\"llama\"", "\"model_type\":\"qwen3\",\"layer_types\":[\"full_attention\",\"linear\"]",
         "layer_types holds \"linear\", must be full_attention or sliding_attention"},
        {"\"model_type\":\"llama\"",
         "\"model_type\":\"qwen3\",\"use_sliding_window\":true,\"max_window_layers\":0,"
         "\"layer_types\":[\"full_attention\",\"full_attention\"]",
         NULL},
        {"\"model_type\":\"llama\"", "\"model_type\":\"qwen3\"", NULL},
        {"\"model_type\":\"llama\"",
         "\"model_type\":\"llama\",\"rope_parameters\":{\"rope_type\":\"default\",\"partial_rotary_factor\":0.5}",
         "partial_rotary_factor is 0.5, must be 1"},
        {"\"model_type\":\"llama\"", "\"model_type\":\"gemma2\"", "model_type is \"gemma2\""},
    };
    check_changes(llama, hf, COUNTOF(hf));
    Config c;
    Err err;
    REQUIRE(config_json_parse(&c, NULL, llama, strlen(llama), &err) == 0);
    CHECK(c.norm == NORM_RMS && c.norm_eps == 1e-6f && c.position == POSITION_ROPE && c.rope_theta == 500000);
    CHECK(c.mlp.gated && c.mlp.activation == ACT_SILU && c.mlp.width == 40 && c.tie_embeddings && !c.bias);
    CHECK(c.n_kv_heads == 2 && c.head_dim == 6 && c.bos_token_id == 1 && c.eos_token_id == 2 && c.n_more_ends == 1 &&
          c.more_ends[0] == 7);
    CHECK(!strcmp(c.torch_dtype, "bfloat16") && !strcmp(c.attention.kind->name, "gqa"));
    char *changed = config_with(llama, "\"rope_scaling\":null,\"rope_theta\":500000.0",
                                "\"rope_parameters\":{\"rope_type\":\"default\",\"rope_theta\":20000.0}");
    REQUIRE(config_json_parse(&c, NULL, changed, strlen(changed), &err) == 0);
    CHECK(c.rope_theta == 20000);
    free(changed);
    CHECK(c.causal);
    changed = config_with(llama, "\"attention_bias\":false", "\"is_causal\":false");
    REQUIRE(config_json_parse(&c, NULL, changed, strlen(changed), &err) == 0);
    CHECK(!c.causal);
    free(changed);
}
