/* The packed GEMM of training: against a plain triple loop, bit for bit on every instruction set and team; blas, and
 * amx in bf16, which add in an order of their own, bit for bit on every team and near the exact sum. */
#include "base/err.h"
#include "base/memory.h"
#include "base/random.h"
#include "base/team.h"
#include "model/kernels/kernels.h"
#include "model/ops/op.h"
#include "model/ops/train_gemm.h"
#include "tests/support/test.h"

#include <cblas.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { MOST = 2051 }; /* elements of a sum */

typedef struct Shape {
    int m, n, k;
    bool a_transposed, b_transposed, add;
} Shape;

static const Shape shapes[] = {
    {1, 1, 1, false, false, false},    {5, 7, 3, true, false, true},      {8, 48, 16, false, true, false},
    {37, 53, 129, true, true, true},   {100, 33, 64, false, false, true}, {96, 97, 31, true, false, false},
    {3, 200, MOST, false, true, true}, {130, 64, 90, false, true, false}, {70, 170, 301, true, true, true}};

typedef struct Problem {
    Shape s;
    float *a, *b, *c, *want, *got;
} Problem;

typedef float Element(Draws *d);

/* Some elements are denormal, some products and sums become so; one is large. */
static float element(Draws *d) {
    double z = draw_normal(d);
    uint32_t kind = draw_u32(d) % 16;
    return (float)(kind == 0 ? z * 1e-39 : kind == 1 ? z * 1e-20 : kind == 2 ? z * 1e4 : z);
}

static Problem problem_make(Shape s, Element *of) {
    Problem p = {.s = s};
    size_t na = (size_t)(s.m * s.k), nb = (size_t)(s.k * s.n), nc = (size_t)(s.m * s.n);
    p.a = xmalloc((na + nb + 3 * nc) * sizeof *p.a);
    p.b = p.a + na;
    p.c = p.b + nb;
    p.want = p.c + nc;
    p.got = p.want + nc;
    Draws d = draws_open(3, DRAW_TEST, (uint32_t)(s.m + s.n + s.k));
    for (size_t i = 0; i < na + nb + nc; i++) p.a[i] = of(&d);
    return p;
}

static float a_at(const Problem *p, int i, int e) { return p->a[p->s.a_transposed ? e * p->s.m + i : i * p->s.k + e]; }
static float b_at(const Problem *p, int e, int j) { return p->b[p->s.b_transposed ? j * p->s.k + e : e * p->s.n + j]; }

static float flushed(float x) { return fabsf(x) < 0x1p-126f ? copysignf(0, x) : x; }
static float rounded(float x) { return bf16_to_f32(f32_to_bf16(flushed(x))); }

/* sum + a b, one product after the other. */
static float chain(bool bf16, int n, const float *a, const float *b, float sum) {
    for (int e = 0; e < n && !bf16; e++) sum = fmaf(a[e], b[e], sum);
    for (int e = 0; e < n && bf16; e += 2) {
        bool odd = e + 1 < n;
        sum = flushed(fmaf(odd ? rounded(a[e + 1]) : 0, odd ? rounded(b[e + 1]) : 0, sum));
        sum = flushed(fmaf(rounded(a[e]), rounded(b[e]), sum));
    }
    return sum;
}

/* What train_gemm.h promises, in so many words. */
static float reference(const Problem *p, bool bf16, int i, int j) {
    float a[MOST], b[MOST];
    for (int e = 0; e < p->s.k; e++) a[e] = a_at(p, i, e), b[e] = b_at(p, e, j);
    return chain(bf16, p->s.k, a, b, p->s.add ? p->c[i * p->s.n + j] : 0);
}

static void solve(Problem *p, bool bf16) {
    Tape t;
    tape_init(&t, true);
    t.bf16 = bf16;
    Shape s = p->s;
    memcpy(p->got, p->c, (size_t)(s.m * s.n) * sizeof *p->got);
    train_gemm(&t, &(TrainGemm){.m = s.m,
                                .n = s.n,
                                .k = s.k,
                                .a = {p->a, s.a_transposed ? s.m : s.k, s.a_transposed},
                                .b = {p->b, s.b_transposed ? s.k : s.n, s.b_transposed},
                                .c = p->got,
                                .ldc = s.n,
                                .add = s.add});
    tape_free(&t);
}

static int different(const Problem *p) {
    int n = 0;
    for (int i = 0; i < p->s.m * p->s.n; i++) n += memcmp(p->want + i, p->got + i, sizeof *p->got) != 0;
    return n;
}

static bool is_common(bool bf16) { return !strcmp(bf16 ? kernels->arithmetic_bf16 : kernels->arithmetic, "common"); }

/* Whether every element is as near the exact sum as any order of additions leaves it. */
static bool is_near(const Problem *p, bool bf16) {
    for (int i = 0; i < p->s.m * p->s.n; i++) {
        double sum = p->s.add ? (double)p->c[i] : 0, size = fabs(sum);
        for (int e = 0; e < p->s.k; e++) {
            float a = a_at(p, i / p->s.n, e), b = b_at(p, e, i % p->s.n);
            double product = bf16 ? (double)rounded(a) * (double)rounded(b) : (double)a * (double)b;
            sum += product;
            size += fabs(product);
        }
        if (!(fabs((double)p->got[i] - sum) <= (p->s.k + 4) * (0x1p-24 * size + 0x1p-126))) return false;
    }
    return true;
}

/* On the level that is chosen. */
static void check_teams(Problem *p, bool bf16) {
    Shape s = p->s;
    for (int i = 0; i < s.m * s.n; i++) p->want[i] = reference(p, bf16, i / s.n, i % s.n);
    for (int threads = 1; threads <= 3; threads++) {
        team_resize(threads);
        solve(p, bf16);
        if (!is_common(bf16) && threads == 1) {
            CHECK_MSG(is_near(p, bf16), "%s, %s, [%d,%d] of %d: far from the sum", kernels->name, bf16 ? "bf16" : "f32",
                      s.m, s.n, s.k);
            memcpy(p->want, p->got, (size_t)(s.m * s.n) * sizeof *p->want);
        }
        CHECK_MSG(different(p) == 0, "%s, %d threads, %s, [%d,%d] of %d: %d elements differ", kernels->name, threads,
                  bf16 ? "bf16" : "f32", s.m, s.n, s.k, different(p));
    }
}

static void check_shape(Shape s, bool bf16) {
    const Kernels *levels[KERNELS_LEVELS], *chosen = kernels;
    Problem p = problem_make(s, element);
    int n_levels = kernels_available(levels), team = team_size();
    for (int level = 0; level < n_levels; level++) {
        kernels = levels[level];
        check_teams(&p, bf16);
    }
    team_resize(team);
    kernels = chosen;
    free(p.a);
}

TEST(train_gemm_f32_bits) {
    for (size_t i = 0; i < COUNTOF(shapes); i++) check_shape(shapes[i], false);
}

TEST(train_gemm_bf16_bits) {
    for (size_t i = 0; i < COUNTOF(shapes); i++) check_shape(shapes[i], true);
}

TEST(train_gemm_bf16_keeps_what_is_not_a_number) {
    Problem p = problem_make((Shape){.m = 20, .n = 50, .k = 40}, element);
    union {
        uint32_t u;
        float f;
    } nan = {.u = 0x7fffffff};
    p.a[3 * 40 + 7] = nan.f;
    solve(&p, true);
    for (int j = 0; j < 50; j++) CHECK(isnan(p.got[3 * 50 + j]) && isfinite(p.got[4 * 50 + j]));
    free(p.a);
}

static float normal(Draws *d) { return (float)draw_normal(d); }

/* Larger shapes, by somebody else's hand. Beside large elements a product that is missing would not show, and denormal
 * ones take ten times as long. */
TEST(train_gemm_agrees_with_openblas) {
    for (int flags = 0; flags < 8; flags++) {
        Shape s = {
            .m = 301, .n = 530, .k = 1300, .a_transposed = flags & 1, .b_transposed = flags & 2, .add = flags & 4};
        Problem p = problem_make(s, normal);
        double worst = 0, size = 0;
        solve(&p, false);
        cblas_sgemm(CblasRowMajor, s.a_transposed ? CblasTrans : CblasNoTrans,
                    s.b_transposed ? CblasTrans : CblasNoTrans, s.m, s.n, s.k, 1, p.a, s.a_transposed ? s.m : s.k, p.b,
                    s.b_transposed ? s.k : s.n, s.add, p.c, s.n);
        for (int i = 0; i < s.m * s.n; i++) {
            worst = fmax(worst, fabs((double)p.c[i] - p.got[i]));
            size = fmax(size, fabs((double)p.c[i]));
        }
        CHECK_MSG(worst <= 3e-6 * size, "flags %d: off by %g, the largest is %g", flags, worst, size);
        free(p.a);
    }
}

/* ---- the convolution over heads, whose taps are read where they lie ---- */

typedef struct Conv {
    int in, out, kernel, dim;
} Conv;

static float conv_reference(Conv v, bool bf16, const float *x, const float *w, float bias, int l) {
    float taps[MOST];
    for (int e = 0; e < v.in * v.kernel; e++) {
        int at = l + e % v.kernel - (v.kernel - 1) / 2;
        taps[e] = at < 0 || at >= v.dim ? 0 : x[e / v.kernel * v.dim + at];
    }
    return chain(bf16, v.in * v.kernel, w, taps, bias);
}

static int conv_differences(Conv v, bool bf16, float *x, float *w, float *bias) {
    Tape t;
    int different = 0, taps = v.in * v.kernel;
    Weight ww = {.n_dims = 3, .dims = {v.out, v.in, v.kernel}, .data = w},
           wb = {.n_dims = 1, .dims = {v.out}, .data = bias};
    Mat mat = {.x = x, .n = 2, .d = v.in * v.dim};
    tape_init(&t, false);
    t.bf16 = bf16;
    const Mat *y = op_head_conv(&t, &mat, &ww, &wb, v.dim);
    for (int i = 0; i < y->n * y->d; i++) {
        int row = i / y->d, o = i % y->d / v.dim;
        float want = conv_reference(v, bf16, x + row * mat.d, w + o * taps, bias[o], i % v.dim);
        different += memcmp(&want, y->x + i, sizeof want) != 0;
    }
    tape_free(&t);
    return different;
}

TEST(head_conv_bits) {
    static const Conv convs[] = {{5, 7, 3, 21}, {4, 9, 5, 64}, {17, 18, 5, 70}, {3, 2, 1, 8}};
    const Kernels *levels[KERNELS_LEVELS], *chosen = kernels;
    int n_levels = kernels_available(levels);
    for (size_t i = 0; i < 2 * COUNTOF(convs); i++) {
        Conv v = convs[i / 2];
        int n_x = 2 * v.in * v.dim, n_w = v.out * v.in * v.kernel;
        float *x = xmalloc((size_t)(n_x + n_w + v.out) * sizeof *x);
        Draws d = draws_open(5, DRAW_TEST, (uint32_t)i);
        for (int e = 0; e < n_x + n_w + v.out; e++) x[e] = element(&d);
        for (int level = 0; level < n_levels; level++) {
            kernels = levels[level];
            if (!is_common(i % 2)) continue;
            int different = conv_differences(v, i % 2, x, x + n_x, x + n_x + n_w);
            CHECK_MSG(different == 0, "%s, %s, kernel %d: %d elements differ", kernels->name, i % 2 ? "bf16" : "f32",
                      v.kernel, different);
        }
        free(x);
    }
    kernels = chosen;
}
