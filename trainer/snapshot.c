#include "trainer/snapshot.h"

#include "base/atomic_file.h"
#include "base/err.h"
#include "base/files.h"
#include "base/json.h"
#include "base/json_look.h"
#include "base/memory.h"
#include "trainer/run_folder.h"
#include "weights/checkpoint.h"
#include "weights/config_json.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum { STATE_MAX = 1 << 20, STATE_DEPTH = 8, STATE_VALUES = 65536, COPIES = 3 };

static const char *const copy_prefix[COPIES] = {"master", "m", "v"};

/* ---- trainer_state.json ---- */

static int read_state(RunState *s, Err *err) {
    const cJSON *hash = json_field(s->root, "data_sha256"), *config = json_field(s->root, "config");
    s->settings = json_field(s->root, "settings");
    if (!cJSON_IsObject(s->settings) || !cJSON_IsObject(config)) return err_set(err, "settings or config is missing");
    if (!cJSON_IsString(hash) || strlen(hash->valuestring) != sizeof s->data_hash - 1)
        return err_set(err, "data_sha256 is missing or no sha256");
    snprintf(s->data_hash, sizeof s->data_hash, "%s", hash->valuestring);
    char *text = cJSON_Print(config);
    BUG_ON(!text);
    int rc = config_json_parse(&s->config, text, strlen(text), err);
    cJSON_free(text);
    return rc;
}

int run_state_load(RunState *s, const char *dir, Err *err) {
    char path[PATH_BYTES];
    Err why;
    *s = (RunState){0};
    if (path_join(path, dir, RUN_STATE, err)) return -1;
    s->root = json_load(path, STATE_MAX, STATE_DEPTH, STATE_VALUES, err);
    if (!s->root) return -1;
    if (read_state(s, &why) == 0) return 0;
    run_state_free(s);
    return err_set(err, "%s: %s", path, why.msg);
}

void run_state_free(RunState *s) {
    cJSON_Delete(s->root);
    *s = (RunState){0};
}

static int save_state(const Training *t, int64_t step, Err *err) {
    char path[PATH_BYTES];
    if (path_join(path, t->settings->out, RUN_STATE, err)) return -1;
    cJSON *root = cJSON_CreateObject();
    char *config = config_json_print(&t->model->cfg);
    cJSON_AddNumberToObject(root, "step", (double)step);
    cJSON_AddStringToObject(root, "data_sha256", t->data_hash);
    cJSON_AddItemToObject(root, "config", cJSON_Parse(config));
    cJSON_AddItemToObject(root, "settings", cJSON_Duplicate(t->saved_settings, true));
    free(config);
    char *text = cJSON_Print(root);
    BUG_ON(!text);
    int rc = file_write(path, text, strlen(text), err);
    cJSON_free(text);
    cJSON_Delete(root);
    return rc;
}

/* ---- optimizer.safetensors ---- */

static float *copy_of(const Optimizer *o, int copy) { return copy == 0 ? o->w : copy == 1 ? o->m : o->v; }

static char *copy_name(int copy, const Weight *w) {
    size_t n = strlen(copy_prefix[copy]) + strlen(w->name) + 2;
    char *name = xmalloc(n);
    snprintf(name, n, "%s.%s", copy_prefix[copy], w->name);
    return name;
}

static int save_optimizer(const Training *t, int64_t step, Err *err) {
    const ParamSet *ps = &t->model->params;
    char path[PATH_BYTES];
    if (path_join(path, t->settings->out, RUN_OPTIMIZER, err)) return -1;
    SafeOut *out = xcalloc((size_t)(COPIES * ps->n), sizeof *out);
    int n = 0;
    for (int copy = 0; copy < COPIES; copy++) {
        const float *data = copy_of(t->optimizer, copy);
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

static int load_tensors(const Training *t, const SafeFile *f, const char *path, Err *err) {
    const ParamSet *ps = &t->model->params;
    int wanted = 0;
    for (int i = 0; i < ps->n; i++) wanted += ps->params[i].frozen ? 0 : COPIES;
    if (f->n != wanted) return err_set(err, "%s: %d tensors, the model wants %d", path, f->n, wanted);
    for (int copy = 0; copy < COPIES; copy++) {
        float *data = copy_of(t->optimizer, copy);
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

int snapshot_load(const Training *t, int64_t *step, Err *err) {
    char path[PATH_BYTES], *end = NULL;
    SafeFile f;
    if (path_join(path, t->settings->out, RUN_OPTIMIZER, err) || safe_open(&f, path, err)) return -1;
    errno = 0;
    *step = f.metadata_step ? strtoll(f.metadata_step, &end, 10) : -1;
    int rc = 0;
    if (!end || end == f.metadata_step || *end || errno || *step < 0)
        rc = err_set(err, "%s: the step in its metadata is \"%.40s\"", path, f.metadata_step ? f.metadata_step : "");
    if (rc == 0) rc = load_tensors(t, &f, path, err);
    if (rc == 0 && !safe_intact(&f)) rc = err_set(err, "%s was changed while it was read", path);
    safe_close(&f);
    return rc;
}

int snapshot_save(const Training *t, int64_t step, Err *err) {
    if (save_optimizer(t, step, err) || save_state(t, step, err)) return -1;
    Dtype dtype = t->settings->save_dtype == PRECISION_BF16 ? DTYPE_BF16 : DTYPE_F32;
    return checkpoint_save(t->settings->out, t->model, dtype, (uint64_t)step, err);
}
