#include "trainer/optimizer.h"

#include "base/arena.h"
#include "base/err.h"
#include "base/fixed_math.h"
#include "base/memory.h"
#include "model/kernels/kernels.h"
#include "trainer/ranks/fixed_sum.h"

#include <math.h>
#include <stdlib.h>

size_t optimizer_memory(size_t n_params) {
    return n_params * sizeof(float) + slices_owned(n_params) * (2 * sizeof(float) + sizeof(int64_t));
}

void optimizer_init(Optimizer *o, ParamSet *ps) {
    *o = (Optimizer){.n = params_trained(ps)};
    slices_init(&o->slices, ps);
    size_t owned = o->slices.owned;
    arena_init(&o->memory, (o->n + 16 + 2 * (owned + 16)) * sizeof(float) + (owned + 16) * sizeof(int64_t));
    o->w = arena_calloc(&o->memory, o->n * sizeof(float));
    o->m = arena_calloc(&o->memory, owned * sizeof(float));
    o->v = arena_calloc(&o->memory, owned * sizeof(float));
    o->sum = arena_calloc(&o->memory, owned * sizeof(int64_t));
    o->partial = xcalloc((size_t)o->slices.n, sizeof *o->partial);
    params_bind_flat(ps, o->w, NULL);
}

void optimizer_free(Optimizer *o) {
    arena_free(&o->memory);
    slices_free(&o->slices);
    free(o->partial);
    *o = (Optimizer){0};
}

/* What the slices of one step share. */
typedef struct Update {
    double lr, grad_scale, correction1, correction2;
} Update;

static void read_gradient(const Optimizer *o, const Slice *s, double unit, float g[SLICE]) {
    kernels->train->fixed_read(s->n, o->sum + s->owned, (float)unit, g);
}

static double gradient_norm(Optimizer *o, double unit) {
#pragma omp parallel for schedule(static)
    for (int k = 0; k < o->slices.n_mine; k++) {
        const Slice *s = &o->slices.all[o->slices.mine[k]];
        float g[SLICE];
        read_gradient(o, s, unit, g);
        o->partial[o->slices.mine[k]] = kernels->train->squares(s->n, g);
    }
    slices_all_gather_items(&o->slices, o->partial, sizeof *o->partial);
    double sum = 0;
    for (int i = 0; i < o->slices.n; i++) sum += o->partial[i];
    return sqrt(sum);
}

static void update_adamw(const Optimizer *o, const Slice *s, const float *g, const Recipe *r, const Update *u) {
    double a = u->lr * s->lr_scale;
    AdamwRow row = {.beta1 = (float)r->betas[0],
                    .beta2 = (float)r->betas[1],
                    .eps = 1e-8f,
                    .grad_scale = (float)u->grad_scale,
                    .correction2 = (float)(1 / sqrt(u->correction2)),
                    .step = (float)(a / u->correction1),
                    .keep = (float)(s->decay ? 1 - a * r->weight_decay : 1)};
    kernels->train->adamw(&row, s->n, o->w + s->first, g, o->m + s->owned, o->v + s->owned);
}

static void update_sgd(const Optimizer *o, const Slice *s, const float *g, const Recipe *r, const Update *u) {
    float *w = o->w + s->first, *m = o->m + s->owned, a = (float)(u->lr * s->lr_scale);
    float scale = (float)u->grad_scale, momentum = (float)r->momentum,
          keep = (float)(s->decay ? 1 - u->lr * s->lr_scale * r->weight_decay : 1);
    for (int k = 0; k < s->n; k++) {
        m[k] = momentum * m[k] + scale * g[k];
        w[k] = keep * w[k] - a * m[k];
    }
}

double optimizer_step(Optimizer *o, const Recipe *r, double lr, int64_t t, int64_t micro_batches) {
    double unit = fixed_sum_unit(micro_batches), grad_scale = 1 / (double)micro_batches;
    double norm = gradient_norm(o, unit) * grad_scale;
    Update u = {.lr = lr,
                .grad_scale = r->clip > 0 ? grad_scale * fmin(1, r->clip / norm) : grad_scale,
                .correction1 = 1 - fixed_pow(r->betas[0], (double)t),
                .correction2 = 1 - fixed_pow(r->betas[1], (double)t)};
#pragma omp parallel for schedule(static)
    for (int i = 0; i < o->slices.n_mine; i++) {
        const Slice *s = &o->slices.all[o->slices.mine[i]];
        float g[SLICE];
        read_gradient(o, s, unit, g);
        (r->optimizer == OPTIMIZER_SGD ? update_sgd : update_adamw)(o, s, g, r, &u);
    }
    slices_all_gather(&o->slices, o->w);
    return norm;
}
