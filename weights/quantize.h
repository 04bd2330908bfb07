/* quantize: a matrix as codes of 8 or of 4 bits (docs/spec.md 2.3): the first by the rule that activations follow too
 * (kernels.h, to_int8), the others with scales by least squares. */
#ifndef NOISED_QUANTIZE_H
#define NOISED_QUANTIZE_H

#include "base/err.h"
#include "model/params.h"

/* What p becomes in a checkpoint of `dtype`, I8 or I4: I4 for matrices of layers with whole blocks, I8 for other
 * matrices with whole groups, BF16 for the rest of them, and F32 for what is no matrix. */
Dtype quantize_dtype(const Param *p, Dtype dtype);

/* w [out, in] F32, BF16 or F16 -> codes [out, in], scales [out, in / INT8_GROUP]; -1 when w holds NaN or infinity. */
int quantize_weight(const Weight *w, int8_t *codes, float *scales, Err *err);

/* w -> codes and scales as Weight.data and Weight.scale16 of I4 (tensor.h): of each group the scale s, with codes
 * c = round(x / s) from -8 to 7, for which the sum of (x - s c)^2 is the least of those tried. -1 when w holds what is
 * not finite, or more than 8 times the largest F16. */
int quantize_weight4(const Weight *w, uint8_t *codes, uint16_t *scales, Err *err);

#endif
