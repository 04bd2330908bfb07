/* bench_gemm: the matrix products of serving, in the shapes of GPT-2 124M, on every level this machine can run.
 *
 * First what the machine can do (measured here, now: chains of multiply-adds in registers, reads of a large array),
 * then a table per level and number of threads: G multiply-adds x 2 per second, and in brackets the share of what peak
 * and bandwidth allow at best. Weights come from memory, as they do when a whole model is walked: every call takes
 * others. Each figure is the best of several calls. Behind the f32 rows, what OpenBLAS makes of the most rows in one
 * call of its own. An argument restricts the tables to levels whose name begins with it.
 *
 * For programs, of the level that is chosen and all threads, a figure a line:
 *     bench-gemm --limits      limits LEVEL F32 BF16 INT8 READ       G operations/s of a thread, GB/s of all
 *     bench-gemm --products    product TYPE K OUTPUTS ROWS RATE      G operations/s of all */
#include "base/arena.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/omp_env.h"
#include "base/random.h"
#include "base/team.h"
#include "model/kernels/kernels.h"

#include <cblas.h>
#include <string.h>

enum { POOL = 256 << 20, MAX_ROWS = 512, MAX_K = 3072, MAX_OUT = 50257 };
static char *pool;  /* weights */
static char *rows;  /* activations, [MAX_ROWS, MAX_K] of any type */
static float *ones; /* scales, of I4 taken as F16 */
static float *results;

/* ---- limits ---- */

typedef struct Limits {
    double f32, bf16, i8; /* G operations per second and thread, 0 = unknown */
} Limits;

#if defined(__x86_64__)
#include "model/kernels/tiles.h"

enum { PEAK_STEPS = 100000, PEAK_CHAINS = 12 };

/* Twelve chains of one instruction. */
#define CHAIN(op, r, n) op " %%" r "15, %%" r "15, %%" r #n "\n"
#define CHAINS(op, r)                                                                                                  \
    CHAIN(op, r, 0)                                                                                                    \
    CHAIN(op, r, 1)                                                                                                    \
    CHAIN(op, r, 2)                                                                                                    \
    CHAIN(op, r, 3)                                                                                                    \
    CHAIN(op, r, 4)                                                                                                    \
    CHAIN(op, r, 5) CHAIN(op, r, 6) CHAIN(op, r, 7) CHAIN(op, r, 8) CHAIN(op, r, 9) CHAIN(op, r, 10) CHAIN(op, r, 11)
#define PEAK(name, op, r)                                                                                              \
    static void name(void) {                                                                                           \
        long steps = PEAK_STEPS;                                                                                       \
        __asm__ volatile("vpxor %%xmm15, %%xmm15, %%xmm15\n1:\n" CHAINS(op, r) "dec %0\njnz 1b\nvzeroupper\n"          \
                         : "+r"(steps)::"cc", "xmm0", "xmm1", "xmm2", "xmm3", "xmm4", "xmm5", "xmm6", "xmm7", "xmm8",  \
                           "xmm9", "xmm10", "xmm11", "xmm15");                                                         \
    }
PEAK(fma_ymm, "vfmadd231ps", "ymm")
PEAK(madd_ymm, "vpmaddwd", "ymm")
PEAK(fma_zmm, "vfmadd231ps", "zmm")
PEAK(madd_zmm, "vpmaddwd", "zmm")
PEAK(dot_bf16, "vdpbf16ps", "zmm")
PEAK(dot_i8_ymm, "%{vex%} vpdpbusd", "ymm")
PEAK(dot_i8, "vpdpbusd", "zmm")

/* Four chains, as a block of 2 x 2 tiles has them. */
#define TILE_PEAK(name, dot)                                                                                           \
    static void name(void) {                                                                                           \
        tiles_open();                                                                                                  \
        for (int i = 0; i < PEAK_STEPS * PEAK_CHAINS / 4; i++) {                                                       \
            dot(0, 4, 6);                                                                                              \
            dot(1, 4, 7);                                                                                              \
            dot(2, 5, 6);                                                                                              \
            dot(3, 5, 7);                                                                                              \
        }                                                                                                              \
        tiles_close();                                                                                                 \
    }
TILE_PEAK(tiles_bf16, TILE_DOT_BF16)
TILE_PEAK(tiles_i8, TILE_DOT_I8)

static double peak(void (*chains)(void), int operations) {
    double best = 1e9;
    for (int round = 0; round < 20; round++) {
        double t0 = now_seconds();
        chains();
        best = MIN(best, now_seconds() - t0);
    }
    return (double)operations * PEAK_CHAINS * PEAK_STEPS / best * 1e-9;
}

static Limits limits_of(const char *level) {
    if (!strcmp(level, "avx2")) return (Limits){peak(fma_ymm, 16), peak(fma_ymm, 16), peak(madd_ymm, 32)};
    if (!strcmp(level, "avx2vnni")) return (Limits){peak(fma_ymm, 16), peak(fma_ymm, 16), peak(dot_i8_ymm, 64)};
    if (!strcmp(level, "avx512")) return (Limits){peak(fma_zmm, 32), peak(fma_zmm, 32), peak(madd_zmm, 64)};
    if (!strcmp(level, "avx512vnni")) return (Limits){peak(fma_zmm, 32), peak(fma_zmm, 32), peak(dot_i8, 128)};
    if (!strcmp(level, "avx512bf16")) return (Limits){peak(fma_zmm, 32), peak(dot_bf16, 64), peak(dot_i8, 128)};
    if (!strcmp(level, "amx")) return (Limits){peak(fma_zmm, 32), peak(tiles_bf16, 16384), peak(tiles_i8, 32768)};
    return (Limits){0};
}
#else
static Limits limits_of(const char *level) {
    (void)level;
    return (Limits){0};
}
#endif

#if defined(__x86_64__)
#define WIDEST __attribute__((target_clones("avx512f", "avx2", "default")))
#else
#define WIDEST
#endif

/* Loads as wide as the machine has them: narrower ones read memory at half the speed on Zen 5. */
WIDEST static uint64_t read_all(const char *from, size_t bytes) {
    typedef uint64_t Line __attribute__((vector_size(64)));
    enum { STREAMS = 4 };
    const Line *lines = (const Line *)from;
    Line sum[STREAMS] = {{0}};
    size_t n = bytes / STREAMS / sizeof(Line);
    for (size_t i = 0; i < n; i++)
        for (size_t c = 0; c < STREAMS; c++) sum[c] ^= lines[c * n + i];
    return sum[0][0] ^ sum[1][0] ^ sum[2][0] ^ sum[3][0];
}

/* Bytes per second of a team that reads the pool, the best of short pieces: other work on the machine interrupts long
 * ones. */
static double read_bandwidth(int threads) {
    enum { PIECE = 2 << 20, STRETCH = 256 << 10 };
    double best = 1e9;
    for (size_t p = 0; p < 2 * (size_t)POOL; p += PIECE) {
        uint64_t total = 0;
        double t0 = now_seconds();
#pragma omp parallel for num_threads(threads) schedule(static) reduction(^ : total)
        for (size_t s = 0; s < PIECE; s += STRETCH) total ^= read_all(pool + p % POOL + s, STRETCH);
        best = MIN(best, now_seconds() - t0);
        results[0] = (float)total;
    }
    return PIECE / best;
}

/* ---- the table ---- */

typedef struct Product {
    Dtype type;
    int n, n_out, k;
} Product;

/* Of weights, without scales. */
static size_t bytes_of(const Product *p, int outputs) {
    return (size_t)outputs * (size_t)p->k * dtype_size(p->type) / (p->type == DTYPE_I4 ? 2 : 1);
}

static void run_share(const Kernels *k, const Product *p, const char *w, int first, int count) {
    float *y = results + first;
    const char *at = w + bytes_of(p, first);
    if (p->type == DTYPE_F32)
        k->gemm_f32(p->n, count, p->k, (float *)rows, p->k, (const float *)at, y, p->n_out);
    else if (p->type == DTYPE_BF16)
        k->gemm_bf16(p->n, count, p->k, (uint16_t *)rows, p->k, (const uint16_t *)at, y, p->n_out);
    else if (p->type == DTYPE_I8)
        k->gemm_i8(p->n, count, p->k, (int8_t *)rows, ones, (const int8_t *)at, ones, y, p->n_out);
    else
        k->gemm_i4(p->n, count, p->k, (int8_t *)rows, ones, (const uint8_t *)at, (uint16_t *)ones, y, p->n_out);
}

/* k NULL: by OpenBLAS, F32 only. */
static void run(const Kernels *k, const Product *p, const char *w, int threads) {
    int panels = (p->n_out + 63) / 64, share = (panels + threads - 1) / threads * 64;
    if (!k) {
        cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasTrans, p->n, p->n_out, p->k, 1, (float *)rows, p->k,
                    (const float *)w, p->k, 0, results, p->n_out);
        return;
    }
#pragma omp parallel for num_threads(threads) schedule(static)
    for (int first = 0; first < p->n_out; first += share) run_share(k, p, w, first, MIN(share, p->n_out - first));
}

static double best_seconds(const Kernels *k, const Product *p, int threads) {
    size_t bytes = bytes_of(p, p->n_out), copies = POOL / bytes;
    double best = 1e9, spent = 0;
    for (size_t call = 0; call < 400 && (call < 4 || spent < 0.06); call++) {
        double t0 = now_seconds();
        run(k, p, pool + call % copies * bytes, threads);
        double t = now_seconds() - t0;
        best = MIN(best, t);
        spent += t;
    }
    return best;
}

static const int counts[] = {1, 4, 16, 32, 64, MAX_ROWS};

static void report(const Kernels *k, Product p, int threads, Limits l, double bandwidth) {
    double top = (p.type == DTYPE_F32 ? l.f32 : p.type == DTYPE_BF16 ? l.bf16 : l.i8) * 1e9 * threads;
    double bytes = (double)bytes_of(&p, p.n_out);
    printf("  %-4s %4d -> %-5d", dtype_said(p.type), p.k, p.n_out);
    for (size_t c = 0; c < COUNTOF(counts); c++) {
        p.n = counts[c];
        double operations = 2.0 * p.n * p.n_out * p.k;
        if (!strcmp(k->name, "ref") && operations > 1e8) continue;
        double t = best_seconds(k, &p, threads), least = MAX(bytes / bandwidth, top > 0 ? operations / top : 0);
        printf(" %7.0f (%3.0f%%)", operations / t * 1e-9, 100 * least / t);
        if (c == 0) printf(" %5.1f GB/s |", bytes / t * 1e-9);
    }
    if (p.type == DTYPE_F32) {
        int team = team_size(); /* which OpenBLAS takes for its own */
        openblas_set_num_threads(threads);
        printf("  OpenBLAS %.0f", 2.0 * p.n * p.n_out * p.k / best_seconds(NULL, &p, threads) * 1e-9);
        openblas_set_num_threads(1);
        team_resize(team);
    }
    printf("\n");
}

static const int shapes[][2] = {{768, 2304}, {768, 768}, {768, 3072}, {3072, 768}, {768, MAX_OUT}};
static const Dtype types[] = {DTYPE_F32, DTYPE_BF16, DTYPE_I8, DTYPE_I4};

static Product product_of(Dtype type, const int *shape) {
    int whole = shape[1] / INT4_OUTS * INT4_OUTS; /* blocks of I4 */
    return (Product){.type = type, .k = shape[0], .n_out = type == DTYPE_I4 ? whole : shape[1]};
}

static void report_level(const Kernels *k, int threads) {
    Limits l = limits_of(k->name);
    double bandwidth = read_bandwidth(threads);
    printf("\n%s, %d thread%s: reads %.1f GB/s; a thread's peak is %.0f f32, %.0f bf16, %.0f int8 G/s\n", k->name,
           threads, threads > 1 ? "s" : "", bandwidth * 1e-9, l.f32, l.bf16, l.i8);
    printf("  rows:                    1                            4             16             32             64"
           "            512\n");
    for (size_t t = 0; t < COUNTOF(types); t++)
        for (size_t s = 0; s < COUNTOF(shapes); s++) report(k, product_of(types[t], shapes[s]), threads, l, bandwidth);
}

static void print_limits(void) {
    Limits l = limits_of(kernels->name);
    printf("limits %s %.1f %.1f %.1f %.2f\n", kernels->name, l.f32, l.bf16, l.i8, read_bandwidth(team_size()) * 1e-9);
}

static void print_products(void) {
    for (size_t t = 0; t < COUNTOF(types); t++)
        for (size_t s = 0; s < COUNTOF(shapes); s++)
            for (size_t c = 0; c < COUNTOF(counts); c++) {
                Product p = product_of(types[t], shapes[s]);
                p.n = counts[c];
                double operations = 2.0 * p.n * p.n_out * p.k;
                printf("product %s %d %d %d %.2f\n", dtype_said(p.type), p.k, p.n_out, p.n,
                       operations / best_seconds(kernels, &p, team_size()) * 1e-9);
                fflush(stdout);
            }
}

int main(int argc, char **argv) {
    Err err;
    runtime_tune(argv);
    if (kernels_init(&err)) {
        fprintf(stderr, "%s\n", err.msg);
        return 1;
    }
    Arena arena; /* 64-byte aligned, like the activations of the program; so are the tensors of a checkpoint */
    arena_init(&arena, POOL);
    pool = arena_alloc(&arena, POOL);
    rows = arena_alloc(&arena, MAX_ROWS * MAX_K * sizeof(float));
    ones = arena_alloc(&arena, MAX_OUT * (MAX_K / INT8_GROUP) * sizeof *ones);
    results = arena_calloc(&arena, (size_t)MAX_ROWS * MAX_OUT * sizeof *results);
    Draws d = draws_open(1, DRAW_TEST, 0);
    uint32_t *words[] = {(uint32_t *)pool, (uint32_t *)rows}; /* of modest size whatever they are taken for */
    size_t sizes[] = {POOL / 4, MAX_ROWS * MAX_K};
    for (int p = 0; p < 2; p++)
        for (size_t i = 0; i < sizes[p]; i++)
            words[p][i] = i < 1 << 20 ? (draw_u32(&d) & 0x83ff83ff) | 0x3c003c00 : words[p][i - (1 << 20)];
    for (int i = 0; i < MAX_OUT * (MAX_K / INT8_GROUP); i++) ones[i] = 1;

    const Kernels *levels[KERNELS_LEVELS];
    bool limits = argc > 1 && !strcmp(argv[1], "--limits"), products = argc > 1 && !strcmp(argv[1], "--products");
    if (limits) print_limits();
    if (products) print_products();
    for (int level = limits || products ? -1 : kernels_available(levels) - 1; level >= 0; level--) {
        if (argc > 1 && strncmp(levels[level]->name, argv[1], strlen(argv[1])) != 0) continue;
        report_level(levels[level], 1);
        if (team_size() > 1) report_level(levels[level], team_size());
    }
    arena_free(&arena);
    return 0;
}
