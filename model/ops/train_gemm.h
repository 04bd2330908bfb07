/* train_gemm: C (+)= A B for training, packed, split by output tile among the OpenMP team.
 *
 * Every element of C adds its products in the order of k, starting from what C held (add) or from zero: the same bits
 * for any team, any shape around it and any instruction set, but for those of another arithmetic (kernels.h). In bf16
 * the operands are rounded while they are packed; sums are f32. */
#ifndef NOISED_TRAIN_GEMM_H
#define NOISED_TRAIN_GEMM_H

#include "model/tape.h"

/* Element (i, j) is x[i ld + j], or x[j ld + i] when transposed. */
typedef struct Matrix {
    const float *x;
    int ld;
    bool transposed;
} Matrix;

typedef struct TrainGemm {
    int m, n, k;
    Matrix a, b; /* [m, k], [k, n] */
    float *c;    /* [m, n] */
    int ldc;
    bool add;
} TrainGemm;

/* t: its precision and its memory, which is given back. Not inside a parallel region. */
void train_gemm(Tape *t, const TrainGemm *g);

#endif
