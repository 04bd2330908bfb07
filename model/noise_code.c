#include "base/arena.h"
#include "base/err.h"
#include "base/team.h"
#include "model/kernels/kernels.h"
#include "model/noise.h"
#include "model/shape.h"

#include <string.h>

enum { CODE_QUERY = -1 }; /* of the counter: no row has it */

typedef struct CodeContext {
    const Forward *f;
    const Noise *noise;
    Mat *q, *y;
    int heads, dim;
    float *eps; /* [n_segments, heads dim], recording only */
} CodeContext;

static int distribution_of(const CodeContext *c, int head) { return c->f->cfg->noise.scope == NOISE_HEAD ? head : 0; }

static void draw_code(const CodeContext *c, const NoiseKey *key, float *eps) {
    for (int h = 0; h < c->heads; h++) {
        uint32_t head_layer = (uint32_t)distribution_of(c, h) | (uint32_t)c->f->layer << 16;
        kernels->gaussians(key->seed, key->stream, head_layer, (uint32_t)CODE_QUERY, key->sequence, 0, c->dim,
                           eps + h * c->dim);
    }
}

/* y = q + code for the rows of one segment; eps and code are [heads dim]. */
static void add_code(const CodeContext *c, const Segment *seg, float *eps, float *code) {
    size_t d = (size_t)c->q->d, first = (size_t)seg->row0 * d;
    memcpy(c->y->x + first, c->q->x + first, (size_t)seg->n * d * sizeof(float));
    if (seg->noise.scale == 0) return;
    draw_code(c, &seg->noise, eps);
    for (int h = 0; h < c->heads; h++)
        kernels->scale_row(c->dim, weight_f32(&c->noise->sigma)[distribution_of(c, h)] * seg->noise.scale,
                           eps + h * c->dim, code + h * c->dim);
    for (int i = 0; i < seg->n; i++) kernels->add_row((int)d, code, c->y->x + first + (size_t)i * d);
}

/* sum over rows and features of dy eps, for one head of one segment. */
static double head_sum(const CodeContext *c, int segment, int head) {
    const Segment *seg = &c->f->batch->segments[segment];
    const float *eps = c->eps + (size_t)segment * (size_t)c->q->d + (size_t)(head * c->dim);
    double sum = 0;
    for (int i = 0; i < seg->n && seg->noise.scale != 0; i++) {
        const float *dy = c->y->dx + (size_t)(seg->row0 + i) * (size_t)c->q->d + (size_t)(head * c->dim);
        for (int k = 0; k < c->dim; k++) sum += (double)dy[k] * eps[k];
    }
    return sum * seg->noise.scale;
}

/* d sigma += scale sum dy eps, in the order of segments and heads; dq += dy. */
static void code_backward(void *context) {
    const CodeContext *c = context;
    mat_gradient(c->y);
    for (int s = 0; s < c->f->batch->n_segments && c->noise->sigma.grad; s++)
        for (int h = 0; h < c->heads; h++) c->noise->sigma.grad[distribution_of(c, h)] += (float)head_sum(c, s, h);
    mat_pass_on(c->y, c->q);
}

Mat *noise_code(Forward *f, const Noise *z, Mat *q) {
    Tape *t = f->tape;
    HeadShape shape = config_heads(f->cfg);
    const Batch *batch = f->batch;
    CodeContext *c = tape_alloc(t, sizeof *c);
    *c = (CodeContext){.f = f, .noise = z, .q = q, .heads = shape.heads, .dim = shape.k_dim};
    BUG_ON(q->d != c->heads * c->dim);
    c->y = tape_mat(t, q->n, q->d);
    size_t d = (size_t)q->d;
    ArenaMark mark = arena_mark(&t->arena);
    if (t->recording) c->eps = tape_alloc(t, (size_t)batch->n_segments * d * sizeof(float));
    float *scratch = tape_alloc(t, (size_t)team_size() * 2 * d * sizeof(float));
#pragma omp parallel for if (team_pays((size_t)q->n * d, TEAM_ELEMENTS))
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
