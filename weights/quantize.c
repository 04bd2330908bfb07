#include "weights/quantize.h"

#include "base/err.h"
#include "model/kernels/kernels.h"

#include <math.h>
#include <string.h>

Dtype quantize_dtype(const Param *p, Dtype dtype) {
    const Weight *w = p->weight;
    if (!p->matrix) return DTYPE_F32;
    if (w->n_dims != 2 || w->dims[1] % INT8_GROUP) return DTYPE_BF16;
    return dtype == DTYPE_I4 && p->bin > 0 && w->dims[0] % INT4_OUTS == 0 ? DTYPE_I4 : DTYPE_I8;
}

int quantize_weight(const Weight *w, int8_t *codes, float *scales, Err *err) {
    size_t n_groups = weight_count(w) / INT8_GROUP;
    for (size_t g = 0; g < n_groups; g++) {
        float values[INT8_GROUP];
        weight_read(w, g * INT8_GROUP, INT8_GROUP, values);
        kernels->to_int8(INT8_GROUP, values, codes + g * INT8_GROUP, scales + g);
        if (isnan(scales[g])) return err_set(err, "%s holds NaN or infinity and cannot become int8", w->name);
    }
    return 0;
}

/* ---- 4 bits ---- */

typedef struct Group4 {
    int codes[INT4_GROUP];
    uint16_t scale;
    float error;
} Group4;

static void round_codes(const float *x, float inverse, int codes[INT4_GROUP]) {
    for (int i = 0; i < INT4_GROUP; i++) codes[i] = (int)lrintf(MIN(MAX(x[i] * inverse, -8.0f), 7.0f));
}

/* The least squares' scale of codes that another one gave, and the codes that it gives in turn. */
static Group4 fit_group(const float *x, float inverse) {
    Group4 g = {0};
    float products = 0, squares = 0;
    round_codes(x, inverse, g.codes);
    for (int i = 0; i < INT4_GROUP; i++) {
        float c = (float)g.codes[i];
        products += x[i] * c;
        squares += c * c;
    }
    g.scale = f32_to_f16(squares > 0 ? products / squares : 0);
    float s = f16_to_f32(g.scale);
    round_codes(x, s != 0 ? 1 / s : 0, g.codes);
    for (int i = 0; i < INT4_GROUP; i++) {
        float miss = x[i] - s * (float)g.codes[i];
        g.error += miss * miss;
    }
    return g;
}

/* Tries scales that put the largest element between -6.4 and -9.6, or 5.6 and 8.4, so that it is cut off at times. */
static Group4 best_group(const float *x) {
    enum { TRIES = 33 };
    float largest = 0;
    for (int i = 0; i < INT4_GROUP; i++)
        if (fabsf(x[i]) > fabsf(largest)) largest = x[i];
    Group4 best = {0};
    if (largest == 0 || isinf(1 / largest)) return best;
    best.error = INFINITY;
    for (int t = 0; t < TRIES; t++) {
        float place = 0.8f + 0.0125f * (float)t;
        for (int end = -8; end <= 7; end += 15) {
            Group4 g = fit_group(x, place * (float)end / largest);
            if (g.error < best.error) best = g;
        }
    }
    return best;
}

static void store_group(const Group4 *g, size_t o, uint8_t block[INT4_BLOCK]) {
    enum { HALF = INT4_GROUP / 2 };
    for (int i = 0; i < HALF; i++) {
        int low = g->codes[i] + 8, high = g->codes[HALF + i] + 8;
        block[((size_t)(i / 4) * INT4_OUTS + o) * 4 + (size_t)(i % 4)] = (uint8_t)(low | high << 4);
    }
}

int quantize_weight4(const Weight *w, uint8_t *codes, uint16_t *scales, Err *err) {
    size_t out = (size_t)w->dims[0], in = (size_t)w->dims[1], groups = in / INT4_GROUP, bad = 0;
#pragma omp parallel for schedule(static) reduction(+ : bad)
    for (size_t o = 0; o < out; o++)
        for (size_t g = 0; g < groups; g++) {
            float x[INT4_GROUP];
            size_t block = o / INT4_OUTS * groups + g;
            weight_read(w, o * in + g * INT4_GROUP, INT4_GROUP, x);
            for (int i = 0; i < INT4_GROUP; i++) bad += !(fabsf(x[i]) <= 8 * 65504.0f);
            Group4 best = best_group(x);
            store_group(&best, o % INT4_OUTS, codes + block * INT4_BLOCK);
            scales[block * INT4_OUTS + o % INT4_OUTS] = best.scale;
        }
    return bad ? err_set(err, "%s holds NaN, infinity or more than %d and cannot become int4", w->name, 8 * 65504) : 0;
}
