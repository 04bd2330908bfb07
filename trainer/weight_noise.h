/* weight_noise: Gaussian noise on the weights during training (Algorithm 1 of the noise-injection paper).
 *
 * The parameters are split into bins: one per layer, one for what belongs to no layer. Before the gradient of a step,
 *     all-*    every parameter gets N(0, sigma^2 / bins),
 *     layer-*  the parameters of one bin, drawn once for the step, get N(0, sigma^2);
 * *-before takes the gradient there and updates from where the weights were; *-after updates from where they are. */
#ifndef NOISED_PERTURB_H
#define NOISED_PERTURB_H

#include "model/params.h"

typedef enum PerturbMode {
    PERTURB_NONE,
    PERTURB_ALL_BEFORE,
    PERTURB_ALL_AFTER,
    PERTURB_LAYER_BEFORE,
    PERTURB_LAYER_AFTER
} PerturbMode;

typedef struct Perturb {
    PerturbMode mode;
    double sigma;
    uint64_t seed;
    int bin;     /* whose parameters this step moves, -1 = all */
    float *kept; /* [n] weights to go back to, of what was moved, *-before only */
} Perturb;

int perturb_bins(const ParamSet *ps);

/* Moves w (all parameters, flat) off for one step. A pure function of (seed, step), whatever the team. */
void perturb_apply(Perturb *p, const ParamSet *ps, float *w, int64_t step);
void perturb_restore(const Perturb *p, const ParamSet *ps, float *w); /* after the gradient, before the update */
void perturb_free(Perturb *p);

#endif
