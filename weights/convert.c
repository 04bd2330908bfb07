#include "weights/convert.h"

#include "base/files.h"
#include "base/err.h"
#include "tokenizer/tokenizer_json.h"
#include "weights/checkpoint.h"

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

static int save_files(const Checkpoint *c, const char *to, Dtype dtype, Err *err) {
    char path[PATH_BYTES];
    const char *step = c->shards.files[0].metadata_step;
    if (path_join(path, to, "tokenizer.json", err)) return -1;
    if (c->tokenizer && tokenizer_json_save(c->tokenizer, path, err)) return -1;
    if (checkpoint_save(to, &c->model, dtype, step ? strtoull(step, NULL, 10) : 0, err)) return -1;
    return shards_check_intact(&c->shards, err);
}

/* Half a checkpoint would only be in the way of the next try. */
static void withdraw(const char *to, int made) {
    static const char *const names[] = {"tokenizer.json", "config.json", "model.safetensors"};
    char path[PATH_BYTES];
    for (size_t i = 0; i < COUNTOF(names); i++)
        if (path_join(path, to, names[i], NULL) == 0) unlink(path);
    folder_remove(to, made);
}

static int save_all(const Checkpoint *c, const char *to, Dtype dtype, Err *err) {
    int made;
    if (folder_create(to, &made, err)) return -1;
    int rc = save_files(c, to, dtype, err);
    if (rc) withdraw(to, made);
    return rc;
}

int checkpoint_convert(const char *from, const char *to, const Dtype *dtype, Err *err) {
    Checkpoint c;
    struct stat st;
    if (lstat(to, &st) == 0) return err_set(err, "%s exists already, must be a new folder", to);
    if (errno != ENOENT) return err_set(err, "%s: %s", to, strerror(errno));
    if (checkpoint_open(&c, from, err)) return -1;
    int rc = save_all(&c, to, dtype ? *dtype : kept_dtype(&c.model.params), err);
    checkpoint_close(&c);
    return rc;
}
