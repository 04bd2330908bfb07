#include "base/memory.h"
#include "model/params.h"
#include "tests/support/test.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static const Init normal = {.kind = INIT_NORMAL, .a = 1, .b = 0.5f};

TEST(params_declare) {
    ParamSet ps = {0};
    Weight w[3];
    size_t outer = params_enter(&ps, "layers.%d.", 7), inner = params_enter(&ps, "attn.");
    ps.bin = 8;
    param_declare(&ps, &w[0], "q.weight", 2, (int[]){3, 5}, normal);
    params_leave(&ps, inner);
    param_declare(&ps, &w[1], "norm.weight", 1, (int[]){5}, normal)->lr_scale = 2;
    params_leave(&ps, outer);
    ps.bin = 0;
    param_declare(&ps, &w[2], "pair.weight", 3, (int[]){2, 3, 4}, normal);
    CHECK(ps.n == 3 && params_count(&ps) == 15 + 5 + 24 && ps.prefix[0] == 0);
    const Param *q = params_find(&ps, "layers.7.attn.q.weight"), *norm = params_find(&ps, "layers.7.norm.weight");
    const Param *pair = params_find(&ps, "pair.weight");
    REQUIRE(q && norm && pair && !params_find(&ps, "q.weight"));
    CHECK(q->matrix && q->decay && q->bin == 8 && q->weight == &w[0] && w[0].dims[1] == 5);
    CHECK(!norm->matrix && !norm->decay && norm->bin == 8 && norm->lr_scale == 2);
    CHECK(!pair->matrix && pair->decay && pair->bin == 0);
    float data[44], grad[44];
    params_bind_flat(&ps, data, grad);
    CHECK(w[0].data == data && w[1].data == data + 15 && w[2].grad == grad + 20 && w[2].dtype == DTYPE_F32);
    params_free(&ps);
}

/* Draws depend on seed and name alone: neither on what else is declared nor on the order. */
TEST(params_init) {
    enum { N = 20000 };
    ParamSet ps = {0};
    Weight w[2], other;
    float *a = xmalloc(N * sizeof *a), *b = xmalloc(N * sizeof *b);
    param_declare(&ps, &w[0], "a", 1, (int[]){N}, normal);
    param_init(&ps.params[0], 3, a);
    params_free(&ps);
    param_declare(&ps, &other, "b", 1, (int[]){N}, normal);
    param_declare(&ps, &w[1], "a", 1, (int[]){N}, normal);
    param_init(&ps.params[1], 3, b);
    CHECK(!memcmp(a, b, N * sizeof *a));
    param_init(&ps.params[0], 3, b);
    CHECK(memcmp(a, b, N * sizeof *a));
    param_init(&ps.params[1], 4, b);
    CHECK(memcmp(a, b, N * sizeof *a));
    double sum = 0, squares = 0;
    for (int i = 0; i < N; i++) {
        sum += a[i];
        squares += (a[i] - 1.0) * (a[i] - 1.0);
    }
    CHECK(fabs(sum / N - 1) < 0.02 && fabs(sqrt(squares / N) - 0.5) < 0.01);
    ps.params[0].init = (Init){.kind = INIT_UNIFORM, .a = -2, .b = -1};
    param_init(&ps.params[0], 3, b);
    for (int i = 0; i < N; i++) CHECK(b[i] >= -2 && b[i] <= -1);
    ps.params[0].init = (Init){.kind = INIT_CONSTANT, .a = 7};
    param_init(&ps.params[0], 3, b);
    CHECK(b[0] == 7 && b[N - 1] == 7);
    params_free(&ps);
    free(a);
    free(b);
}

/* Of the elements, not of the tensors: 4-bit layers beside an int8 embedding are a model of 4 bits. */
TEST(params_dtype_is_that_of_most) {
    Weight w[] = {{.dtype = DTYPE_I8, .n_dims = 2, .dims = {20, 10}},
                  {.dtype = DTYPE_F32, .n_dims = 1, .dims = {30}},
                  {.dtype = DTYPE_I4, .n_dims = 2, .dims = {16, 16}},
                  {.dtype = DTYPE_F32, .n_dims = 1, .dims = {40}}};
    Param params[COUNTOF(w)];
    for (size_t i = 0; i < COUNTOF(w); i++) params[i] = (Param){.weight = &w[i]};
    ParamSet ps = {.params = params, .n = COUNTOF(w)};
    CHECK(params_dtype(&ps) == DTYPE_I4 && !strcmp(dtype_said(DTYPE_I4), "I4") && !strcmp(dtype_said(DTYPE_I8), "I8"));
    w[0].dims[0] = 30;
    CHECK(params_dtype(&ps) == DTYPE_I8);
}

/* Every one of the 65,536 halves, against the definition. */
TEST(tensor_f16) {
    for (int h = 0; h < 65536; h++) {
        int exponent = h >> 10 & 31, mantissa = h & 1023;
        double v = exponent == 0 ? ldexp(mantissa, -24) : ldexp(1024 + mantissa, exponent - 25);
        if (exponent == 31) v = mantissa ? NAN : INFINITY;
        float got = f16_to_f32((uint16_t)h);
        CHECK_MSG(isnan(v) ? isnan(got) : got == (h >> 15 ? -v : v), "%04x -> %g", (unsigned)h, (double)got);
        CHECK(isnan(v) || !signbit(got) == !(h >> 15));
    }
}

TEST(tensor_weight_read) {
    static const uint16_t halves[6] = {0x3F80, 0xC000, 0x0000, 0x4040, 0x4080, 0x40A0};
    Weight w = {.dtype = DTYPE_BF16, .n_dims = 2, .dims = {2, 3}, .data = (void *)halves};
    float out[3];
    CHECK(weight_count(&w) == 6 && weight_count(&(Weight){0}) == 0);
    weight_read(&w, 3, 3, out);
    CHECK(out[0] == 3 && out[1] == 4 && out[2] == 5);
    weight_read(&w, 6, 0, out);
    CHECK(dtype_size(DTYPE_I8) == 1 && !strcmp(dtype_name(DTYPE_BF16), "BF16"));
}
