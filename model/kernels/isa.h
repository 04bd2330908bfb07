/* isa: the tables that kernels_init chooses from, one per file. */
#ifndef NOISED_KERNELS_ISA_H
#define NOISED_KERNELS_ISA_H

#include "kernels.h"

extern const Kernels kernels_ref;
#if defined(__x86_64__)
extern const Kernels kernels_avx2;   /* AVX2, FMA, F16C */
extern const Kernels kernels_avx512; /* AVX-512 F, DQ, BW, VL besides */
#endif

void gaussian_quantiles_build(void);

#endif
