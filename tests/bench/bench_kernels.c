/* bench_kernels: how fast the kernels of attention and of rows are on every level this machine can run, one thread.
 * Products in GFLOP/s and share of the measured f32 FMA peak, the rest in ns; products of weights have bench_gemm. Each
 * figure is the best of several short runs. An argument restricts the table to rows whose name contains it. */
#include "base/arena.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/random.h"
#include "model/kernels/kernels.h"

#include <string.h>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

typedef struct Case {
    const char *name;
    void (*run)(const Kernels *k, const struct Case *c);
    int n, n_out, k; /* n rows; of a row kernel: k elements */
    double flops;    /* per call; 0 where they say nothing */
    double elements; /* per call; 0 for products */
} Case;

enum { POOL_FLOATS = 48 << 20 };
static float *pool, *activations, *results; /* weights; [POOL_FLOATS], [4 << 20], [4 << 20] */

static double best_seconds(const Kernels *k, const Case *c) {
    double best = 1e9, spent = 0;
    int calls = 1;
    for (int round = 0; round < 12 && spent < 0.4; round++) {
        double t0 = now_seconds();
        for (int i = 0; i < calls; i++) c->run(k, c);
        double t = now_seconds() - t0;
        best = MIN(best, t / calls);
        spent += t;
        if (t < 4e-3) calls = (int)MIN(calls * (6e-3 / MAX(t, 1e-7)) + 1, 1e6);
    }
    return best;
}

/* ---- the yardstick: 24 independent chains of FMA ---- */

#if defined(__x86_64__)
enum { PEAK_CHAINS = 24, PEAK_STEPS = 200000 };

__attribute__((target("avx512f"))) static float peak_avx512(void) {
    __m512 a[PEAK_CHAINS], b = _mm512_set1_ps(0.999f), c = _mm512_set1_ps(activations[0]);
    for (int i = 0; i < PEAK_CHAINS; i++) a[i] = c;
    for (int s = 0; s < PEAK_STEPS; s++)
#pragma GCC unroll 24
        for (int i = 0; i < PEAK_CHAINS; i++) a[i] = _mm512_fmadd_ps(a[i], b, c);
    float sum = 0;
#pragma GCC unroll 24
    for (int i = 0; i < PEAK_CHAINS; i++) sum += _mm512_cvtss_f32(a[i]);
    return sum;
}

__attribute__((target("avx2,fma"))) static float peak_avx2(void) {
    __m256 a[PEAK_CHAINS / 2], b = _mm256_set1_ps(0.999f), c = _mm256_set1_ps(activations[0]);
    for (int i = 0; i < PEAK_CHAINS / 2; i++) a[i] = c;
    for (int s = 0; s < 2 * PEAK_STEPS; s++)
#pragma GCC unroll 12
        for (int i = 0; i < PEAK_CHAINS / 2; i++) a[i] = _mm256_fmadd_ps(a[i], b, c);
    float sum = 0;
#pragma GCC unroll 12
    for (int i = 0; i < PEAK_CHAINS / 2; i++) sum += _mm256_cvtss_f32(a[i]);
    return sum;
}

static double peak_gflops(const char *isa) {
    bool wide = strcmp(isa, "avx2") != 0;
    if (strcmp(isa, "ref") == 0 || strcmp(isa, "blas") == 0) return 0;
    double best = 1e9;
    for (int round = 0; round < 8; round++) {
        double t0 = now_seconds();
        results[0] = wide ? peak_avx512() : peak_avx2();
        best = MIN(best, now_seconds() - t0);
    }
    return 2.0 * PEAK_CHAINS * PEAK_STEPS * (wide ? 16 : 8) / best * 1e-9;
}
#else
static double peak_gflops(const char *isa) {
    (void)isa;
    return 0;
}
#endif

/* ---- the cases ---- */

static void run_scores_f32(const Kernels *k, const Case *c) {
    k->scores_f32(c->n, c->k, activations, pool, results, 32);
}
static void run_scores_pairs(const Kernels *k, const Case *c) {
    k->scores_pairs(c->n, c->k / 2, (uint16_t *)activations, (uint16_t *)pool, results, 32);
}
static void run_mix_f32(const Kernels *k, const Case *c) { k->mix_f32(c->n, 32, c->k, activations, 32, pool, results); }
static void run_mix_pairs(const Kernels *k, const Case *c) {
    k->mix_pairs(c->n, 32, c->k, (uint16_t *)activations, 32, (uint16_t *)pool, results);
}
static void run_softmax(const Kernels *k, const Case *c) {
    memcpy(results, activations, (size_t)c->k * sizeof *results);
    k->softmax_row(c->k, results);
}
static void run_exp_sum(const Kernels *k, const Case *c) { pool[0] = k->exp_sum_row(c->k, activations, results, 1); }
static void run_max(const Kernels *k, const Case *c) { results[0] = k->max_row(c->k, activations); }
static void run_layernorm(const Kernels *k, const Case *c) {
    k->layernorm_row(c->k, activations, pool, pool, 1e-5f, results);
}
static void run_rmsnorm(const Kernels *k, const Case *c) { k->rmsnorm_row(c->k, activations, pool, 1e-5f, results); }
static void run_add(const Kernels *k, const Case *c) { k->add_row(c->k, activations, results); }
static void run_gelu(const Kernels *k, const Case *c) { k->gelu_row(c->k, activations, results); }
static void run_gelu_tanh(const Kernels *k, const Case *c) { k->gelu_tanh_row(c->k, activations, results); }
static void run_silu(const Kernels *k, const Case *c) { k->silu_row(c->k, activations, results); }
static void run_tanh(const Kernels *k, const Case *c) { k->tanh_row(c->k, activations, results); }
static void run_cos(const Kernels *k, const Case *c) { k->cos_row(c->k, activations, pool, pool, results); }
static void run_to_bf16(const Kernels *k, const Case *c) { k->to_bf16(c->k, activations, (uint16_t *)results); }
static void run_to_int8(const Kernels *k, const Case *c) {
    k->to_int8(c->k, activations, (int8_t *)results, results + c->k);
}
static void run_gaussians(const Kernels *k, const Case *c) { k->gaussians(42, 0, 3, 1000, 0, 64, c->k, results); }
static void run_bits(const Kernels *k, const Case *c) {
    k->gaussian_bits(42, 0, 3, 1000, 0, 64, c->k, (uint16_t *)results);
}
static void run_normals(const Kernels *k, const Case *c) {
    k->normals(c->k, (const uint64_t *)(const void *)pool, 0, 0.02, results);
}

#define ATTENTION(id, rows, dim)                                                                                       \
    { .name = #id, .run = run_##id, .n = rows, .n_out = 32, .k = dim, .flops = 64.0 * (rows) * (dim) }
#define ROW(id, width)                                                                                                 \
    { .name = #id, .run = run_##id, .n = 1, .k = width, .elements = width }

/* clang-format off */
static const Case cases[] = {
    ATTENTION(scores_f32, 1, 64),
    ATTENTION(scores_f32, 32, 64),    ATTENTION(scores_pairs, 32, 64), ATTENTION(mix_f32, 1, 64),
    ATTENTION(mix_f32, 32, 64),       ATTENTION(mix_pairs, 32, 64),    ROW(softmax, 32),
    ROW(softmax, 1024),               ROW(exp_sum, 32),               ROW(exp_sum, 1024),
    ROW(max, 32),                     ROW(max, 1024),                 ROW(layernorm, 768),
    ROW(rmsnorm, 768),                ROW(add, 768),                  ROW(gelu, 3072),
    ROW(gelu_tanh, 3072),             ROW(silu, 3072),                ROW(tanh, 3072),
    ROW(cos, 768),                    ROW(to_bf16, 768),              ROW(to_int8, 768),
    ROW(bits, 32),
    ROW(bits, 1024),                  ROW(gaussians, 32),             ROW(gaussians, 128),
    ROW(gaussians, 1024),             ROW(normals, 1024),
};
/* clang-format on */

static void report(const Kernels *k, const Case *c, double peak) {
    char shape[64];
    double t = best_seconds(k, c);
    snprintf(shape, sizeof shape, c->elements > 0 ? "%d" : "%d x %d x %d", c->elements > 0 ? c->k : c->n, c->n_out,
             c->k);
    printf("%-10s %-12s %-18s %10.2f us", k->name, c->name, shape, t * 1e6);
    if (c->elements > 0) printf(" %8.3f ns/element", t * 1e9 / c->elements);
    if (c->flops > 0) printf(" %8.1f GFLOP/s", c->flops / t * 1e-9);
    if (c->flops > 0 && peak > 0) printf(" %5.1f%%", 100 * c->flops / t * 1e-9 / peak);
    printf("\n");
}

int main(int argc, char **argv) {
    Err err;
    if (kernels_init(&err)) {
        fprintf(stderr, "%s\n", err.msg);
        return 1;
    }
    Arena arena; /* 64-byte aligned, like the activations of the program; so are the tensors of a checkpoint */
    arena_init(&arena, POOL_FLOATS * sizeof *pool);
    pool = arena_alloc(&arena, POOL_FLOATS * sizeof *pool);
    activations = arena_alloc(&arena, (4 << 20) * sizeof *activations);
    results = arena_calloc(&arena, (4 << 20) * sizeof *results);
    Draws d = draws_open(1, DRAW_TEST, 0);
    for (int i = 0; i < POOL_FLOATS; i++) pool[i] = i < 1 << 20 ? (float)draw_uniform(&d) - 0.5f : pool[i - (1 << 20)];
    for (int i = 0; i < 4 << 20; i++) activations[i] = i < 1 << 20 ? (float)draw_uniform(&d) - 0.5f : 0.25f;

    const Kernels *levels[KERNELS_LEVELS];
    int n = kernels_available(levels);
    for (int l = n - 1; l >= 0; l--) {
        double peak = peak_gflops(levels[l]->name);
        if (peak > 0) printf("%-10s FMA peak %.1f GFLOP/s, one thread\n", levels[l]->name, peak);
        for (size_t i = 0; i < COUNTOF(cases); i++)
            if (argc < 2 || strstr(cases[i].name, argv[1])) report(levels[l], &cases[i], peak);
    }
    arena_free(&arena);
    return 0;
}
