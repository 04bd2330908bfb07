/* sas: simulated attention score (docs/spec.md 3). Base q, k, v of H heads become Hx heads of Dx features (v keeps its
 * width), by two convolutions over the heads along the feature axis and two linears over the features:
 *     X2 = X1 + conv(relu(X1)), X1 = conv(X);   Y2 = Y1 + relu(Y1) W_out^T + b, Y1 = X2 W_in^T + b   (SAS eq. 5-11)
 * with kernel 0 the first step is left out, with Dx = D the second,
 * and the outputs of consecutive groups of H heads are averaged before o_proj (PEAA, eq. 12). */
#ifndef NOISED_SAS_H
#define NOISED_SAS_H

#include "model/forward.h"
#include "model/params.h"

typedef struct SasStack {
    Weight head_in_w, head_in_b, head_out_w, head_out_b;             /* [Hx, H, kernel] [Hx] [Hx, Hx, kernel] [Hx] */
    Weight feature_in_w, feature_in_b, feature_out_w, feature_out_b; /* [Dx, D] [Dx] [Dx, Dx] [Dx] */
    bool has_heads, has_features;
} SasStack;

typedef struct Sas {
    SasStack q, k, v;
} Sas;

void sas_declare(Sas *s, ParamSet *ps, const Config *c);

/* x [n, H D] -> [n, Hx Dx]; serving, SAS_ROWS go all the way at a time. */
enum { SAS_ROWS = 32 };
Mat *sas_expand(Forward *f, const SasStack *s, Mat *x);
/* [n, Hx Dv] -> [n, H Dv]: mean over the Hx / H groups. */
Mat *sas_aggregate(Forward *f, Mat *x);

#endif
