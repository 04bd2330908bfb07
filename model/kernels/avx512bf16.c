#if defined(__x86_64__)

#include "model/kernels/vectors/lanes_avx512.h"

/* Most of the body is not in this table, and is not compiled for it again: only pairs of bf16 have instructions of
 * their own here. All else is avx512vnni's, whose bits are the same. */
#pragma GCC diagnostic ignored "-Wunused-function"
#pragma GCC diagnostic ignored "-Wunused-variable"
#include "model/kernels/body.h"

Kernels kernels_avx512bf16(void) {
    static TrainKernels train;
    Kernels k = kernels_avx512vnni();
    train = *k.train;
    train.pairs_pay = true;
    train.pack_rows = pack_rows;
    train.pack_columns = pack_columns;
    train.pair_row = pair_row;
    train.pair_with = pair_with;
    train.multiply = multiply;
    k.name = "avx512bf16";
    k.gemm_bf16 = gemm_bf16;
    k.to_bf16 = to_bf16;
    k.scores_pairs = scores_pairs;
    k.mix_pairs = mix_pairs;
    k.train = &train;
    return k;
}

#endif
