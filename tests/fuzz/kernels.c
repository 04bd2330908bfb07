/* Every kernel of every level that this machine has, beside the reference, of any shape and any numbers: the same bits
 * (of NaNs any), and not a byte is read or written beyond what is there, for all of it lies at the end of memory of its
 * own. An input is the kernel, its shape, and numbers that are repeated until all is full. */
#include "base/memory.h"
#include "model/kernels/kernels.h"
#include "tests/fuzz/fuzz.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { KEYS = 32 };

/* What a kernel is given; its output is [n_y], and floats. */
typedef struct Work {
    int n, n_out, k;
    FuzzInput numbers;
    float *y;
} Work;

/* ---- numbers ---- */

/* Of the input again and again, so that no two places need to be equal. */
static void fill(const FuzzInput *numbers, void *to, size_t bytes, size_t from) {
    uint8_t *out = to;
    size_t period = MIN(numbers->left, bytes);
    memset(out, 0, bytes);
    for (size_t i = 0; i < period; i++) out[i] = numbers->at[(from + i) % numbers->left];
    for (size_t i = period; period && i < bytes; i += period) memcpy(out + i, out, MIN(period, bytes - i));
}

static float *floats(const Work *w, size_t n, size_t from) {
    float *x = xmalloc(n * sizeof *x);
    fill(&w->numbers, x, n * sizeof *x, from);
    return x;
}

/* bf16 sums may take subnormals as 0 (kernels.h): of numbers from 2^-50 up there are none. */
static uint16_t *halves(const Work *w, size_t n, size_t from) {
    uint16_t *x = xmalloc(n * sizeof *x);
    fill(&w->numbers, x, n * sizeof *x, from);
    for (size_t i = 0; i < n; i++)
        if ((x[i] >> 7 & 255) < 127 - 50) x[i] &= 0x8000;
    return x;
}

/* Nothing below -127, as kernels.h asks. */
static int8_t *codes(const Work *w, size_t n, size_t from) {
    int8_t *x = xmalloc(n);
    fill(&w->numbers, x, n, from);
    for (size_t i = 0; i < n; i++) x[i] = x[i] == -128 ? -127 : x[i];
    return x;
}

/* ---- the kernels ---- */

static int gemm_f32(const Kernels *k, const Work *w) {
    float *x = floats(w, (size_t)(w->n * w->k), 0), *m = floats(w, (size_t)(w->n_out * w->k), 3);
    k->gemm_f32(w->n, w->n_out, w->k, x, w->k, m, w->y, w->n_out);
    free(x);
    free(m);
    return w->n * w->n_out;
}

static int gemm_bf16(const Kernels *k, const Work *w) {
    uint16_t *x = halves(w, (size_t)(w->n * w->k), 0), *m = halves(w, (size_t)(w->n_out * w->k), 2);
    k->gemm_bf16(w->n, w->n_out, w->k, x, w->k, m, w->y, w->n_out);
    free(x);
    free(m);
    return w->n * w->n_out;
}

static int gemm_f16(const Kernels *k, const Work *w) {
    float *x = floats(w, (size_t)(w->n * w->k), 0);
    uint16_t *m = xmalloc((size_t)(w->n_out * w->k) * sizeof *m);
    fill(&w->numbers, m, (size_t)(w->n_out * w->k) * sizeof *m, 2);
    k->gemm_f16(w->n, w->n_out, w->k, x, w->k, m, w->y, w->n_out);
    free(x);
    free(m);
    return w->n * w->n_out;
}

static int gemm_i8(const Kernels *k, const Work *w) {
    int groups = 1 + w->k % 3, wide = groups * INT8_GROUP;
    int8_t *x = codes(w, (size_t)(w->n * wide), 0), *m = codes(w, (size_t)(w->n_out * wide), 1);
    float *x_scale = floats(w, (size_t)(w->n * groups), 0), *m_scale = floats(w, (size_t)(w->n_out * groups), 4);
    k->gemm_i8(w->n, w->n_out, wide, x, x_scale, m, m_scale, w->y, w->n_out);
    free(x);
    free(m);
    free(x_scale);
    free(m_scale);
    return w->n * w->n_out;
}

static int gemm_i4(const Kernels *k, const Work *w) {
    int groups = 1 + w->k % 3, wide = groups * INT8_GROUP, n_out = (1 + w->n_out / INT4_OUTS) * INT4_OUTS;
    int8_t *x = codes(w, (size_t)(w->n * wide), 0), *m = codes(w, (size_t)(n_out * wide / 2), 1);
    float *x_scale = floats(w, (size_t)(w->n * groups), 0);
    uint16_t *m_scale = xmalloc((size_t)(n_out * wide / INT4_GROUP) * sizeof *m_scale);
    fill(&w->numbers, m_scale, (size_t)(n_out * wide / INT4_GROUP) * sizeof *m_scale, 2);
    k->gemm_i4(w->n, n_out, wide, x, x_scale, (uint8_t *)m, m_scale, w->y, n_out);
    free(x);
    free(m);
    free(x_scale);
    free(m_scale);
    return w->n * n_out;
}

static int scores_f32(const Kernels *k, const Work *w) {
    float *q = floats(w, (size_t)(w->n * w->k), 0), *keys = floats(w, (size_t)(w->k * KEYS), 3);
    k->scores_f32(w->n, w->k, q, keys, w->y, KEYS);
    free(q);
    free(keys);
    return w->n * KEYS;
}

static int scores_pairs(const Kernels *k, const Work *w) {
    uint16_t *q = halves(w, (size_t)(w->n * w->k * 2), 0), *keys = halves(w, (size_t)(w->k * KEYS * 2), 2);
    k->scores_pairs(w->n, w->k, q, keys, w->y, KEYS);
    free(q);
    free(keys);
    return w->n * KEYS;
}

static int mix_f32(const Kernels *k, const Work *w) {
    int keys = 1 + (w->n_out - 1) % KEYS;
    float *p = floats(w, (size_t)(w->n * keys), 0), *v = floats(w, (size_t)(keys * w->k), 3);
    fill(&w->numbers, w->y, (size_t)(w->n * w->k) * sizeof(float), 1);
    k->mix_f32(w->n, keys, w->k, p, keys, v, w->y);
    free(p);
    free(v);
    return w->n * w->k;
}

static int mix_bf16(const Kernels *k, const Work *w) {
    int keys = 1 + (w->n_out - 1) % KEYS;
    float *p = floats(w, (size_t)(w->n * keys), 0);
    uint16_t *v = halves(w, (size_t)(keys * w->k), 2);
    fill(&w->numbers, w->y, (size_t)(w->n * w->k) * sizeof(float), 1);
    k->mix_bf16(w->n, keys, w->k, p, keys, v, w->y);
    free(p);
    free(v);
    return w->n * w->k;
}

static int to_bf16(const Kernels *k, const Work *w) {
    float *x = floats(w, (size_t)w->k, 0);
    uint16_t *half = xmalloc((size_t)w->k * sizeof *half);
    k->to_bf16(w->k, x, half);
    for (int i = 0; i < w->k; i++) w->y[i] = bf16_to_f32(half[i]);
    free(x);
    free(half);
    return w->k;
}

static int to_int8(const Kernels *k, const Work *w) {
    int groups = 1 + w->k % 3, n = groups * INT8_GROUP;
    float *x = floats(w, (size_t)n, 0), *scale = xmalloc((size_t)groups * sizeof *scale);
    int8_t *code = xmalloc((size_t)n);
    k->to_int8(n, x, code, scale);
    memcpy(w->y, scale, (size_t)groups * sizeof *scale);
    for (int i = 0; i < n; i++) w->y[groups + i] = isnan(scale[i / INT8_GROUP]) ? 0 : code[i];
    free(x);
    free(scale);
    free(code);
    return groups + n;
}

static int softmax(const Kernels *k, const Work *w) {
    fill(&w->numbers, w->y, (size_t)w->k * sizeof(float), 0);
    k->softmax_row(w->k, w->y);
    return w->k;
}

static int online_softmax(const Kernels *k, const Work *w) {
    float *x = floats(w, (size_t)w->k, 0), max = -INFINITY, sum = 0;
    for (int piece = 0; piece < 2; piece++) {
        w->y[3 * piece] = k->online_softmax_row(w->k, x, w->y + 6 + piece * w->k, &max, &sum);
        w->y[3 * piece + 1] = max;
        w->y[3 * piece + 2] = sum;
        fill(&w->numbers, x, (size_t)w->k * sizeof *x, 1);
    }
    free(x);
    return 2 * w->k + 6;
}

static int weigh(const Kernels *k, const Work *w) {
    float *x = floats(w, (size_t)w->k, 0), *weights = xmalloc((size_t)w->k * sizeof *weights);
    uint16_t *bucket = xmalloc((size_t)w->k * sizeof *bucket);
    k->clean_row(w->k, x, w->y);
    float max = k->max_row(w->k, w->y);
    int n = 2 * w->k;
    if (max > -INFINITY) { /* otherwise nothing can be drawn, and the sampler says so */
        w->y[n++] = (float)k->weigh_row(w->k, w->y, max, 0.3f, weights, bucket);
        memcpy(w->y + w->k, weights, (size_t)w->k * sizeof *weights);
        for (int i = 0; i < w->k; i++) w->y[n++] = bucket[i];
    } else {
        memset(w->y + w->k, 0, (size_t)w->k * sizeof *w->y);
    }
    free(x);
    free(weights);
    free(bucket);
    return n;
}

static int norms(const Kernels *k, const Work *w) {
    float *x = floats(w, (size_t)w->k, 0), *m = floats(w, (size_t)w->k, 1), *b = floats(w, (size_t)w->k, 2);
    k->layernorm_row(w->k, x, m, b, 1e-5f, w->y);
    k->layernorm_row(w->k, x, m, NULL, 1e-5f, w->y + w->k);
    k->rmsnorm_row(w->k, x, m, 1e-5f, w->y + 2 * w->k);
    free(x);
    free(m);
    free(b);
    return 3 * w->k;
}

static int elementwise(const Kernels *k, const Work *w) {
    int d = w->k;
    float *x = floats(w, (size_t)d, 0), *f = floats(w, (size_t)d, 1), *p = floats(w, (size_t)d, 2);
    fill(&w->numbers, w->y, (size_t)d * sizeof *x, 3);
    k->add_row(d, x, w->y);
    k->gelu_row(d, x, w->y + d);
    k->gelu_tanh_row(d, x, w->y + 2 * d);
    k->silu_row(d, x, w->y + 3 * d);
    k->sigmoid_row(d, x, w->y + 4 * d);
    k->tanh_row(d, x, w->y + 5 * d);
    k->cos_row(d, x, f, p, w->y + 6 * d);
    k->scale_row(d, f[0], x, w->y + 7 * d);
    fill(&w->numbers, w->y + 8 * d, (size_t)d * sizeof *x, 3);
    k->add_affine_row(d, f[0], p[0], x, w->y + 8 * d);
    free(x);
    free(f);
    free(p);
    return 9 * d;
}

static int noise(const Kernels *k, const Work *w) {
    uint32_t draws[6];
    uint16_t *bits = xmalloc((size_t)w->k * sizeof *bits);
    fill(&w->numbers, draws, sizeof draws, 0);
    uint64_t seed = (uint64_t)draws[0] << 32 | draws[1];
    int first = (int)(draws[5] % 65536) * 8;
    k->gaussians(seed, draws[2], draws[3], draws[4], draws[5] >> 16, first, w->k, w->y);
    k->gaussian_bits(seed, draws[2], draws[3], draws[4], draws[5] >> 16, first, w->k, bits);
    for (int i = 0; i < w->k; i++) w->y[w->k + i] = bits[i];
    free(bits);
    return 2 * w->k;
}

static int mixture(const Kernels *k, const Work *w) {
    enum { MOST = 20 };
    int m = 1 + w->n_out % MOST;
    float *mu = floats(w, (size_t)m, 0), *sigma = floats(w, (size_t)m, 1), *eps = floats(w, (size_t)w->k, 2);
    uint16_t *limit = halves(w, MOST, 3), *component = xmalloc((size_t)w->k * sizeof *component);
    k->components((uint64_t)w->n, 1, 2, 3, 4, 8, w->k, m - 1, limit, component);
    fill(&w->numbers, w->y, (size_t)w->k * sizeof *w->y, 4);
    k->add_mixture_row(w->k, m, mu, sigma, 0.7f, component, eps, w->y);
    for (int i = 0; i < w->k; i++) w->y[w->k + i] = component[i];
    free(mu);
    free(sigma);
    free(eps);
    free(limit);
    free(component);
    return 2 * w->k;
}

typedef struct Kernel {
    const char *name;
    int (*run)(const Kernels *k, const Work *w); /* how many floats of y it has written */
} Kernel;

static const Kernel kernel_list[] = {
    {"gemm_f32", gemm_f32},
    {"gemm_bf16", gemm_bf16},
    {"gemm_f16", gemm_f16},
    {"gemm_i8", gemm_i8},
    {"gemm_i4", gemm_i4},
    {"scores_f32", scores_f32},
    {"scores_pairs", scores_pairs},
    {"mix_f32", mix_f32},
    {"mix_bf16", mix_bf16},
    {"to_bf16", to_bf16},
    {"to_int8", to_int8},
    {"softmax", softmax},
    {"online_softmax", online_softmax},
    {"weigh", weigh},
    {"norms", norms},
    {"elementwise", elementwise},
    {"noise", noise},
    {"mixture", mixture},
};

/* ---- every level ---- */

static const Kernels *levels[KERNELS_LEVELS];
static int n_levels;

/* OpenBLAS adds in its own order, and so does amx of bf16. */
static bool has_the_bits_of_ref(const Kernels *level, const Kernel *k) {
    bool product =
        k->run == gemm_f32 || k->run == gemm_bf16 || k->run == gemm_f16 || k->run == gemm_i8 || k->run == gemm_i4;
    const char *arithmetic = k->run == gemm_bf16 ? level->arithmetic_bf16 : level->arithmetic;
    return !product || !strcmp(arithmetic, "common");
}

/* At the very end of memory of its own. */
static int run(const Kernels *level, const Kernel *k, Work *w, int n_y, float **memory) {
    *memory = xcalloc((size_t)n_y, sizeof **memory);
    w->y = *memory;
    return k->run(level, w);
}

static void look(const uint8_t *data, size_t n) {
    FuzzInput in = {data, n};
    const Kernel *k = &kernel_list[fuzz_below(&in, COUNTOF(kernel_list))];
    Work w = {.n = 1 + fuzz_below(&in, 60), .n_out = 1 + fuzz_below(&in, 70), .k = 1 + fuzz_byte(&in)};
    w.numbers = in;
    int most = (int)MAX(MAX(9 * 257, w.n * 256), w.n * (w.n_out + INT4_OUTS));
    float *want, *got;
    int n_y = run(levels[0], k, &w, most, &want);
    CHECK(n_y <= most);
    for (int l = 1; l < n_levels; l++) {
        if (run(levels[l], k, &w, n_y, &got), has_the_bits_of_ref(levels[l], k))
            for (int i = 0; i < n_y; i++)
                CHECK_MSG((isnan(got[i]) && isnan(want[i])) || !memcmp(&got[i], &want[i], sizeof *got),
                          "%s %s n=%d n_out=%d k=%d: element %d is %a, ref %a", levels[l]->name, k->name, w.n, w.n_out,
                          w.k, i, (double)got[i], (double)want[i]);
        free(got);
    }
    free(want);
}

TEST(fuzz_kernels) {
    n_levels = kernels_available(levels);
    fuzz_run("kernels", look);
}
