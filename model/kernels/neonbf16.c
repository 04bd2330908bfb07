#if defined(__aarch64__)

#include "model/kernels/vectors/lanes_neon.h"

/* Only serving's pairs of bf16 and int8 have instructions of their own here; pairs of training would need denormals
 * counted as 0. */
#pragma GCC diagnostic ignored "-Wunused-function"
#pragma GCC diagnostic ignored "-Wunused-variable"
#include "model/kernels/body.h"

Kernels kernels_neonbf16(void) {
    Kernels k = kernels_neondot();
    k.name = "neonbf16";
    k.gemm_bf16 = gemm_bf16;
    k.gemm_i8 = gemm_i8;
    k.scores_pairs = scores_pairs;
    k.mix_pairs = mix_pairs;
    return k;
}

#endif
