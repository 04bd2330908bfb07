/* quantize: a matrix as int8 codes (docs/spec.md 2.3), by the rule that activations follow too (kernels.h, to_int8). */
#ifndef NOISED_QUANTIZE_H
#define NOISED_QUANTIZE_H

#include "base/err.h"
#include "model/tensor.h"

/* Two dimensions, the second whole groups. */
bool quantize_fits(const Weight *w);

/* w [out, in] F32, BF16 or F16 -> codes [out, in], scales [out, in / INT8_GROUP]; -1 when w holds NaN or infinity. */
int quantize_weight(const Weight *w, int8_t *codes, float *scales, Err *err);

#endif
