#include "weights/convert.h"

#include "base/files.h"
#include "base/err.h"
#include "base/machine.h"
#include "tokenizer/tokenizer_json.h"
#include "weights/carry.h"
#include "weights/checkpoint.h"
#include "weights/quantize.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* The new folder. */
typedef struct Folder {
    const Checkpoint *source;
    const Model *model;
    const char *from, *to;
    Dtype dtype;
    FILE *said;
} Folder;

static Dtype kept_dtype(const ParamSet *ps) {
    for (int i = 0; i < ps->n; i++)
        if (ps->params[i].matrix && ps->params[i].weight->dtype != DTYPE_BF16) return DTYPE_F32;
    return DTYPE_BF16;
}

/* ---- what is told ---- */

static void say_precisions(const ParamSet *ps, Dtype dtype, FILE *said) {
    int matrices[DTYPE_I4 + 1] = {0}, vectors = 0;
    bool codes = dtype >= DTYPE_I8;
    for (int i = 0; i < ps->n; i++) {
        const Param *p = &ps->params[i];
        if (p->matrix)
            matrices[codes ? quantize_dtype(p, dtype) : dtype]++;
        else
            vectors++;
    }
    fprintf(said, "matrices: %d %s", matrices[dtype], dtype_said(dtype));
    if (dtype == DTYPE_I4) fprintf(said, ", %d I8", matrices[DTYPE_I8]);
    if (codes && matrices[DTYPE_BF16])
        fprintf(said, ", %d BF16, whose rows are no whole groups of %d", matrices[DTYPE_BF16], INT8_GROUP);
    fprintf(said, "; vectors and the like: %d F32\n", vectors);
}

static int say_sizes(const Folder *f, const char *in, Err *err) {
    const ParamSet *ps = &f->model->params;
    const Shards *shards = &f->source->shards;
    char path[PATH_BYTES], was[MEMORY_TEXT], is[MEMORY_TEXT];
    struct stat st;
    size_t bytes = 0;
    for (int i = 0; i < shards->n_files; i++) bytes += shards->files[i].map_bytes;
    if (path_join(path, in, "model.safetensors", err)) return -1;
    if (stat(path, &st)) return err_set(err, "%s: %s", path, strerror(errno));
    fprintf(f->said, "%s: %d tensors, %zu parameters, %s of weights become %s (%.2f)\n", f->to, ps->n, params_count(ps),
            memory_text(bytes, was), memory_text((size_t)st.st_size, is), (double)st.st_size / (double)bytes);
    say_precisions(ps, f->dtype, f->said);
    if (shards->n_dropped)
        fprintf(f->said, "left out: %d %s, first %s: masks, and what follows from other weights\n", shards->n_dropped,
                shards->n_dropped == 1 ? "tensor" : "tensors", shards->dropped[0]);
    return 0;
}

/* ---- the files ---- */

static int save_files(const Folder *f, const char *in, Err *err) {
    char path[PATH_BYTES];
    const Checkpoint *c = f->source;
    const char *step = c->shards.files[0].metadata_step;
    if (path_join(path, in, "tokenizer.json", err)) return -1;
    if (c->tokenizer && tokenizer_json_save(c->tokenizer, path, err)) return -1;
    if (checkpoint_save(in, f->model, &c->labels, f->dtype, step ? strtoull(step, NULL, 10) : 0, err)) return -1;
    if (carry_over(f->from, in, &f->model->cfg, f->said, err)) return -1;
    return shards_check_intact(&c->shards, err);
}

/* Half a checkpoint would only be in the way of the next try. */
static void withdraw(const char *to, int made) {
    static const char *const names[] = {"tokenizer.json", "config.json", "model.safetensors"};
    char path[PATH_BYTES];
    for (size_t i = 0; i < COUNTOF(names); i++)
        if (path_join(path, to, names[i], NULL) == 0) unlink(path);
    carry_withdraw(to);
    folder_remove(to, made);
}

/* The folder gets its name when it is whole: what a killed conversion leaves is in nobody's way, and goes with the
 * next. */
static int save_all(const Folder *f, Err *err) {
    char unfinished[PATH_BYTES];
    size_t n = strlen(f->to);
    while (n > 1 && f->to[n - 1] == '/') n--;
    if (snprintf(unfinished, sizeof unfinished, "%.*s.unfinished", (int)n, f->to) >= (int)sizeof unfinished)
        return err_set(err, "%.200s…: the path is too long", f->to);
    struct stat source, there;
    if (lstat(unfinished, &there) == 0 && stat(f->from, &source) == 0 &&
        (!S_ISDIR(there.st_mode) || (there.st_dev == source.st_dev && there.st_ino == source.st_ino)))
        return err_set(err, "%s is %s: rename it, or write another folder than %s", unfinished,
                       S_ISDIR(there.st_mode) ? "the folder to read" : "no folder", f->to);
    withdraw(unfinished, 1);
    int made, rc;
    if (folder_create(unfinished, &made, err)) return -1;
    rc = save_files(f, unfinished, err);
    if (rc == 0) rc = say_sizes(f, unfinished, err);
    if (rc == 0 && rename(unfinished, f->to)) rc = err_set(err, "%s: %s", f->to, strerror(errno));
    if (rc) withdraw(unfinished, made);
    if (rc == 0 && (rc = folder_sync_of(f->to, err))) withdraw(f->to, made);
    return rc;
}

int convert_check_new(const char *to, Err *err) {
    struct stat st;
    if (lstat(to, &st) == 0) return err_set(err, "%s exists already, must be a new folder", to);
    return errno == ENOENT ? 0 : err_set(err, "%s: %s", to, strerror(errno));
}

int checkpoint_write(const Checkpoint *c, const Model *m, const char *from, const char *to, const Dtype *dtype,
                     FILE *said, Err *err) {
    Dtype saved = dtype ? *dtype : kept_dtype(&m->params);
    return save_all(&(Folder){.source = c, .model = m, .from = from, .to = to, .dtype = saved, .said = said}, err);
}

int checkpoint_convert(const char *from, const char *to, const Dtype *dtype, FILE *said, Err *err) {
    Checkpoint c;
    if (convert_check_new(to, err) || checkpoint_open(&c, from, err)) return -1;
    int rc = checkpoint_write(&c, &c.model, from, to, dtype, said, err);
    checkpoint_close(&c);
    return rc;
}
