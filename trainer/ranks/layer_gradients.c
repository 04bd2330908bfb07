#include "trainer/ranks/layer_gradients.h"

#include "base/memory.h"
#include "base/team.h"

#include <stdlib.h>
#include <string.h>

static void cut_parts(LayerGradients *l, const ParamSet *ps) {
    l->parts = xcalloc((size_t)ps->n + 1, sizeof *l->parts);
    l->n = 0;
    size_t first = 0;
    for (const Param *p = ps->params; p < ps->params + ps->n; p++) {
        size_t n = param_trained(p);
        if (!n) continue;
        if (l->n == 0 || l->parts[l->n - 1].layer != p->bin - 1)
            l->parts[l->n++] = (GradientPart){.first = first, .layer = p->bin - 1};
        l->parts[l->n - 1].n += n;
        first += n;
    }
}

/* Floats of what belongs to no layer; of the largest layer. */
static size_t floats_of_none(const LayerGradients *l) {
    size_t n = 0;
    for (int i = 0; i < l->n; i++) n += l->parts[i].layer < 0 ? l->parts[i].n : 0;
    return n;
}

static size_t floats_of_largest(const LayerGradients *l) {
    size_t most = 0;
    for (int i = 0; i < l->n; i++) most = MAX(most, l->parts[i].layer < 0 ? 0 : l->parts[i].n);
    return most;
}

static void bind_grad(const ParamSet *ps, const GradientPart *part) {
    size_t first = 0;
    for (const Param *p = ps->params; p < ps->params + ps->n; p++) {
        if (param_trained(p) && first >= part->first && first < part->first + part->n)
            p->weight->grad = part->g + (first - part->first);
        first += param_trained(p);
    }
}

static void share_places(LayerGradients *l, int places) {
    size_t shared = floats_of_largest(l);
    l->memory = xcalloc(floats_of_none(l) + (size_t)places * shared, sizeof *l->memory);
    float *own = l->memory + (size_t)places * shared;
    for (GradientPart *p = l->parts; p < l->parts + l->n; p++) {
        p->g = p->layer < 0 ? own : l->memory + (size_t)(p->layer % places) * shared;
        own += p->layer < 0 ? p->n : 0;
    }
}

void layer_gradients_init(LayerGradients *l, const ParamSet *ps, int places, float *all) {
    *l = (LayerGradients){0};
    cut_parts(l, ps);
    if (places) share_places(l, places);
    for (GradientPart *p = l->parts; p < l->parts + l->n; p++) {
        if (!places) p->g = all + p->first;
        bind_grad(ps, p);
    }
}

void layer_gradients_free(LayerGradients *l) {
    free(l->parts);
    free(l->memory);
    *l = (LayerGradients){0};
}

size_t layer_gradients_memory(const ParamSet *ps, int places) {
    LayerGradients l;
    cut_parts(&l, ps);
    size_t n = places ? floats_of_none(&l) + (size_t)places * floats_of_largest(&l) : 0;
    free(l.parts);
    return n * sizeof(float);
}

int layer_gradients_part(const LayerGradients *l, int layer) {
    int i = 0;
    while (i < l->n && l->parts[i].layer != layer) i++;
    return i;
}

void gradient_part_clear(const GradientPart *p) {
#pragma omp parallel for schedule(static) if (team_pays(p->n, TEAM_COPIES))
    for (size_t i = 0; i < p->n; i++) p->g[i] = 0;
}
