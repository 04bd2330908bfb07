#if defined(__aarch64__)

#include "model/kernels/vectors/lanes_neon.h"

/* Only products of codes have instructions of their own here. */
#pragma GCC diagnostic ignored "-Wunused-function"
#pragma GCC diagnostic ignored "-Wunused-variable"
#include "model/kernels/body.h"

Kernels kernels_neondot(void) {
    Kernels k = kernels_neon;
    k.name = "neondot";
    k.gemm_i8 = gemm_i8;
    k.gemm_i4 = gemm_i4;
    return k;
}

#endif
