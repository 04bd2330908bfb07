/* The amx level over a model of its tiles, on any machine with AVX-512; on one with tiles, the model against them. */
#include "base/err.h"
#include "base/memory.h"
#include "base/random.h"
#include "model/kernels/isa.h"
#include "tests/model/amx_machine.h"
#include "tests/support/test.h"

#if defined(__x86_64__)
#pragma GCC push_options
#pragma GCC target("avx2,fma,f16c,avx512f,avx512dq,avx512bw,avx512vl")
#include "model/kernels/vectors/lanes_avx512.h"
#include "tests/model/tiles_model.h"

#include "model/kernels/amx_body.h"
#include "model/kernels/amx_ints_body.h"

#include <stdlib.h>

enum { MAX_N = 70, MAX_OUT = 70, MAX_K = 1300, GROUPS = MAX_K / INT8_GROUP };

/* Everything lies at the end of its memory, so that a sanitizer sees what reads or writes beyond. */
typedef struct Operands {
    uint16_t *x, *w;
    int8_t *x_codes, *w_codes;
    float *x_scale, *w_scale, *y, *want, *alone;
    double *exact, *size; /* sums of the products, and of their magnitudes */
} Operands;

static Operands operands_new(Draws *d, size_t n, size_t n_out, size_t k) {
    size_t groups = k / INT8_GROUP;
    Operands o = {.x = xmalloc(n * k * sizeof *o.x), .w = xmalloc(n_out * k * sizeof *o.w)};
    o.x_codes = xmalloc(n * k), o.w_codes = xmalloc(n_out * k);
    o.x_scale = xmalloc((n * groups + 1) * sizeof(float)), o.w_scale = xmalloc((n_out * groups + 1) * sizeof(float));
    o.y = xmalloc(n * n_out * sizeof(float)), o.want = xmalloc(n * n_out * sizeof(float));
    o.alone = xmalloc(n_out * sizeof(float));
    o.exact = xcalloc(n * n_out, sizeof(double)), o.size = xcalloc(n * n_out, sizeof(double));
    for (size_t i = 0; i < n * k; i++) o.x[i] = f32_to_bf16((float)draw_normal(d));
    for (size_t i = 0; i < n_out * k; i++) o.w[i] = f32_to_bf16((float)draw_normal(d));
    for (size_t i = 0; i < n * k; i++) o.x_codes[i] = (int8_t)((int)draw_below(d, 255) - 127);
    for (size_t i = 0; i < n_out * k; i++) o.w_codes[i] = (int8_t)((int)draw_below(d, 256) - 128);
    for (size_t i = 0; i < n * groups; i++) o.x_scale[i] = (float)draw_normal(d);
    for (size_t i = 0; i < n_out * groups; i++) o.w_scale[i] = (float)draw_normal(d);
    for (size_t e = 0; e < n * n_out; e++)
        for (size_t j = 0; j < k; j++) {
            double p = (double)bf16_to_f32(o.x[e / n_out * k + j]) * (double)bf16_to_f32(o.w[e % n_out * k + j]);
            o.exact[e] += p, o.size[e] += fabs(p);
        }
    return o;
}

static void operands_free(Operands *o) {
    void *all[] = {o->x, o->w,    o->x_codes, o->w_codes, o->x_scale, o->w_scale,
                   o->y, o->want, o->alone,   o->exact,   o->size};
    for (size_t i = 0; i < COUNTOF(all); i++) free(all[i]);
}

static void check_bf16(const Kernels *hardware, Operands *o, int n, int n_out, int k) {
    size_t count = (size_t)n * (size_t)n_out, row = (size_t)n_out * sizeof(float);
    tile_gemm_bf16(n, n_out, k, o->x, k, o->w, o->y, n_out);
    for (size_t e = 0; e < count; e++)
        CHECK_MSG(fabs((double)o->y[e] - o->exact[e]) <= 1e-6 * o->size[e], "%d x %d x %d: [%zu] is %g, not %g", n,
                  n_out, k, e, (double)o->y[e], o->exact[e]);
    for (int i = 0; i < n; i++) {
        tile_gemm_bf16(1, n_out, k, o->x + (size_t)i * (size_t)k, k, o->w, o->alone, n_out);
        CHECK_MSG(!memcmp(o->alone, o->y + (size_t)(i * n_out), row), "%d x %d x %d: row %d alone", n, n_out, k, i);
    }
    if (!hardware) return;
    hardware->gemm_bf16(n, n_out, k, o->x, k, o->w, o->want, n_out);
    CHECK_MSG(!memcmp(o->want, o->y, count * sizeof(float)), "%d x %d x %d: the tiles differ", n, n_out, k);
}

static void check_i8(const Kernels *ref, const Kernels *hardware, Operands *o, int n, int n_out, int k) {
    size_t count = (size_t)n * (size_t)n_out;
    tile_gemm_i8(n, n_out, k, o->x_codes, o->x_scale, o->w_codes, o->w_scale, o->y, n_out);
    ref->gemm_i8(n, n_out, k, o->x_codes, o->x_scale, o->w_codes, o->w_scale, o->want, n_out);
    CHECK_MSG(!memcmp(o->want, o->y, count * sizeof(float)), "%d x %d x %d: int8 differs from ref", n, n_out, k);
    if (!hardware) return;
    hardware->gemm_i8(n, n_out, k, o->x_codes, o->x_scale, o->w_codes, o->w_scale, o->y, n_out);
    CHECK_MSG(!memcmp(o->want, o->y, count * sizeof(float)), "%d x %d x %d: the int8 tiles differ", n, n_out, k);
}

/* n_out is in INT4_OUTS; codes and scales of W are made here. */
static void check_i4(const Kernels *ref, const Kernels *hardware, Draws *d, int n, int n_out, int groups) {
    int outs = n_out * INT4_OUTS, k = groups * INT8_GROUP;
    size_t codes = (size_t)n * (size_t)k, w_codes = (size_t)outs * (size_t)k / 2, row = (size_t)outs * sizeof(float);
    size_t scales = (size_t)n * (size_t)groups, w_scales = (size_t)outs * (size_t)k / INT4_GROUP;
    int8_t *x = xmalloc(codes);
    uint8_t *w = xmalloc(w_codes);
    float *x_scale = xmalloc(scales * sizeof *x_scale), *y = xmalloc((size_t)n * row), *want = xmalloc((size_t)n * row);
    uint16_t *w_scale = xmalloc(w_scales * sizeof *w_scale);
    for (size_t i = 0; i < codes; i++) x[i] = (int8_t)((int)draw_below(d, 255) - 127);
    for (size_t i = 0; i < w_codes; i++) w[i] = (uint8_t)draw_below(d, 256);
    for (size_t i = 0; i < scales; i++) x_scale[i] = (float)draw_normal(d);
    for (size_t i = 0; i < w_scales; i++) w_scale[i] = f32_to_f16((float)draw_normal(d));
    ref->gemm_i4(n, outs, k, x, x_scale, w, w_scale, want, outs);
    tile_gemm_i4(n, outs, k, x, x_scale, w, w_scale, y, outs);
    CHECK_MSG(!memcmp(want, y, (size_t)n * row), "%d x %d x %d: I4 differs from ref", n, outs, k);
    if (hardware) {
        hardware->gemm_i4(n, outs, k, x, x_scale, w, w_scale, y, outs);
        CHECK_MSG(!memcmp(want, y, (size_t)n * row), "%d x %d x %d: the I4 tiles differ", n, outs, k);
    }
    void *all[] = {x, w, x_scale, w_scale, y, want};
    for (size_t i = 0; i < COUNTOF(all); i++) free(all[i]);
}

static void check_not_finite(void) {
    uint16_t x[2 * 40] = {0}, w[3 * 40];
    float y[2 * 3];
    for (int i = 0; i < 3 * 40; i++) w[i] = f32_to_bf16(1);
    x[3] = f32_to_bf16(INFINITY), x[40 + 39] = f32_to_bf16(NAN), w[2 * 40 + 3] = 0;
    tile_gemm_bf16(2, 3, 40, x, 40, w, y, 3);
    CHECK(isinf(y[0]) && isinf(y[1]) && isnan(y[2]) && isnan(y[3]) && isnan(y[4]) && isnan(y[5]));
}

/* The compiler may put AVX-512 before a test's first line: what asks for it and skips is built without. */
#pragma GCC pop_options

TEST(kernels_amx_tiles) {
    static const int ns[] = {1, 2, 15, 16, 17, 31, 32, 33, MAX_N}, outs[] = {1, 16, 17, 32, 40, MAX_OUT};
    static const int ks[] = {1, 31, 32, 33, 64, 511, 512, 577, MAX_K};
    const Kernels *hardware;
    if (!amx_can_be_modelled(&hardware)) SKIP("no AVX-512");
    Draws d = draws_open(31, DRAW_TEST, 0);
    for (size_t round = 0; round < (SANITIZED ? 18 : 60); round++) {
        int n = ns[draw_below(&d, COUNTOF(ns))], n_out = outs[draw_below(&d, COUNTOF(outs))];
        int k = ks[round % COUNTOF(ks)], groups = 1 + (int)draw_below(&d, GROUPS);
        Operands o = operands_new(&d, (size_t)n, (size_t)n_out, (size_t)k);
        check_bf16(hardware, &o, n, n_out, k);
        operands_free(&o);
        o = operands_new(&d, (size_t)n, (size_t)n_out, (size_t)(groups * INT8_GROUP));
        check_i8(&kernels_ref, hardware, &o, n, n_out, groups * INT8_GROUP);
        operands_free(&o);
        check_i4(&kernels_ref, hardware, &d, n, 1 + n_out / INT4_OUTS, groups);
    }
}

/* More elements, outputs and rows than are taken at a time. */
TEST(kernels_amx_pieces_of_bf16) {
    enum { PIECE = AMX_STEPS * AMX_BYTES / sizeof(uint16_t) };
    static const int shapes[][3] = {{18, 33, PIECE},
                                    {1, 150, 64},
                                    {32, 200, PIECE},
                                    {18, 33, PIECE + 1},
                                    {3, AMX_PAIR + 1, 2 * PIECE + 65},
                                    {AMX_ROWS + 17, AMX_OUTS + 17, 40}};
    const Kernels *hardware;
    if (!amx_can_be_modelled(&hardware)) SKIP("no AVX-512");
    Draws d = draws_open(33, DRAW_TEST, 0);
    for (size_t s = 0; s < COUNTOF(shapes) - SANITIZED; s++) {
        Operands o = operands_new(&d, (size_t)shapes[s][0], (size_t)shapes[s][1], (size_t)shapes[s][2]);
        check_bf16(hardware, &o, shapes[s][0], shapes[s][1], shapes[s][2]);
        operands_free(&o);
    }
}

/* More rows, outputs and groups than a panel has, either side the packed one. */
TEST(kernels_amx_panels_of_codes) {
    static const int shapes[][3] = {{INTS_X_TILES * AMX_TILE + 17, INTS_X_TILES * AMX_TILE + 20, 5},
                                    {INTS_X_ROWS + 1, 20, 3},
                                    {INTS_X_ROWS + 1, INTS_X_ROWS + 40, 1},
                                    {20, INTS_TILES * AMX_TILE + 50, 2},
                                    {17, 150, INTS_GROUPS},
                                    {33, 35, INTS_GROUPS + 1},
                                    {35, 18, 2 * INTS_GROUPS + 7}};
    const Kernels *hardware;
    if (!amx_can_be_modelled(&hardware)) SKIP("no AVX-512");
    Draws d = draws_open(32, DRAW_TEST, 0);
    for (size_t s = 0; s < COUNTOF(shapes); s++) {
        int n = shapes[s][0], n_out = shapes[s][1], k = shapes[s][2] * INT8_GROUP;
        Operands o = operands_new(&d, (size_t)n, (size_t)n_out, (size_t)k);
        check_i8(&kernels_ref, hardware, &o, n, n_out, k);
        operands_free(&o);
        check_i4(&kernels_ref, hardware, &d, n, 1 + n_out / INT4_OUTS, shapes[s][2]);
    }
}

TEST(kernels_amx_propagates_what_is_not_finite) {
    const Kernels *hardware;
    if (!amx_can_be_modelled(&hardware)) SKIP("no AVX-512");
    check_not_finite();
}
#endif
