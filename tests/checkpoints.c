#include "checkpoints.h"

#include "models.h"
#include "test.h"

#include "../weights/checkpoint.h"

#include <string.h>

Config test_checkpoint_config(void) {
    return (Config){.vocab_size = 300,
                    .hidden_size = 64,
                    .n_layers = 2,
                    .n_heads = 4,
                    .n_kv_heads = 2,
                    .head_dim = 16,
                    .max_positions = 32,
                    .norm = NORM_RMS,
                    .norm_eps = 1e-5f,
                    .position = POSITION_ROPE,
                    .rope_theta = 10000,
                    .bias = true,
                    .tie_embeddings = true,
                    .mlp = {.activation = ACT_SILU, .gated = true, .width = 96},
                    .attention = {.kind = attention_kind_find("gqa")},
                    .noise = {.scope = NOISE_HEAD},
                    .sas = {.heads = 8, .head_dim = 24, .kernel = 3, .relu = true},
                    .noble = {.rank = 4, .layers = 2},
                    .bos_token_id = 0,
                    .eos_token_id = 0,
                    .torch_dtype = "float32"};
}

void test_path(char path[256], const char *dir, const char *name) { snprintf(path, 256, "%s/%s", dir, name); }

void test_checkpoint_save(const char *dir, const Config *c, Dtype dtype) {
    TestModel t;
    Err err;
    BUG_ON(!test_model_init(&t, c, 5));
    CHECK_MSG(checkpoint_save(dir, &t.model, dtype, 7, &err) == 0, "%s", err.msg);
    test_model_free(&t);
}

void test_checkpoint_open(const char *dir, const char *why, const char *what) {
    Checkpoint c;
    Err err = {""};
    int rc = checkpoint_open(&c, dir, &err);
    if (why)
        CHECK_MSG(rc == -1 && strstr(err.msg, why), "%s: %d, %s", what, rc, err.msg);
    else
        CHECK_MSG(rc == 0, "%s: %s", what, err.msg);
    if (rc == 0) checkpoint_close(&c);
}
