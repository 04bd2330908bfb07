/* kernels: the table of inner loops, one column per instruction set, chosen once at start.
 *
 * ref -> blas -> avx2 -> avx2vnni -> avx512 -> avx512vnni -> avx512bf16 -> amx, on ARM64 ref -> blas -> neon -> neondot
 * -> neonbf16, the last of them that CPU and OS offer, with those products of the others that have its bits and are
 * faster here (rates.h); or the one that NOISED_ISA names, whole. ref is the contract: all others give its bits, but
 * for the bf16 products of amx and all products of blas, which is OpenBLAS's for processors that no level of ours knows
 * (blas.h). Rules of every entry: pure, single-threaded, any alignment, no aliasing unless said; callers split work by
 * output element. The order in which an output element is reduced depends on the reduction length alone - never on the
 * number of rows, the position in the batch or the thread. Row functions treat one row of width d at a time, so an
 * element's bits depend on (row, d) only. NaN and Inf propagate. */
#ifndef NOISED_KERNELS_H
#define NOISED_KERNELS_H

#include "base/err.h"
#include "model/kernels/train_kernels.h"
#include "model/tensor.h"

/* Buckets of weights: exp(-23 k / 1024) begins bucket k. BUCKETS_LAST has all the rest and goes by BUCKETS_SPREAD
 * numbers, for it is often much the fullest, and additions to one place wait for each other. */
enum { BUCKETS_LAST = 1023, BUCKETS_SPREAD = 16, BUCKETS = BUCKETS_LAST + BUCKETS_SPREAD };

/* Pairs of bf16: q [n, pairs], k [pairs, KV_BLOCK] -> s [n, KV_BLOCK], row stride lds. */
typedef struct ScoresBlock {
    const void *q, *k;
    float *s;
} ScoresBlock;

/* p [n, KV_BLOCK / 2] pairs, row stride ldp / 2, v [KV_BLOCK / 2, v_dim] pairs -> acc [n, v_dim]. Values of further
 * keys than the first `keys` are not looked at, and p is 0 there; of those, values that p is 0 for must be finite. */
typedef struct MixBlock {
    const void *p, *v;
    float *acc;
    int keys;
} MixBlock;

typedef struct Kernels {
    const char *name;
    const char *others;          /* products of other levels: ", gemm_bf16 of avx512", or "" */
    const char *arithmetic;      /* of products: "common", ref's, or "blas-<core>-<version>" of OpenBLAS */
    const char *arithmetic_bf16; /* of bf16 products: the same, or "amx" */

    /* y[i, o] (row stride ldy) = sum_k x[i, k] w[o, k], i < n, o < n_out; x [n, k] row stride ldx, w [n_out, k] rows
     * contiguous. Lane l of 16 sums k = l, l + 16, ... in order; the lanes are then added in one fixed tree. */
    void (*gemm_f32)(int n, int n_out, int k, const float *x, int ldx, const float *w, float *y, int ldy);
    /* The same with bf16 x and w, products and sums in f32: lane l sums the pairs k = 2 l, 2 l + 1 (+ 32, + 64, ...) in
     * order, of a pair the odd one first. Subnormals may count as 0. amx adds in another order: see isa.h; blas adds
     * all products in another order. */
    void (*gemm_bf16)(int n, int n_out, int k, const uint16_t *x, int ldx, const uint16_t *w, float *y, int ldy);
    /* The same with f32 x and f16 w. */
    void (*gemm_f16)(int n, int n_out, int k, const float *x, int ldx, const uint16_t *w, float *y, int ldy);

    /* y[i, o] = sum over groups g of INT8_GROUP elements, in order, of x_scale[i, g] w_scale[o, g] (sum of x w), the
     * inner sum exact, each group added by one fused multiply-add. k is a multiple of INT8_GROUP, x not below -127;
     * x [n, k], w [n_out, k], x_scale and w_scale [.., k / INT8_GROUP]. */
    void (*gemm_i8)(int n, int n_out, int k, const int8_t *x, const float *x_scale, const int8_t *w,
                    const float *w_scale, float *y, int ldy);

    /* The same with the codes of I4 (tensor.h), groups of INT4_GROUP and scales w_scale of their own; x_scale is that
     * of gemm_i8. n_out is a multiple of INT4_OUTS, k of INT8_GROUP. */
    void (*gemm_i4)(int n, int n_out, int k, const int8_t *x, const float *x_scale, const uint8_t *w,
                    const uint16_t *w_scale, float *y, int ldy);

    void (*to_bf16)(int n, const float *x, uint16_t *y); /* nearest even */
    /* x[i] = scale[i / INT8_GROUP] code[i], n a multiple of INT8_GROUP: scale = max |x| / 127 of the group, codes
     * -127..127, nearest even. A group that is not finite has scale NaN. */
    void (*to_int8)(int n, const float *x, int8_t *code, float *scale);

    /* Attention over one block of KV_BLOCK = 32 keys stored transposed. s[r, j] = sum_d q[r, d] k[d, j] (d in order),
     * all 32 columns. q [n, k_dim] contiguous and already scaled; s row stride lds. */
    void (*scores_f32)(int n, int k_dim, const float *q, const float *k, float *s, int lds);
    /* The same of bf16 in pairs, the odd element of a pair first: q [n, pairs, 2], k [pairs, 32, 2]. */
    void (*scores_pairs)(int n, int pairs, const uint16_t *q, const uint16_t *k, float *s, int lds);
    /* acc[r, :] += sum_j p[r, j] v[j, :], j = 0..n_keys-1 in order; v [n_keys, v_dim]; p row stride ldp. */
    void (*mix_f32)(int n, int n_keys, int v_dim, const float *p, int ldp, const float *v, float *acc);
    void (*mix_bf16)(int n, int n_keys, int v_dim, const float *p, int ldp, const uint16_t *v, float *acc);
    /* The same with bf16 p (ldp even) and v in pairs of keys, v [ceil(n_keys / 2), v_dim, 2], the odd key of a pair
     * first. The partner of a last single key is not looked at. */
    void (*mix_pairs)(int n, int n_keys, int v_dim, const uint16_t *p, int ldp, const uint16_t *v, float *acc);

    /* What the two of pairs do, in arithmetic_bf16, for networks with BF16 weights; NULL where that is no other one.
     * Blocks of the cache, all with n rows: s = scores, acc += p v. Not by tiles, -0 may come out as 0. */
    void (*scores_blocks)(int n_blocks, const ScoresBlock *blocks, int n, int pairs, int lds);
    void (*mix_blocks)(int n_blocks, const MixBlock *blocks, int n, int v_dim, int ldp);

    /* One row of width d each. In place (y == x) is allowed. */
    void (*softmax_row)(int d, float *x);                             /* exp(x - max) / sum */
    float (*exp_sum_row)(int d, const float *x, float *y, float max); /* y = exp(x - max), returns sum */
    float (*max_row)(int d, const float *x);
    /* One more piece of a softmax over several: with m the larger of *max and all x, y = exp(x - m); *sum is scaled to
     * m and grows by the sum of y, *max becomes m. Returns exp(old *max - m), which scales what was made of older
     * pieces (1 when there are none). Start with *max = -INFINITY and *sum = 0. */
    float (*online_softmax_row)(int d, const float *x, float *y, float *max, float *sum);
    /* What the sampler does to all logits (sampler.c): y = x with NaN as -INFINITY and nothing above FLT_MAX; then
     * w = exp((x - max) / temperature) to the nearest multiple of 2^-33, and which bucket that is in. Returns how many
     * are not 0. */
    void (*clean_row)(int d, const float *x, float *y);
    int (*weigh_row)(int d, const float *x, float max, float temperature, float *w, uint16_t *bucket);
    void (*layernorm_row)(int d, const float *x, const float *w, const float *b, float eps,
                          float *y); /* b may be NULL */
    void (*rmsnorm_row)(int d, const float *x, const float *w, float eps, float *y);
    void (*add_row)(int d, const float *x, float *y);                          /* y += x */
    void (*scale_row)(int d, float a, const float *x, float *y);               /* y = a x */
    void (*add_affine_row)(int d, float a, float b, const float *x, float *y); /* y += a + b x */
    void (*gelu_row)(int d, const float *x, float *y);                         /* exact: x Phi(x), erf form */
    void (*gelu_tanh_row)(int d, const float *x, float *y);
    void (*silu_row)(int d, const float *x, float *y);
    void (*sigmoid_row)(int d, const float *x, float *y);
    void (*tanh_row)(int d, const float *x, float *y);
    void (*cos_row)(int d, const float *x, const float *freq, const float *phase, float *y); /* cos(freq x + phase) */
    /* A step of n LSTM cells. z [4][n]: the gates i, f, g, o, before and then after their nonlinearities;
     * c = f c_before + i g, h = o tanh(c). */
    void (*lstm_row)(int n, float *z, const float *c_before, float *c, float *h);

    /* n Gaussians for keys j0..j0+n-1 of one query row (docs/spec.md 4); j0 a multiple of 8.
     * counter (sequence << 16 | j / 8, i, head_layer, stream), key = seed. Bit-equal on every ISA. */
    void (*gaussians)(uint64_t seed, uint32_t stream, uint32_t head_layer, uint32_t i, uint32_t sequence, int j0, int n,
                      float *out);
    /* The raw 16-bit k of the same counters (a new network's weights are made of them). */
    void (*gaussian_bits)(uint64_t seed, uint32_t stream, uint32_t head_layer, uint32_t i, uint32_t sequence, int j0,
                          int n, uint16_t *out);
    /* How many of the limits each of them reaches. */
    void (*components)(uint64_t seed, uint32_t stream, uint32_t head_layer, uint32_t i, uint32_t sequence, int j0,
                       int n, int limits, const uint16_t *limit, uint16_t *out);
    /* s[j] += mu[c] + sigma[c] scale eps[j], c = component[j] < m */
    void (*add_mixture_row)(int n, int m, const float *mu, const float *sigma, float scale, const uint16_t *component,
                            const float *eps, float *s);
    /* out = mean + deviation z, z draw_normal (base/random.h) of a first draw, in the low half, and a second one. */
    void (*normals)(int n, const uint64_t *draws, double mean, double deviation, float *out);

    const TrainKernels *train;
} Kernels;

/* The chosen table. Set by kernels_init (idempotent, not thread-safe: call it first in main). */
extern const Kernels *kernels;

/* Whether memory is read faster in many places at a time than in the order it lies in. Intel's cores fetch ahead by
 * themselves, a few lines in every page that is being read. kernels_init says so. */
extern bool reads_in_streams;

/* Reads NOISED_ISA; -1 when it names no level or one that this machine lacks. Without it products are tried, once a
 * process. An OpenBLAS that is not fit for blas is warned of, and ref chosen. Also builds the quantile table. */
int kernels_init(Err *err);
/* For tests: every level this machine can run, ref first; returns how many. */
enum { KERNELS_LEVELS = 8 };
int kernels_available(const Kernels *out[KERNELS_LEVELS]);

#endif
