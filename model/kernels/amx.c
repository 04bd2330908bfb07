#if defined(__x86_64__)

#include "model/kernels/vectors/lanes_avx512.h"
#include "model/kernels/tiles.h"

#include "model/kernels/amx_body.h"
#include "model/kernels/isa.h"

_Static_assert((int)AMX_BYTES == (int)INT8_GROUP, "a step of int8 is one group");

static void (*few_rows_i8)(int n, int n_out, int k, const int8_t *x, const float *x_scale, const int8_t *w,
                           const float *w_scale, float *y, int ldy);

/* Tiles of few rows would be mostly empty; int8 has the same bits either way. */
static void few_or_tiles_i8(int n, int n_out, int k, const int8_t *x, const float *x_scale, const int8_t *w,
                            const float *w_scale, float *y, int ldy) {
    (n < AMX_TILE ? few_rows_i8 : tile_gemm_i8)(n, n_out, k, x, x_scale, w, w_scale, y, ldy);
}

Kernels kernels_amx(void) {
    Kernels k = kernels_avx512bf16();
    few_rows_i8 = k.gemm_i8;
    k.name = k.arithmetic_bf16 = "amx";
    k.gemm_bf16 = tile_gemm_bf16;
    k.gemm_i8 = few_or_tiles_i8;
    return k;
}

#endif
