/* tape: remembers the ops of one forward pass and runs their derivatives in reverse.
 *
 * An op allocates its result with tape_mat, computes it, and, while recording, pushes a backward function with a
 * context that lives in the same arena. Not recording, a Tape is a plain arena and dx is NULL everywhere.
 * A backward function adds into the dx of its inputs and into the grad of its weights; it never overwrites. */
#ifndef NOISED_TAPE_H
#define NOISED_TAPE_H

#include "tensor.h"

typedef struct TapeNode TapeNode;
typedef struct Tape {
    Arena arena;
    bool recording;
    TapeNode *last;
    Mat *penalty; /* [1, 1] sum of what layers want added to the loss (the noise KL); NULL when nothing does */
} Tape;

void tape_init(Tape *t, bool recording);
void tape_free(Tape *t);
void tape_reset(Tape *t); /* forgets all nodes and activations; keeps the memory */

Mat *tape_mat(Tape *t, int n, int d);                /* x uninitialised, dx zeroed when recording */
Mat *tape_view(Tape *t, const Mat *m, int n, int d); /* the same memory in another shape: n d = m->n m->d */
void *tape_alloc(Tape *t, size_t bytes);             /* uninitialised, lives as long as the activations */
void tape_push(Tape *t, void (*backward)(void *context), void *context); /* only while recording */

/* d loss / d everything: loss is [1, 1]. */
void tape_backward(Tape *t, Mat *loss);

#endif
