/* mlp: d -> h -> d. Plain: down(act(up x)). Gated: down(act(gate x) * up x), gate and up being one linear. */
#ifndef NOISED_MLP_H
#define NOISED_MLP_H

#include "model/linear.h"

typedef struct Mlp {
    Linear up;   /* [h, d], or gate_up [2h, d] */
    Linear down; /* [d, h] */
} Mlp;

void mlp_declare(Mlp *m, ParamSet *ps, const Config *c);
Mat *mlp(Forward *f, const Mlp *m, Mat *x); /* [n, d] -> [n, d] */

#endif
