#include "base/team.h"
#include "model/ops/op.h"

#include <math.h>

Mat *op_add_sinusoids(Tape *t, Mat *x, const int *positions) {
    Mat *wave = tape_mat(t, x->n, x->d);
#pragma omp parallel for if (team_pays((size_t)x->n * (size_t)x->d, TEAM_ELEMENTS))
    for (int i = 0; i < x->n; i++)
        for (int k = 0; k < x->d; k++) {
            double angle = positions[i] * pow(10000, -(double)(k - k % 2) / x->d);
            wave->x[(size_t)i * (size_t)x->d + (size_t)k] = (float)(k % 2 ? cos(angle) : sin(angle));
        }
    return op_residual(t, x, wave);
}
