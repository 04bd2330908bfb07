#include "trainer/optimizer.h"

#include "base/arena.h"
#include "base/err.h"
#include "base/fixed_math.h"
#include "base/memory.h"
#include "model/kernels/kernels.h"
#include "trainer/ranks/fixed_sum.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* An odd one would leave the next F32 at an address that is none of a float. */
static bool is_rounded(const Param *p) { return p->product && weight_count(p->weight) % 2 == 0; }

static size_t held_bytes(const Param *p, bool in_slices) {
    return param_trained(p) * dtype_size(in_slices && is_rounded(p) ? DTYPE_BF16 : DTYPE_F32);
}

static size_t sum_bytes(size_t owned, int64_t micro_batches) {
    return owned * (step_sum_in_floats(micro_batches) ? sizeof(float) : sizeof(int64_t));
}

size_t optimizer_memory(const ParamSet *ps, bool in_slices, int64_t micro_batches) {
    size_t held = 0, widened = 0, owned = slices_owned(params_count(ps));
    for (const Param *p = ps->params; p < ps->params + ps->n; p++) {
        held += held_bytes(p, in_slices);
        if (in_slices && is_rounded(p)) widened = MAX(widened, weight_count(p->weight) * sizeof(float));
    }
    return held + widened + owned * (in_slices ? 3 : 2) * sizeof(float) + sum_bytes(owned, micro_batches);
}

/* Where parameters and slices begin in held. */
static void place(Optimizer *o, ParamSet *ps, bool in_slices) {
    size_t at = 0, first = 0;
    int slice = 0;
    for (Param *p = ps->params; p < ps->params + ps->n; p++) {
        size_t n = param_trained(p), bytes = held_bytes(p, in_slices);
        for (; slice < o->slices.n && o->slices.all[slice].first < first + n; slice++)
            o->at[slice] = at + (o->slices.all[slice].first - first) * (bytes / n);
        if (in_slices && n) {
            p->weight->data = o->held + at;
            p->weight->dtype = is_rounded(p) ? DTYPE_BF16 : DTYPE_F32;
        }
        first += n;
        at += bytes;
    }
    o->at[o->slices.n] = at;
}

void optimizer_init(Optimizer *o, ParamSet *ps, bool in_slices, int64_t micro_batches) {
    *o = (Optimizer){.n = params_trained(ps)};
    slices_init(&o->slices, ps);
    size_t owned = o->slices.owned, held = 0;
    for (const Param *p = ps->params; p < ps->params + ps->n; p++) held += held_bytes(p, in_slices);
    size_t averages = owned * sizeof(float), sums = sum_bytes(owned, micro_batches);
    arena_init(&o->memory, held + (in_slices ? 3 : 2) * averages + sums + 5 * 64);
    o->held = arena_calloc(&o->memory, held);
    if (in_slices)
        o->master = arena_calloc(&o->memory, averages);
    else
        o->w = (float *)(void *)o->held;
    o->at = xcalloc((size_t)o->slices.n + 1, sizeof *o->at);
    o->m = arena_calloc(&o->memory, averages);
    o->v = arena_calloc(&o->memory, averages);
    o->partial = xcalloc((size_t)o->slices.n, sizeof *o->partial);
    if (step_sum_in_floats(micro_batches))
        o->sum = (GradientSum){.floats = arena_calloc(&o->memory, sums), .squares = o->partial};
    else
        o->sum.integers = arena_alloc(&o->memory, sums);
    if (!in_slices) params_bind_flat(ps, o->w, NULL);
    place(o, ps, in_slices);
}

void optimizer_free(Optimizer *o) {
    arena_free(&o->memory);
    slices_free(&o->slices);
    free(o->partial);
    free(o->at);
    *o = (Optimizer){0};
}

/* ---- weights ---- */

float *optimizer_master(const Optimizer *o, const Slice *s) { return o->w ? o->w + s->first : o->master + s->owned; }

static void hold(const Optimizer *o, int slice, const float *x) {
    const Slice *s = &o->slices.all[slice];
    void *to = o->held + o->at[slice];
    if (o->at[slice + 1] - o->at[slice] == (size_t)s->n * sizeof *x)
        memcpy(to, x, (size_t)s->n * sizeof *x);
    else
        kernels->to_bf16(s->n, x, to);
}

void optimizer_take(const Optimizer *o, int slice, const float *x) {
    const Slice *s = &o->slices.all[slice];
    hold(o, slice, x);
    if (o->master && s->owned != SIZE_MAX) memcpy(o->master + s->owned, x, (size_t)s->n * sizeof *x);
}

/* ---- a step ---- */

/* What the slices of one step share. */
typedef struct Update {
    double lr, grad_scale, correction1, correction2;
} Update;

/* In the sum, or read of it into g. */
static const float *gradient(const Optimizer *o, const Slice *s, double unit, float g[SLICE]) {
    if (o->sum.floats) return o->sum.floats + s->owned;
    kernels->train->fixed_read(s->n, o->sum.integers + s->owned, (float)unit, g);
    return g;
}

static void sum_squares(Optimizer *o, double unit) {
#pragma omp parallel for schedule(static)
    for (int k = 0; k < o->slices.n_mine; k++) {
        const Slice *s = &o->slices.all[o->slices.mine[k]];
        float g[SLICE];
        o->partial[o->slices.mine[k]] = kernels->train->squares(s->n, gradient(o, s, unit, g));
    }
}

static double gradient_norm(Optimizer *o, double unit) {
    if (!o->sum.squares) sum_squares(o, unit);
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
    kernels->train->adamw(&row, s->n, optimizer_master(o, s), g, o->m + s->owned, o->v + s->owned);
}

static void update_sgd(const Optimizer *o, const Slice *s, const float *g, const Recipe *r, const Update *u) {
    float *w = optimizer_master(o, s), *m = o->m + s->owned, a = (float)(u->lr * s->lr_scale);
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
        (r->optimizer == OPTIMIZER_SGD ? update_sgd : update_adamw)(o, s, gradient(o, s, unit, g), r, &u);
        if (o->sum.floats) memset(o->sum.floats + s->owned, 0, (size_t)s->n * sizeof *g);
        if (o->master) hold(o, o->slices.mine[i], optimizer_master(o, s));
    }
    slices_all_gather(&o->slices, o->held, o->at);
    return norm;
}
