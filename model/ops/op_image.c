#include "base/err.h"
#include "base/team.h"
#include "model/kernels/kernels.h"
#include "model/ops/op.h"

#include <string.h>

Mat *op_patches(Tape *t, const float *images, int n, const Config *c) {
    int height = c->input.height, width = c->input.width, p = c->input.patch, channels = c->input.channels;
    int columns = width / p, patches = height / p * columns;
    Mat *y = tape_mat(t, n * patches, channels * p * p);
#pragma omp parallel for if (team_pays((size_t)y->n * (size_t)y->d, TEAM_COPIES))
    for (int i = 0; i < y->n; i++) {
        int patch = i % patches, top = patch / columns * p, left = patch % columns * p;
        float *out = y->x + (size_t)i * (size_t)y->d;
        for (int k = 0; k < channels; k++)
            for (int line = 0; line < p; line++, out += p) {
                size_t at =
                    ((size_t)(i / patches * channels + k) * (size_t)height + (size_t)(top + line)) * (size_t)width;
                memcpy(out, images + at + left, (size_t)p * sizeof *out);
            }
    }
    return y;
}

typedef struct ClassContext {
    Mat *x, *y;
    const Weight *w;
    int group; /* rows of y */
} ClassContext;

static void class_rows_backward(void *context) {
    const ClassContext *c = context;
    size_t d = (size_t)c->x->d;
    const float *dy = mat_gradient(c->y);
    float *dx = mat_gradient(c->x);
    for (int i = 0, from = 0; i < c->y->n; i++, dy += d) {
        if (i % c->group)
            kernels->add_row(c->x->d, dy, dx + (size_t)from++ * d);
        else if (c->w->grad)
            kernels->add_row(c->x->d, dy, c->w->grad);
    }
}

Mat *op_class_rows(Tape *t, Mat *x, const Weight *w, int n) {
    int rows = x->n / n, group = rows + 1;
    size_t d = (size_t)x->d;
    BUG_ON(x->n % n || w->dims[0] != x->d);
    Mat *y = tape_mat(t, n * group, x->d);
    for (int i = 0; i < n; i++) {
        float *out = y->x + (size_t)(i * group) * d;
        memcpy(out, w->data, d * sizeof *out);
        memcpy(out + d, x->x + (size_t)(i * rows) * d, (size_t)rows * d * sizeof *out);
    }
    if (t->recording) {
        ClassContext *c = tape_alloc(t, sizeof *c);
        *c = (ClassContext){.x = x, .y = y, .w = w, .group = group};
        tape_push(t, class_rows_backward, c);
    }
    return y;
}
