#include "base/arena.h"
#include "base/err.h"
#include "base/random.h"
#include "base/team.h"
#include "model/kernels/kernels.h"
#include "model/noise.h"
#include "model/shape.h"

#include <string.h>

/* Of the counter: no row has these. */
#define CODE_QUERY UINT32_C(0xFFFFFFFF)
#define COMPONENT_QUERY UINT32_C(0xFFFFFFFE)

typedef struct CodeContext {
    const Forward *f;
    const Noise *noise;
    Mat *x, *y;
    int heads, dim;
    float *eps; /* [n_segments, heads dim], recording only */
} CodeContext;

/* floor(u K) of the first word of the counter, u in [0, 1). */
int noise_component(const Config *c, const NoiseKey *key) {
    if (key->component) return key->component - 1;
    Philox draw = philox4x32(key->sequence << 16, COMPONENT_QUERY, 0, key->stream | 0x80000000u, key->seed);
    return (int)((uint64_t)draw.v[0] * (uint64_t)c->noise.components >> 32);
}

static int distribution_of(const CodeContext *c, int head) { return c->f->cfg->noise.scope == NOISE_HEAD ? head : 0; }

/* The row of mu, and the place of the sigma, that a segment has for a head. */
static int place_of(const CodeContext *c, const NoiseKey *key, int head) {
    const Config *cfg = c->f->cfg;
    int m = config_noise_components(cfg);
    return m ? distribution_of(c, head) * m + noise_component(cfg, key) : distribution_of(c, head);
}

static void draw_code(const CodeContext *c, const NoiseKey *key, float *eps) {
    if (key->means_only) {
        memset(eps, 0, (size_t)(c->heads * c->dim) * sizeof *eps);
        return;
    }
    for (int h = 0; h < c->heads; h++) {
        uint32_t head_layer = (uint32_t)distribution_of(c, h) | (uint32_t)c->f->layer << 16;
        kernels->gaussians(key->seed, key->stream, head_layer, CODE_QUERY, key->sequence, 0, c->dim, eps + h * c->dim);
    }
}

/* y = x + code for the rows of one segment; eps and code are [heads dim]. */
static void add_code(const CodeContext *c, const Segment *seg, float *eps, float *code) {
    size_t d = (size_t)c->x->d, first = (size_t)seg->row0 * d;
    const NoiseKey *key = &seg->noise;
    if (c->y != c->x) memcpy(c->y->x + first, c->x->x + first, (size_t)seg->n * d * sizeof(float));
    if (key->scale == 0) return;
    draw_code(c, key, eps);
    for (int h = 0; h < c->heads; h++) {
        int place = place_of(c, key, h);
        const float *mu = c->noise->mu.data ? weight_f32(&c->noise->mu) + (size_t)place * (size_t)c->dim : NULL;
        float *own = code + h * c->dim;
        kernels->scale_row(c->dim, weight_f32(&c->noise->sigma)[place] * key->scale, eps + h * c->dim, own);
        for (int k = 0; k < c->dim && mu; k++) own[k] += key->scale * mu[k];
    }
    for (int i = 0; i < seg->n; i++) kernels->add_row((int)d, code, c->y->x + first + (size_t)i * d);
}

/* d sigma += scale sum dy eps and d mu += scale sum dy over the rows of one segment, for one head. */
static void head_backward(const CodeContext *c, int segment, int head) {
    const Segment *seg = &c->f->batch->segments[segment];
    const Noise *z = c->noise;
    size_t d = (size_t)c->x->d, at = (size_t)(head * c->dim);
    const float *eps = c->eps + (size_t)segment * d + at;
    int place = place_of(c, &seg->noise, head);
    float *d_mu = z->mu.grad ? z->mu.grad + (size_t)place * (size_t)c->dim : NULL;
    double sum = 0;
    for (int i = 0; i < seg->n; i++) {
        const float *dy = c->y->dx + (size_t)(seg->row0 + i) * d + at;
        for (int k = 0; k < c->dim; k++) sum += (double)dy[k] * eps[k];
        for (int k = 0; k < c->dim && d_mu; k++) d_mu[k] += seg->noise.scale * dy[k];
    }
    z->sigma.grad[place] += (float)(sum * seg->noise.scale);
}

/* In the order of segments and heads. */
static void code_backward(void *context) {
    const CodeContext *c = context;
    const Batch *batch = c->f->batch;
    mat_gradient(c->y);
    for (int s = 0; s < batch->n_segments && c->noise->sigma.grad; s++)
        for (int h = 0; h < c->heads && batch->segments[s].noise.scale != 0; h++) head_backward(c, s, h);
    mat_pass_on(c->y, c->x);
}

Mat *noise_code(Forward *f, const Noise *z, Mat *x) {
    Tape *t = f->tape;
    HeadShape shape = config_heads(f->cfg);
    bool rows = f->cfg->noise.site == SITE_RESIDUAL;
    const Batch *batch = f->batch;
    CodeContext *c = tape_alloc(t, sizeof *c);
    *c = (CodeContext){.f = f, .noise = z, .x = x, .heads = rows ? 1 : shape.heads, .dim = rows ? x->d : shape.k_dim};
    BUG_ON(x->d != c->heads * c->dim);
    if (t->coded) t->coded(t->coded_context, f->layer, x);
    c->y = rows && !t->recording ? x : tape_mat(t, x->n, x->d);
    size_t d = (size_t)x->d;
    ArenaMark mark = arena_mark(&t->arena);
    if (t->recording) c->eps = tape_alloc(t, (size_t)batch->n_segments * d * sizeof(float));
    float *scratch = tape_alloc(t, (size_t)team_size() * 2 * d * sizeof(float));
#pragma omp parallel for if (team_pays((size_t)x->n * d, TEAM_ELEMENTS))
    for (int s = 0; s < batch->n_segments; s++) {
        float *own = scratch + (size_t)team_member() * 2 * d;
        add_code(c, &batch->segments[s], c->eps ? c->eps + (size_t)s * d : own, own + d);
    }
    if (t->recording)
        tape_push(t, code_backward, c);
    else
        arena_rewind(&t->arena, mark);
    return c->y;
}
