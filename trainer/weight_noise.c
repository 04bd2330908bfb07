#include "trainer/weight_noise.h"

#include "base/err.h"
#include "base/memory.h"
#include "base/random.h"
#include "base/team.h"
#include "model/normals.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Draws 0..3 of a step choose the bin; parameter i of the flat order takes draws 4 + 2 i and 5 + 2 i. */
enum { DRAWS_FOR_BIN = 4, DRAWS_PER_NORMAL = 2, NORMALS_FOR_BIN = DRAWS_FOR_BIN / DRAWS_PER_NORMAL };

static bool restores(const Perturb *p) { return p->mode == PERTURB_ALL_BEFORE || p->mode == PERTURB_LAYER_BEFORE; }

int perturb_bins(const ParamSet *ps) {
    int last = 0;
    for (int i = 0; i < ps->n; i++) last = MAX(last, ps->params[i].bin);
    return last + 1;
}

/* Parameters first to first + n - 1, kept before where kept is not NULL. */
static void add_noise(float *w, float *kept, size_t first, size_t n, double sigma, const Draws *draws) {
    size_t from = first + NORMALS_FOR_BIN, to = from + n;
#pragma omp parallel for schedule(static) if (team_pays(n, TEAM_ELEMENTS))
    for (size_t part = from / NORMALS_MOST; part <= (to - 1) / NORMALS_MOST; part++) {
        size_t start = part * NORMALS_MOST, begin = MAX(from, start), end = MIN(to, start + NORMALS_MOST);
        float noise[NORMALS_MOST];
        normals_of_draws(draws, start, (int)(end - start), 0, sigma, noise);
        size_t i = begin - NORMALS_FOR_BIN, here = end - begin;
        if (kept) memcpy(kept + i, w + i, here * sizeof *w);
        for (size_t k = 0; k < here; k++) w[i + k] += noise[begin - start + k];
    }
}

static bool moved(const Perturb *p, const Param *param) { return p->bin < 0 || param->bin == p->bin; }

void perturb_apply(Perturb *p, const ParamSet *ps, float *w, int64_t step) {
    if (p->mode == PERTURB_NONE || p->sigma == 0) return;
    if (restores(p) && !p->kept) p->kept = xmalloc(params_trained(ps) * sizeof *w);
    Draws draws = draws_open(p->seed, DRAW_PERTURB, (uint32_t)step);
    int bins = perturb_bins(ps);
    bool one = p->mode == PERTURB_LAYER_BEFORE || p->mode == PERTURB_LAYER_AFTER;
    p->bin = one ? (int)draw_below(&draws, (uint64_t)bins) : -1;
    double sigma = one ? p->sigma : p->sigma / sqrt((double)bins);
    size_t first = 0;
    for (int i = 0; i < ps->n; i++) {
        size_t n = param_trained(&ps->params[i]);
        if (n && moved(p, &ps->params[i])) add_noise(w, p->kept, first, n, sigma, &draws);
        first += n;
    }
}

void perturb_restore(const Perturb *p, const ParamSet *ps, float *w) {
    if (!p->kept) return;
    size_t first = 0;
    for (int i = 0; i < ps->n; i++) {
        size_t n = param_trained(&ps->params[i]);
        if (moved(p, &ps->params[i])) memcpy(w + first, p->kept + first, n * sizeof *w);
        first += n;
    }
}

void perturb_free(Perturb *p) {
    free(p->kept);
    p->kept = NULL;
}
