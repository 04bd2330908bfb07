/* linear: y = x W^T + b, plus the NOBLE branch when the config has one. NOBLE lives here and nowhere else:
 *     y = W x + b + up act(down x),   cosnet of two layers: act(h) = cos(f_out (M cos(f_in h + p_in)) + p_out),
 * and of three a cosine with a frequency and a phase of its own between the two.
 * Only linears of a block carry a branch; embeddings and the head do not. */
#ifndef NOISED_LINEAR_H
#define NOISED_LINEAR_H

#include "model/forward.h"
#include "model/params.h"

typedef struct Noble {
    Weight down, up;          /* [r, in], [out, r] */
    Weight mix[2];            /* [r, r]: layers - 1 of them */
    Weight freq[3], phase[3]; /* [r], one a layer; cosnet only */
} Noble;

typedef struct Linear {
    Weight w; /* [out, in] */
    Weight b; /* [out]; data NULL and no dims without bias */
    Noble noble;
    bool has_bias, has_noble;
} Linear;

/* Its place in a block, which decides on its bias (Config.bias) and its start: what is added to the residual stream
 * starts at 0.02 / sqrt(2 L) instead of 0.02. With a noble object all start at 0.5 / sqrt(in), of rank 0 too, which has
 * no branches: a host that starts as NOBLE does, or at 1 / sqrt(in), as the paper's (recipe kaiming). */
typedef enum LinearPlace { LINEAR_QKV, LINEAR_OUT, LINEAR_UP, LINEAR_DOWN } LinearPlace;

/* Declares <name>.weight, <name>.bias if cfg->bias says so, <name>.noble.* if cfg->noble. */
void linear_declare(Linear *l, ParamSet *ps, const Config *c, const char *name, int in, int out, LinearPlace place);
Mat *linear(Forward *f, const Linear *l, Mat *x); /* [n, in] -> [n, out] */
/* n linears of the same x, LINEARS_MOST / 2 at most (op.h): y[i] = linear(f, l[i], x), sooner. */
void linears(Forward *f, int n, const Linear *const *l, Mat *x, Mat **y);

#endif
