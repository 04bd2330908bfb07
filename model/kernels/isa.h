/* isa: the tables that kernels_init chooses from, one per file. */
#ifndef NOISED_KERNELS_ISA_H
#define NOISED_KERNELS_ISA_H

#include "model/kernels/kernels.h"

extern const Kernels kernels_ref;
/* `rest` with OpenBLAS's products. Sets it to one thread. */
Kernels kernels_blas(const Kernels *rest);
#if defined(__x86_64__)
extern const Kernels kernels_avx2;   /* AVX2, FMA, F16C */
extern const Kernels kernels_avx512; /* AVX-512 F, DQ, BW, VL besides */

/* kernels_avx2 with AVX-VNNI for products of codes. */
Kernels kernels_avx2vnni(void);

/* kernels_avx512 with AVX-512 VNNI for products of codes, and that with AVX-512 BF16 for pairs of bf16. */
Kernels kernels_avx512vnni(void);
Kernels kernels_avx512bf16(void);

/* kernels_avx512bf16 with gemm_bf16, gemm_i8, gemm_i4 and training's products of pairs in AMX tiles. Its products of
 * codes have the bits of ref. Its bf16 products, and attention beside them, have their own: of every 32 elements, the
 * even and the odd ones are two chains whose sum is added to the output. */
Kernels kernels_amx(void);
#elif defined(__aarch64__)
extern const Kernels kernels_neon; /* what every ARM64 processor has */

/* kernels_neon with SDOT for products of codes, and that with BFMLALT and BFMLALB for pairs of bf16 and SMMLA for
 * gemm_i8 besides. */
Kernels kernels_neondot(void);
Kernels kernels_neonbf16(void);
#endif

/* Of a core's data: 32 KiB, or what kernels_init has found. */
extern size_t first_level_bytes;

#endif
