/* op_attention: softmax_j<=i (scale q_i . k_j + n_ij) v_j, ragged over segments, with the noise inside.
 *
 * Two bodies behind one door. Recording (op_attention_train.c): whole sequences in causal blocks of rows;
 * probabilities and noise are recomputed in the backward pass, not stored. Serving (op_attention_serve.c): new rows
 * attend over the KV cache, keys walked in blocks from position 0, so a row's bits depend on its own sequence alone. */
#ifndef NOISED_OP_ATTENTION_H
#define NOISED_OP_ATTENTION_H

#include "model/forward.h"
#include "model/noise.h"

typedef struct AttentionSpec {
    HeadShape heads; /* query head h reads kv head h / (heads / kv_heads) */
    float scale;
    const Noise *noise; /* NULL: no noise */
    Mat *condition;     /* [n, 2 distributions] of noise_condition; NULL unless conditioned */
} AttentionSpec;

/* q [n, H k_dim], k [n, G k_dim] (may be q itself), v [n, G v_dim] -> [n, H v_dim]. Serving: k and v go to the
 * expanded cache, and the rows attend to all of their sequence there. */
Mat *op_attention(Forward *f, Mat *q, Mat *k, Mat *v, const AttentionSpec *spec);

/* The two bodies, filling y [n, H v_dim]. Serving: the rows of `batch` read the keys and values of `kv`, where their
 * own are already; v_dim 0 there means that a value is the first spec->heads.v_dim features of its key. */
void attention_train(Forward *f, Mat *q, Mat *k, Mat *v, Mat *y, const AttentionSpec *spec);
void attention_serve(Forward *f, const KvLayer *kv, const Batch *batch, const Mat *q, Mat *y,
                     const AttentionSpec *spec);

/* Noise of query row `row` (of the batch) at absolute position i in segment seg; false when it has none. */
bool attention_noise_row(const Forward *f, const AttentionSpec *spec, const Segment *seg, int head, int row, int i,
                         NoiseRow *out);

#endif
