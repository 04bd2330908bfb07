#include "trainer/optimizer_file.h"

#include "base/files.h"
#include "base/memory.h"
#include "trainer/ranks/ranks.h"
#include "trainer/run_folder.h"
#include "weights/safetensors.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum { COPIES = 3 };

static const char *const copy_prefix[COPIES] = {"master", "m", "v"};

static const float *copy_of(const Optimizer *o, int copy) { return copy == 0 ? o->w : copy == 1 ? o->m : o->v; }

static char *copy_name(int copy, const Weight *w) {
    size_t n = strlen(copy_prefix[copy]) + strlen(w->name) + 2;
    char *name = xmalloc(n);
    snprintf(name, n, "%s.%s", copy_prefix[copy], w->name);
    return name;
}

/* ---- moments that other ranks own ---- */

/* Slices `from` to `to` of one copy, all of one owner; copy 0: that was all. */
typedef struct Wish {
    int copy, from, to;
} Wish;

/* Where they are received: the tensor before is still being hashed, so in two places in turn. */
typedef struct Rooms {
    float *room[2];
    int turn;
} Rooms;

/* A tensor's moments: its slices. */
typedef struct Moments {
    const Optimizer *o;
    Wish wish;
    Rooms *rooms;
} Moments;

static const float *owned_floats(const Optimizer *o, const Wish *w, size_t *n) {
    const Slice *first = &o->slices.all[w->from], *last = &o->slices.all[w->to - 1];
    *n = last->first + (size_t)last->n - first->first;
    return (w->copy == 1 ? o->m : o->v) + first->owned;
}

static const void *bring(const SafeOut *t) {
    const Moments *m = t->context;
    const Optimizer *o = m->o;
    float *room = m->rooms->room[m->rooms->turn ^= 1], *to = room;
    size_t n;
    for (Wish w = m->wish; w.from < m->wish.to; w.from = w.to, to += n) {
        int owner = o->slices.all[w.from].owner;
        for (w.to = w.from + 1; w.to < m->wish.to && o->slices.all[w.to].owner == owner;) w.to++;
        const float *mine = owned_floats(o, &w, &n);
        if (owner == ranks->rank) {
            memcpy(to, mine, n * sizeof *to);
            continue;
        }
        ranks->send(owner, &w, sizeof w);
        ranks->receive(owner, to, n * sizeof *to);
    }
    return room;
}

static void rooms_open(Rooms *r, const ParamSet *ps) {
    size_t most = 0;
    for (int i = 0; i < ps->n; i++) most = MAX(most, weight_count(ps->params[i].weight));
    *r = (Rooms){{xmalloc(most * sizeof(float)), xmalloc(most * sizeof(float))}, 0};
}

static void rooms_close(const Rooms *r) {
    free(r->room[0]);
    free(r->room[1]);
}

static void serve_moments(const Optimizer *o) {
    for (Wish w;;) {
        ranks->receive(0, &w, sizeof w);
        if (!w.copy) return;
        size_t n;
        const float *mine = owned_floats(o, &w, &n);
        ranks->send(0, mine, n * sizeof *mine);
    }
}

static void dismiss_servers(void) {
    const Wish none = {0};
    for (int i = 1; i < ranks->n; i++) ranks->send(i, &none, sizeof none);
}

/* ---- writing ---- */

int optimizer_save(const Optimizer *o, const ParamSet *ps, const char *dir, int64_t step, Err *err) {
    char path[PATH_BYTES];
    if (ranks->rank) return serve_moments(o), 0;
    if (path_join(path, dir, RUN_OPTIMIZER, err)) return -1;
    SafeOut *out = xcalloc((size_t)(COPIES * ps->n), sizeof *out);
    Moments *moments = xcalloc((size_t)(COPIES * ps->n), sizeof *moments);
    int n = 0;
    Rooms rooms = {0};
    if (ranks->n > 1) rooms_open(&rooms, ps);
    for (int copy = 0; copy < COPIES; copy++) {
        size_t first = 0;
        bool elsewhere = copy && ranks->n > 1;
        for (int i = 0, slice = 0; i < ps->n; i++) {
            const Weight *w = ps->params[i].weight;
            Wish wish = {.copy = copy, .from = slice};
            while (slice < o->slices.n && o->slices.all[slice].first < first + weight_count(w)) slice++;
            wish.to = slice;
            moments[n] = (Moments){.o = o, .wish = wish, .rooms = &rooms};
            out[n] = (SafeOut){.name = copy_name(copy, w),
                               .dtype = DTYPE_F32,
                               .source = DTYPE_F32,
                               .n_dims = w->n_dims,
                               .dims = {w->dims[0], w->dims[1], w->dims[2]},
                               .data = elsewhere ? NULL : copy_of(o, copy) + first,
                               .fetch = elsewhere ? bring : NULL,
                               .context = &moments[n]};
            n++;
            first += weight_count(w);
        }
    }
    int rc = safe_save(path, out, n, (uint64_t)step, err);
    if (rc == 0) dismiss_servers();
    for (int i = 0; i < n; i++) free((char *)out[i].name);
    rooms_close(&rooms);
    free(out);
    free(moments);
    return rc;
}

/* ---- reading ---- */

/* The slices of [first, first + n) that this rank owns. */
static void take_owned(const Optimizer *o, float *moments, const float *data, size_t first, size_t n) {
    for (int i = 0; i < o->slices.n_mine; i++) {
        const Slice *s = &o->slices.all[o->slices.mine[i]];
        if (s->first >= first && s->first < first + n)
            memcpy(moments + s->owned, data + (s->first - first), (size_t)s->n * sizeof *data);
    }
}

static int load_tensor(const Optimizer *o, const SafeFile *f, const char *path, int copy, const Weight *w, size_t first,
                       Err *err) {
    char *name = copy_name(copy, w);
    const SafeTensor *t = safe_find(f, name);
    size_t n = weight_count(w), bytes = n * sizeof(float);
    int rc = 0;
    if (!t)
        rc = err_set(err, "%s: %s is missing", path, name);
    else if (t->dtype != DTYPE_F32 || t->bytes != bytes)
        rc = err_set(err, "%s: %s is %s of %zu bytes, the model wants F32 of %zu", path, name, dtype_name(t->dtype),
                     t->bytes, bytes);
    else if (copy == 0)
        memcpy(o->w + first, t->data, bytes);
    else
        take_owned(o, copy == 1 ? o->m : o->v, t->data, first, n);
    free(name);
    return rc;
}

static int load_tensors(const Optimizer *o, const ParamSet *ps, const SafeFile *f, const char *path, Err *err) {
    int wanted = COPIES * ps->n;
    if (f->n != wanted) return err_set(err, "%s: %d tensors, the model wants %d", path, f->n, wanted);
    for (int copy = 0; copy < COPIES; copy++) {
        size_t first = 0;
        for (int i = 0; i < ps->n; i++) {
            if (load_tensor(o, f, path, copy, ps->params[i].weight, first, err)) return -1;
            first += weight_count(ps->params[i].weight);
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
