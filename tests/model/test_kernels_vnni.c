/* The level avx2vnni where no processor has its one instruction: with that in steps its products have ref's bits. */
#if defined(__x86_64__)
#include "base/random.h"
#include "model/kernels/isa.h"
#include "tests/support/test.h"

#include <string.h>

Kernels kernels_avx2vnni_in_steps(void); /* tests/support/avx2vnni_in_steps.c */

enum {
    MOST_ROWS = 7,
    MOST_OUTS = 96,
    MOST_GROUPS = 9,
    MOST_K = MOST_GROUPS * INT8_GROUP,
    INT4_GROUPS = MOST_K / INT4_GROUP
};

static int8_t x[MOST_ROWS * MOST_K], w[MOST_OUTS * MOST_K];
static float x_scale[MOST_ROWS * MOST_GROUPS], w_scale[MOST_OUTS * MOST_GROUPS];
static uint16_t w_scale16[MOST_OUTS * INT4_GROUPS];

/* Codes of x are -127 and up, of w all; every 11th row has nothing but the least, every 13th nothing but the greatest.
 */
static void fill(void) {
    Draws d = draws_open(5, DRAW_TEST, 71);
    for (int i = 0; i < MOST_ROWS * MOST_K; i++) {
        int row = i / MOST_K;
        x[i] = (int8_t)(row == 1 ? -127 : row == 2 ? 127 : (int)draw_below(&d, 255) - 127);
    }
    for (int i = 0; i < MOST_OUTS * MOST_K; i++) {
        int row = i / MOST_K;
        w[i] = (int8_t)(row % 11 == 1 ? -128 : row % 13 == 1 ? 127 : (int)draw_below(&d, 256) - 128);
    }
    for (int i = 0; i < MOST_ROWS * MOST_GROUPS; i++) x_scale[i] = (float)(1 + draw_below(&d, 1000)) / 777;
    for (int i = 0; i < MOST_OUTS * MOST_GROUPS; i++) w_scale[i] = (float)(1 + draw_below(&d, 1000)) / 333;
    for (int i = 0; i < MOST_OUTS * INT4_GROUPS; i++) w_scale16[i] = (uint16_t)(0x2c00 + draw_below(&d, 0x1000));
}

TEST(kernels_vnni_in_steps_equals_ref) {
    const Kernels *levels[KERNELS_LEVELS];
    if (kernels_available(levels) < 3) SKIP("no AVX2 here");
    static float want[MOST_ROWS * MOST_OUTS], got[MOST_ROWS * MOST_OUTS];
    Kernels steps = kernels_avx2vnni_in_steps();
    CHECK(!strcmp(steps.name, "avx2vnni"));
    fill();
    for (int n = 1; n <= MOST_ROWS; n++)
        for (int n_out = 1; n_out <= MOST_OUTS; n_out += n_out < 36 ? 1 : 15) {
            int groups = 1 + (n + n_out) % MOST_GROUPS, k = groups * INT8_GROUP;
            size_t size = (size_t)(n * n_out) * sizeof *got;
            kernels_ref.gemm_i8(n, n_out, k, x, x_scale, w, w_scale, want, n_out);
            steps.gemm_i8(n, n_out, k, x, x_scale, w, w_scale, got, n_out);
            CHECK_MSG(!memcmp(want, got, size), "gemm_i8 n=%d n_out=%d k=%d", n, n_out, k);
            if (n_out % INT4_OUTS) continue;
            kernels_ref.gemm_i4(n, n_out, k, x, x_scale, (uint8_t *)w, w_scale16, want, n_out);
            steps.gemm_i4(n, n_out, k, x, x_scale, (uint8_t *)w, w_scale16, got, n_out);
            CHECK_MSG(!memcmp(want, got, size), "gemm_i4 n=%d n_out=%d k=%d", n, n_out, k);
        }
}
#endif
