#include "model/params.h"

#include "base/err.h"
#include "base/fnv1a.h"
#include "base/memory.h"
#include "base/random.h"
#include "base/team.h"
#include "model/normals.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

static char *prefixed(const ParamSet *ps, const char *name) {
    size_t a = strlen(ps->prefix), b = strlen(name) + 1;
    char *full = xmalloc(a + b);
    memcpy(full, ps->prefix, a);
    memcpy(full + a, name, b);
    return full;
}

Param *param_declare(ParamSet *ps, Weight *w, const char *name, int n_dims, const int *dims, Init init) {
    BUG_ON(n_dims < 1 || n_dims > (int)COUNTOF(w->dims));
    char *full = prefixed(ps, name);
    *w = (Weight){.name = full, .dtype = DTYPE_F32, .n_dims = n_dims};
    for (int i = 0; i < n_dims; i++) {
        BUG_ON(dims[i] < 1);
        w->dims[i] = dims[i];
    }
    if (ps->n == ps->capacity) {
        ps->capacity = MAX(64, 2 * ps->capacity);
        ps->params = xrealloc(ps->params, (size_t)ps->capacity * sizeof *ps->params);
    }
    Param *p = &ps->params[ps->n++];
    *p = (Param){.weight = w,
                 .name = full,
                 .init = init,
                 .matrix = n_dims == 2,
                 .decay = n_dims >= 2,
                 .lr_scale = 1,
                 .bin = ps->bin};
    return p;
}

size_t params_enter(ParamSet *ps, const char *fmt, ...) {
    size_t length = strlen(ps->prefix), room = sizeof ps->prefix - length;
    va_list ap;
    va_start(ap, fmt);
    int n = vsnprintf(ps->prefix + length, room, fmt, ap);
    va_end(ap);
    BUG_ON(n < 0 || (size_t)n >= room);
    return length;
}

void params_leave(ParamSet *ps, size_t prefix_length) {
    BUG_ON(prefix_length > strlen(ps->prefix));
    ps->prefix[prefix_length] = 0;
}

size_t params_count(const ParamSet *ps) {
    size_t n = 0;
    for (int i = 0; i < ps->n; i++) n += weight_count(ps->params[i].weight);
    return n;
}

Dtype params_dtype(const ParamSet *ps) {
    size_t n[DTYPE_I4 + 1] = {0};
    Dtype most = DTYPE_F32;
    for (int i = 0; i < ps->n; i++) {
        const Weight *w = ps->params[i].weight;
        n[w->dtype] += weight_count(w);
        if (n[w->dtype] > n[most]) most = w->dtype;
    }
    return most;
}

size_t param_trained(const Param *p) { return p->frozen ? 0 : weight_count(p->weight); }

size_t params_trained(const ParamSet *ps) {
    size_t n = 0;
    for (int i = 0; i < ps->n; i++) n += param_trained(&ps->params[i]);
    return n;
}

Param *params_find(const ParamSet *ps, const char *name) {
    for (int i = 0; i < ps->n; i++)
        if (!strcmp(ps->params[i].name, name)) return &ps->params[i];
    return NULL;
}

void params_free(ParamSet *ps) {
    for (int i = 0; i < ps->n; i++) free(ps->params[i].name);
    free(ps->params);
    *ps = (ParamSet){0};
}

static void draw_uniforms(Init init, Draws d, size_t first, int n, float *value) {
    double a = init.a, b = init.b;
    d.next = first;
    for (int i = 0; i < n; i++) value[i] = (float)(a + (b - a) * draw_uniform(&d));
}

/* An element takes the same draws whichever thread makes it. */
static void init_by_draws(const Param *p, uint64_t seed, float *value, size_t n) {
    const Draws draws = draws_open(seed, DRAW_INIT, fnv1a(p->weight->name));
#pragma omp parallel for schedule(static) if (team_pays(n, TEAM_ELEMENTS))
    for (size_t first = 0; first < n; first += NORMALS_MOST) {
        int here = (int)MIN(n - first, NORMALS_MOST);
        if (p->init.kind == INIT_NORMAL)
            normals_of_draws(&draws, first, here, p->init.a, p->init.b, value + first);
        else
            draw_uniforms(p->init, draws, first, here, value + first);
    }
}

void param_init(const Param *p, uint64_t seed, float *value) {
    size_t n = weight_count(p->weight);
    switch (p->init.kind) {
    case INIT_CONSTANT:
        for (size_t i = 0; i < n; i++) value[i] = p->init.a;
        return;
    case INIT_HALVES:
        for (size_t i = 0; i < n; i++) value[i] = i < n / 2 ? p->init.a : p->init.b;
        return;
    case INIT_NORMAL:
    case INIT_UNIFORM:
        init_by_draws(p, seed, value, n);
        return;
    }
}

void params_bind_flat(ParamSet *ps, float *data, float *grad) {
    for (int i = 0; i < ps->n; i++) {
        Weight *w = ps->params[i].weight;
        size_t n = param_trained(&ps->params[i]);
        if (!n) continue;
        w->dtype = DTYPE_F32;
        w->data = data;
        w->scale = NULL;
        w->scale16 = NULL;
        w->grad = grad;
        data += n;
        if (grad) grad += n;
    }
}
