/* masks: what a fill-mask model has to guess. Of the tokens of a window, but for the one between texts, 15% are chosen;
 * 80% of these become the mask, 10% any token, 10% stay (BERT). A pure function of (seed, window, position),
 * docs/spec.md 7.
 */
#ifndef NOISED_MASKS_H
#define NOISED_MASKS_H

#include "model/config.h"

#define MASK_TOKEN "<mask>"

/* tokens[n] are masked in place, targets[n] become what they were, weights[n] 1 where one was chosen, else 0. Returns
 * how many were. */
int masks_apply(const Config *c, uint64_t seed, uint64_t window, int n, int *tokens, int *targets, float *weights);

#endif
