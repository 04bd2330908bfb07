#include "base/atomic_file.h"
#include "trainer/ranks/ranks.h"
#include "trainer/run_folder.h"
#include "trainer/training.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

static int write_slices(AtomicFile *f, const Optimizer *o, Err *err) {
    for (int i = 0; i < o->slices.n_mine; i++) {
        const Slice *s = &o->slices.all[o->slices.mine[i]];
        const float *x = optimizer_master(o, s);
        if (atomic_write_at(f, s->first * sizeof *x, x, (size_t)s->n * sizeof *x, err)) return -1;
    }
    return 0;
}

static int map(Masters *m, const char *path, Err *err) {
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    void *w = fd < 0 ? MAP_FAILED : mmap(NULL, m->bytes, PROT_READ, MAP_SHARED, fd, 0);
    int rc = w == MAP_FAILED ? err_set(err, "%s: %s", path, strerror(errno)) : 0;
    if (rc == 0) m->w = w;
    if (fd >= 0) close(fd);
    return rc;
}

static int bind(Masters *m, const Training *t, Err *err) {
    const ParamSet *all = &t->model.params, *trained = &t->trained;
    float *at = m->w;
    if (model_init(&m->model, &t->model.cfg, err)) return -1;
    for (int i = 0; i < all->n; i++) m->model.params.params[i].weight->data = all->params[i].weight->data;
    for (int i = 0; i < trained->n; i++) {
        params_find(&m->model.params, trained->params[i].name)->weight->data = at;
        at += param_trained(&trained->params[i]);
    }
    return 0;
}

/* All are here at each settling, so that none writes before there is a file, and none is missing in it. */
int masters_open(Masters *m, const Training *t, Err *err) {
    const Optimizer *o = &t->optimizer;
    AtomicFile f = {.fd = -1};
    char path[PATH_BYTES];
    bool first = ranks->rank == 0;
    *m = (Masters){.bytes = o->n * sizeof(float)};
    if (path_join(path, t->dir, RUN_MASTERS, err)) return -1;
    if (ranks_settle(first ? atomic_open(&f, path, err) : 0, err)) return -1;
    int rc = first ? 0 : atomic_join(&f, path, err);
    if (rc == 0) rc = write_slices(&f, o, err);
    if (!first && f.fd >= 0 && atomic_leave(&f, rc ? NULL : err)) rc = -1;
    rc = ranks_settle(rc, err);
    if (rc == 0 && first) rc = map(m, f.temp, err) || bind(m, t, err) ? -1 : 0;
    if (first) atomic_abandon(&f);
    rc = ranks_settle(rc, err);
    if (rc) masters_close(m);
    return rc;
}

void masters_close(Masters *m) {
    if (m->w) munmap(m->w, m->bytes);
    if (m->model.params.n) model_free(&m->model);
    *m = (Masters){0};
}
