/* footprint: what a model's activations will take, told from its config before anything is allocated. Sums over what
 * the ops keep of a row (tape_mat), rounded up: in training what is really taken or up to half as much again, in
 * serving, where the cache is what counts, up to four times (tests hold both). */
#ifndef NOISED_FOOTPRINT_H
#define NOISED_FOOTPRINT_H

#include "model/transformer.h"

/* Bytes of the tape while `rows` rows are trained on, values and gradients; m needs to be declared only. */
size_t footprint_training(const Model *m, int64_t rows, bool recompute);

/* Bytes of the arena while `rows` rows are served and the logits of `wanted` of them are computed. */
size_t footprint_serving(const Model *m, int64_t rows, int64_t wanted, KvForm form);

#endif
