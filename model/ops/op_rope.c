#include "base/err.h"
#include "base/team.h"
#include "model/ops/op.h"
#include "model/shape.h"

#include <math.h>

typedef struct RopeContext {
    Mat *x, *y;
    int heads, parts, dim; /* dim of a part */
    const float *cos_sin;  /* [n, parts, dim]: dim/2 cosines, then dim/2 sines */
} RopeContext;

/* out (+)= the rotation of every part of every head by +angle (sign 1) or -angle (sign -1):
 * x1 cos - x2 sin, x2 cos + x1 sin over the two halves of the part. */
static void rotate_row(const RopeContext *r, const float *x, float *out, const float *cos_sin, float sign, bool add) {
    int dim = r->dim, half = dim / 2;
    for (int h = 0; h < r->heads * r->parts; h++, x += dim, out += dim) {
        const float *turn = cos_sin + h % r->parts * dim;
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
                   c->cos_sin + (size_t)i * (size_t)(c->parts * c->dim), -1, add);
}

Mat *op_rope(Tape *t, Mat *x, int heads, int dim, const int *positions, const Config *config) {
    int parts = config->position == POSITION_ROPE2D ? 2 : 1, half = dim / parts / 2;
    BUG_ON(heads * dim != x->d || dim != 2 * half * parts);
    Mat *y = tape_mat(t, x->n, x->d);
    size_t d = (size_t)x->d;
    float *cos_sin = tape_alloc(t, (size_t)x->n * (size_t)dim * sizeof(float));
    float *frequency = tape_alloc(t, (size_t)half * sizeof(float));
    RopeContext *c = tape_alloc(t, sizeof *c);
    *c = (RopeContext){.x = x, .y = y, .heads = heads, .parts = parts, .dim = 2 * half, .cos_sin = cos_sin};
    for (int k = 0; k < half; k++) frequency[k] = config_rope_frequency(config, k, 2 * half);
#pragma omp parallel for if (team_pays((size_t)x->n * d, TEAM_ELEMENTS))
    for (int i = 0; i < x->n; i++) {
        float *row = cos_sin + (size_t)i * (size_t)dim;
        int place[2] = {positions[i]};
        if (parts == 2) config_place(config, positions[i], place);
        for (int p = 0; p < parts; p++)
            for (int k = 0; k < half; k++) {
                float angle = (float)place[p] * frequency[k];
                row[2 * half * p + k] = cosf(angle);
                row[2 * half * p + half + k] = sinf(angle);
            }
        rotate_row(c, x->x + (size_t)i * d, y->x + (size_t)i * d, row, 1, false);
    }
    if (t->recording) tape_push(t, rope_backward, c);
    return y;
}
