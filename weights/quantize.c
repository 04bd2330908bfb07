#include "quantize.h"

#include <math.h>

bool quantize_fits(const Weight *w) { return w->n_dims == 2 && w->dims[1] % QUANTIZE_GROUP == 0; }

static float quantize_group(const float *w, int8_t *codes) {
    float largest = 0;
    for (int i = 0; i < QUANTIZE_GROUP; i++) largest = fmaxf(largest, fabsf(w[i]));
    float scale = largest / 127;
    for (int i = 0; i < QUANTIZE_GROUP; i++) {
        /* A subnormal scale is coarse: it may be 0, or leave quotients above 127. */
        float q = scale > 0 ? nearbyintf(w[i] / scale) : 0;
        codes[i] = (int8_t)fminf(fmaxf(q, -127), 127);
    }
    return scale;
}

int quantize_weight(const Weight *w, int8_t *codes, float *scales, Err *err) {
    BUG_ON(!quantize_fits(w) || w->dtype == DTYPE_I8);
    size_t n_groups = weight_count(w) / QUANTIZE_GROUP;
    for (size_t g = 0; g < n_groups; g++) {
        float values[QUANTIZE_GROUP], sum = 0;
        weight_read(w, g * QUANTIZE_GROUP, QUANTIZE_GROUP, values);
        for (int i = 0; i < QUANTIZE_GROUP; i++) sum += 0 * values[i]; /* NaN as soon as one is not finite */
        if (isnan(sum)) return err_set(err, "%s holds NaN or infinity and cannot become int8", w->name);
        scales[g] = quantize_group(values, codes + g * QUANTIZE_GROUP);
    }
    return 0;
}
