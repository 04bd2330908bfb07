#include "checkpoint.h"

#include "bind.h"
#include "config_json.h"
#include "files.h"
#include "gpt2.h"
#include "sha256.h"
#include "tokenizer_json.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum { CONFIG_MAX = 1 << 20 };

/* Puts the path in front of what went wrong below. */
static int at_path(const char *path, const Err *why, Err *err) { return err_set(err, "%s: %s", path, why->msg); }

static int open_config(Config *cfg, Sha256 *hash, const char *dir, Err *err) {
    char path[PATH_BYTES];
    Err why;
    size_t n;
    if (path_join(path, dir, "config.json", err)) return -1;
    char *text = file_read(path, CONFIG_MAX, &n, err);
    if (!text) return -1;
    sha256_add(hash, text, n);
    int rc = config_json_parse(cfg, text, n, &why);
    free(text);
    return rc ? at_path(path, &why, err) : 0;
}

static int open_weights(Checkpoint *c, Sha256 *hash, const char *dir, Err *err) {
    Err why;
    if (shards_open(&c->shards, dir, err)) return -1;
    shards_hash(&c->shards, hash);
    if (gpt2_translate(&c->shards, &why) || bind_model(&c->model, &c->shards, &c->owned, &why))
        return at_path(dir, &why, err);
    return 0;
}

static int open_tokenizer(Checkpoint *c, const char *dir, Err *err) {
    char path[PATH_BYTES];
    struct stat st;
    if (path_join(path, dir, "tokenizer.json", err)) return -1;
    if (stat(path, &st) < 0 && errno == ENOENT) return 0;
    if (tokenizer_json_load(&c->tokenizer, path, err)) return -1;
    int n = tokenizer_vocab_size(c->tokenizer), vocab = c->model.cfg.vocab_size;
    if (n <= vocab) return 0;
    return err_set(err, "%s: %d tokens, but vocab_size of config.json is %d", path, n, vocab);
}

int checkpoint_open(Checkpoint *c, const char *dir, Err *err) {
    Config cfg;
    Sha256 hash;
    *c = (Checkpoint){0};
    sha256_init(&hash);
    if (open_config(&cfg, &hash, dir, err) || model_init(&c->model, &cfg, err)) return -1;
    if (open_weights(c, &hash, dir, err) || open_tokenizer(c, dir, err)) {
        checkpoint_close(c);
        return -1;
    }
    sha256_hex(&hash, c->hash);
    return 0;
}

void checkpoint_close(Checkpoint *c) {
    if (c->tokenizer) tokenizer_free(c->tokenizer);
    model_free(&c->model);
    free(c->owned);
    shards_close(&c->shards);
    *c = (Checkpoint){0};
}

static int save_config(const char *dir, const Config *cfg, Dtype dtype, Err *err) {
    char path[PATH_BYTES];
    Config c = *cfg;
    if (path_join(path, dir, "config.json", err)) return -1;
    snprintf(c.torch_dtype, sizeof c.torch_dtype, "%s", dtype == DTYPE_F32 ? "float32" : "bfloat16");
    char *text = config_json_print(&c);
    int rc = file_write(path, text, strlen(text), err);
    free(text);
    return rc;
}

static int save_weights(const char *dir, const ParamSet *ps, Dtype dtype, uint64_t step, Err *err) {
    char path[PATH_BYTES];
    if (path_join(path, dir, "model.safetensors", err)) return -1;
    SafeOut *out = xcalloc((size_t)ps->n + 1, sizeof *out);
    int rc = 0;
    for (int i = 0; i < ps->n && rc == 0; i++) {
        const Param *p = &ps->params[i];
        const Weight *w = p->weight;
        out[i] = (SafeOut){.name = w->name,
                           .dtype = p->matrix ? dtype : DTYPE_F32,
                           .source = w->dtype,
                           .n_dims = w->n_dims,
                           .dims = {w->dims[0], w->dims[1], w->dims[2]},
                           .data = w->data};
        if (w->dtype == DTYPE_I8) rc = err_set(err, "%s is I8 and cannot be saved as %s", w->name, dtype_name(dtype));
    }
    if (rc == 0) rc = safe_save(path, out, ps->n, step, err);
    free(out);
    return rc;
}

int checkpoint_save(const char *dir, const Model *m, Dtype save_dtype, uint64_t step, Err *err) {
    BUG_ON(save_dtype != DTYPE_F32 && save_dtype != DTYPE_BF16);
    if (folder_create(dir, err) || save_config(dir, &m->cfg, save_dtype, err)) return -1;
    return save_weights(dir, &m->params, save_dtype, step, err);
}
