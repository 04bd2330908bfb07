/* tape: remembers the ops of one forward pass and runs their derivatives in reverse.
 *
 * An op allocates its result with tape_mat, computes it, and, while recording, pushes a backward function with a
 * context that lives in the same arena. Not recording, a Tape is a plain arena and dx is NULL everywhere.
 * A backward function reads the gradient of its output by mat_gradient and adds into the grad of its weights and into
 * the dx of its inputs: by mat_gradient, or, where mat_first says that it is the first, by writing all of it.
 *
 * A dx has memory from then on until the op that made x has run backwards; the next of that size gets it. So few stand
 * at a time, however many layers there are. */
#ifndef NOISED_TAPE_H
#define NOISED_TAPE_H

#include "base/arena.h"
#include "model/tensor.h"

typedef struct TapeNode TapeNode;
typedef struct GradientBuffer GradientBuffer;
typedef struct Tape {
    Arena arena;
    Arena gradients; /* recording: every dx */
    GradientBuffer *spare;
    Mat *fresh; /* recording: made since the last node, newest first */
    bool recording;
    bool bf16; /* operands of packed matrix products (train_gemm.h) are rounded to bf16; set after tape_init, or while
                  serving by model_forward */
    bool own_bf16;  /* not recording: products of bf16 are in arithmetic_bf16, attention's too (kernels.h) */
    bool recompute; /* recording: model_forward keeps of a block its input alone; set after tape_init */
    /* Recording, and not NULL: told by tape_backward, as the first layer and those before it go on, that the weights of
     * `layer` and of all that comes behind it get no more gradient (an embedding that is the head too comes before).
     */
    void (*reached)(void *context, int layer);
    void *reached_context;
    /* Not recording, and not NULL: told what the noise of span sequence is about to be added to, [n, d], in every
     * layer. */
    void (*coded)(void *context, int layer, const Mat *x);
    void *coded_context;
    TapeNode *last;
    Mat *penalty; /* [1, 1] sum of what layers want added to the loss (the noise KL); NULL when nothing does */
} Tape;

void tape_init(Tape *t, bool recording);
void tape_free(Tape *t);
void tape_reset(Tape *t); /* forgets all nodes and activations; keeps the memory */

Mat *tape_mat(Tape *t, int n, int d);          /* x uninitialised */
Mat *tape_view(Tape *t, Mat *m, int n, int d); /* the same memory in another shape: n d = m->n m->d */
void *tape_alloc(Tape *t, size_t bytes);       /* uninitialised, lives as long as the activations */
void tape_push(Tape *t, void (*backward)(void *context), void *context); /* only while recording */

/* dx, zeros where nobody has added anything. Like the rest here not inside a parallel region. */
float *mat_gradient(Mat *m);
/* True when nobody has added into dx: then the caller must write all of m->dx, which counts as done. */
bool mat_first(Mat *m);
/* dx, which nobody has added into, in the place of x, which nobody reads any more. */
float *mat_gradient_in_place(Mat *m);
/* b takes the gradient of y, which is not in the place of y and which nobody needs any more: its buffer if b is first,
 * else by adding. */
void mat_pass_on(Mat *y, Mat *b);

/* forward(context, x), [n, d] -> [n, d], for less memory: only the values of its result and of the penalty are kept,
 * and tape_backward runs it again when its turn comes, for the same bits, in the memory of what came behind it. Of what
 * else the tape holds, forward reads x and the penalty alone. context lives as long as the activations. */
Mat *tape_recompute(Tape *t, Mat *(*forward)(void *context, Mat *x), void *context, Mat *x);

/* Where the rows go into a layer, for `reached`. */
void tape_enter_layer(Tape *t, int layer);

/* d loss / d everything: loss is [1, 1]. Of the activations nothing is to be read afterwards (tape_recompute). */
void tape_backward(Tape *t, Mat *loss);

#endif
