/* Every kernel on every level this machine has: equal to ref bit for bit (NaN equals NaN; the products of blas are in
 * test_kernels_blas.c), writing nothing beyond its
 * output, the same for a row alone as among others. */
#include "base/memory.h"
#include "base/random.h"
#include "model/kernels/blas.h"
#include "model/kernels/kernels.h"
#include "tests/support/test.h"

#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { POOL = 1 << 18, OUT = 1 << 16 };
static const float CANARY = 12345.0f;

static float pool_a[POOL], pool_b[POOL], pool_c[POOL];
static uint16_t halves_a[POOL], halves_b[POOL], halves_c[POOL];
static int8_t codes_a[POOL], codes_b[POOL];

/* bf16 sums may take subnormals as 0 (kernels.h). Of numbers from 2^-50 up every sum is 0 or at least 2^-114. */
static uint16_t without_tiny(uint16_t h) { return (h >> 7 & 255) < 127 - 50 ? h & 0x8000 : h; }

/* `specials` of 1,000 elements are zeros, denormals, Inf or NaN. */
static void fill_pools(uint32_t seed, uint32_t specials) {
    static const float odd[] = {0.0f, -0.0f, 1e-40f, -3e-45f, INFINITY, -INFINITY, NAN, 3e38f, -90.0f, 1e6f};
    Draws d = draws_open(seed, DRAW_TEST, specials);
    float *pools[] = {pool_a, pool_b, pool_c};
    for (size_t p = 0; p < COUNTOF(pools); p++)
        for (int i = 0; i < POOL; i++) {
            uint32_t u = draw_u32(&d);
            float x = (float)(int32_t)u * 0x1p-30f;
            pools[p][i] = u % 1000 < specials ? odd[u / 1000 % COUNTOF(odd)] : x;
        }
    for (int i = 0; i < POOL; i++) {
        uint32_t u = draw_u32(&d);
        halves_a[i] = without_tiny(f32_to_bf16(pool_a[i]));
        /* Any bits at all with specials, else of modest size both as bf16 and as f16. */
        halves_b[i] = specials ? (uint16_t)u : (uint16_t)((u & 0x83ff) | 0x3800);
        halves_c[i] = without_tiny(halves_b[i]);
        codes_a[i] = (int8_t)(u % 255 - 127);
        codes_b[i] = (int8_t)(u >> 16);
    }
}

static bool same_bits(float a, float b) { return (isnan(a) && isnan(b)) || memcmp(&a, &b, sizeof a) == 0; }

/* ---- every level against ref ---- */

typedef struct Shape {
    int n, n_out, k;
    int at; /* offset of every pointer, in elements: any alignment must do */
} Shape;

/* Runs one entry on the pools and returns how many floats of y it owns. */
typedef int (*Run)(const Kernels *k, Shape s, float *y);

static int run_gemm_f32(const Kernels *k, Shape s, float *y) {
    k->gemm_f32(s.n, s.n_out, s.k, pool_a + s.at, s.k + s.at, pool_b + s.at, y, s.n_out);
    return s.n * s.n_out;
}
static int run_gemm_bf16(const Kernels *k, Shape s, float *y) {
    k->gemm_bf16(s.n, s.n_out, s.k, halves_a + s.at, s.k + s.at, halves_c + s.at, y, s.n_out);
    return s.n * s.n_out;
}
static int run_gemm_f16(const Kernels *k, Shape s, float *y) {
    k->gemm_f16(s.n, s.n_out, s.k, pool_a + s.at, s.k + s.at, halves_b + s.at, y, s.n_out);
    return s.n * s.n_out;
}
static int run_gemm_i8(const Kernels *k, Shape s, float *y) {
    k->gemm_i8(s.n, s.n_out, s.k * INT8_GROUP, codes_a + s.at, pool_a + s.at, codes_b + s.at, pool_b + s.at, y,
               s.n_out);
    return s.n * s.n_out;
}
/* Codes and scales in any bits; scales that are no numbers are the file's fault (test_bind.c). */
static int run_gemm_i4(const Kernels *k, Shape s, float *y) {
    k->gemm_i4(s.n, s.n_out * INT4_OUTS, s.k * INT8_GROUP, codes_a + s.at, pool_a + s.at,
               (const uint8_t *)codes_b + s.at, halves_b + s.at, y, s.n_out * INT4_OUTS);
    return s.n * s.n_out * INT4_OUTS;
}
static int run_scores_f32(const Kernels *k, Shape s, float *y) {
    k->scores_f32(s.n, s.k, pool_a + s.at, pool_b + s.at, y, 32);
    return s.n * 32;
}
static int run_scores_pairs(const Kernels *k, Shape s, float *y) {
    k->scores_pairs(s.n, s.k, halves_a + s.at, halves_c + s.at, y, 32);
    return s.n * 32;
}
static int run_mix_f32(const Kernels *k, Shape s, float *y) {
    memcpy(y, pool_c, (size_t)(s.n * s.k) * sizeof *y);
    k->mix_f32(s.n, s.n_out, s.k, pool_a + s.at, s.n_out + s.at, pool_b + s.at, y);
    return s.n * s.k;
}
static int run_mix_bf16(const Kernels *k, Shape s, float *y) {
    memcpy(y, pool_c, (size_t)(s.n * s.k) * sizeof *y);
    k->mix_bf16(s.n, s.n_out, s.k, pool_a + s.at, s.n_out + s.at, halves_b + s.at, y);
    return s.n * s.k;
}
static int run_mix_pairs(const Kernels *k, Shape s, float *y) {
    for (int i = 0; i < s.n * s.k; i++) y[i] = bf16_to_f32(halves_c[i]);
    k->mix_pairs(s.n, s.n_out, s.k, halves_a + s.at, (s.n_out + s.at + 1) & ~1, halves_c + s.at, y);
    return s.n * s.k;
}
static int run_to_bf16(const Kernels *k, Shape s, float *y) {
    uint16_t half[4096];
    k->to_bf16(s.k, pool_a + s.at, half);
    for (int i = 0; i < s.k; i++) y[i] = bf16_to_f32(half[i]);
    return s.k;
}
static int run_softmax(const Kernels *k, Shape s, float *y) {
    memcpy(y, pool_a + s.at, (size_t)s.k * sizeof *y);
    k->softmax_row(s.k, y);
    return s.k;
}
static int run_sums(const Kernels *k, Shape s, float *y) {
    y[0] = k->max_row(s.k, pool_a + s.at);
    y[1] = k->exp_sum_row(s.k, pool_a + s.at, y + 2, 1.5f);
    return s.k + 2;
}
/* Two pieces of one softmax. */
static int run_soften(const Kernels *k, Shape s, float *y) {
    float max = -INFINITY, sum = 0;
    for (int piece = 0; piece < 2; piece++) {
        y[3 * piece] = k->online_softmax_row(s.k, pool_a + s.at + piece, y + 6 + piece * s.k, &max, &sum);
        y[3 * piece + 1] = max;
        y[3 * piece + 2] = sum;
    }
    return 2 * s.k + 6;
}
static int weigh_at(const Kernels *k, Shape s, float temperature, float *y) {
    uint16_t bucket[4096];
    k->clean_row(s.k, pool_a + s.at, y);
    y[3 * s.k] = (float)k->weigh_row(s.k, y, k->max_row(s.k, y), temperature, y + s.k, bucket);
    for (int i = 0; i < s.k; i++) y[2 * s.k + i] = bucket[i];
    return 3 * s.k + 1;
}
static int run_weigh(const Kernels *k, Shape s, float *y) { return weigh_at(k, s, 0.3f, y); }
static int run_weigh_cold(const Kernels *k, Shape s, float *y) { return weigh_at(k, s, FLT_TRUE_MIN, y); }
static int run_norms(const Kernels *k, Shape s, float *y) {
    k->layernorm_row(s.k, pool_a + s.at, pool_b + s.at, pool_c + s.at, 1e-5f, y);
    k->layernorm_row(s.k, pool_a + s.at, pool_b + s.at, NULL, 1e-5f, y + s.k);
    k->rmsnorm_row(s.k, pool_a + s.at, pool_b + s.at, 1e-5f, y + 2 * s.k);
    return 3 * s.k;
}
static int run_elementwise(const Kernels *k, Shape s, float *y) {
    const float *x = pool_a + s.at;
    memcpy(y, pool_c, (size_t)s.k * sizeof *y);
    k->add_row(s.k, x, y);
    k->gelu_row(s.k, x, y + s.k);
    k->gelu_tanh_row(s.k, x, y + 2 * s.k);
    k->silu_row(s.k, x, y + 3 * s.k);
    k->tanh_row(s.k, x, y + 4 * s.k);
    k->cos_row(s.k, x, pool_b + s.at, pool_c + s.at, y + 5 * s.k);
    memcpy(y + 6 * s.k, pool_c, (size_t)s.k * sizeof *y);
    k->add_affine_row(s.k, 0.3f, -1.7f, x, y + 6 * s.k);
    k->scale_row(s.k, 0.3f, x, y + 7 * s.k);
    return 8 * s.k;
}
/* One step of cells there and back. */
static int run_lstm(const Kernels *k, Shape s, float *y) {
    int n = s.k / 4;
    float *dc = y + 6 * n, *dz = y + 7 * n;
    memcpy(y, pool_a + s.at, (size_t)(4 * n) * sizeof *y);
    memcpy(dc, pool_c + s.at, (size_t)n * sizeof *y);
    k->lstm_row(n, y, pool_b + s.at, y + 4 * n, y + 5 * n);
    k->train->lstm_slope_row(n, y, pool_b + s.at, y + 4 * n, pool_b + s.at + n, dc, dz);
    return 11 * n;
}
/* Two numbers as fixed point, and their sum back; one alone. */
static int run_fixed(const Kernels *k, Shape s, float *y) {
    static int64_t sum[OUT];
    const TrainKernels *t = k->train;
    bool fits = t->fixed_add(s.k, pool_a + s.at, 0x1p49, 2048, true, sum) &&
                t->fixed_add(s.k, pool_b + s.at, 0x1p49, 2048, false, sum);
    for (int i = 0; i < s.k; i++) y[i] = (float)(sum[i] >> 3 & 1023);
    t->fixed_read(s.k, sum, 0x1p-49f, y + s.k);
    memcpy(y + 2 * s.k, pool_a + s.at, (size_t)s.k * sizeof *y);
    y[3 * s.k] = t->fixed_single(s.k, 0x1p-20f, 2048, y + 2 * s.k);
    y[3 * s.k + 1] = fits;
    return 3 * s.k + 2;
}
static int run_noise(const Kernels *k, Shape s, float *y) {
    uint16_t bits[4096];
    uint64_t seed = 0x123456789abcdefu * (uint64_t)s.k;
    k->gaussians(seed, 7, 3u << 16 | 5, (uint32_t)s.n, 9, 8 * s.at, s.k, y);
    k->gaussian_bits(seed, 7u | 1u << 31, 3u << 16 | 5, (uint32_t)s.n, 0, 8 * s.at, s.k, bits);
    for (int i = 0; i < s.k; i++) y[s.k + i] = bits[i];
    return 2 * s.k;
}
/* Of 1 to 20 components, some of which no draw is of. */
static int run_mixture(const Kernels *k, Shape s, float *y) {
    enum { MOST = 20 };
    uint16_t limit[MOST], component[4096];
    int m = 1 + s.k % MOST;
    for (int c = 0; c < m - 1; c++) limit[c] = (uint16_t)(c % 3 == 2 ? 65535 : 65535 * (c + s.at) / (m + 3));
    k->components(99, 7, 3u << 16 | 5, (uint32_t)s.k, 2, 8 * s.at, s.k, m - 1, limit, component);
    for (int i = 0; i < s.k; i++) y[i] = component[i];
    memcpy(y + s.k, pool_a, (size_t)s.k * sizeof *y);
    k->add_mixture_row(s.k, m, pool_b + s.at, pool_c, 0.7f, component, pool_b, y + s.k);
    return 2 * s.k;
}

static bool is_product(Run run) {
    return run == run_gemm_f32 || run == run_gemm_bf16 || run == run_gemm_f16 || run == run_gemm_i8 ||
           run == run_gemm_i4;
}

static void check_levels_once(const char *what, Run run, Shape s) {
    static float want[OUT], got[OUT];
    const Kernels *levels[KERNELS_LEVELS];
    int n_levels = kernels_available(levels), n = run(levels[0], s, want);
    for (int l = 1; l < n_levels; l++) {
        if (is_product(run) && strcmp(levels[l]->arithmetic, "common")) continue;
        if (run == run_gemm_bf16 && strcmp(levels[l]->name, "amx") == 0) continue; /* test_kernels_amx.c */
        for (int i = 0; i <= n; i++) got[i] = CANARY;
        run(levels[l], s, got);
        for (int i = 0; i < n; i++)
            if (!same_bits(want[i], got[i])) {
                CHECK_MSG(false, "%s %s n=%d n_out=%d k=%d at=%d: element %d is %a, ref %a", levels[l]->name, what, s.n,
                          s.n_out, s.k, s.at, i, (double)got[i], (double)want[i]);
                break;
            }
        CHECK_MSG(got[n] == CANARY, "%s %s n=%d n_out=%d k=%d writes beyond its output", levels[l]->name, what, s.n,
                  s.n_out, s.k);
    }
}

/* Products read W in its order or in streams, by the processor's maker: both ways on any. */
static void check_levels(const char *what, Run run, Shape s) {
    check_levels_once(what, run, s);
    if (!is_product(run)) return;
    reads_in_streams = !reads_in_streams;
    check_levels_once(what, run, s);
    reads_in_streams = !reads_in_streams;
}

TEST(kernels_matrix_products_equal_ref) {
    static const Shape large[] = {{50, 9, 1700, 0},  {13, 11, 768, 1},  {1, 21, 1540, 3},  {7, 8, 785, 0},
                                  {170, 8, 770, 0},  {9, 141, 800, 1},  {3, 201, 1030, 2}, {26, 70, 2100, 0},
                                  {1, 67, 3100, 0},  {33, 45, 32, 1},   {36, 67, 64, 0},   {32, 16, 64, 2},
                                  {53, 50, 1700, 1}, {50, 150, 160, 3}, {48, 70, 3100, 0}, {51, 16, 1537, 0}};
    Run runs[] = {run_gemm_f32, run_gemm_bf16, run_gemm_f16};
    const char *names[] = {"gemm_f32", "gemm_bf16", "gemm_f16"};
    kernels_init(NULL);
    for (uint32_t specials = 0; specials <= 4; specials += 4) {
        fill_pools(1, specials);
        for (size_t r = 0; r < COUNTOF(runs); r++) {
            for (int k = 1; k <= 70; k++)
                for (int n = 1; n <= 9; n++) {
                    int n_out = 1 + (k * 5 + n * 3) % 19;
                    check_levels(names[r], runs[r], (Shape){n, n_out, k, (k + n) % 4});
                }
            for (size_t i = 0; i < COUNTOF(large); i++) check_levels(names[r], runs[r], large[i]);
            for (int i = 0; i < 32; i++) check_levels(names[r], runs[r], (Shape){48 + i % 7, 16 + i, 128 + i, i % 4});
        }
    }
}

TEST(kernels_int8_products_equal_ref) {
    kernels_init(NULL);
    for (uint32_t specials = 0; specials <= 4; specials += 4) {
        fill_pools(7, specials);
        for (int n_out = 1; n_out <= 200; n_out += n_out < 70 ? 1 : 13)
            for (int n = 1; n <= 13; n++)
                check_levels("gemm_i8", run_gemm_i8, (Shape){n, n_out, 1 + (n_out + n) % 9, (n_out + n) % 4});
    }
}

TEST(kernels_int4_products_equal_ref) {
    kernels_init(NULL);
    for (uint32_t specials = 0; specials <= 4; specials += 4) {
        fill_pools(8, specials);
        for (int n_out = 1; n_out <= 10; n_out++)
            for (int n = 1; n <= 13; n++)
                check_levels("gemm_i4", run_gemm_i4, (Shape){n, n_out, 1 + (n_out + n) % 9, (n_out + n) % 4});
        check_levels("gemm_i4", run_gemm_i4, (Shape){3, 2, 35, 0}); /* over INT4_PIECE groups */
    }
}

TEST(kernels_attention_equals_ref) {
    Run runs[] = {run_scores_f32, run_scores_pairs, run_mix_f32, run_mix_bf16, run_mix_pairs};
    const char *names[] = {"scores_f32", "scores_pairs", "mix_f32", "mix_bf16", "mix_pairs"};
    kernels_init(NULL);
    for (uint32_t specials = 0; specials <= 4; specials += 4) {
        fill_pools(2, specials);
        for (size_t r = 0; r < COUNTOF(runs); r++)
            for (int k = 1; k <= 130; k += k < 70 ? 1 : 12)
                for (int n = 1; n <= 19; n += 3)
                    check_levels(names[r], runs[r], (Shape){n, 1 + (k * 7 + n) % 32, k, (k + n) % 4});
        for (size_t r = 0; r < COUNTOF(runs); r++) /* more rows than are widened at a time */
            for (int k = 16; k <= 64; k += 16) check_levels(names[r], runs[r], (Shape){300, 32, k, 0});
    }
}

TEST(kernels_rows_equal_ref) {
    Run runs[] = {run_to_bf16, run_softmax,     run_sums, run_soften, run_weigh, run_weigh_cold,
                  run_norms,   run_elementwise, run_lstm, run_fixed,  run_noise, run_mixture};
    const char *names[] = {"to_bf16", "softmax",     "sums", "soften", "weigh", "weigh_cold",
                           "norms",   "elementwise", "lstm", "fixed",  "noise", "mixture"};
    kernels_init(NULL);
    for (uint32_t specials = 0; specials <= 60; specials += 20) {
        fill_pools(3, specials);
        for (size_t r = 0; r < COUNTOF(runs); r++)
            for (int d = 1; d <= 3100; d += d < 150 ? 1 : 379)
                for (int at = 0; at < 4; at++) check_levels(names[r], runs[r], (Shape){1, 1, d, at});
    }
}

/* ---- a row does not know its batch ---- */

TEST(kernels_row_alone_equals_row_in_batch) {
    enum { ROWS = 64, OUTS = 70 }; /* more than a block of W */
    static float all[ROWS * OUTS], one[OUTS];
    static const int depths[] = {5, 32, 64, 77, 1540, 1568};
    const Kernels *levels[KERNELS_LEVELS];
    int n = kernels_available(levels);
    fill_pools(4, 0);
    for (int l = 0; l < n; l++) {
        if (!strcmp(levels[l]->name, "blas") && blas_fault()) continue; /* ref computes in its place */
        for (size_t t = 0; t < COUNTOF(depths); t++) {
            int k = depths[t], bad = 0;
            levels[l]->gemm_f32(ROWS, OUTS, k, pool_a, k, pool_b, all, OUTS);
            for (int i = 0; i < ROWS; i++) {
                levels[l]->gemm_f32(1, OUTS, k, pool_a + i * k, k, pool_b, one, OUTS);
                bad += memcmp(one, all + i * OUTS, sizeof(float[OUTS])) != 0;
            }
            levels[l]->gemm_bf16(ROWS, OUTS, k, halves_a, k, halves_b, all, OUTS);
            for (int i = 0; i < ROWS; i++) {
                levels[l]->gemm_bf16(1, OUTS, k, halves_a + i * k, k, halves_b, one, OUTS);
                bad += memcmp(one, all + i * OUTS, sizeof(float[OUTS])) != 0;
                levels[l]->gemm_bf16(1, 1, k, halves_a + i * k, k, halves_b + 18 * k, one, OUTS);
                bad += memcmp(one, all + i * OUTS + 18, sizeof(float)) != 0;
            }
            int groups = 1 + k / INT8_GROUP, wide = groups * INT8_GROUP;
            levels[l]->gemm_i8(ROWS, OUTS, wide, codes_a, pool_a, codes_b, pool_b, all, OUTS);
            for (int i = 0; i < ROWS; i++) {
                levels[l]->gemm_i8(1, OUTS, wide, codes_a + i * wide, pool_a + i * groups, codes_b, pool_b, one, OUTS);
                bad += memcmp(one, all + i * OUTS, sizeof(float[OUTS])) != 0;
            }
            levels[l]->gemm_i4(ROWS, INT4_OUTS, wide, codes_a, pool_a, (const uint8_t *)codes_b, halves_b, all, OUTS);
            for (int i = 0; i < ROWS; i++) {
                levels[l]->gemm_i4(1, INT4_OUTS, wide, codes_a + i * wide, pool_a + i * groups,
                                   (const uint8_t *)codes_b, halves_b, one, OUTS);
                bad += memcmp(one, all + i * OUTS, sizeof(float[INT4_OUTS])) != 0;
            }
            levels[l]->scores_f32(ROWS, 77, pool_a, pool_b, all, 33);
            for (int i = 0; i < ROWS; i++) {
                levels[l]->scores_f32(1, 77, pool_a + i * 77, pool_b, one, 33);
                bad += memcmp(one, all + i * 33, sizeof(float[32])) != 0;
            }
            CHECK_MSG(bad == 0, "%s k=%d: %d rows differ", levels[l]->name, k, bad);
        }
    }
}

TEST(kernels_in_place_equals_out_of_place) {
    static float in_place[600], apart[600];
    const Kernels *levels[KERNELS_LEVELS];
    int n = kernels_available(levels), d = 599;
    size_t bytes = sizeof(float[599]);
    fill_pools(5, 0);
    for (int l = 0; l < n; l++) {
        const Kernels *k = levels[l];
        void (*const rows[])(int, const float *, float *) = {k->gelu_row, k->gelu_tanh_row, k->silu_row, k->sigmoid_row,
                                                             k->tanh_row};
        for (size_t r = 0; r < COUNTOF(rows) + 3; r++) {
            memcpy(in_place, pool_a, bytes);
            for (int pass = 0; pass < 2; pass++) {
                const float *x = pass ? in_place : pool_a;
                float *y = pass ? in_place : apart;
                if (r < COUNTOF(rows)) rows[r](d, x, y);
                if (r == COUNTOF(rows)) k->layernorm_row(d, x, pool_b, pool_c, 1e-5f, y);
                if (r == COUNTOF(rows) + 1) k->rmsnorm_row(d, x, pool_b, 1e-5f, y);
                if (r == COUNTOF(rows) + 2) k->cos_row(d, x, pool_b, pool_c, y);
            }
            CHECK_MSG(memcmp(in_place, apart, bytes) == 0, "%s row kernel %zu", k->name, r);
        }
    }
}
