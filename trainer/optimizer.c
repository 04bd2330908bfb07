#include "optimizer.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { SLICE = 1 << 14, LANES = 8 };

/* A stretch of one parameter: the unit of work, and of the fixed order in which the norm is summed. */
struct Slice {
    size_t first;
    int n;
    float lr_scale;
    bool decay;
};

static void slices_add(Optimizer *o, const Param *p, size_t first) {
    size_t n = weight_count(p->weight), pieces = (n + SLICE - 1) / SLICE;
    o->slices = xrealloc(o->slices, ((size_t)o->n_slices + pieces) * sizeof *o->slices);
    for (size_t at = 0; at < n; at += SLICE)
        o->slices[o->n_slices++] = (Slice){
            .first = first + at, .n = (int)MIN(n - at, (size_t)SLICE), .lr_scale = p->lr_scale, .decay = p->decay};
}

void optimizer_init(Optimizer *o, ParamSet *ps) {
    *o = (Optimizer){.n = params_count(ps)};
    float **buffers[] = {&o->w, &o->g, &o->m, &o->v};
    for (size_t i = 0; i < COUNTOF(buffers); i++) *buffers[i] = xcalloc(o->n, sizeof(float));
    size_t first = 0;
    for (int i = 0; i < ps->n; i++) {
        slices_add(o, &ps->params[i], first);
        first += weight_count(ps->params[i].weight);
    }
    o->partial = xcalloc((size_t)o->n_slices, sizeof *o->partial);
    params_bind_flat(ps, o->w, o->g);
}

void optimizer_free(Optimizer *o) {
    free(o->w);
    free(o->g);
    free(o->m);
    free(o->v);
    free(o->slices);
    free(o->partial);
    *o = (Optimizer){0};
}

static double slice_squares(const float *g, int n) {
    double lane[LANES] = {0}, sum = 0;
    int i = 0;
    for (; i + LANES <= n; i += LANES)
        for (int k = 0; k < LANES; k++) lane[k] += (double)g[i + k] * (double)g[i + k];
    for (; i < n; i++) lane[0] += (double)g[i] * (double)g[i];
    for (int k = 0; k < LANES; k++) sum += lane[k];
    return sum;
}

static double gradient_norm(Optimizer *o) {
#pragma omp parallel for schedule(static)
    for (int i = 0; i < o->n_slices; i++) o->partial[i] = slice_squares(o->g + o->slices[i].first, o->slices[i].n);
    double sum = 0;
    for (int i = 0; i < o->n_slices; i++) sum += o->partial[i];
    return sqrt(sum);
}

typedef struct Update {
    float beta1, beta2, eps, grad_scale;
    float correction2; /* 1 / sqrt(1 - b2^t) */
    float step, keep;  /* a / (1 - b1^t), 1 - a decay */
} Update;

static void slice_update(const Update *u, int n, float *restrict w, float *restrict g, float *restrict m,
                         float *restrict v) {
    for (int i = 0; i < n; i++) {
        float d = g[i] * u->grad_scale;
        m[i] = u->beta1 * m[i] + (1 - u->beta1) * d;
        v[i] = u->beta2 * v[i] + (1 - u->beta2) * d * d;
        w[i] = w[i] * u->keep - u->step * m[i] / (sqrtf(v[i]) * u->correction2 + u->eps);
    }
    memset(g, 0, (size_t)n * sizeof *g);
}

double optimizer_step(Optimizer *o, const AdamW *c, double lr, int64_t t, double grad_scale) {
    double norm = gradient_norm(o) * grad_scale;
    if (!isfinite(norm)) return norm;
    if (c->clip > 0) grad_scale *= fmin(1, c->clip / norm);
    double correction1 = 1 - pow(c->beta1, (double)t), correction2 = 1 - pow(c->beta2, (double)t);
#pragma omp parallel for schedule(static)
    for (int i = 0; i < o->n_slices; i++) {
        const Slice *s = &o->slices[i];
        double a = lr * s->lr_scale;
        Update u = {.beta1 = (float)c->beta1,
                    .beta2 = (float)c->beta2,
                    .eps = (float)c->eps,
                    .grad_scale = (float)grad_scale,
                    .correction2 = (float)(1 / sqrt(correction2)),
                    .step = (float)(a / correction1),
                    .keep = (float)(s->decay ? 1 - a * c->weight_decay : 1)};
        slice_update(&u, s->n, o->w + s->first, o->g + s->first, o->m + s->first, o->v + s->first);
    }
    return norm;
}
