#include "base/err.h"
#include "base/team.h"
#include "model/kernels/kernels.h"
#include "model/ops/op.h"

#include <string.h>

/* Rows are dealt to a fixed number of chunks and the chunks' sums added in order: the same bits on any team. */
enum { CHUNKS = 16 };

typedef struct NormContext {
    Mat *x, *y;
    const Weight *w, *b;
    float eps;
    bool center;    /* layernorm */
    float *scratch; /* [CHUNKS, 3, d] sums of dw, of db, a row */
} NormContext;

static void norm_backward_chunk(const NormContext *c, int chunk, const float *dy, bool add, float *sums) {
    int d = c->x->d, end = (int)((int64_t)c->x->n * (chunk + 1) / CHUNKS);
    memset(sums, 0, 2 * (size_t)d * sizeof *sums);
    for (int i = (int)((int64_t)c->x->n * chunk / CHUNKS); i < end; i++) {
        size_t at = (size_t)i * (size_t)d;
        kernels->train->norm_slope_row(c->center, d, c->x->x + at, weight_f32(c->w), c->eps, dy + at, add,
                                       c->x->dx + at, sums, c->b ? sums + d : NULL, sums + 2 * d);
    }
}

static void norm_backward(void *context) {
    const NormContext *c = context;
    int d = c->x->d;
    const float *dy = mat_gradient(c->y);
    bool add = !mat_first(c->x);
#pragma omp parallel for schedule(static) if (team_pays((size_t)c->x->n * (size_t)d, TEAM_ELEMENTS))
    for (int chunk = 0; chunk < CHUNKS; chunk++)
        norm_backward_chunk(c, chunk, dy, add, c->scratch + (size_t)(3 * chunk) * (size_t)d);
    for (int chunk = 0; chunk < CHUNKS; chunk++) {
        const float *sums = c->scratch + (size_t)(3 * chunk) * (size_t)d;
        if (c->w->grad) kernels->add_row(d, sums, c->w->grad);
        if (c->b && c->b->grad) kernels->add_row(d, sums + d, c->b->grad);
    }
}

static Mat *norm_forward(Tape *t, Mat *x, const Weight *w, const Weight *b, float eps, bool center) {
    BUG_ON(w->dims[0] != x->d);
    Mat *y = tape_mat(t, x->n, x->d);
    size_t d = (size_t)x->d;
#pragma omp parallel for if (team_pays((size_t)x->n * d, TEAM_ELEMENTS))
    for (int i = 0; i < x->n; i++) {
        const float *row = x->x + (size_t)i * d;
        float *out = y->x + (size_t)i * d;
        if (center)
            kernels->layernorm_row(x->d, row, weight_f32(w), b ? weight_f32(b) : NULL, eps, out);
        else
            kernels->rmsnorm_row(x->d, row, weight_f32(w), eps, out);
    }
    if (t->recording) {
        NormContext *c = tape_alloc(t, sizeof *c);
        *c = (NormContext){.x = x, .y = y, .w = w, .b = b, .eps = eps, .center = center};
        c->scratch = tape_alloc(t, (size_t)(3 * CHUNKS * x->d) * sizeof(float));
        tape_push(t, norm_backward, c);
    }
    return y;
}

Mat *op_layernorm(Tape *t, Mat *x, const Weight *w, const Weight *b, float eps) {
    return norm_forward(t, x, w, b, eps, true);
}

Mat *op_rmsnorm(Tape *t, Mat *x, const Weight *w, float eps) { return norm_forward(t, x, w, NULL, eps, false); }
