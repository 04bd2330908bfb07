/* norm: layernorm or rmsnorm with gain (and bias for layernorm when the config has biases). */
#ifndef NOISED_NORM_H
#define NOISED_NORM_H

#include "model/forward.h"
#include "model/params.h"

typedef struct Norm {
    Weight w, b; /* [d] */
    NormKind kind;
    bool has_bias;
    float eps;
} Norm;

void norm_declare(Norm *n, ParamSet *ps, const Config *c, const char *name);
/* An RMS norm of any width with a gain: the inner norms of mla. */
void norm_declare_rms(Norm *n, ParamSet *ps, const Config *c, const char *name, int width);
Mat *norm(Forward *f, const Norm *n, Mat *x);

#endif
