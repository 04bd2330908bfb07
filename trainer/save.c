#include "trainer/save.h"

#include "base/memory.h"
#include "base/team.h"
#include "trainer/ranks/ranks.h"

#include <stdlib.h>
#include <string.h>

size_t save_copy_memory(size_t n_params) { return slices_owned(n_params) * OPTIMIZER_COPIES * sizeof(float); }

/* ---- parts ---- */

static int write_part(Save *s, Err *err) { return optimizer_out_write(&s->out, err); }

static int commit_part(Save *s, Err *err) {
    if (optimizer_out_commit(&s->out, err)) return -1;
    return s->accompany ? s->accompany(s->context, &s->out, err) : 0;
}

static int no_part(Save *s, Err *err) {
    (void)s, (void)err;
    return 0;
}

static void *run(void *arg) {
    Save *s = arg;
    team_resize(1); /* the others compute */
    s->rc = s->part(s, &s->err);
    atomic_store(&s->over, true);
    return NULL;
}

static void drop(Save *s) {
    optimizer_out_close(&s->out);
    s->phase = SAVE_NONE;
}

static int start(Save *s, SavePhase phase, int (*part)(Save *s, Err *err), Err *err) {
    s->phase = phase;
    s->part = part;
    atomic_store(&s->over, false);
    int rc = s->beside ? pthread_create(&s->thread, NULL, run, s) : 0;
    if (rc == 0 && s->beside) return 0;
    if (rc) return drop(s), err_set(err, "cannot start a thread to save with: %s", strerror(rc));
    s->rc = part(s, &s->err);
    atomic_store(&s->over, true);
    return 0;
}

static int finish(Save *s, Err *err) {
    if (s->beside) pthread_join(s->thread, NULL);
    if (s->rc && err) *err = s->err;
    return s->rc;
}

/* ---- all ---- */

static int begin(Save *s, const Optimizer *o, const ParamSet *ps, const char *dir, int64_t step, bool beside,
                 bool rest_beside, Err *err) {
    BUG_ON(s->phase != SAVE_NONE);
    if (optimizer_out_open(&s->out, o, ps, dir, step, err)) return -1;
    s->beside = beside;
    s->rest_beside = rest_beside;
    if (beside && !s->copy) s->copy = xmalloc(o->slices.owned * OPTIMIZER_COPIES * sizeof *s->copy + 1);
    if (beside) optimizer_out_copy(&s->out, s->copy);
    return start(s, SAVE_SLICES, write_part, err);
}

/* The part that is open is over on all ranks. */
static int next(Save *s, Err *err) {
    int rc = finish(s, err);
    if (s->phase == SAVE_COMMIT) return drop(s), rc;
    if (optimizer_out_meet(&s->out, rc, err)) return drop(s), -1;
    s->beside = s->rest_beside && ranks->rank == 0;
    return start(s, SAVE_COMMIT, ranks->rank ? no_part : commit_part, err);
}

int save_begin(Save *s, const Optimizer *o, const ParamSet *ps, const char *dir, int64_t step, Err *err) {
    return begin(s, o, ps, dir, step, true, true, err);
}

int save_begin_uncopied(Save *s, const Optimizer *o, const ParamSet *ps, const char *dir, int64_t step, Err *err) {
    return begin(s, o, ps, dir, step, false, true, err) || save_look(s, err) ? -1 : 0;
}

int save_look(Save *s, Err *err) {
    while (s->phase != SAVE_NONE && !ranks_most(!atomic_load(&s->over)))
        if (next(s, err)) return -1;
    return 0;
}

int save_end(Save *s, Err *err) {
    while (s->phase != SAVE_NONE)
        if (next(s, err)) return -1;
    ranks_wait(); /* the first to exit ends all, so not before rank 0 has written */
    return 0;
}

int save_now(Save *s, const Optimizer *o, const ParamSet *ps, const char *dir, int64_t step, Err *err) {
    return begin(s, o, ps, dir, step, false, false, err) || save_end(s, err) ? -1 : 0;
}

void save_free(Save *s) {
    Err none;
    if (s->phase != SAVE_NONE) {
        finish(s, &none);
        drop(s);
    }
    free(s->copy);
    s->copy = NULL;
}
