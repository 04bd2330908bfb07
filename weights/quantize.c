#include "weights/quantize.h"

#include "base/err.h"
#include "model/kernels/kernels.h"

#include <math.h>

bool quantize_fits(const Weight *w) { return w->n_dims == 2 && w->dims[1] % INT8_GROUP == 0; }

int quantize_weight(const Weight *w, int8_t *codes, float *scales, Err *err) {
    BUG_ON(!quantize_fits(w) || w->dtype == DTYPE_I8);
    size_t n_groups = weight_count(w) / INT8_GROUP;
    for (size_t g = 0; g < n_groups; g++) {
        float values[INT8_GROUP];
        weight_read(w, g * INT8_GROUP, INT8_GROUP, values);
        kernels->to_int8(INT8_GROUP, values, codes + g * INT8_GROUP, scales + g);
        if (isnan(scales[g])) return err_set(err, "%s holds NaN or infinity and cannot become int8", w->name);
    }
    return 0;
}
