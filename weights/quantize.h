/* quantize: a matrix as int8 codes (spec 2.3): one scale per row and group of 64 inputs, w = scale code, code in
 * -127..127, scale = max |w| / 127 of the group, nearest code (ties to even). A group of zeros has scale 0. */
#ifndef NOISED_QUANTIZE_H
#define NOISED_QUANTIZE_H

#include "../model/tensor.h"

enum { QUANTIZE_GROUP = 64 };

/* Two dimensions, the second a multiple of 64. */
bool quantize_fits(const Weight *w);

/* w [out, in] F32, BF16 or F16 -> codes [out, in], scales [out, in/64]; -1 when w holds NaN or infinity. */
int quantize_weight(const Weight *w, int8_t *codes, float *scales, Err *err);

#endif
