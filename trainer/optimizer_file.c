#include "trainer/optimizer_file.h"

#include "base/files.h"
#include "base/memory.h"
#include "base/team.h"
#include "trainer/ranks/ranks.h"
#include "trainer/run_folder.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { COPIES = OPTIMIZER_COPIES };

static const float zeros[SLICE];
static const char *const copy_prefix[COPIES] = {"master", "m", "v"};
#define DIGESTS "slices.sha256"

static char *copy_name(int copy, const Weight *w) {
    size_t n = strlen(copy_prefix[copy]) + strlen(w->name) + 2;
    char *name = xmalloc(n);
    snprintf(name, n, "%s.%s", copy_prefix[copy], w->name);
    return name;
}

/* Where a slice of a copy is in this rank's memory. */
static float *slice_data(const Optimizer *o, int copy, const Slice *s) {
    return copy == 0 ? optimizer_master(o, s) : (copy == 1 ? o->m : o->v) + s->owned;
}

static void slice_digest(const float *data, const Slice *s, unsigned char digest[SHA256_BYTES]) {
    Sha256 hash;
    sha256_init(&hash);
    sha256_add(&hash, data, (size_t)s->n * sizeof *data);
    sha256_peek(&hash, digest);
}

/* [slices.n], malloc'ed. */
static SlicePlace *slice_places(const Slices *s, const ParamSet *ps) {
    SlicePlace *places = xcalloc((size_t)s->n + 1, sizeof *places);
    size_t first = 0;
    for (int i = 0, k = 0; i < ps->n; i++) {
        size_t n = weight_count(ps->params[i].weight);
        for (; k < s->n && s->all[k].first < first + n; k++) places[k] = (SlicePlace){i, s->all[k].first - first};
        first += n;
    }
    return places;
}

static int refuse_slice(const char *path, int copy, const char *name, size_t first, const unsigned char *digest,
                        const unsigned char *wanted, Err *err) {
    char is[SHA256_HEX], said[SHA256_HEX];
    sha256_print(digest, is);
    sha256_print(wanted, said);
    return err_set(err, "%s: %s.%s from element %zu on has sha256 %s, but " DIGESTS " says %s", path, copy_prefix[copy],
                   name, first, is, said);
}

/* ---- writing ---- */

static char *head(const OptimizerOut *out, const char digest[SHA256_HEX], size_t *bytes) {
    return safe_head(out->tensors, out->n, out->step, digest, bytes, out->offsets);
}

static void describe(OptimizerOut *out) {
    const Slices *s = &out->o->slices;
    out->tensors = xcalloc((size_t)(COPIES * out->ps->n + 1), sizeof *out->tensors);
    for (int copy = 0; copy < COPIES; copy++)
        for (int i = 0; i < out->ps->n; i++) {
            const Weight *x = out->ps->params[i].weight;
            out->tensors[out->n++] = (SafeOut){.name = copy_name(copy, x),
                                               .dtype = DTYPE_F32,
                                               .n_dims = x->n_dims,
                                               .dims = {x->dims[0], x->dims[1], x->dims[2]}};
        }
    out->tensors[out->n++] =
        (SafeOut){.name = xstrdup(DIGESTS), .dtype = DTYPE_I8, .n_dims = 3, .dims = {s->n, COPIES, SHA256_BYTES}};
    out->offsets = xcalloc((size_t)out->n, sizeof *out->offsets);
    out->places = slice_places(s, out->ps);
    out->digests = xcalloc((size_t)s->n + 1, sizeof *out->digests);
    slice_digest(zeros, &(Slice){.n = SLICE}, out->of_zeros);
    char none[SHA256_HEX];
    size_t bytes;
    memset(none, '0', sizeof none - 1);
    none[sizeof none - 1] = 0;
    free(head(out, none, &bytes));
}

/* All are here when there is a file to write into. */
int optimizer_out_open(OptimizerOut *out, const Optimizer *o, const ParamSet *ps, const char *dir, int64_t step,
                       Err *err) {
    *out = (OptimizerOut){.o = o, .ps = ps, .step = (uint64_t)step, .file = {.fd = -1}};
    if (path_join(out->path, dir, RUN_OPTIMIZER, err)) return -1;
    if (ranks_settle(ranks->rank ? 0 : atomic_open(&out->file, out->path, err), err)) return -1;
    describe(out);
    return 0;
}

void optimizer_out_copy(OptimizerOut *out, float *to) {
    const Slices *s = &out->o->slices;
#pragma omp parallel for schedule(static) if (team_pays(s->owned, TEAM_COPIES))
    for (int i = 0; i < COPIES * s->n_mine; i++) {
        int copy = i / s->n_mine;
        const Slice *slice = &s->all[s->mine[i % s->n_mine]];
        memcpy(to + (size_t)copy * s->owned + slice->owned, slice_data(out->o, copy, slice),
               (size_t)slice->n * sizeof *to);
    }
    out->data = to;
}

/* m and v are zeros when a run begins, two thirds of a file that it waits for. */
static int write_slice(OptimizerOut *out, int copy, int slice, Err *err) {
    const Slice *s = &out->o->slices.all[slice];
    SlicePlace p = out->places[slice];
    size_t at = out->offsets[copy * out->ps->n + p.param] + p.first * sizeof(float);
    const float *data =
        out->data ? out->data + (size_t)copy * out->o->slices.owned + s->owned : slice_data(out->o, copy, s);
    if (s->n == SLICE && !memcmp(data, zeros, sizeof zeros)) {
        memcpy(out->digests[slice][copy], out->of_zeros, SHA256_BYTES);
        if (atomic_reserve_at(&out->file, at, sizeof zeros)) return 0;
    } else {
        slice_digest(data, s, out->digests[slice][copy]);
    }
    return atomic_write_at(&out->file, at, data, (size_t)s->n * sizeof *data, err);
}

static int write_slices(OptimizerOut *out, Err *err) {
    const Slices *s = &out->o->slices;
    int failed = 0;
#pragma omp parallel for schedule(static) if (team_pays(s->owned, TEAM_COPIES))
    for (int i = 0; i < COPIES * s->n_mine; i++) {
        Err why;
        if (write_slice(out, i / s->n_mine, s->mine[i % s->n_mine], &why) == 0) continue;
#pragma omp critical
        if (!failed++) *err = why;
    }
    return failed ? -1 : 0;
}

int optimizer_out_write(OptimizerOut *out, Err *err) {
    bool first = ranks->rank == 0;
    int rc = first ? 0 : atomic_join(&out->file, out->path, err);
    if (rc == 0) rc = write_slices(out, err);
    if (!first && out->file.fd >= 0 && atomic_leave(&out->file, rc ? NULL : err)) rc = -1;
    return rc;
}

int optimizer_out_meet(OptimizerOut *out, int rc, Err *err) {
    if (ranks_settle(rc, err)) return -1;
    slices_all_gather_items(&out->o->slices, out->digests, sizeof *out->digests);
    return 0;
}

/* What rank 0 adds behind all others. */
int optimizer_out_commit(OptimizerOut *out, Err *err) {
    size_t bytes, n = (size_t)out->o->slices.n * sizeof *out->digests;
    char hex[SHA256_HEX];
    Sha256 hash;
    sha256_init(&hash);
    sha256_add(&hash, out->digests, n);
    sha256_hex(&hash, hex);
    char *text = head(out, hex, &bytes);
    int rc = atomic_write_at(&out->file, out->offsets[out->n - 1], out->digests, n, err);
    if (rc == 0) rc = atomic_write_at(&out->file, 0, text, bytes, err);
    free(text);
    return rc ? -1 : atomic_commit(&out->file, err);
}

void optimizer_out_close(OptimizerOut *out) {
    if (ranks->rank == 0) atomic_abandon(&out->file);
    for (int i = 0; i < out->n; i++) free((char *)out->tensors[i].name);
    free(out->tensors);
    free(out->offsets);
    free(out->places);
    free(out->digests);
    *out = (OptimizerOut){.file = {.fd = -1}};
}

static const float *master_in(const SafeFile *f, const Weight *w) {
    char *name = copy_name(0, w);
    const SafeTensor *t = safe_find(f, name);
    free(name);
    BUG_ON(!t);
    return t->data;
}

static int prove_master(const OptimizerOut *out, const float *const *masters, int slice, Err *err) {
    SlicePlace p = out->places[slice];
    const unsigned char *wanted = out->digests[slice][0];
    unsigned char digest[SHA256_BYTES];
    slice_digest(masters[p.param] + p.first, &out->o->slices.all[slice], digest);
    if (memcmp(digest, wanted, sizeof digest) == 0) return 0;
    return refuse_slice(out->path, 0, out->ps->params[p.param].weight->name, p.first, digest, wanted, err);
}

static int prove_masters(const OptimizerOut *out, const float *const *masters, Err *err) {
    int failed = 0;
#pragma omp parallel for schedule(static) if (team_pays(out->o->n, TEAM_COPIES))
    for (int i = 0; i < out->o->slices.n; i++) {
        Err why;
        if (prove_master(out, masters, i, &why) == 0) continue;
#pragma omp critical
        if (!failed++) *err = why;
    }
    return failed ? -1 : 0;
}

int optimizer_out_bind(const OptimizerOut *out, SafeFile *f, const ParamSet *all, Err *err) {
    if (safe_open_unread(f, out->path, err)) return -1;
    const float **masters = xcalloc((size_t)out->ps->n + 1, sizeof *masters);
    for (int i = 0; i < out->ps->n; i++) masters[i] = master_in(f, out->ps->params[i].weight);
    int rc = prove_masters(out, masters, err);
    for (int i = 0; i < out->ps->n && rc == 0; i++)
        params_find(all, out->ps->params[i].weight->name)->weight->data = (void *)masters[i];
    free(masters);
    if (rc) safe_close(f);
    return rc;
}

/* ---- reading ---- */

typedef struct Reading {
    const Optimizer *o;
    const ParamSet *ps;
    const char *path;
    SafeFile file;
    const float **data; /* [3 ps->n] of the tensors */
    SlicePlace *places;
    unsigned char (*digests)[COPIES][SHA256_BYTES]; /* [slices.n]; NULL: the file has been proved as a whole */
} Reading;

/* One that has no digests of slices is opened again, and read. */
static int open_file(SafeFile *f, const char *path, Err *err) {
    if (safe_open_unread(f, path, err)) return -1;
    if (f->metadata_parts) return 0;
    safe_close(f);
    return safe_open(f, path, err);
}

static int find_tensor(Reading *r, int copy, int param, Err *err) {
    const Weight *w = r->ps->params[param].weight;
    char *name = copy_name(copy, w);
    const SafeTensor *t = safe_find(&r->file, name);
    size_t bytes = weight_count(w) * sizeof(float);
    int rc = 0;
    if (!t)
        rc = err_set(err, "%s: %s is missing", r->path, name);
    else if (t->dtype != DTYPE_F32 || t->bytes != bytes)
        rc = err_set(err, "%s: %s is %s of %zu bytes, the model wants F32 of %zu", r->path, name, dtype_name(t->dtype),
                     t->bytes, bytes);
    else
        r->data[copy * r->ps->n + param] = t->data;
    free(name);
    return rc;
}

/* Copied before they are proved: nobody changes the copy. */
static int take_digests(Reading *r, Err *err) {
    const SafeTensor *t = safe_find(&r->file, DIGESTS);
    size_t bytes = (size_t)r->o->slices.n * sizeof *r->digests;
    char hex[SHA256_HEX];
    Sha256 hash;
    if (!t) return err_set(err, "%s: %s is missing", r->path, DIGESTS);
    if (t->dtype != DTYPE_I8 || t->bytes != bytes)
        return err_set(err, "%s: %s is %s of %zu bytes, the model wants I8 of %zu", r->path, DIGESTS,
                       dtype_name(t->dtype), t->bytes, bytes);
    r->digests = xmalloc(bytes + 1);
    memcpy(r->digests, t->data, bytes);
    sha256_init(&hash);
    sha256_add(&hash, r->digests, bytes);
    sha256_hex(&hash, hex);
    if (!strcmp(hex, r->file.metadata_parts)) return 0;
    return err_set(err, "%s: %s has sha256 %s, but the header says %s", r->path, DIGESTS, hex, r->file.metadata_parts);
}

static int find_tensors(Reading *r, Err *err) {
    bool parts = r->file.metadata_parts != NULL;
    int wanted = COPIES * r->ps->n, n = r->file.n - parts;
    if (n != wanted) return err_set(err, "%s: %d tensors, the model wants %d", r->path, n, wanted);
    for (int copy = 0; copy < COPIES; copy++)
        for (int i = 0; i < r->ps->n; i++)
            if (find_tensor(r, copy, i, err)) return -1;
    return parts ? take_digests(r, err) : 0;
}

static int load_slice(const Reading *r, int copy, int slice, Err *err) {
    const Slice *s = &r->o->slices.all[slice];
    SlicePlace p = r->places[slice];
    const char *name = r->ps->params[p.param].weight->name;
    unsigned char digest[SHA256_BYTES];
    if (copy && s->owned == SIZE_MAX) return 0;
    float all[SLICE], *to = copy ? slice_data(r->o, copy, s) : all;
    memcpy(to, r->data[copy * r->ps->n + p.param] + p.first, (size_t)s->n * sizeof *to);
    slice_digest(to, s, digest);
    if (r->digests && memcmp(digest, r->digests[slice][copy], sizeof digest) != 0)
        return refuse_slice(r->path, copy, name, p.first, digest, r->digests[slice][copy], err);
    for (int i = 0; i < s->n; i++)
        if (!isfinite(to[i]))
            return err_set(err, "%s: %s.%s holds NaN or infinity, first at element %zu", r->path, copy_prefix[copy],
                           name, p.first + (size_t)i);
    if (copy == 0) optimizer_take(r->o, slice, to);
    return 0;
}

static int load_slices(const Reading *r, Err *err) {
    const Slices *s = &r->o->slices;
    int failed = 0;
#pragma omp parallel for schedule(static) if (team_pays(r->o->n, TEAM_COPIES))
    for (int i = 0; i < COPIES * s->n; i++) {
        Err why;
        if (load_slice(r, i / s->n, i % s->n, &why) == 0) continue;
#pragma omp critical
        if (!failed++) *err = why;
    }
    if (failed) return -1;
    return r->digests || safe_intact(&r->file) ? 0 : err_set(err, "%s was changed while it was read", r->path);
}

static int read_step(const Reading *r, int64_t *step, Err *err) {
    char *end = NULL;
    const char *text = r->file.metadata_step;
    errno = 0;
    *step = text ? strtoll(text, &end, 10) : -1;
    if (end && end != text && !*end && !errno && *step >= 0) return 0;
    return err_set(err, "%s: the step in its metadata is \"%.40s\"", r->path, text ? text : "");
}

int optimizer_load(const Optimizer *o, const ParamSet *ps, const char *dir, int64_t *step, Err *err) {
    char path[PATH_BYTES];
    Reading r = {.o = o, .ps = ps, .path = path};
    if (path_join(path, dir, RUN_OPTIMIZER, err) || open_file(&r.file, path, err)) return -1;
    r.data = xcalloc((size_t)(COPIES * ps->n) + 1, sizeof *r.data);
    r.places = slice_places(&o->slices, ps);
    int rc = read_step(&r, step, err) || find_tensors(&r, err) || load_slices(&r, err) ? -1 : 0;
    free(r.data);
    free(r.places);
    free(r.digests);
    safe_close(&r.file);
    return rc;
}
