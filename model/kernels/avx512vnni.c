#if defined(__x86_64__)

#include "model/kernels/vectors/lanes_avx512.h"

/* Only products of codes have an instruction of their own here. */
#pragma GCC diagnostic ignored "-Wunused-function"
#pragma GCC diagnostic ignored "-Wunused-variable"
#include "model/kernels/body.h"

Kernels kernels_avx512vnni(void) {
    Kernels k = kernels_avx512;
    k.name = "avx512vnni";
    k.gemm_i8 = gemm_i8;
    k.gemm_i4 = gemm_i4;
    return k;
}

#endif
