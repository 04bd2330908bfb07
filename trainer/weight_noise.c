#include "trainer/weight_noise.h"

#include "base/err.h"
#include "base/memory.h"
#include "base/random.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Draws 0..3 of a step choose the bin; parameter i of the flat order takes draws 4 + 2 i and 5 + 2 i. */
enum { DRAWS_FOR_BIN = 4, DRAWS_PER_NORMAL = 2 };

static bool restores(const Perturb *p) { return p->mode == PERTURB_ALL_BEFORE || p->mode == PERTURB_LAYER_BEFORE; }

int perturb_bins(const ParamSet *ps) {
    int last = 0;
    for (int i = 0; i < ps->n; i++) last = MAX(last, ps->params[i].bin);
    return last + 1;
}

static void add_noise(float *w, size_t first, size_t n, double sigma, Draws step_draws) {
#pragma omp parallel for schedule(static)
    for (size_t i = first; i < first + n; i++) {
        Draws d = step_draws;
        d.next = DRAWS_FOR_BIN + DRAWS_PER_NORMAL * (uint64_t)i;
        w[i] += (float)(sigma * draw_normal(&d));
    }
}

void perturb_apply(Perturb *p, const ParamSet *ps, float *w, int64_t step) {
    if (p->mode == PERTURB_NONE || p->sigma == 0) return;
    if (restores(p)) {
        size_t bytes = params_trained(ps) * sizeof *w;
        if (!p->kept) p->kept = xmalloc(bytes);
        memcpy(p->kept, w, bytes);
    }
    Draws draws = draws_open(p->seed, DRAW_PERTURB, (uint32_t)step);
    int bins = perturb_bins(ps), only = -1;
    double sigma = p->sigma / sqrt((double)bins);
    if (p->mode == PERTURB_LAYER_BEFORE || p->mode == PERTURB_LAYER_AFTER) {
        only = (int)draw_below(&draws, (uint64_t)bins);
        sigma = p->sigma;
    }
    size_t first = 0;
    for (int i = 0; i < ps->n; i++) {
        size_t n = param_trained(&ps->params[i]);
        if (only < 0 || ps->params[i].bin == only) add_noise(w, first, n, sigma, draws);
        first += n;
    }
}

void perturb_restore(const Perturb *p, const ParamSet *ps, float *w) {
    if (p->kept) memcpy(w, p->kept, params_trained(ps) * sizeof *w);
}

void perturb_free(Perturb *p) {
    free(p->kept);
    p->kept = NULL;
}
