/* layer_gradients: where backward passes leave the gradients of a micro-batch until they are added up. What belongs to
 * no layer has a place of its own. Layers get theirs one after the other, from the last one down (Tape.reached), so
 * they share: one place, or two in turn where one is still being sent while the next is computed.
 *
 * A part is what follows in the flat order and belongs to the same layer, or to none. */
#ifndef NOISED_LAYER_GRADIENTS_H
#define NOISED_LAYER_GRADIENTS_H

#include "model/params.h"

typedef struct GradientPart {
    size_t first, n; /* floats in the flat order */
    int layer;       /* -1: none */
    float *g;        /* [n]; zeros before its turn, and whoever has taken it clears it again */
} GradientPart;

typedef struct LayerGradients {
    GradientPart *parts; /* in the flat order */
    int n;
    float *memory; /* NULL: somebody else's */
} LayerGradients;

/* Points the weights' grad there. places: 1 or 2, or 0: all, in the flat order, is where each part has its own. */
void layer_gradients_init(LayerGradients *l, const ParamSet *ps, int places, float *all);
void layer_gradients_free(LayerGradients *l);
size_t layer_gradients_memory(const ParamSet *ps, int places); /* bytes, without all */

int layer_gradients_part(const LayerGradients *l, int layer); /* the number of the first part of that layer */
void gradient_part_clear(const GradientPart *p);

#endif
