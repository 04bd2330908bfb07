/* op: the primitive operations. Each owns its forward and its hand-written backward, side by side in one file; layers,
 * attention kinds, SAS and NOBLE are compositions of these and have no backward of their own.
 *
 * Every op returns a new Mat of the tape (unless it says otherwise) and, while the tape records, remembers its
 * derivative. Shapes in brackets; a mismatch is a bug and aborts. */
#ifndef NOISED_OP_H
#define NOISED_OP_H

#include "model/config.h"
#include "model/kv.h"
#include "model/tape.h"

/* op_linear.c: y = x W^T + b; b may be NULL. x [n, in], W [out, in] -> [n, out]. */
Mat *op_linear(Tape *t, Mat *x, const Weight *w, const Weight *b);
/* n linears of the same x. Serving, x is converted once and one loop of the team has all outputs. */
enum { LINEARS_MOST = 12 };
void op_linears(Tape *t, Mat *x, int n, const Weight *const *w, const Weight *const *b, Mat **y);
/* op_linear by the product that trains (train_gemm.h), also while serving: for F32 weights with few inputs and outputs,
 * at the precision of the tape. */
Mat *op_linear_packed(Tape *t, Mat *x, const Weight *w, const Weight *b);
/* y += x W^T, in place; y must have no reader yet. Returns y. */
Mat *op_linear_add(Tape *t, Mat *x, const Weight *w, Mat *y);

/* Serving alone: down(act(up x)), gated: down(act(gate x) * up x), W being [2h, d] with the gates first. What the
 * activation gives is made a piece at a time, and never whole in f32. */
typedef struct FeedForward {
    const Weight *up, *up_b, *down, *down_b; /* biases may be NULL */
    Activation activation;
    bool gated;
} FeedForward;
Mat *op_feed_forward(Tape *t, Mat *x, const FeedForward *m);
/* Serving, products that something is done to, by this or by op_linear_add, are made in pieces of so many sums at most,
 * which do not leave the cache; every member of the team has room for one. */
enum { PIECE_SUMS = 64 << 10 };

/* op_embed.c: y[i] = table[ids[i]]; table [rows, d] -> [n, d]. ids must outlive the tape. */
Mat *op_embed(Tape *t, const Weight *table, const int *ids, int n);
/* Rows rows[0..n) of x. */
Mat *op_rows(Tape *t, Mat *x, const int *rows, int n);

/* op_image.c: n images [channels, height, width] cut into patches line by line, the pixels of each as a convolution's
 * kernel [channels, patch, patch] meets them: [n patches, channels patch patch]. The pixels have no gradient.
 * class_rows: w [d] before the rows of each of n equal groups, [n rows, d] -> [n (rows + 1), d]. */
Mat *op_patches(Tape *t, const float *images, int n, const Config *c);
Mat *op_class_rows(Tape *t, Mat *x, const Weight *w, int n);

/* op_position.c: x[i] + (sin(p w_0), cos(p w_0), sin(p w_1), ...), w_k = 10000^(-2 k / d), p = positions[i]. */
Mat *op_add_sinusoids(Tape *t, Mat *x, const int *positions);

/* op_pool.c: the mean of the rows of each segment, added up in their order: [n, d] -> [n_segments, d]. The batch must
 * outlive the tape. */
Mat *op_mean(Tape *t, Mat *x, const Batch *batch);

/* op_dropout.c: while recording each element is 0 with probability rate, else divided by 1 - rate: a pure function of
 * (seed and stream of the key, place, row, column), docs/spec.md 7. Not recording: x. */
Mat *op_dropout(Tape *t, Mat *x, float rate, int place, const NoiseKey *key);

/* op_norm.c: over each row of d. b may be NULL. */
Mat *op_layernorm(Tape *t, Mat *x, const Weight *w, const Weight *b, float eps);
Mat *op_rmsnorm(Tape *t, Mat *x, const Weight *w, float eps);

/* op_elementwise.c */
void activation_row(Activation a, int d, const float *x, float *y); /* y may be x */
Mat *op_add_scaled(Tape *t, Mat *a, Mat *b, float scale);           /* a + scale b */
Mat *op_scale(Tape *t, Mat *x, float a);                            /* a x */
Mat *op_residual(Tape *t, Mat *x, Mat *y);                          /* x + y; not recording: in place, returns x */
Mat *op_activation(Tape *t, Mat *x, Activation a);
Mat *op_gate(Tape *t, Mat *x, Activation a);                           /* [n, 2h] -> [n, h]: a(x[:, :h]) * x[:, h:] */
Mat *op_cos(Tape *t, Mat *x, const Weight *freq, const Weight *phase); /* cos(freq x + phase), CosNet */

/* op_rope.c: split-half rotation of every head of `dim` features, with rope2d (parts = 2) of each half of it
 * (docs/spec.md 3); x [n, heads dim]. table [n, dim]: of each part dim/2 cosines, then dim/2 sines, the same in all
 * layers. */
const float *rope_table(Tape *t, int n, const int *positions, int dim, const Config *c);
Mat *op_rope(Tape *t, Mat *x, int heads, int dim, int parts, const float *table);

/* op_heads.c: rows seen as [heads, dim].
 * columns: of each head, features first..first+count-1 -> [n, heads count].
 * join: per head the features of a, then those of b; b may have one head for all -> [n, heads (da + db)].
 * repeat: head g becomes heads g m .. g m + m - 1 -> [n, heads m dim].
 * average: mean over consecutive groups of `heads` heads: x [n, groups heads dim] -> [n, heads dim] (PEAA).
 * matmul: y_h = x_h F_h (row times matrix), F [heads, dim, dim]. */
Mat *op_head_columns(Tape *t, Mat *x, int heads, int first, int count);
Mat *op_head_join(Tape *t, Mat *a, int da, Mat *b, int db, int heads);
Mat *op_head_repeat(Tape *t, Mat *x, int heads, int times);
Mat *op_head_average(Tape *t, Mat *x, int groups);
Mat *op_head_matmul(Tape *t, Mat *x, const Weight *f);
/* TPA: y_h = (1/R) sum_r a[h, r] b[r, :]; a [n, H R], b [n, R D] -> [n, H D]. */
Mat *op_head_factors(Tape *t, Mat *a, Mat *b, int rank, int dim);

/* op_head_difference.c: y_h = x_2h - lambda x_2h+1 for heads of dim, lambda = exp(a . b) - exp(c . d) + base of the
 * four vectors a, b, c, d; x [n, 2 H dim] -> [n, H dim]. */
Mat *op_head_difference(Tape *t, Mat *x, int dim, const Weight vectors[4], float base);

/* op_head_conv.c: y[o, l] = b[o] + sum_c sum_u W[o, c, u] x[c, l + u - (k-1)/2], a convolution along the features of a
 * row, heads being channels; W [out, heads, k], odd k. x [n, heads dim] -> [n, out dim]. */
Mat *op_head_conv(Tape *t, Mat *x, const Weight *w, const Weight *b, int dim);

/* op_lstm.c: the recurrence of LSTM layers over the rows of every segment, forwards and, with a second direction,
 * backwards. gates [n, directions 4 h]: what the inputs and biases give the gates i, f, g, o (each [h], of the first
 * direction first); they have no other reader. w [directions, 4 h, h]. With s the logistic function
 *     i, f, o = s(gate + W h_before)    g = tanh(gate + W h_before)    c = f c_before + i g    h = o tanh(c)
 * and zeros before the first row. -> h of every direction, [n, directions h]. */
Mat *op_lstm(Tape *t, Mat *gates, const Weight *w, const Segment *segments, int n_segments);

/* op_loss.c: weighted mean of the negative log likelihoods of targets[n] under logits [n, V] -> [1, 1]. weights [n],
 * not below 0; NULL: all 1. A row of weight 0 is ignored, its target too; if all are, the loss is 0. targets and
 * weights must outlive the tape. The backward pass writes the gradient over the logits, which must have no other
 * reader. */
Mat *op_cross_entropy(Tape *t, Mat *logits, const int *targets, const float *weights);

/* Every window of `length` rows stands there n times, one after the other, under different noise. */
enum { NOISE_DRAWS_MAX = 64 };
typedef struct NoiseDraws {
    int n, length;
} NoiseDraws;

/* The sum over windows of -log(mean over draws of p(window)), the importance-weighted bound (Burda et al. 2016), by the
 * sum of weights of one draw a window: [1, 1]. Weights are as above, and alike for all draws of a window. A draw's
 * gradient counts by its share of the likelihood.
 * *effective, which may be NULL: the mean over windows of 1 / sum of squared shares, 1 to n. */
Mat *op_cross_entropy_draws(Tape *t, Mat *logits, const int *targets, const float *weights, const NoiseDraws *draws,
                            double *effective);

#endif
