/* The level blas: OpenBLAS's product keeps its bits at every place, products that do not are found, and what is made of
 * it is as near the exact sums as any order of additions is. */
#include "base/memory.h"
#include "base/random.h"
#include "base/team.h"
#include "model/kernels/blas.h"
#include "model/kernels/kernels.h"
#include "tests/support/test.h"

#include <cblas.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* OpenBLAS 0.3.21's kernels for Haswell and Zen do not: there ref computes. */
TEST(kernels_blas_keeps_places) {
    const char *core = openblas_get_corename();
    bool keeps = blas_keeps_places(blas_product);
    if (!keeps && (!strcmp(core, "Haswell") || !strcmp(core, "Zen"))) SKIP(blas_fault());
    CHECK_MSG(keeps, "%s", openblas_get_config());
}

/* ---- products that depend on where something is ---- */

/* Row i and output o of operands as blas.h lays them out. */
static float a_at(bool across, const float *a, int i, int e) {
    return across ? a[e * BLAS_ROWS + i] : a[i * BLAS_DEPTH + e];
}
static float b_at(bool across, const float *b, int o, int e) {
    return across ? b[e * BLAS_OUTS + o] : b[o * BLAS_DEPTH + e];
}

/* What an honest library makes, but for one element, whose products are added from the last to the first. */
static void backwards_at(bool across, const float *a, const float *b, float *c, int row, int out) {
    blas_product(across, a, b, c);
    float sum = 0;
    for (int e = BLAS_DEPTH; e-- > 0;) sum += a_at(across, a, row, e) * b_at(across, b, out, e);
    c[row * BLAS_OUTS + out] = sum;
}

static void last_row(bool across, const float *a, const float *b, float *c) {
    backwards_at(across, a, b, c, BLAS_ROWS - 1, 7);
}
static void last_out(bool across, const float *a, const float *b, float *c) {
    backwards_at(across, a, b, c, 3, BLAS_OUTS - 1);
}
static void one_layout(bool across, const float *a, const float *b, float *c) {
    if (across)
        backwards_at(across, a, b, c, 0, 1);
    else
        blas_product(across, a, b, c);
}
/* As a library might that looks whether there is something to do. */
static void alone_otherwise(bool across, const float *a, const float *b, float *c) {
    bool only = true;
    for (int e = 0; e < BLAS_DEPTH; e++) only &= a_at(across, a, 1, e) == 0;
    if (only)
        backwards_at(across, a, b, c, 0, 5);
    else
        blas_product(across, a, b, c);
}
/* What is beside a row is added with weight 0, which Inf and NaN do not care for. */
static void leaks(bool across, const float *a, const float *b, float *c) {
    blas_product(across, a, b, c);
    for (int i = 0; i + 1 < BLAS_ROWS; i++)
        for (int o = 0; o < BLAS_OUTS; o++) c[i * BLAS_OUTS + o] += 0 * c[(i + 1) * BLAS_OUTS + o];
}

TEST(kernels_blas_finds_products_that_know_their_place) {
    BlasProduct *const broken[] = {last_row, last_out, one_layout, alone_otherwise, leaks};
    for (size_t i = 0; i < COUNTOF(broken); i++) CHECK_MSG(!blas_keeps_places(broken[i]), "product %zu passes", i);
}

/* ---- the products of the level ---- */

static const Kernels *blas_level(void) {
    static const Kernels *levels[KERNELS_LEVELS];
    for (int i = 0, n = kernels_available(levels); i < n; i++)
        if (!strcmp(levels[i]->name, "blas")) return levels[i];
    return NULL;
}

typedef struct Operands {
    int n, n_out, k;
    float *x, *w, *x_scale, *w_scale, *y; /* values of every type; scales of int8 */
    uint16_t *x_half, *w_half;
    int8_t *x_code, *w_code;
} Operands;

static Operands operands_new(Draws *d, int n, int n_out, int k) {
    size_t nx = (size_t)(n * k), nw = (size_t)(n_out * k);
    Operands o = {n, n_out, k, .x = xmalloc(nx * sizeof(float)), .w = xmalloc(nw * sizeof(float))};
    o.x_half = xmalloc(nx * 2), o.w_half = xmalloc(nw * 2), o.x_code = xmalloc(nx), o.w_code = xmalloc(nw);
    o.x_scale = xmalloc((nx / INT8_GROUP + 1) * sizeof(float)),
    o.w_scale = xmalloc((nw / INT8_GROUP + 1) * sizeof(float));
    o.y = xmalloc((size_t)(n * (n_out + 1)) * sizeof(float));
    for (size_t i = 0; i < nx; i++)
        o.x[i] = (float)draw_normal(d), o.x_code[i] = (int8_t)((int)draw_below(d, 255) - 127);
    for (size_t i = 0; i < nw; i++)
        o.w[i] = (float)draw_normal(d), o.w_code[i] = (int8_t)((int)draw_below(d, 256) - 128);
    for (size_t i = 0; i < nx / INT8_GROUP; i++) o.x_scale[i] = (float)draw_uniform(d);
    for (size_t i = 0; i < nw / INT8_GROUP; i++) o.w_scale[i] = (float)draw_uniform(d);
    return o;
}

static void operands_free(Operands *o) {
    void *all[] = {o->x, o->w, o->x_scale, o->w_scale, o->y, o->x_half, o->w_half, o->x_code, o->w_code};
    for (size_t i = 0; i < COUNTOF(all); i++) free(all[i]);
}

/* Runs the product on a stretch of the outputs; x and w become what its type holds. */
static void run(const Kernels *k, Dtype type, Operands *o, int row, int rows, int first, int count) {
    size_t x = (size_t)(row * o->k), w = (size_t)(first * o->k);
    int ldy = o->n_out + 1;
    float *y = o->y + row * ldy + first;
    if (type == DTYPE_F32) k->gemm_f32(rows, count, o->k, o->x + x, o->k, o->w + w, y, ldy);
    if (type == DTYPE_BF16) k->gemm_bf16(rows, count, o->k, o->x_half + x, o->k, o->w_half + w, y, ldy);
    if (type == DTYPE_F16) k->gemm_f16(rows, count, o->k, o->x + x, o->k, o->w_half + w, y, ldy);
    if (type == DTYPE_I8)
        k->gemm_i8(rows, count, o->k, o->x_code + x, o->x_scale + x / INT8_GROUP, o->w_code + w,
                   o->w_scale + w / INT8_GROUP, y, ldy);
}

static void prepare(Dtype type, Operands *o) {
    for (int i = 0; i < o->n * o->k; i++) {
        o->x_half[i] = f32_to_bf16(o->x[i]);
        if (type == DTYPE_BF16) o->x[i] = bf16_to_f32(o->x_half[i]);
        if (type == DTYPE_I8) o->x[i] = o->x_scale[i / INT8_GROUP] * (float)o->x_code[i];
    }
    for (int i = 0; i < o->n_out * o->k; i++) {
        o->w_half[i] = type == DTYPE_F16 ? (uint16_t)((o->w_code[i] & 0xff) << 7 | 0x11) : f32_to_bf16(o->w[i]);
        if (type == DTYPE_BF16) o->w[i] = bf16_to_f32(o->w_half[i]);
        if (type == DTYPE_F16) o->w_half[i] &= 0xbfff, o->w[i] = f16_to_f32(o->w_half[i]);
        if (type == DTYPE_I8) o->w[i] = o->w_scale[i / INT8_GROUP] * (float)o->w_code[i];
    }
}

static void check_near(Dtype type, const Operands *o) {
    for (int i = 0; i < o->n; i++)
        for (int j = 0; j < o->n_out; j++) {
            double sum = 0, size = 0, got = (double)o->y[i * (o->n_out + 1) + j];
            for (int e = 0; e < o->k; e++) {
                double p = (double)o->x[i * o->k + e] * (double)o->w[j * o->k + e];
                sum += p, size += fabs(p);
            }
            CHECK_MSG(fabs(got - sum) <= (o->k + 4) * 0x1p-24 * size, "%s %d x %d x %d: [%d,%d] is %g, not %g",
                      dtype_name(type), o->n, o->n_out, o->k, i, j, got, sum);
        }
}

/* However rows and outputs are cut into stretches, and nothing is written beyond them. */
static void check_stretches(const Kernels *level, Dtype type, Operands *o, Draws *d) {
    size_t bytes = (size_t)(o->n * (o->n_out + 1)) * sizeof(float);
    float *whole = xmalloc(bytes);
    memcpy(whole, o->y, bytes);
    for (int i = 0; i < o->n * (o->n_out + 1); i++) o->y[i] = 7;
    for (int row = 0, rows; row < o->n; row += rows) {
        rows = 1 + (int)draw_below(d, 20), rows = MIN(rows, o->n - row);
        for (int first = 0, count; first < o->n_out; first += count) {
            count = 1 + (int)draw_below(d, 90), count = MIN(count, o->n_out - first);
            run(level, type, o, row, rows, first, count);
        }
    }
    CHECK_MSG(!memcmp(whole, o->y, bytes), "%s %d x %d x %d: in stretches", dtype_name(type), o->n, o->n_out, o->k);
    free(whole);
}

TEST(kernels_blas_products_are_near_the_exact_sums) {
    static const int shapes[][3] = {{1, 1, 64},    {5, 3, 128},    {16, 64, 64},
                                    {17, 65, 192}, {33, 130, 320}, {2, 70, 1536}};
    static const int odd[] = {1, 5, 64, 77, 333};
    const Kernels *level = blas_level();
    Draws d = draws_open(5, DRAW_TEST, 0);
    REQUIRE(level);
    for (Dtype type = DTYPE_F32; type <= DTYPE_I8; type++)
        for (size_t s = 0; s < COUNTOF(shapes); s++) {
            int k = type == DTYPE_I8 ? shapes[s][2] : odd[s % COUNTOF(odd)];
            Operands o = operands_new(&d, shapes[s][0], shapes[s][1], k);
            prepare(type, &o);
            for (int i = 0; i < o.n * (o.n_out + 1); i++) o.y[i] = 7;
            run(level, type, &o, 0, o.n, 0, o.n_out);
            check_near(type, &o);
            if (!blas_fault()) check_stretches(level, type, &o, &d);
            operands_free(&o);
        }
}

TEST(kernels_blas_propagates_what_is_not_finite) {
    float x[2 * 70] = {0}, w[3 * 70], y[2 * 3];
    for (int i = 0; i < 3 * 70; i++) w[i] = 1;
    x[3] = INFINITY, x[70 + 69] = NAN, w[2 * 70 + 3] = 0;
    REQUIRE(blas_level());
    blas_level()->gemm_f32(2, 3, 70, x, 70, w, y, 3);
    CHECK(isinf(y[0]) && isinf(y[1]) && isnan(y[2]) && isnan(y[3]) && isnan(y[4]) && isnan(y[5]));
}

/* What can be written: malloc reserves 64 MiB for a thread that another one held up, and touches little of it. */
static long mapped_mb(void) {
    long pages = 0;
    FILE *f = fopen("/proc/self/statm", "r");
    CHECK(f && fscanf(f, "%*d %*d %*d %*d %*d %ld", &pages) == 1);
    if (f) fclose(f);
    return pages * (sysconf(_SC_PAGESIZE) >> 10) >> 10;
}

/* A buffer of OpenBLAS has 16 MiB or more. Kernels for small products need none (SkylakeX): OPENBLAS_CORETYPE=Haswell
 * shows others. The team starts first: its threads map stacks. */
TEST(kernels_blas_maps_nothing_while_it_multiplies) {
    enum { TEAM = 6, PRODUCTS = FEWER(1000), SIDE = BLAS_OUTS * BLAS_DEPTH };
    static float a[SIDE], b[SIDE], c[TEAM][BLAS_ROWS * BLAS_OUTS];
    int team = team_size(), members = 0;
    team_resize(TEAM);
#pragma omp parallel reduction(+ : members)
    members++;
    blas_map_buffers();
    long before = mapped_mb();
#pragma omp parallel
    for (int i = 0; i < PRODUCTS; i++) blas_product(i % 2, a, b, c[team_member()]);
    long after = mapped_mb();
    team_resize(team);
    CHECK_MSG(after - before < 16, "%ld MiB more are mapped after products of %d threads", after - before, members);
}
