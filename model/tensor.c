#include "model/tensor.h"

#include "base/err.h"

#include <math.h>
#include <string.h>

static const struct {
    const char *name;
    size_t size;
} dtypes[] = {
    [DTYPE_F32] = {"F32", 4}, [DTYPE_BF16] = {"BF16", 2}, [DTYPE_F16] = {"F16", 2},
    [DTYPE_I8] = {"I8", 1},   [DTYPE_I4] = {"U8", 1},
};

size_t dtype_size(Dtype t) { return dtypes[t].size; }

const char *dtype_name(Dtype t) { return dtypes[t].name; }

const char *dtype_said(Dtype t) { return t == DTYPE_I4 ? "I4" : dtype_name(t); }

size_t weight_count(const Weight *w) {
    size_t n = w->n_dims > 0;
    for (int i = 0; i < w->n_dims; i++) n *= (size_t)w->dims[i];
    return n;
}

float f16_to_f32(uint16_t h) {
    uint32_t sign = (uint32_t)(h & 0x8000) << 16, exponent = h >> 10 & 31, mantissa = h & 1023;
    if (exponent == 0) { /* zero and subnormals: mantissa 2^-24 */
        float f = ldexpf((float)mantissa, -24);
        return sign ? -f : f;
    }
    union {
        uint32_t u;
        float f;
    } v = {.u = sign | (exponent == 31 ? 255 : exponent + 127 - 15) << 23 | mantissa << 13};
    return v.f;
}

uint16_t f32_to_f16(float f) {
    union {
        float f;
        uint32_t u;
    } v = {.f = f};
    uint32_t sign = v.u >> 16 & 0x8000, size = v.u & 0x7fffffff;
    if (size > 0x7f800000) return (uint16_t)(sign | 0x7e00);
    if (size < 0x38800000) return (uint16_t)(sign | (uint32_t)lrintf(fabsf(f) * 0x1p24f)); /* a multiple of 2^-24 */
    uint32_t rounded = size + 0xfff + (size >> 13 & 1) - 0x38000000;
    return (uint16_t)(sign | MIN(rounded >> 13, 0x7c00));
}

float int4_element(const uint8_t *codes, const uint16_t *scales, size_t in, size_t row, size_t column) {
    size_t block = row / INT4_OUTS * (in / INT4_GROUP) + column / INT4_GROUP, o = row % INT4_OUTS;
    size_t at = column % INT4_GROUP, half = INT4_GROUP / 2;
    uint8_t both = codes[block * INT4_BLOCK + (at % half / 4 * INT4_OUTS + o) * 4 + at % 4];
    return (float)((at < half ? both & 15 : both >> 4) - 8) * f16_to_f32(scales[block * INT4_OUTS + o]);
}

void weight_read(const Weight *w, size_t first, size_t n, float *out) {
    BUG_ON(first > weight_count(w) || n > weight_count(w) - first);
    const uint16_t *half = (const uint16_t *)w->data + first;
    const int8_t *code = w->data;
    switch (w->dtype) {
    case DTYPE_BF16:
        for (size_t i = 0; i < n; i++) out[i] = bf16_to_f32(half[i]);
        break;
    case DTYPE_F16:
        for (size_t i = 0; i < n; i++) out[i] = f16_to_f32(half[i]);
        break;
    case DTYPE_I8: /* rows are whole groups, so groups can be counted from the first row on */
        for (size_t i = 0; i < n; i++) out[i] = (float)code[first + i] * w->scale[(first + i) / INT8_GROUP];
        break;
    case DTYPE_I4:
        for (size_t i = 0, in = (size_t)w->dims[1]; i < n; i++)
            out[i] = int4_element(w->data, w->scale16, in, (first + i) / in, (first + i) % in);
        break;
    case DTYPE_F32:
        memcpy(out, weight_f32(w) + first, n * sizeof *out);
    }
}
