/* op_attention: softmax_j (scale q_i . k_j + n_ij) v_j over the keys that query i sees, ragged over segments, with the
 * noise inside.
 *
 * Two bodies behind one door. Recording (op_attention_train.c): whole sequences in blocks of rows; probabilities and
 * noise are recomputed in the backward pass, not stored. Serving (op_attention_serve.c): new rows attend over the
 * cached keys, walked in blocks from position 0, so a row's bits depend on its own sequence alone. */
#ifndef NOISED_OP_ATTENTION_H
#define NOISED_OP_ATTENTION_H

#include "model/attention/attention_spec.h"

/* q [n, heads k_dim], k [m, kv_heads k_dim], v [m, v_heads v_dim] -> [n, heads v_dim]; m = n unless spec->keys says
 * otherwise, and then the sequences are whole and not causal. Each may be another of them. Serving: k and v go to
 * f->kv, or to scratch of spec->keys, and the rows attend to all of their sequence there. */
Mat *op_attention(Forward *f, Mat *q, Mat *k, Mat *v, const AttentionSpec *spec);

/* Rows of scores that training computes together: causal blocks skip most of the upper triangle. Even, for pairs of
 * bf16. */
enum { ATTENTION_TILE = 64 };

/* The two bodies, filling y [n, heads v_dim]. Serving: the rows of `batch` read the keys and values of `kv`, where
 * their own are already; v_dim 0 there means that a value is the first spec->heads.v_dim features of its key. */
void attention_train(Forward *f, Mat *q, Mat *k, Mat *v, Mat *y, const AttentionSpec *spec);
void attention_serve(Forward *f, const KvLayer *kv, const Batch *batch, const Mat *q, Mat *y,
                     const AttentionSpec *spec);

#endif
