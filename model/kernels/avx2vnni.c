#if defined(__x86_64__)

#include <immintrin.h>

/* acc += the products of four unsigned and four signed bytes. The intrinsic of gcc 12 copies every sum. The tests have
 * it in steps, for a machine without AVX-VNNI. */
#ifndef DOT4
static inline __m256i dot4(__m256i acc, __m256i u, __m256i s) {
    __asm__("%{vex%} vpdpbusd %2, %1, %0" : "+x"(acc) : "x"(u), "x"(s));
    return acc;
}
#define DOT4 dot4
#endif

#include "model/kernels/vectors/lanes_avx2.h"

/* Only products of codes have an instruction of their own here. */
#pragma GCC diagnostic ignored "-Wunused-function"
#pragma GCC diagnostic ignored "-Wunused-variable"
#include "model/kernels/body.h"

Kernels kernels_avx2vnni(void) {
    Kernels k = kernels_avx2;
    k.name = "avx2vnni";
    k.gemm_i8 = gemm_i8;
    k.gemm_i4 = gemm_i4;
    return k;
}

#endif
