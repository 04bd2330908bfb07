/* transformer: the whole network and its one forward function for training, prefill and decode.
 *
 *     tokens -> embed (+ position) -> L x [ norm -> attention -> +  ; norm -> mlp -> + ] -> norm -> logits
 *
 * A Model is declared from a Config without any data; the trainer (params_bind_flat) or a checkpoint then binds the
 * weights. Bound and otherwise untouched, a Model may be read by many threads. */
#ifndef NOISED_TRANSFORMER_H
#define NOISED_TRANSFORMER_H

#include "base/err.h"
#include "model/attention/attention.h"
#include "model/linear.h"
#include "model/mlp.h"
#include "model/norm.h"

typedef struct Block {
    Norm attention_norm, mlp_norm;
    Attention attention;
    Mlp mlp;
} Block;

typedef struct Model {
    Config cfg;
    ParamSet params;
    Weight embed;     /* [V, d] */
    Weight positions; /* [max_positions, d], learned positions only */
    Block *blocks;    /* [L] */
    Norm norm;
    Weight lm_head; /* [V, d], untied only */
} Model;

/* Checks the config and declares every parameter. The Model must not move in memory afterwards. */
int model_init(Model *m, const Config *c, Err *err);
void model_free(Model *m);

/* Logits [n_want, V]. Exactly one of: tape recording and kv NULL; tape not recording and kv given, whose blocks the
 * segments name. Serving: every row's result depends on its own sequence alone, bit for bit. */
Mat *model_forward(const Model *m, Tape *tape, const Batch *batch, KvCache *kv);

/* The training loss [1, 1]: mean cross-entropy of targets [n] plus kl_weight times the noise KL (spec section 5), the
 * latter alone in *kl (unweighted, may be NULL). Call it after a recording model_forward on the same tape. */
Mat *model_loss(Tape *tape, Mat *logits, const int *targets, float kl_weight, double *kl);

#endif
