#include "trainer/optimizer.h"

#include "base/arena.h"
#include "base/err.h"
#include "base/fixed_math.h"
#include "base/memory.h"
#include "model/kernels/kernels.h"

#include <math.h>
#include <stdlib.h>

size_t optimizer_memory(size_t n_params) {
    return 2 * (n_params + slices_owned(n_params)) * sizeof(float) + slices_memory();
}

void optimizer_init(Optimizer *o, ParamSet *ps) {
    *o = (Optimizer){.n = params_trained(ps)};
    slices_init(&o->slices, ps);
    size_t owned = o->slices.owned;
    arena_init(&o->memory, (2 * (o->n + 16) + 2 * (owned + 16)) * sizeof(float));
    o->w = arena_calloc(&o->memory, o->n * sizeof(float));
    o->g = arena_calloc(&o->memory, o->n * sizeof(float));
    o->m = arena_calloc(&o->memory, owned * sizeof(float));
    o->v = arena_calloc(&o->memory, owned * sizeof(float));
    o->partial = xcalloc((size_t)o->slices.n, sizeof *o->partial);
    params_bind_flat(ps, o->w, o->g);
}

void optimizer_free(Optimizer *o) {
    arena_free(&o->memory);
    slices_free(&o->slices);
    free(o->partial);
    *o = (Optimizer){0};
}

static double gradient_norm(Optimizer *o) {
#pragma omp parallel for schedule(static)
    for (int k = 0; k < o->slices.n_mine; k++) {
        const Slice *s = &o->slices.all[o->slices.mine[k]];
        o->partial[o->slices.mine[k]] = kernels->train->squares(s->n, o->g + s->first);
    }
    slices_spread_numbers(&o->slices, o->partial);
    double sum = 0;
    for (int i = 0; i < o->slices.n; i++) sum += o->partial[i];
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
    for (int i = 0; i < o->slices.n_mine; i++) {
        const Slice *s = &o->slices.all[o->slices.mine[i]];
        float *w = o->w + s->first, *m = o->m + s->owned, a = (float)(lr * s->lr_scale);
        const float *g = o->g + s->first;
        float keep = (float)(s->decay ? 1 - lr * s->lr_scale * c->weight_decay : 1);
        for (int k = 0; k < s->n; k++) {
            m[k] = momentum * m[k] + scale * g[k];
            w[k] = keep * w[k] - a * m[k];
        }
    }
    slices_spread(&o->slices, o->w);
    return norm;
}

double optimizer_step(Optimizer *o, const AdamW *c, double lr, int64_t t, double grad_scale) {
    double norm = gradient_norm(o) * grad_scale;
    if (!isfinite(norm)) return norm;
    grad_scale = clipped(grad_scale, norm, c->clip);
    double correction1 = 1 - fixed_pow(c->beta1, (double)t), correction2 = 1 - fixed_pow(c->beta2, (double)t);
#pragma omp parallel for schedule(static)
    for (int i = 0; i < o->slices.n_mine; i++) {
        const Slice *s = &o->slices.all[o->slices.mine[i]];
        double a = lr * s->lr_scale;
        AdamwRow u = {.beta1 = (float)c->beta1,
                      .beta2 = (float)c->beta2,
                      .eps = (float)c->eps,
                      .grad_scale = (float)grad_scale,
                      .correction2 = (float)(1 / sqrt(correction2)),
                      .step = (float)(a / correction1),
                      .keep = (float)(s->decay ? 1 - a * c->weight_decay : 1)};
        kernels->train->adamw(&u, s->n, o->w + s->first, o->g + s->first, o->m + s->owned, o->v + s->owned);
    }
    slices_spread(&o->slices, o->w);
    return norm;
}
