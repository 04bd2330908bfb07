/* network: one row of the table of networks besides the transformer of transformer.h, which has none. A network is one
 * file and one line of networks.c; what the rest of the house asks of it stands here: gradients, checkpoints and
 * training follow from `declare` and `forward`.
 *
 * They read word vectors: rows of a table [V, input.size] that is looked up by the tokenizer's ids and never trained.
 * They see whole sequences: no cache, no generated text. */
#ifndef NOISED_NETWORK_H
#define NOISED_NETWORK_H

#include "model/config.h"
#include "model/noise.h"
#include "model/params.h"
#include "model/tape.h"

typedef struct Network {
    const char *name; /* "network" in config.json */
    size_t weights_size;
    bool attends; /* has blocks of attention and MLP, and so all keys of a transformer */
    int (*check)(const Config *c, Err *err);
    void (*declare)(void *weights, ParamSet *ps, const Config *c);
    void (*release)(void *weights); /* what declare took, not the weights themselves */
    /* The logits of the task: a row for every token, or, where sequences are classified, for every segment. Recording
     * or evaluating, as model_hidden says. Before each layer of declare's (Param.bin), in their order,
     * tape_enter_layer: layers share the place of a gradient, and by that it is known when one is done. */
    Mat *(*forward)(const void *weights, const Config *c, Tape *tape, const Batch *batch);
    const Noise *(*noise)(const void *weights, int i); /* model_noise; NULL where nothing attends */
} Network;

enum { NETWORKS_MAX = 2 };
extern const Network *const networks[NETWORKS_MAX + 1]; /* NULL-terminated */

/* The table of word vectors: model.word_vectors.weight, [V, input.size]. */
void network_declare_vectors(Weight *w, ParamSet *ps, const Config *c);

/* A linear as torch.nn's: weights and biases in U(-1 / sqrt(in), 1 / sqrt(in)). */
typedef struct PlainLinear {
    Weight w, b; /* [out, in], [out] */
} PlainLinear;
void plain_linear_declare(PlainLinear *l, ParamSet *ps, const char *name, int in, int out);
Mat *plain_linear(Tape *tape, const PlainLinear *l, Mat *x);

#endif
