/* body: every kernel, written once. ref.c, avx2.c, avx512.c and neon.c each include one vectors/lanes_<isa>.h and then
 * this file, are compiled with that ISA's flags and export one table; all functions are static, so no code leaks
 * between levels. avx2vnni.c, avx512vnni.c, avx512bf16.c, neondot.c and neonbf16.c do the same for the entries that
 * they replace, and amx.c (see isa.h) replaces some of avx512bf16's.
 *
 * Why all levels give the same bits:
 *   - reductions run in sixteen virtual lanes (type Vec), however many registers hold them, and end in vec_sum's tree;
 *     missing elements of the last vector count as +0;
 *   - everything else is one element at a time: plain C loops (math_body.h, rows_body.h) that the compiler vectorises;
 *   - a * b + c is fused only where vec_fma or fmaf says so (-ffp-contract=off), and nothing is reassociated. */
#ifndef NOISED_KERNELS_BODY_H
#define NOISED_KERNELS_BODY_H

#include "base/fixed_math.h"
#include "model/kernels/isa.h"

#include <float.h>
#include <limits.h>

#include "model/kernels/gemm_factors_body.h"
#ifdef PANELS_FROM
#include "model/kernels/gemm_panels_body.h"
#endif
#include "model/kernels/gemm_body.h"
#include "model/kernels/attention_body.h"
#include "model/kernels/math_body.h"
#include "model/kernels/rows_body.h"
#include "model/kernels/int8_body.h"
#include "model/kernels/int4_body.h"
#include "model/kernels/noise_body.h"
#include "model/kernels/train_body.h"
#include "model/kernels/train_rows_body.h"

static const TrainKernels train_kernels = TRAIN_TABLE;

#define KERNELS_TABLE(isa)                                                                                             \
    {                                                                                                                  \
        .name = isa, .others = "", .arithmetic = "common", .arithmetic_bf16 = "common", .gemm_f32 = gemm_f32,          \
        .gemm_bf16 = gemm_bf16, .gemm_f16 = gemm_f16, .gemm_i8 = gemm_i8, .gemm_i4 = gemm_i4, .to_bf16 = to_bf16,      \
        .to_int8 = to_int8, .scores_f32 = scores_f32, .scores_pairs = scores_pairs, .mix_f32 = mix_f32,                \
        .mix_bf16 = mix_bf16, .mix_pairs = mix_pairs, .online_softmax_row = online_softmax_row,                        \
        .scale_row = scale_row, .add_affine_row = add_affine_row, .clean_row = clean_row, .weigh_row = weigh_row,      \
        .softmax_row = softmax_row, .exp_sum_row = exp_sum_row, .max_row = max_row, .layernorm_row = layernorm_row,    \
        .rmsnorm_row = rmsnorm_row, .add_row = add_row, .gelu_row = gelu_row, .gelu_tanh_row = gelu_tanh_row,          \
        .silu_row = silu_row, .sigmoid_row = sigmoid_row, .tanh_row = tanh_row, .cos_row = cos_row,                    \
        .lstm_row = lstm_row, .gaussians = gaussians, .gaussian_bits = gaussian_bits, .normals = normals,              \
        .components = components, .add_mixture_row = add_mixture_row, .train = &train_kernels,                         \
    }

#endif
