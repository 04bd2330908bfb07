#include "trainer/optimizer_file.h"

#include "base/files.h"
#include "base/memory.h"
#include "trainer/run_folder.h"
#include "weights/safetensors.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum { COPIES = 3 };

static const char *const copy_prefix[COPIES] = {"master", "m", "v"};

static float *copy_of(const Optimizer *o, int copy) { return copy == 0 ? o->w : copy == 1 ? o->m : o->v; }

static char *copy_name(int copy, const Weight *w) {
    size_t n = strlen(copy_prefix[copy]) + strlen(w->name) + 2;
    char *name = xmalloc(n);
    snprintf(name, n, "%s.%s", copy_prefix[copy], w->name);
    return name;
}

int optimizer_save(const Optimizer *o, const ParamSet *ps, const char *dir, int64_t step, Err *err) {
    char path[PATH_BYTES];
    if (path_join(path, dir, RUN_OPTIMIZER, err)) return -1;
    SafeOut *out = xcalloc((size_t)(COPIES * ps->n), sizeof *out);
    int n = 0;
    for (int copy = 0; copy < COPIES; copy++) {
        const float *data = copy_of(o, copy);
        for (int i = 0; i < ps->n; i++) {
            const Weight *w = ps->params[i].weight;
            if (ps->params[i].frozen) continue;
            out[n++] = (SafeOut){.name = copy_name(copy, w),
                                 .dtype = DTYPE_F32,
                                 .source = DTYPE_F32,
                                 .n_dims = w->n_dims,
                                 .dims = {w->dims[0], w->dims[1], w->dims[2]},
                                 .data = data};
            data += weight_count(w);
        }
    }
    int rc = safe_save(path, out, n, (uint64_t)step, err);
    for (int i = 0; i < n; i++) free((char *)out[i].name);
    free(out);
    return rc;
}

static int load_tensor(const SafeFile *f, const char *path, const char *name, const Weight *w, float *data, Err *err) {
    const SafeTensor *t = safe_find(f, name);
    size_t bytes = weight_count(w) * sizeof *data;
    if (!t) return err_set(err, "%s: %s is missing", path, name);
    if (t->dtype != DTYPE_F32 || t->bytes != bytes)
        return err_set(err, "%s: %s is %s of %zu bytes, the model wants F32 of %zu", path, name, dtype_name(t->dtype),
                       t->bytes, bytes);
    memcpy(data, t->data, bytes);
    return 0;
}

static int load_tensors(const Optimizer *o, const ParamSet *ps, const SafeFile *f, const char *path, Err *err) {
    int wanted = 0;
    for (int i = 0; i < ps->n; i++) wanted += ps->params[i].frozen ? 0 : COPIES;
    if (f->n != wanted) return err_set(err, "%s: %d tensors, the model wants %d", path, f->n, wanted);
    for (int copy = 0; copy < COPIES; copy++) {
        float *data = copy_of(o, copy);
        for (int i = 0; i < ps->n; i++) {
            const Weight *w = ps->params[i].weight;
            if (ps->params[i].frozen) continue;
            char *name = copy_name(copy, w);
            int rc = load_tensor(f, path, name, w, data, err);
            free(name);
            if (rc) return -1;
            data += weight_count(w);
        }
    }
    return 0;
}

int optimizer_load(const Optimizer *o, const ParamSet *ps, const char *dir, int64_t *step, Err *err) {
    char path[PATH_BYTES], *end = NULL;
    SafeFile f;
    if (path_join(path, dir, RUN_OPTIMIZER, err) || safe_open(&f, path, err)) return -1;
    errno = 0;
    *step = f.metadata_step ? strtoll(f.metadata_step, &end, 10) : -1;
    int rc = 0;
    if (!end || end == f.metadata_step || *end || errno || *step < 0)
        rc = err_set(err, "%s: the step in its metadata is \"%.40s\"", path, f.metadata_step ? f.metadata_step : "");
    if (rc == 0) rc = load_tensors(o, ps, &f, path, err);
    if (rc == 0 && !safe_intact(&f)) rc = err_set(err, "%s was changed while it was read", path);
    safe_close(&f);
    return rc;
}
