#include "weights/checkpoint.h"

#include "base/atomic_file.h"
#include "base/files.h"
#include "base/err.h"
#include "base/memory.h"
#include "base/sha256.h"
#include "tokenizer/tokenizer_files.h"
#include "weights/bind.h"
#include "weights/config_json.h"
#include "weights/foreign.h"
#include "weights/import/gpt2.h"
#include "weights/quantize.h"

#include <stdlib.h>
#include <string.h>

enum { CONFIG_MAX = 1 << 20 };

/* Puts the path in front of what went wrong below. */
static int at_path(const char *path, const Err *why, Err *err) { return err_set(err, "%s: %s", path, why->msg); }

static int open_config(Config *cfg, Labels *labels, Sha256 *hash, const char *dir, Err *err) {
    char path[PATH_BYTES];
    Err why;
    size_t n;
    if (path_join(path, dir, "config.json", err)) return -1;
    char *text = file_read(path, CONFIG_MAX, &n, err);
    if (!text) return -1;
    sha256_add(hash, text, n);
    int rc = config_json_parse(cfg, labels, text, n, &why);
    free(text);
    return rc ? at_path(path, &why, err) : 0;
}

static int open_weights(Checkpoint *c, Sha256 *hash, const char *dir, bool copy, Err *err) {
    Err why;
    if (shards_open(&c->shards, dir, copy, err)) return -1;
    shards_hash(&c->shards, hash);
    if (gpt2_translate(&c->shards, &why) || bind_model(&c->model, &c->shards, &c->owned, &why))
        return at_path(dir, &why, err);
    return 0;
}

static int open_tokenizer(Checkpoint *c, const char *dir, Err *err) {
    if (tokenizer_files_load(&c->tokenizer, dir, err)) return -1;
    if (!c->tokenizer) return 0;
    int n = tokenizer_vocab_size(c->tokenizer), vocab = c->model.cfg.vocab_size;
    if (n <= vocab) return 0;
    return err_set(err, "%s: the tokenizer has %d tokens, but vocab_size of config.json is %d", dir, n, vocab);
}

static int open_as(Checkpoint *c, const char *dir, bool copy, Err *err) {
    Config cfg;
    Sha256 hash;
    *c = (Checkpoint){0};
    if (foreign_explain(dir, err)) return -1;
    sha256_init(&hash);
    int rc = open_config(&cfg, &c->labels, &hash, dir, err);
    if (rc == 0) rc = generation_open(&c->generation, &cfg, &hash, dir, err);
    if (rc == 0) rc = model_init(&c->model, &cfg, err);
    if (rc == 0) rc = open_weights(c, &hash, dir, copy, err);
    if (rc == 0) rc = open_tokenizer(c, dir, err);
    sha256_hex(&hash, c->hash);
    if (rc) checkpoint_close(c);
    return rc;
}

int checkpoint_open(Checkpoint *c, const char *dir, Err *err) { return open_as(c, dir, false, err); }

int checkpoint_open_copy(Checkpoint *c, const char *dir, Err *err) { return open_as(c, dir, true, err); }

void checkpoint_close(Checkpoint *c) {
    if (c->tokenizer) tokenizer_free(c->tokenizer);
    model_free(&c->model);
    free(c->owned);
    shards_close(&c->shards);
    *c = (Checkpoint){0};
}

static int save_config(const char *dir, const Config *cfg, const Labels *labels, Dtype dtype, Err *err) {
    static const char *const names[] = {
        [DTYPE_F32] = "float32", [DTYPE_BF16] = "bfloat16", [DTYPE_I8] = "int8", [DTYPE_I4] = "int4"};
    char path[PATH_BYTES];
    Config c = *cfg;
    if (path_join(path, dir, "config.json", err)) return -1;
    snprintf(c.torch_dtype, sizeof c.torch_dtype, "%s", names[dtype]);
    char *text = config_json_print(&c, labels);
    int rc = file_write(path, text, strlen(text), err);
    free(text);
    return rc;
}

/* The tensors of a file to be, and what was made for it. */
typedef struct Outputs {
    SafeOut *tensors;
    int n;
    void **owned; /* [n], NULL where the data is the model's */
} Outputs;

static SafeOut *add_output(Outputs *o, const Weight *w, const char *name, Dtype dtype) {
    SafeOut *out = &o->tensors[o->n++];
    *out = (SafeOut){.name = name,
                     .dtype = dtype,
                     .source = w->dtype,
                     .n_dims = w->n_dims,
                     .dims = {w->dims[0], w->dims[1], w->dims[2]},
                     .data = w->data};
    return out;
}

static int add_quantized(Outputs *o, const Weight *w, Err *err) {
    size_t n = weight_count(w), n_name = strlen(w->name) + sizeof "_scale";
    float *scales = xmalloc(n / INT8_GROUP * sizeof *scales + n_name);
    int8_t *codes = xmalloc(n);
    char *name = (char *)(scales + n / INT8_GROUP);
    snprintf(name, n_name, "%s_scale", w->name);
    o->owned[o->n] = codes;
    o->owned[o->n + 1] = scales;
    SafeOut *out = add_output(o, w, w->name, DTYPE_I8);
    out->source = DTYPE_I8;
    out->data = codes;
    out = add_output(o, w, name, DTYPE_F32);
    out->source = DTYPE_F32;
    out->dims[1] /= INT8_GROUP;
    out->data = scales;
    return quantize_weight(w, codes, scales, err);
}

static int add_quantized4(Outputs *o, const Weight *w, Err *err) {
    size_t n = weight_count(w), n_name = strlen(w->name) + sizeof "_scale";
    uint16_t *scales = xmalloc(n / INT4_GROUP * sizeof *scales + n_name);
    uint8_t *codes = xmalloc(n / 2);
    char *name = (char *)(scales + n / INT4_GROUP);
    int blocks[2] = {w->dims[0] / INT4_OUTS, w->dims[1] / INT4_GROUP};
    snprintf(name, n_name, "%s_scale", w->name);
    o->owned[o->n] = codes;
    o->owned[o->n + 1] = scales;
    SafeOut t = {.name = w->name, .dtype = DTYPE_I4, .source = DTYPE_I4, .n_dims = 3, .data = codes};
    memcpy(t.dims, (const int[]){blocks[0], blocks[1], INT4_BLOCK}, 3 * sizeof *t.dims);
    o->tensors[o->n++] = t;
    t.name = name, t.dtype = t.source = DTYPE_F16, t.data = scales, t.dims[2] = INT4_OUTS;
    o->tensors[o->n++] = t;
    return quantize_weight4(w, codes, scales, err);
}

static int add_param(Outputs *o, const Param *p, Dtype dtype, Err *err) {
    const Weight *w = p->weight;
    if (w->dtype >= DTYPE_I8)
        return err_set(err, "%s is I%d, whose exact values are gone: save from the original", w->name,
                       w->dtype == DTYPE_I8 ? 8 : 4);
    Dtype own = dtype >= DTYPE_I8 ? quantize_dtype(p, dtype) : p->matrix ? dtype : DTYPE_F32;
    if (own == DTYPE_I4) return add_quantized4(o, w, err);
    if (own == DTYPE_I8) return add_quantized(o, w, err);
    add_output(o, w, w->name, own);
    return 0;
}

static int save_weights(const char *dir, const ParamSet *ps, Dtype dtype, uint64_t step, Err *err) {
    char path[PATH_BYTES];
    if (path_join(path, dir, "model.safetensors", err)) return -1;
    size_t most = 2 * (size_t)ps->n + 1;
    Outputs o = {.tensors = xcalloc(most, sizeof *o.tensors), .owned = xcalloc(most, sizeof *o.owned)};
    int rc = 0;
    for (int i = 0; i < ps->n && rc == 0; i++) rc = add_param(&o, &ps->params[i], dtype, err);
    if (rc == 0) rc = safe_save(path, o.tensors, o.n, step, err);
    for (int i = 0; i < o.n; i++) free(o.owned[i]);
    free(o.tensors);
    free(o.owned);
    return rc;
}

int checkpoint_save(const char *dir, const Model *m, const Labels *labels, Dtype save_dtype, uint64_t step, Err *err) {
    BUG_ON(save_dtype == DTYPE_F16);
    if (folder_create(dir, NULL, err) || save_config(dir, &m->cfg, labels, save_dtype, err)) return -1;
    return save_weights(dir, &m->params, save_dtype, step, err);
}
