#include "trainer/optimizer.h"

#include "base/arena.h"
#include "base/err.h"
#include "base/fixed_math.h"
#include "base/memory.h"
#include "model/kernels/kernels.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { SLICE = 1 << 14 };

/* A stretch of one parameter: the unit of work, and of the fixed order in which the norm is summed. */
struct Slice {
    size_t first;
    int n;
    float lr_scale;
    bool decay;
};

static void slices_add(Optimizer *o, const Param *p, size_t first) {
    size_t n = param_trained(p), pieces = (n + SLICE - 1) / SLICE;
    o->slices = xrealloc(o->slices, ((size_t)o->n_slices + pieces) * sizeof *o->slices);
    for (size_t at = 0; at < n; at += SLICE)
        o->slices[o->n_slices++] = (Slice){
            .first = first + at, .n = (int)MIN(n - at, (size_t)SLICE), .lr_scale = p->lr_scale, .decay = p->decay};
}

void optimizer_init(Optimizer *o, ParamSet *ps) {
    *o = (Optimizer){.n = params_trained(ps)};
    float **buffers[OPTIMIZER_COPIES] = {&o->w, &o->g, &o->m, &o->v};
    arena_init(&o->memory, COUNTOF(buffers) * (o->n + 16) * sizeof(float));
    for (size_t i = 0; i < COUNTOF(buffers); i++) *buffers[i] = arena_calloc(&o->memory, o->n * sizeof(float));
    size_t first = 0;
    for (int i = 0; i < ps->n; i++) {
        slices_add(o, &ps->params[i], first);
        first += param_trained(&ps->params[i]);
    }
    o->partial = xcalloc((size_t)o->n_slices, sizeof *o->partial);
    params_bind_flat(ps, o->w, o->g);
}

void optimizer_free(Optimizer *o) {
    arena_free(&o->memory);
    free(o->slices);
    free(o->partial);
    *o = (Optimizer){0};
}

void optimizer_clear_gradient(Optimizer *o) {
#pragma omp parallel for schedule(static)
    for (int i = 0; i < o->n_slices; i++) memset(o->g + o->slices[i].first, 0, (size_t)o->slices[i].n * sizeof *o->g);
}

static double gradient_norm(Optimizer *o) {
#pragma omp parallel for schedule(static)
    for (int i = 0; i < o->n_slices; i++)
        o->partial[i] = kernels->train->squares(o->slices[i].n, o->g + o->slices[i].first);
    double sum = 0;
    for (int i = 0; i < o->n_slices; i++) sum += o->partial[i];
    return sqrt(sum);
}

/* The scale of a gradient of this norm. */
static double clipped(double grad_scale, double norm, double clip) {
    return clip > 0 ? grad_scale * fmin(1, clip / norm) : grad_scale;
}

double optimizer_descend(Optimizer *o, const Descent *c, double lr, double grad_scale) {
    double norm = gradient_norm(o) * grad_scale;
    if (!isfinite(norm)) return norm;
    float scale = (float)clipped(grad_scale, norm, c->clip), momentum = (float)c->momentum;
#pragma omp parallel for schedule(static)
    for (int i = 0; i < o->n_slices; i++) {
        const Slice *s = &o->slices[i];
        float *w = o->w + s->first, *m = o->m + s->first, a = (float)(lr * s->lr_scale);
        const float *g = o->g + s->first;
        float keep = (float)(s->decay ? 1 - lr * s->lr_scale * c->weight_decay : 1);
        for (int k = 0; k < s->n; k++) {
            m[k] = momentum * m[k] + scale * g[k];
            w[k] = keep * w[k] - a * m[k];
        }
    }
    return norm;
}

double optimizer_step(Optimizer *o, const AdamW *c, double lr, int64_t t, double grad_scale) {
    double norm = gradient_norm(o) * grad_scale;
    if (!isfinite(norm)) return norm;
    grad_scale = clipped(grad_scale, norm, c->clip);
    double correction1 = 1 - fixed_pow(c->beta1, (double)t), correction2 = 1 - fixed_pow(c->beta2, (double)t);
#pragma omp parallel for schedule(static)
    for (int i = 0; i < o->n_slices; i++) {
        const Slice *s = &o->slices[i];
        double a = lr * s->lr_scale;
        AdamwRow u = {.beta1 = (float)c->beta1,
                      .beta2 = (float)c->beta2,
                      .eps = (float)c->eps,
                      .grad_scale = (float)grad_scale,
                      .correction2 = (float)(1 / sqrt(correction2)),
                      .step = (float)(a / correction1),
                      .keep = (float)(s->decay ? 1 - a * c->weight_decay : 1)};
        kernels->train->adamw(&u, s->n, o->w + s->first, o->g + s->first, o->m + s->first, o->v + s->first);
    }
    return norm;
}
