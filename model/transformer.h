/* transformer: the whole network and its one forward function for training, prefill, decode and evaluation.
 *
 *     tokens -> embed (+ position) -> L x [ norm -> attention -> +  ; norm -> mlp -> + ] -> norm -> hidden -> a head
 *
 * Without a hidden layer (mlp.intermediate_size 0) a block is one sublayer, x + act(attention(norm x)): o_proj is then
 * the one layer of the lecture notes' H = FF(concatenated heads).
 *
 * Images begin as patches: a linear of their pixels, and before those of each image a class row if that is the one to
 * be classified. Config.block moves the norms behind the sums, or leaves out either.
 * The head is the task's: scores of all tokens, of the classes for every row, or of the classes for the one row that
 * is pooled of a sequence.
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
    Weight embed;     /* [V, d], tokens only */
    Weight positions; /* [max_positions, d], learned positions only */
    Weight patches, patch_bias,
        class_row; /* [d, channels patch patch], [d], [d]: images only, the last for pool first */
    Block *blocks; /* [L] */
    Norm norm;
    Weight lm_head;           /* [V, d], untied and no classes */
    Weight score, score_bias; /* [classes, d], [classes] where biases are */
    void *network; /* the weights of another network (Config.network), which has nothing of the above but cfg and params
                    */
} Model;

/* Checks the config and declares every parameter. The Model must not move in memory afterwards. */
int model_init(Model *m, const Config *c, Err *err);
void model_free(Model *m);

/* The noise of attention i: of layer i, or of another network's attentions in the order of their parameters (an
 * encoder-decoder: the encoder's layers, then of each decoder layer its own and that across). NULL behind the last, and
 * where there is none. */
const Noise *model_noise(const Model *m, int i);

/* What activations are rounded to while serving, and the cache keeps unless told otherwise: F32 for a model stored in
 * F32, else BF16. The embedding speaks for all matrices. */
Dtype model_precision(const Model *m);

/* Which arithmetic this machine computes it in, to the last bit: "blas-<core>-<version>" on the level blas, "amx" on
 * that level if any weight is BF16, else "common", which all other levels on all machines share. */
const char *model_arithmetic(const Model *m);

/* The wanted rows after the last norm, [n_want, d]. Three ways, and every row's result depends on its own sequence
 * alone in each, bit for bit in the last two:
 *     tape recording, kv NULL            training: whole sequences, to be differentiated
 *     not recording, kv NULL             evaluation: whole sequences, nothing is remembered
 *     not recording, kv                  serving: the rows' keys and values go into the blocks that the segments name;
 *                                        causal networks only, and the same bits as without
 * Not recording, tape->bf16 is set to what the weights are. The batch must outlive the tape's activations. A dropout
 * acts in the first alone, by the seed and stream of the first segment's noise key. */
Mat *model_hidden(const Model *m, Tape *tape, const Batch *batch, const KvCache *kv);
/* The rows that the head reads: those that are hidden, or, where sequences are classified, one for each segment: its
 * last, its first, or the mean of all of them; `hidden` must then be all rows. */
Mat *model_pool(const Model *m, Tape *tape, const Batch *batch, Mat *hidden);
Mat *model_logits(const Model *m, Tape *tape, Mat *pooled); /* [n, d] -> [n, V], or [n, classes] (config_outputs) */
const Weight *model_head(const Model *m);                   /* the matrix that model_logits multiplies by */
/* Of which a row is looked up, where others are multiplied by: positions, and an embedding that is not the head too. */
bool model_looks_up(const Model *m, const Weight *w);
/* All three; of another network (network.h) what it makes of the batch, and then kv is NULL and the others are not for
 * it. */
Mat *model_forward(const Model *m, Tape *tape, const Batch *batch, const KvCache *kv);

/* What model_hidden hands to the layers: an array of L, for callers that run them one by one. */
Forward *model_layers(const Model *m, Tape *tape, const Batch *batch, const KvCache *kv);

/* The training loss [1, 1]: weighted mean cross-entropy of targets [n] (op_cross_entropy: the logits are gone once it
 * is differentiated) plus kl_weight times the noise KL (docs/spec.md 5), the latter alone in *kl (unweighted, may be
 * NULL). Call it after a recording forward pass on the same tape. */
Mat *model_loss(Tape *tape, Mat *logits, const int *targets, const float *weights, float kl_weight, double *kl);
Mat *model_penalised(Tape *tape, Mat *loss, float kl_weight, double *kl); /* any loss plus that KL */

#endif
