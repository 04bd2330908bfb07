#include "base/err.h"
#include "base/fixed_math.h"
#include "base/team.h"
#include "model/ops/op.h"
#include "model/shape.h"

typedef struct RopeContext {
    Mat *x, *y;
    int heads, parts, dim;   /* dim of a part */
    const float *rope_table; /* [n, parts, dim]: dim/2 cosines, then dim/2 sines */
} RopeContext;

/* out (+)= the rotation of every part of every head by +angle (sign 1) or -angle (sign -1):
 * x1 cos - x2 sin, x2 cos + x1 sin over the two halves of the part. */
static void rotate_row(const RopeContext *r, const float *x, float *out, const float *table, float sign, bool add) {
    int dim = r->dim, half = dim / 2;
    for (int h = 0; h < r->heads * r->parts; h++, x += dim, out += dim) {
        const float *turn = table + h % r->parts * dim;
        for (int i = 0; i < half; i++) {
            float c = turn[i], s = sign * turn[half + i];
            float a = x[i] * c - x[half + i] * s, b = x[half + i] * c + x[i] * s;
            out[i] = add ? out[i] + a : a;
            out[half + i] = add ? out[half + i] + b : b;
        }
    }
}

static void rope_backward(void *context) {
    const RopeContext *c = context;
    size_t d = (size_t)c->x->d;
    const float *dy = mat_gradient(c->y);
    bool add = !mat_first(c->x);
#pragma omp parallel for if (team_pays((size_t)c->x->n * d, TEAM_ELEMENTS))
    for (int i = 0; i < c->x->n; i++)
        rotate_row(c, dy + (size_t)i * d, c->x->dx + (size_t)i * d,
                   c->rope_table + (size_t)i * (size_t)(c->parts * c->dim), -1, add);
}

const float *rope_table(Tape *t, int n, const int *positions, int dim, const Config *config) {
    int parts = config_rope_parts(config), half = dim / parts / 2;
    float *table = tape_alloc(t, (size_t)n * (size_t)dim * sizeof *table);
    float *frequency = tape_alloc(t, (size_t)half * sizeof *frequency);
    for (int k = 0; k < half; k++) frequency[k] = config_rope_frequency(config, k, 2 * half);
#pragma omp parallel for if (team_pays((size_t)n * (size_t)dim, TEAM_ELEMENTS))
    for (int i = 0; i < n; i++) {
        int place[2] = {positions[i]};
        if (parts == 2) config_place(config, positions[i], place);
        for (int p = 0; p < parts; p++) {
            float *turn = table + (size_t)i * (size_t)dim + 2 * half * p;
            for (int k = 0; k < half; k++) {
                double sine, cosine;
                fixed_sin_cos((double)((float)place[p] * frequency[k]), &sine, &cosine);
                turn[k] = (float)cosine;
                turn[half + k] = (float)sine;
            }
        }
    }
    return table;
}

Mat *op_rope(Tape *t, Mat *x, int heads, int dim, int parts, const float *table) {
    BUG_ON(heads * dim != x->d || dim % (2 * parts));
    Mat *y = tape_mat(t, x->n, x->d);
    size_t d = (size_t)x->d;
    RopeContext *c = tape_alloc(t, sizeof *c);
    *c = (RopeContext){.x = x, .y = y, .heads = heads, .parts = parts, .dim = dim / parts, .rope_table = table};
#pragma omp parallel for if (team_pays((size_t)x->n * d, TEAM_ELEMENTS))
    for (int i = 0; i < x->n; i++)
        rotate_row(c, x->x + (size_t)i * d, y->x + (size_t)i * d, table + (size_t)i * (size_t)dim, 1, false);
    if (t->recording) tape_push(t, rope_backward, c);
    return y;
}
