#include "tests/support/checkpoints.h"

#include "base/err.h"
#include "tests/support/models.h"
#include "tests/support/test.h"
#include "weights/convert.h"
#include "weights/config_json.h"

#include <cjson/cJSON.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

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
                    .causal = true,
                    .mlp = {.activation = ACT_SILU, .gated = true, .width = 96},
                    .attention = {.kind = attention_kind_find("gqa")},
                    .noise = {.scope = NOISE_HEAD},
                    .sas = {.heads = 8, .head_dim = 24, .kernel = 3, .relu = true},
                    .noble = {.rank = 4, .layers = 2},
                    .bos_token_id = 0,
                    .eos_token_id = 0,
                    .torch_dtype = "float32"};
}

void test_checkpoint_save(const char *dir, const Config *c, Dtype dtype) {
    TestModel t;
    Err err;
    BUG_ON(!test_model_init(&t, c, 5));
    CHECK_MSG(checkpoint_save(dir, &t.model, NULL, dtype, 7, &err) == 0, "%s", err.msg);
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

bool test_is_mapped(const Checkpoint *c, const void *p) {
    const SafeFile *f = &c->shards.files[0];
    return (const char *)p >= (const char *)f->map && (const char *)p < (const char *)f->map + f->map_bytes;
}

void edit_open(Edit *e, const char *dir) {
    BUG_ON(safe_open(&e->file, test_text("%s/model.safetensors", dir), NULL));
    e->n = e->file.n;
    BUG_ON(e->n > 250);
    for (int i = 0; i < e->n; i++) {
        const SafeTensor *t = &e->file.tensors[i];
        e->out[i] =
            (SafeOut){.name = t->name, .dtype = t->dtype, .source = t->dtype, .n_dims = t->n_dims, .data = t->data};
        memcpy(e->out[i].dims, t->dims, sizeof t->dims);
    }
}

SafeOut *edit_find(Edit *e, const char *name) {
    for (int i = 0; i < e->n; i++)
        if (!strcmp(e->out[i].name, name)) return &e->out[i];
    bug_abort(__FILE__, __LINE__, name);
}

void edit_remove(Edit *e, const char *name) {
    SafeOut *t = edit_find(e, name);
    *t = e->out[--e->n];
}

SafeOut *edit_add(Edit *e, SafeOut out) {
    e->out[e->n] = out;
    return &e->out[e->n++];
}

void edit_save_part(const Edit *e, int first, int count, const char *dir, const char *name) {
    BUG_ON(safe_save(test_text("%s/%s", dir, name), e->out + first, count, 0, NULL));
}

void edit_save(Edit *e, const char *dir) {
    edit_save_part(e, 0, e->n, dir, "model.safetensors");
    safe_close(&e->file);
}

const char *test_config_folder(const Config *c) {
    const char *dir = test_dir();
    char *text = config_json_print(c, NULL);
    test_write_text(dir, "config.json", text);
    free(text);
    return dir;
}

void test_write_text(const char *dir, const char *name, const char *text) {
    test_write_file(test_text("%s/%s", dir, name), text, strlen(text));
}

void test_strip_metadata(const char *dir, const char *name) {
    size_t n;
    const char *path = test_text("%s/%s", dir, name);
    char *file = test_read_file(path, &n), *end = strstr(file + 8, "},");
    BUG_ON(strncmp(file + 8, "{\"__metadata__\"", 15) || !end);
    memset(file + 9, ' ', (size_t)(end + 2 - file) - 9);
    test_write_file(path, file, n);
    free(file);
}

int test_convert(const char *from, const char *to, const Dtype *dtype, Err *err) {
    FILE *said = fopen("/dev/null", "w");
    BUG_ON(!said);
    int rc = checkpoint_convert(from, to, dtype, said, err);
    fclose(said);
    return rc;
}

int test_run_tool(const char *arguments, char out[4096]) {
    const char *build = getenv("BUILD");
    FILE *f = popen(test_text("%s/noised-weights %s 2>&1", build ? build : "build", arguments), "r");
    BUG_ON(!f);
    out[fread(out, 1, 4095, f)] = 0;
    int status = pclose(f);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

void test_add_token(const char *dir, int id, const char *content) {
    char *text = test_read_file(test_text("%s/tokenizer.json", dir), NULL);
    cJSON *tokenizer = cJSON_Parse(text);
    cJSON *token =
        cJSON_Parse("{\"single_word\":false,\"lstrip\":false,\"rstrip\":false,\"normalized\":false,\"special\":"
                    "true}");
    cJSON_AddNumberToObject(token, "id", id);
    cJSON_AddStringToObject(token, "content", content);
    cJSON_AddItemToArray(cJSON_GetObjectItem(tokenizer, "added_tokens"), token);
    free(text);
    text = cJSON_PrintUnformatted(tokenizer);
    test_write_text(dir, "tokenizer.json", text);
    free(text);
    cJSON_Delete(tokenizer);
}

void test_tokens_around(const char *dir, const char *before, const char *behind) {
    const char *bos = before ? test_text("\"bos_token\":\"%s\",", before) : "",
               *eos = behind ? test_text("\"eos_token\":\"%s\",", behind) : "";
    test_write_text(dir, "tokenizer_config.json",
                    test_text("{%s%s\"add_bos_token\":%s,\"add_eos_token\":%s,\"tokenizer_class\":"
                              "\"LlamaTokenizerFast\"}",
                              bos, eos, before ? "true" : "false", behind ? "true" : "false"));
}
