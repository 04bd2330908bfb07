/* optimizer: AdamW and plain gradient descent with decoupled decay over the flat buffers of all parameters
 * (docs/spec.md 5). With a = lr lr_scale(parameter):
 *
 *     m = b1 m + (1 - b1) g     v = b2 v + (1 - b2) g^2
 *     w = w (1 - a decay) - a (m / (1 - b1^t)) / (sqrt(v / (1 - b2^t)) + eps)
 *
 *     m = momentum m + g        w = w (1 - a decay) - a m                           (descent; v stays 0)
 *
 * One pass over memory, split among the OpenMP team; the bits depend on neither the team nor the order it works in.
 * Of many ranks (slices.h) each updates what it owns and gets the rest from the others. g comes as the sum of the step
 * (step_sum.h); one of integers is read as floats no longer than it takes to use them.
 *
 * Weights are whole, w, or in slices: then of w in f32, the master weights, a rank has what it owns alone, and for
 * computing there is beside it on every rank what the others need of it: BF16 of each Param.product, F32 of the rest.
 */
#ifndef NOISED_OPTIMIZER_H
#define NOISED_OPTIMIZER_H

#include "base/arena.h"
#include "model/params.h"
#include "trainer/ranks/step_sum.h"
#include "trainer/recipe.h"

typedef struct Optimizer {
    size_t n; /* params_trained */
    Arena memory;
    float *w;            /* [n], in the order of the ParamSet; NULL: in slices */
    float *master;       /* [slices.owned] in slices; NULL: whole */
    unsigned char *held; /* what is computed with: w, or as said above */
    size_t *at;          /* [slices.n + 1] bytes of held before a slice */
    float *m, *v;        /* [slices.owned]: with one rank all */
    GradientSum sum;
    Slices slices;
    double *partial; /* [slices.n] sums of squares; of a sum of floats its own */
} Optimizer;

/* Bytes, of this rank, all of ps being trained in steps of so many micro-batches. */
size_t optimizer_memory(const ParamSet *ps, bool in_slices, int64_t micro_batches);

/* Allocates the buffers, zeroed but for the sum, and binds the parameters to held. ps must stay as it is. */
void optimizer_init(Optimizer *o, ParamSet *ps, bool in_slices, int64_t micro_batches);
void optimizer_free(Optimizer *o);

float *optimizer_master(const Optimizer *o, const Slice *s); /* w of a slice; in slices of one that this rank owns */
/* w of slice `slice` becomes x, on a rank that does not own it what is held of it. */
void optimizer_take(const Optimizer *o, int slice, const float *x);

/* Step t = 1, 2, ... by the recipe, but at this rate, with the mean of as many micro-batches, clipped by its global
 * norm as min(1, clip / norm). A sum of floats is zeros again behind it. Returns the norm before clipping. */
double optimizer_step(Optimizer *o, const Recipe *r, double lr, int64_t t, int64_t micro_batches);

#endif
