#if defined(__x86_64__)

#include "model/kernels/lanes_avx512.h"
#include "model/kernels/tiles.h"

#include "model/kernels/amx_body.h"
#include "model/kernels/isa.h"

_Static_assert((int)AMX_BYTES == (int)INT8_GROUP, "a step of int8 is one group");

Kernels kernels_amx(void) {
    Kernels k = kernels_avx512bf16;
    k.name = "amx";
    k.gemm_bf16 = tile_gemm_bf16;
    k.gemm_i8 = tile_gemm_i8;
    return k;
}

#endif
