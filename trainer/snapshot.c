#include "trainer/snapshot.h"

#include "base/atomic_file.h"
#include "base/files.h"
#include "base/err.h"
#include "base/json.h"
#include "base/json_look.h"
#include "base/memory.h"
#include "weights/checkpoint.h"
#include "weights/config_json.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

enum { STATE_MAX = 1 << 20, STATE_DEPTH = 8, STATE_VALUES = 65536, COPIES = 3 };

static const char state_name[] = "trainer_state.json", optimizer_name[] = "optimizer.safetensors";
static const char *const copy_prefix[COPIES] = {"master", "m", "v"};

/* ---- the folder ---- */

static bool is_temporary(const char *name) {
    static const char *const written[] = {
        "optimizer.safetensors.tmp", "trainer_state.json.tmp", "config.json.tmp", "model.safetensors.tmp",
        "tokenizer.json.tmp",        "tokens.bin.tmp",         "log.jsonl.tmp"};
    for (size_t i = 0; i < COUNTOF(written); i++)
        if (!strcmp(name, written[i])) return true;
    return false;
}

/* What a run writes before its first trainer_state.json. */
static const char *const early[] = {"tokenizer.json", "tokens.bin", "optimizer.safetensors"};

static bool is_early(const char *name) {
    for (size_t i = 0; i < COUNTOF(early); i++)
        if (!strcmp(name, early[i])) return true;
    return false;
}

static int check_empty(const char *dir, DIR *d, bool resume, Err *err) {
    const struct dirent *e;
    while ((e = readdir(d))) {
        if (!strcmp(e->d_name, ".") || !strcmp(e->d_name, "..")) continue;
        if (!resume) return err_set(err, "--out %s is not empty (%.100s); --resume continues a run", dir, e->d_name);
        if (!is_early(e->d_name) && !is_temporary(e->d_name))
            return err_set(err, "--resume: %s holds %.100s, but no %s to continue from", dir, e->d_name, state_name);
    }
    return 0;
}

static int remove_temporaries(const char *dir, DIR *d, Err *err) {
    const struct dirent *e;
    rewinddir(d);
    while ((e = readdir(d)))
        if (is_temporary(e->d_name) && unlinkat(dirfd(d), e->d_name, 0) < 0)
            return err_set(err, "%s/%s: %s", dir, e->d_name, strerror(errno));
    return 0;
}

static int lock_folder(const char *dir, int *lock, Err *err) {
    *lock = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (*lock < 0) return err_set(err, "%s: %s", dir, strerror(errno));
    if (flock(*lock, LOCK_EX | LOCK_NB) == 0) return 0;
    if (errno == EWOULDBLOCK) return err_set(err, "--out %s: another noised-train is at work in it", dir);
    return err_set(err, "%s: flock: %s", dir, strerror(errno));
}

static int look_inside(RunFolder *f, bool resume, Err *err) {
    DIR *d = opendir(f->dir);
    if (!d) return err_set(err, "%s: %s", f->dir, strerror(errno));
    int rc = f->saved ? 0 : check_empty(f->dir, d, resume, err);
    if (rc == 0) rc = remove_temporaries(f->dir, d, err);
    closedir(d);
    f->ours = rc == 0 && !f->saved;
    return rc;
}

int run_open(RunFolder *f, const char *dir, bool resume, Err *err) {
    char path[PATH_BYTES];
    *f = (RunFolder){.dir = dir, .lock = -1};
    if (path_join(path, dir, state_name, err) || folder_create(dir, &f->made, err)) return -1;
    f->saved = resume && access(path, F_OK) == 0;
    if (lock_folder(dir, &f->lock, err) == 0 && look_inside(f, resume, err) == 0) return 0;
    run_withdraw(f);
    return -1;
}

void run_withdraw(const RunFolder *f) {
    for (size_t i = 0; i < COUNTOF(early) && f->ours; i++) unlinkat(f->lock, early[i], 0);
    folder_remove(f->dir, f->made);
}

void run_close(RunFolder *f) {
    if (f->lock >= 0) close(f->lock);
    f->lock = -1;
}

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
    if (path_join(path, dir, state_name, err)) return -1;
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

static int save_state(const Snapshot *s, int64_t step, Err *err) {
    char path[PATH_BYTES];
    if (path_join(path, s->dir, state_name, err)) return -1;
    cJSON *root = cJSON_CreateObject();
    char *config = config_json_print(&s->model->cfg);
    cJSON_AddNumberToObject(root, "step", (double)step);
    cJSON_AddStringToObject(root, "data_sha256", s->data_hash);
    cJSON_AddItemToObject(root, "config", cJSON_Parse(config));
    cJSON_AddItemToObject(root, "settings", cJSON_Duplicate(s->settings, true));
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

static int save_optimizer(const Snapshot *s, int64_t step, Err *err) {
    const ParamSet *ps = &s->model->params;
    char path[PATH_BYTES];
    if (path_join(path, s->dir, optimizer_name, err)) return -1;
    SafeOut *out = xcalloc((size_t)(COPIES * ps->n), sizeof *out);
    int n = 0;
    for (int copy = 0; copy < COPIES; copy++) {
        const float *data = copy_of(s->optimizer, copy);
        for (int i = 0; i < ps->n; i++) {
            const Weight *w = ps->params[i].weight;
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

static int load_tensors(const Snapshot *s, const SafeFile *f, const char *path, Err *err) {
    const ParamSet *ps = &s->model->params;
    if (f->n != COPIES * ps->n) return err_set(err, "%s: %d tensors, the model wants %d", path, f->n, COPIES * ps->n);
    for (int copy = 0; copy < COPIES; copy++) {
        float *data = copy_of(s->optimizer, copy);
        for (int i = 0; i < ps->n; i++) {
            const Weight *w = ps->params[i].weight;
            char *name = copy_name(copy, w);
            int rc = load_tensor(f, path, name, w, data, err);
            free(name);
            if (rc) return -1;
            data += weight_count(w);
        }
    }
    return 0;
}

int snapshot_load(const Snapshot *s, int64_t *step, Err *err) {
    char path[PATH_BYTES], *end = NULL;
    SafeFile f;
    if (path_join(path, s->dir, optimizer_name, err) || safe_open(&f, path, err)) return -1;
    errno = 0;
    *step = f.metadata_step ? strtoll(f.metadata_step, &end, 10) : -1;
    int rc = 0;
    if (!end || end == f.metadata_step || *end || errno || *step < 0)
        rc = err_set(err, "%s: the step in its metadata is \"%.40s\"", path, f.metadata_step ? f.metadata_step : "");
    if (rc == 0) rc = load_tensors(s, &f, path, err);
    if (rc == 0 && !safe_intact(&f)) rc = err_set(err, "%s was changed while it was read", path);
    safe_close(&f);
    return rc;
}

int snapshot_save(const Snapshot *s, int64_t step, Err *err) {
    if (save_optimizer(s, step, err) || save_state(s, step, err)) return -1;
    return checkpoint_save(s->dir, s->model, s->save_dtype, (uint64_t)step, err);
}
