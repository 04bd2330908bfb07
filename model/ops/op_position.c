#include "base/fixed_math.h"
#include "base/team.h"
#include "model/ops/op.h"

Mat *op_add_sinusoids(Tape *t, Mat *x, const int *positions) {
    Mat *wave = tape_mat(t, x->n, x->d);
    int pairs = (x->d + 1) / 2;
    double *frequency = tape_alloc(t, (size_t)pairs * sizeof *frequency);
    for (int k = 0; k < pairs; k++) frequency[k] = fixed_pow(10000, -2.0 * k / x->d);
#pragma omp parallel for if (team_pays((size_t)x->n * (size_t)x->d, TEAM_ELEMENTS))
    for (int i = 0; i < x->n; i++) {
        float *row = wave->x + (size_t)i * (size_t)x->d;
        for (int k = 0; k < pairs; k++) {
            double sine, cosine;
            fixed_sin_cos(positions[i] * frequency[k], &sine, &cosine);
            row[2 * k] = (float)sine;
            if (2 * k + 1 < x->d) row[2 * k + 1] = (float)cosine;
        }
    }
    return op_residual(t, x, wave);
}
