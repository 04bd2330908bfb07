#if defined(__x86_64__)

#include "model/kernels/vectors/lanes_avx512.h"
#include "model/kernels/tiles.h"

/* Only what packs pairs is in this table. */
#pragma GCC diagnostic ignored "-Wunused-function"
#include "model/kernels/isa.h"
#include "model/kernels/train_body.h"

#include "model/kernels/amx_body.h"

#include "model/kernels/amx_ints_body.h"
#include "model/kernels/amx_train_body.h"

#include "model/kernels/amx_attention_body.h"

_Static_assert((int)AMX_BYTES == (int)INT8_GROUP, "a step of int8 is one group");

static Kernels few_rows; /* and f32 */

/* Codes have the same bits either way. Eight rows of int8 are as fast one way as the other, nine 1.1 to 1.3 times as
 * fast in tiles. */
enum { FEW_ROWS = 8 };

static void few_or_tiles_i8(int n, int n_out, int k, const int8_t *x, const float *x_scale, const int8_t *w,
                            const float *w_scale, float *y, int ldy) {
    (n <= FEW_ROWS ? few_rows.gemm_i8 : tile_gemm_i8)(n, n_out, k, x, x_scale, w, w_scale, y, ldy);
}

/* Full tiles of I4 are 1.2 times as fast and more, a single one is not. */
static bool tiles_pay_i4(int n) {
    int taken = (n + AMX_TILE - 1) / AMX_TILE * AMX_TILE;
    return n > AMX_TILE && 5 * n >= 4 * taken;
}

static void few_or_tiles_i4(int n, int n_out, int k, const int8_t *x, const float *x_scale, const uint8_t *w,
                            const uint16_t *w_scale, float *y, int ldy) {
    (tiles_pay_i4(n) ? tile_gemm_i4 : few_rows.gemm_i4)(n, n_out, k, x, x_scale, w, w_scale, y, ldy);
}

static void pack_rows_or_tiles(bool pairs, const PackSource *s, uint32_t *out) {
    if (pairs)
        pack_tile_rows(s, out);
    else
        few_rows.train->pack_rows(false, s, out);
}

static void multiply_or_tiles(bool pairs, int m, int n, int units, Panels a, Panels b, float *c, size_t ldc, bool add) {
    if (pairs)
        tile_multiply(m, n, units, a, b, c, ldc, add);
    else
        few_rows.train->multiply(false, m, n, units, a, b, c, ldc, add);
}

Kernels kernels_amx(void) {
    static TrainKernels train;
    Kernels k = few_rows = kernels_avx512bf16();
    train = *k.train;
    train.tile_rows[true] = AMX_PANEL_ROWS;
    train.pack_rows = pack_rows_or_tiles;
    train.multiply = multiply_or_tiles;
    k.name = k.arithmetic_bf16 = "amx";
    k.gemm_bf16 = tile_gemm_bf16;
    k.gemm_i8 = few_or_tiles_i8;
    k.gemm_i4 = few_or_tiles_i4;
    k.scores_blocks = scores_blocks;
    k.mix_blocks = mix_blocks;
    k.train = &train;
    return k;
}

#endif
