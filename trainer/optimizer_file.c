#include "trainer/optimizer_file.h"

#include "base/atomic_file.h"
#include "base/files.h"
#include "base/memory.h"
#include "base/sha256.h"
#include "base/team.h"
#include "trainer/ranks/ranks.h"
#include "trainer/run_folder.h"
#include "weights/safetensors.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { COPIES = 3 };

static const char *const copy_prefix[COPIES] = {"master", "m", "v"};
#define DIGESTS "slices.sha256"

typedef unsigned char Digests[COPIES][SHA256_BYTES]; /* of a slice */

static char *copy_name(int copy, const Weight *w) {
    size_t n = strlen(copy_prefix[copy]) + strlen(w->name) + 2;
    char *name = xmalloc(n);
    snprintf(name, n, "%s.%s", copy_prefix[copy], w->name);
    return name;
}

/* Where a slice of a copy is in this rank's memory. */
static float *slice_data(const Optimizer *o, int copy, const Slice *s) {
    return copy == 0 ? o->w + s->first : (copy == 1 ? o->m : o->v) + s->owned;
}

static void slice_digest(const float *data, const Slice *s, unsigned char digest[SHA256_BYTES]) {
    Sha256 hash;
    sha256_init(&hash);
    sha256_add(&hash, data, (size_t)s->n * sizeof *data);
    sha256_peek(&hash, digest);
}

/* The parameter that a slice belongs to, and the floats of it before the slice. */
typedef struct Place {
    int param;
    size_t first;
} Place;

/* [slices.n], malloc'ed. */
static Place *slice_places(const Slices *s, const ParamSet *ps) {
    Place *places = xcalloc((size_t)s->n + 1, sizeof *places);
    size_t first = 0;
    for (int i = 0, k = 0; i < ps->n; i++) {
        size_t n = weight_count(ps->params[i].weight);
        for (; k < s->n && s->all[k].first < first + n; k++) places[k] = (Place){i, s->all[k].first - first};
        first += n;
    }
    return places;
}

/* ---- writing ---- */

typedef struct Writing {
    const Optimizer *o;
    const ParamSet *ps;
    uint64_t step;
    SafeOut *tensors; /* [n]: those of master, of m, of v, and the digests */
    int n;
    size_t *offsets; /* [n] in the file */
    Place *places;
    Digests *digests; /* [slices.n] */
    AtomicFile file;
} Writing;

static char *head(const Writing *w, const char digest[SHA256_HEX], size_t *bytes) {
    return safe_head(w->tensors, w->n, w->step, digest, bytes, w->offsets);
}

static void describe(Writing *w) {
    const Slices *s = &w->o->slices;
    w->tensors = xcalloc((size_t)(COPIES * w->ps->n + 1), sizeof *w->tensors);
    for (int copy = 0; copy < COPIES; copy++)
        for (int i = 0; i < w->ps->n; i++) {
            const Weight *x = w->ps->params[i].weight;
            w->tensors[w->n++] = (SafeOut){.name = copy_name(copy, x),
                                           .dtype = DTYPE_F32,
                                           .n_dims = x->n_dims,
                                           .dims = {x->dims[0], x->dims[1], x->dims[2]}};
        }
    w->tensors[w->n++] =
        (SafeOut){.name = xstrdup(DIGESTS), .dtype = DTYPE_I8, .n_dims = 3, .dims = {s->n, COPIES, SHA256_BYTES}};
    w->offsets = xcalloc((size_t)w->n, sizeof *w->offsets);
    w->places = slice_places(s, w->ps);
    w->digests = xcalloc((size_t)s->n + 1, sizeof *w->digests);
    char none[SHA256_HEX];
    size_t bytes;
    memset(none, '0', sizeof none - 1);
    none[sizeof none - 1] = 0;
    free(head(w, none, &bytes));
}

static void forget(Writing *w) {
    for (int i = 0; i < w->n; i++) free((char *)w->tensors[i].name);
    free(w->tensors);
    free(w->offsets);
    free(w->places);
    free(w->digests);
}

static int write_slice(Writing *w, int copy, int slice, Err *err) {
    const Slice *s = &w->o->slices.all[slice];
    Place p = w->places[slice];
    const float *data = slice_data(w->o, copy, s);
    slice_digest(data, s, w->digests[slice][copy]);
    return atomic_write_at(&w->file, w->offsets[copy * w->ps->n + p.param] + p.first * sizeof *data, data,
                           (size_t)s->n * sizeof *data, err);
}

static int write_slices(Writing *w, Err *err) {
    const Slices *s = &w->o->slices;
    int failed = 0;
#pragma omp parallel for schedule(static) if (team_pays(s->owned, TEAM_COPIES))
    for (int i = 0; i < COPIES * s->n_mine; i++) {
        Err why;
        if (write_slice(w, i / s->n_mine, s->mine[i % s->n_mine], &why) == 0) continue;
#pragma omp critical
        if (!failed++) *err = why;
    }
    return failed ? -1 : 0;
}

/* What rank 0 adds behind all others. */
static int write_frame(Writing *w, Err *err) {
    size_t bytes, n = (size_t)w->o->slices.n * sizeof *w->digests;
    char hex[SHA256_HEX];
    Sha256 hash;
    sha256_init(&hash);
    sha256_add(&hash, w->digests, n);
    sha256_hex(&hash, hex);
    char *text = head(w, hex, &bytes);
    int rc = atomic_write_at(&w->file, w->offsets[w->n - 1], w->digests, n, err);
    if (rc == 0) rc = atomic_write_at(&w->file, 0, text, bytes, err);
    free(text);
    return rc;
}

/* All ranks are here at each settling, so that none writes before there is a file, and none is missing in it. */
static int write_file(Writing *w, const char *path, Err *err) {
    bool first = ranks->rank == 0;
    int rc = ranks_settle(first ? atomic_open(&w->file, path, err) : 0, err);
    if (rc) return -1;
    if (!first) rc = atomic_join(&w->file, path, err);
    if (rc == 0) rc = write_slices(w, err);
    if (!first && w->file.fd >= 0 && atomic_leave(&w->file, rc ? NULL : err)) rc = -1;
    rc = ranks_settle(rc, err);
    if (rc == 0) slices_all_gather_items(&w->o->slices, w->digests, sizeof *w->digests);
    if (!first) return rc;
    if (rc == 0) rc = write_frame(w, err);
    if (rc == 0) return atomic_commit(&w->file, err);
    atomic_abandon(&w->file);
    return -1;
}

int optimizer_save(const Optimizer *o, const ParamSet *ps, const char *dir, int64_t step, Err *err) {
    char path[PATH_BYTES];
    Writing w = {.o = o, .ps = ps, .step = (uint64_t)step, .file = {.fd = -1}};
    if (path_join(path, dir, RUN_OPTIMIZER, err)) return -1;
    describe(&w);
    int rc = write_file(&w, path, err);
    forget(&w);
    return rc;
}

/* ---- reading ---- */

typedef struct Reading {
    const Optimizer *o;
    const ParamSet *ps;
    const char *path;
    SafeFile file;
    const float **data; /* [3 ps->n] of the tensors */
    Place *places;
    Digests *digests; /* [slices.n]; NULL: the file has been proved as a whole */
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
    Place p = r->places[slice];
    const char *name = r->ps->params[p.param].weight->name;
    unsigned char digest[SHA256_BYTES];
    if (copy && s->owned == SIZE_MAX) return 0;
    float *to = slice_data(r->o, copy, s);
    memcpy(to, r->data[copy * r->ps->n + p.param] + p.first, (size_t)s->n * sizeof *to);
    slice_digest(to, s, digest);
    if (r->digests && memcmp(digest, r->digests[slice][copy], sizeof digest) != 0) {
        char is[SHA256_HEX], said[SHA256_HEX];
        sha256_print(digest, is);
        sha256_print(r->digests[slice][copy], said);
        return err_set(err, "%s: %s.%s from element %zu on has sha256 %s, but " DIGESTS " says %s", r->path,
                       copy_prefix[copy], name, p.first, is, said);
    }
    for (int i = 0; i < s->n; i++)
        if (!isfinite(to[i]))
            return err_set(err, "%s: %s.%s holds NaN or infinity, first at element %zu", r->path, copy_prefix[copy],
                           name, p.first + (size_t)i);
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
