#include "base/err.h"
#include "base/team.h"
#include "model/ops/op.h"
#include "model/shape.h"

#include <math.h>

typedef struct RopeContext {
    Mat *x, *y;
    int heads, dim;
    const float *cos_sin; /* [n, dim]: dim/2 cosines, then dim/2 sines */
} RopeContext;

/* out (+)= the rotation of every head by +angle (sign 1) or -angle (sign -1):
 * x1 cos - x2 sin, x2 cos + x1 sin over the two halves of the head. */
static void rotate_row(const float *x, float *out, int heads, int dim, const float *cos_sin, float sign, bool add) {
    int half = dim / 2;
    for (int h = 0; h < heads; h++, x += dim, out += dim)
        for (int i = 0; i < half; i++) {
            float c = cos_sin[i], s = sign * cos_sin[half + i];
            float a = x[i] * c - x[half + i] * s, b = x[half + i] * c + x[i] * s;
            out[i] = add ? out[i] + a : a;
            out[half + i] = add ? out[half + i] + b : b;
        }
}

static void rope_backward(void *context) {
    const RopeContext *c = context;
    size_t d = (size_t)c->x->d;
    const float *dy = mat_gradient(c->y);
    bool add = !mat_first(c->x);
#pragma omp parallel for if (team_pays((size_t)c->x->n * d, TEAM_ELEMENTS))
    for (int i = 0; i < c->x->n; i++)
        rotate_row(dy + (size_t)i * d, c->x->dx + (size_t)i * d, c->heads, c->dim,
                   c->cos_sin + (size_t)i * (size_t)c->dim, -1, add);
}

Mat *op_rope(Tape *t, Mat *x, int heads, int dim, const int *positions, const Config *config) {
    BUG_ON(heads * dim != x->d || dim % 2);
    Mat *y = tape_mat(t, x->n, x->d);
    size_t d = (size_t)x->d;
    int half = dim / 2;
    float *cos_sin = tape_alloc(t, (size_t)x->n * (size_t)dim * sizeof(float));
    float *frequency = tape_alloc(t, (size_t)half * sizeof(float));
    for (int k = 0; k < half; k++) frequency[k] = config_rope_frequency(config, k, dim);
#pragma omp parallel for if (team_pays((size_t)x->n * d, TEAM_ELEMENTS))
    for (int i = 0; i < x->n; i++) {
        float *row = cos_sin + (size_t)i * (size_t)dim;
        for (int k = 0; k < half; k++) {
            float angle = (float)positions[i] * frequency[k];
            row[k] = cosf(angle);
            row[half + k] = sinf(angle);
        }
        rotate_row(x->x + (size_t)i * d, y->x + (size_t)i * d, heads, dim, row, 1, false);
    }
    if (t->recording) {
        RopeContext *c = tape_alloc(t, sizeof *c);
        *c = (RopeContext){.x = x, .y = y, .heads = heads, .dim = dim, .cos_sin = cos_sin};
        tape_push(t, rope_backward, c);
    }
    return y;
}
