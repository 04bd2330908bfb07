/* The level ref against double precision and known answers. */
#include "base/random.h"
#include "model/kernels/kernels.h"
#include "tests/support/test.h"

#include <math.h>

static double gelu_exact(double x) { return 0.5 * x * erfc(-x * 0.70710678118654752440); }
static double gelu_tanh_exact(double x) {
    return 0.5 * x * (1 + tanh(0.79788456080286535588 * (x + 0.044715 * x * x * x)));
}
static double silu_exact(double x) { return x / (1 + exp(-x)); }
static double sigmoid_exact(double x) { return 1 / (1 + exp(-x)); }

static void check_function(const char *name, void (*row)(int, const float *, float *), double (*exact)(double),
                           double tolerance) {
    double worst = 0, at = 0;
    for (int i = -30000; i <= 30000; i++) {
        float x = (float)i * 5e-4f, y;
        row(1, &x, &y);
        double e = fabs((double)y - exact((double)x)) / MAX(1, fabs((double)x));
        if (!(e <= worst)) worst = e, at = (double)x;
    }
    CHECK_MSG(worst <= tolerance, "%s is off by %g at %g", name, worst, at);
}

TEST(kernels_ref_functions_are_accurate) {
    const Kernels *levels[KERNELS_LEVELS];
    kernels_available(levels);
    const Kernels *k = levels[0];
    check_function("gelu", k->gelu_row, gelu_exact, 3e-7);
    check_function("gelu_tanh", k->gelu_tanh_row, gelu_tanh_exact, 2e-7);
    check_function("silu", k->silu_row, silu_exact, 2e-7);
    check_function("sigmoid", k->sigmoid_row, sigmoid_exact, 2e-7);
    check_function("tanh", k->tanh_row, tanh, 3e-7);

    double exp_worst = 0, cos_worst = 0;
    for (int i = -100000; i <= 100000; i++) {
        float x = (float)i * 8.7e-4f, t = (float)i * 0.0999f, far = (float)i * 3e7f, one = 1, zero = 0, y;
        k->exp_sum_row(1, &x, &y, 0);
        exp_worst = MAX(exp_worst, fabs((double)y / exp((double)x) - 1) / 0x1p-23);
        k->cos_row(1, &t, &one, &zero, &y);
        cos_worst = MAX(cos_worst, fabs((double)y - cos((double)t)));
        k->cos_row(1, &far, &one, &zero, &y);
        cos_worst = MAX(cos_worst, fabs((double)y - cos((double)far)));
    }
    CHECK_MSG(exp_worst < 1.25, "exp is off by %g ulp", exp_worst);
    CHECK_MSG(cos_worst < 1.5e-7, "cos is off by %g", cos_worst);
}

TEST(kernels_ref_limits) {
    const Kernels *levels[KERNELS_LEVELS];
    kernels_available(levels);
    const Kernels *k = levels[0];
    float x[] = {-INFINITY, -104.5f, -100.0f, 0.0f, 88.7f, 89.0f, 3e38f, INFINITY, NAN}, y[9], ones[9], zeros[9] = {0};
    for (int i = 0; i < 9; i++) ones[i] = 1;
    k->exp_sum_row(9, x, y, 0);
    CHECK(y[0] == 0 && y[1] == 0 && y[2] == 0x1.bp-145f && y[3] == 1);
    CHECK(y[4] < INFINITY && y[5] == INFINITY && y[6] == INFINITY && y[7] == INFINITY && isnan(y[8]));
    k->tanh_row(9, x, y);
    CHECK(y[0] == -1 && y[7] == 1 && isnan(y[8]));
    k->cos_row(9, x, ones, zeros, y);
    CHECK(isnan(y[0]) && y[3] == 1 && y[6] == (float)cos((double)3e38f) && isnan(y[7]) && isnan(y[8]));
    k->gelu_row(8, x + 1, y);
    CHECK(y[0] == 0 && y[2] == 0 && y[3] == 88.7f && y[6] == INFINITY && isnan(y[7]));
    CHECK(k->max_row(8, x) == INFINITY && isnan(k->max_row(9, x)) && k->max_row(1, x) == -INFINITY);
    float equal[] = {-2, -INFINITY, -2, -2, -2};
    k->softmax_row(5, equal);
    CHECK(equal[0] == 0.25f && equal[1] == 0);
}

static double exact_dot(int k, const float *x, const float *w) {
    double s = 0;
    for (int i = 0; i < k; i++) s += (double)x[i] * (double)w[i];
    return s;
}

TEST(kernels_ref_sums_are_accurate) {
    enum { D = 1000 };
    const Kernels *levels[KERNELS_LEVELS];
    static float a[3 * D], b[5 * D], c[D], y[D], halves[D];
    static uint16_t bits[D];
    kernels_available(levels);
    const Kernels *k = levels[0];
    Draws d = draws_open(6, DRAW_TEST, 0);
    for (int i = 0; i < 3 * D; i++) a[i] = (float)(int32_t)draw_u32(&d) * 0x1p-30f;
    for (int i = 0; i < 5 * D; i++) b[i] = (float)(int32_t)draw_u32(&d) * 0x1p-30f;
    for (int i = 0; i < D; i++) {
        c[i] = (float)(int32_t)draw_u32(&d) * 0x1p-30f;
        bits[i] = (uint16_t)((draw_u32(&d) & 0x83ff) | 0x3800);
    }
    k->gemm_f32(3, 5, D, a, D, b, y, 7);
    for (int i = 0; i < 3; i++)
        for (int o = 0; o < 5; o++) CHECK(fabs((double)y[i * 7 + o] - exact_dot(D, a + i * D, b + o * D)) < 1e-4);
    for (int i = 0; i < D; i++) halves[i] = f16_to_f32(bits[i]);
    k->gemm_f16(1, 1, D, a, D, bits, y, 1);
    CHECK(fabs((double)y[0] - exact_dot(D, a, halves)) < 1e-4);
    k->layernorm_row(D, a, b, c, 1e-5f, y);
    double mean = 0, variance = 0;
    for (int i = 0; i < D; i++) mean += (double)a[i] / D;
    for (int i = 0; i < D; i++) variance += ((double)a[i] - mean) * ((double)a[i] - mean) / D;
    for (int i = 0; i < D; i++) {
        double want = ((double)a[i] - mean) / sqrt(variance + 1e-5) * (double)b[i] + (double)c[i];
        CHECK(fabs((double)y[i] - want) < 2e-6);
    }
}
