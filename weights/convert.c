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

static Dtype kept_dtype(const ParamSet *ps) {
    for (int i = 0; i < ps->n; i++)
        if (ps->params[i].matrix && ps->params[i].weight->dtype != DTYPE_BF16) return DTYPE_F32;
    return DTYPE_BF16;
}

/* ---- what is told ---- */

static void say_precisions(const ParamSet *ps, Dtype dtype, FILE *said) {
    int matrices = 0, vectors = 0, coarse = 0; /* coarse: matrices that cannot be int8 */
    for (int i = 0; i < ps->n; i++) {
        const Param *p = &ps->params[i];
        if (!p->matrix)
            vectors++;
        else if (dtype == DTYPE_I8 && !quantize_fits(p->weight))
            coarse++;
        else
            matrices++;
    }
    fprintf(said, "matrices: %d %s", matrices, dtype_name(dtype));
    if (coarse) fprintf(said, ", %d BF16, whose rows are no whole groups of %d", coarse, INT8_GROUP);
    fprintf(said, "; vectors and the like: %d F32\n", vectors);
}

static int say_sizes(const Checkpoint *c, const char *in, const char *to, Dtype dtype, FILE *said, Err *err) {
    const ParamSet *ps = &c->model.params;
    const Shards *shards = &c->shards;
    char path[PATH_BYTES], was[MEMORY_TEXT], is[MEMORY_TEXT];
    struct stat st;
    size_t bytes = 0;
    for (int i = 0; i < shards->n_files; i++) bytes += shards->files[i].map_bytes;
    if (path_join(path, in, "model.safetensors", err)) return -1;
    if (stat(path, &st)) return err_set(err, "%s: %s", path, strerror(errno));
    fprintf(said, "%s: %d tensors, %zu parameters, %s of weights become %s (%.2f)\n", to, ps->n, params_count(ps),
            memory_text(bytes, was), memory_text((size_t)st.st_size, is), (double)st.st_size / (double)bytes);
    say_precisions(ps, dtype, said);
    if (shards->n_dropped)
        fprintf(said, "left out: %d %s, first %s: masks, and what follows from other weights\n", shards->n_dropped,
                shards->n_dropped == 1 ? "tensor" : "tensors", shards->dropped[0]);
    return 0;
}

/* ---- the files ---- */

static int save_files(const Checkpoint *c, const char *from, const char *to, Dtype dtype, FILE *said, Err *err) {
    char path[PATH_BYTES];
    const char *step = c->shards.files[0].metadata_step;
    if (path_join(path, to, "tokenizer.json", err)) return -1;
    if (c->tokenizer && tokenizer_json_save(c->tokenizer, path, err)) return -1;
    if (checkpoint_save(to, &c->model, &c->labels, dtype, step ? strtoull(step, NULL, 10) : 0, err)) return -1;
    if (carry_over(from, to, &c->model.cfg, said, err)) return -1;
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
static int save_all(const Checkpoint *c, const char *from, const char *to, Dtype dtype, FILE *said, Err *err) {
    char unfinished[PATH_BYTES];
    size_t n = strlen(to);
    while (n > 1 && to[n - 1] == '/') n--;
    if (snprintf(unfinished, sizeof unfinished, "%.*s.unfinished", (int)n, to) >= (int)sizeof unfinished)
        return err_set(err, "%.200s…: the path is too long", to);
    withdraw(unfinished, 1);
    int made, rc;
    if (folder_create(unfinished, &made, err)) return -1;
    rc = save_files(c, from, unfinished, dtype, said, err);
    if (rc == 0) rc = say_sizes(c, unfinished, to, dtype, said, err);
    if (rc == 0 && rename(unfinished, to)) rc = err_set(err, "%s: %s", to, strerror(errno));
    if (rc) withdraw(unfinished, made);
    if (rc == 0 && (rc = folder_sync_of(to, err))) withdraw(to, made);
    return rc;
}

int checkpoint_convert(const char *from, const char *to, const Dtype *dtype, FILE *said, Err *err) {
    Checkpoint c;
    struct stat st;
    if (lstat(to, &st) == 0) return err_set(err, "%s exists already, must be a new folder", to);
    if (errno != ENOENT) return err_set(err, "%s: %s", to, strerror(errno));
    if (checkpoint_open(&c, from, err)) return -1;
    int rc = save_all(&c, from, to, dtype ? *dtype : kept_dtype(&c.model.params), said, err);
    checkpoint_close(&c);
    return rc;
}
