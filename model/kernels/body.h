/* body: every kernel, written once. ref.c, avx2.c and avx512.c each include one lanes_<isa>.h and then this file, are
 * compiled with that ISA's flags and export one table; all functions are static, so no code leaks between levels.
 *
 * Why all levels give the same bits:
 *   - reductions run in sixteen virtual lanes (type Vec), however many registers hold them, and end in vec_sum's tree;
 *     missing elements of the last vector count as +0;
 *   - everything else is one element at a time: plain C loops (math_body.h, rows_body.h) that the compiler vectorises;
 *   - a * b + c is fused only where vec_fma or fmaf says so (-ffp-contract=off), and nothing is reassociated. */
#ifndef NOISED_KERNELS_BODY_H
#define NOISED_KERNELS_BODY_H

#include "isa.h"

#define INLINE static inline __attribute__((always_inline))

enum { LANES = 16 };

#include "gemm_body.h"
#include "attention_body.h"
#include "math_body.h"
#include "rows_body.h"
#include "int8_body.h"
#include "noise_body.h"

#define KERNELS_TABLE(isa)                                                                                             \
    {                                                                                                                  \
        .name = isa, .gemm_f32 = gemm_f32, .gemm_bf16 = gemm_bf16, .gemm_f16 = gemm_f16, .gemm_i8 = gemm_i8,           \
        .to_bf16 = to_bf16, .to_int8 = to_int8, .scores_f32 = scores_f32, .scores_bf16 = scores_bf16,                  \
        .mix_f32 = mix_f32, .mix_bf16 = mix_bf16, .softmax_row = softmax_row, .exp_sum_row = exp_sum_row,              \
        .max_row = max_row, .layernorm_row = layernorm_row, .rmsnorm_row = rmsnorm_row, .add_row = add_row,            \
        .gelu_row = gelu_row, .gelu_tanh_row = gelu_tanh_row, .silu_row = silu_row, .tanh_row = tanh_row,              \
        .cos_row = cos_row, .gaussians = gaussians, .gaussian_bits = gaussian_bits,                                    \
    }

#endif
