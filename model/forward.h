/* forward: what every layer of one forward pass can see. */
#ifndef NOISED_FORWARD_H
#define NOISED_FORWARD_H

#include "model/config.h"
#include "model/kv.h"
#include "model/tape.h"

typedef struct Forward {
    Tape *tape;
    const Config *cfg;
    const Batch *batch;
    const int *positions; /* [n] absolute position of every row */
    KvCache *kv;          /* serving; NULL exactly when the tape records */
    int layer;
} Forward;

#endif
