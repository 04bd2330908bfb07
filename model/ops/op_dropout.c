#include "base/err.h"
#include "base/random.h"
#include "base/team.h"
#include "model/kernels/train_kernels.h"
#include "model/kernels/kernels.h"
#include "model/ops/op.h"

typedef struct DropoutContext {
    Mat *x, *y;
    float rate;
    int place;
    NoiseKey key;
    float *factors; /* [threads, d] scratch */
} DropoutContext;

/* 0 or 1 / (1 - rate) for every column of row i: one word of Philox each. */
static const float *factors_of(const DropoutContext *c, int i) {
    int d = c->x->d;
    float *out = c->factors + (size_t)team_member() * (size_t)d, kept = 1 / (1 - c->rate);
    double dropped = (double)c->rate * 0x1p32; /* of the 2^32 words */
    for (int k = 0; k < d; k += 4) {
        uint32_t at = (uint32_t)c->place << 16 | (uint32_t)k / 4;
        Philox p = philox4x32(at, (uint32_t)i, c->key.stream, DRAW_DROPOUT, c->key.seed);
        for (int j = 0; j < MIN(4, d - k); j++) out[k + j] = (double)p.v[j] < dropped ? 0 : kept;
    }
    return out;
}

static void dropout_backward(void *context) {
    const DropoutContext *c = context;
    size_t d = (size_t)c->x->d;
    const float *dy = mat_gradient(c->y);
    bool add = !mat_first(c->x);
#pragma omp parallel for if (team_pays((size_t)c->x->n * d, TEAM_ELEMENTS))
    for (int i = 0; i < c->x->n; i++)
        kernels->train->product_row(c->x->d, dy + (size_t)i * d, factors_of(c, i), add, c->x->dx + (size_t)i * d);
}

Mat *op_dropout(Tape *t, Mat *x, float rate, int place, const NoiseKey *key) {
    if (!t->recording || rate == 0) return x;
    Mat *y = tape_mat(t, x->n, x->d);
    size_t d = (size_t)x->d;
    DropoutContext *c = tape_alloc(t, sizeof *c);
    *c = (DropoutContext){.x = x,
                          .y = y,
                          .rate = rate,
                          .place = place,
                          .key = *key,
                          .factors = tape_alloc(t, (size_t)team_size() * d * sizeof(float))};
#pragma omp parallel for if (team_pays((size_t)x->n * d, TEAM_ELEMENTS))
    for (int i = 0; i < x->n; i++)
        kernels->train->product_row(x->d, x->x + (size_t)i * d, factors_of(c, i), false, y->x + (size_t)i * d);
    tape_push(t, dropout_backward, c);
    return y;
}
