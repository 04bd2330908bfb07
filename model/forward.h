/* forward: what one layer of one forward pass can see. Every layer has its own, which lives as long as the tape's
 * activations: the backward pass may point to it. */
#ifndef NOISED_FORWARD_H
#define NOISED_FORWARD_H

#include "model/config.h"
#include "model/kv.h"
#include "model/tape.h"

typedef struct Forward {
    Tape *tape;
    const Config *cfg;
    const Batch *batch;
    const int *positions;    /* [n] absolute position of every row */
    const float *rope_table; /* [n, config_rope_dim] of rope_table; NULL without rope */
    const KvLayer *kv;       /* serving: where this layer's keys and values are; NULL exactly when the tape records */
    int layer;
} Forward;

/* Layers first .. first + n - 1 of a network over the rows of a batch, in memory of the tape. kv is NULL where nothing
 * is remembered; the keys and values of a layer then live until the next one's. */
Forward *forward_layers(const Config *c, int first, int n, Tape *tape, const Batch *batch, const KvCache *kv);

#endif
