/* Sums of the greatest codes on every level: no product and no sum of a few bits overflows. */
#include "base/random.h"
#include "model/kernels/kernels.h"
#include "tests/support/test.h"

#include <string.h>

/* The greatest codes: products of 16 bits must hold two. */
TEST(kernels_int8_products_are_exact) {
    enum { N = 4, N_OUT = 19, K = 2 * INT8_GROUP };
    static int8_t x[N * K], w[N_OUT * K];
    static float ones[N_OUT * K / INT8_GROUP], y[N][N_OUT];
    const Kernels *levels[KERNELS_LEVELS];
    for (int i = 0; i < N * K; i++) x[i] = i / K % 2 ? 127 : -127;
    for (int i = 0; i < N_OUT * K; i++) w[i] = i / K % 2 ? 127 : -128;
    for (int i = 0; i < N_OUT * K / INT8_GROUP; i++) ones[i] = 1;
    for (int l = 0, n_levels = kernels_available(levels); l < n_levels; l++)
        for (int n = 1; n <= N; n++) {
            int bad = 0;
            levels[l]->gemm_i8(n, N_OUT, K, x, ones, w, ones, &y[0][0], N_OUT);
            for (int i = 0; i < n; i++)
                for (int o = 0; o < N_OUT; o++) bad += y[i][o] != (float)(K * x[i * K] * w[o * K]);
            CHECK_MSG(!bad, "%s: %d products of %d rows", levels[l]->name, bad, n);
        }
}

/* More rows, outputs and groups than any level takes at a time. */
TEST(kernels_int8_products_of_any_size_equal_ref) {
    enum { MOST_X = 40 * 3392, MOST_W = 1100 * 384, MOST_Y = 70 * 1100 };
    static const int shapes[][3] = {{70, 1100, 384}, {40, 50, 3392}, {17, 30, 6400}, {16, 49, 3136},
                                    {32, 97, 768},   {12, 50, 3392}, {7, 30, 6400}};
    static int8_t x[MOST_X], w[MOST_W];
    static float x_scale[MOST_X / INT8_GROUP], w_scale[MOST_W / INT8_GROUP], want[MOST_Y], got[MOST_Y];
    const Kernels *levels[KERNELS_LEVELS];
    int n_levels = kernels_available(levels);
    Draws d = draws_open(5, DRAW_TEST, 0);
    for (int i = 0; i < MOST_X; i++) x[i] = (int8_t)((int)draw_below(&d, 255) - 127);
    for (int i = 0; i < MOST_W; i++) w[i] = (int8_t)((int)draw_below(&d, 256) - 128);
    for (int i = 0; i < MOST_X / INT8_GROUP; i++) x_scale[i] = (float)draw_normal(&d);
    for (int i = 0; i < MOST_W / INT8_GROUP; i++) w_scale[i] = (float)draw_normal(&d);
    for (size_t s = 0; s < COUNTOF(shapes); s++) {
        int n = shapes[s][0], n_out = shapes[s][1], k = shapes[s][2];
        levels[0]->gemm_i8(n, n_out, k, x, x_scale, w, w_scale, want, n_out);
        for (int l = 1; l < n_levels; l++) {
            levels[l]->gemm_i8(n, n_out, k, x, x_scale, w, w_scale, got, n_out);
            CHECK_MSG(strcmp(levels[l]->arithmetic, "common") ||
                          memcmp(want, got, (size_t)n * (size_t)n_out * sizeof *got) == 0,
                      "%s: %d x %d x %d", levels[l]->name, n, n_out, k);
        }
    }
}

/* A row of greatest codes: sums of 16 bits must hold. */
TEST(kernels_int4_products_are_exact) {
    enum { N = 7, N_OUT = 48, K = 128 };
    static int8_t x[N * K];
    static uint8_t w[N_OUT * K / 2];
    static uint16_t w_scale[N_OUT * K / INT4_GROUP];
    static float x_scale[N * K / INT8_GROUP], y[N][N_OUT];
    const Kernels *levels[KERNELS_LEVELS];
    for (int i = 0; i < N * K; i++) x[i] = (int8_t)(i / K == 0 ? -127 : i / K == 1 ? 127 : i * 37 % 255 - 127);
    for (int i = 0; i < N_OUT * K / 2; i++) w[i] = (uint8_t)(i / (K * 8) == 0 ? 0xff : i / (K * 8) == 1 ? 0 : i * 91);
    for (int i = 0; i < N_OUT * K / INT4_GROUP; i++) w_scale[i] = 0x3c00;
    for (int i = 0; i < N * K / INT8_GROUP; i++) x_scale[i] = 1;
    for (int l = 0, n_levels = kernels_available(levels); l < n_levels; l++) {
        int bad = 0;
        levels[l]->gemm_i4(N, N_OUT, K, x, x_scale, w, w_scale, &y[0][0], N_OUT);
        for (int i = 0; i < N; i++)
            for (int o = 0; o < N_OUT; o++) {
                float sum = 0;
                for (int k = 0; k < K; k++)
                    sum += (float)x[i * K + k] * int4_element(w, w_scale, K, (size_t)o, (size_t)k);
                bad += y[i][o] != sum;
            }
        CHECK_MSG(bad == 0, "%s: %d of %d are wrong", levels[l]->name, bad, N * N_OUT);
    }
}
