/* noise: the learned Gaussian noise of NoiseFormer, added to the attention scores (docs/spec.md 4).
 *
 *     n_ij = mu + sigma scale eps_ij        eps_ij standard normal, a pure function of (key, layer, head, i, j)
 *
 * It is never stored: forward, backward, prefill, decode and every cache draw the same number from the counter.
 * The mean of the gaussian density adds a constant to a whole row of scores and cancels in the softmax.
 * mixture: component c_ij is drawn from a second counter against softmax(weight); n = mu_c + sigma_c scale eps.
 * span key: one number for a key, eps_j, the same for every query: the counter's query is 0.
 * span sequence: eps is a vector for a head, the same for all tokens of a sequence. sigma scale eps is added to every
 * query, n_ij = sigma scale (eps . k_j) / sqrt(k_dim), before the scores; they have no noise of their own, and no mean.
 * span sequence, mixture: one component c for a sequence, the same in all layers and heads, all equally probable: the
 * code of the sequence. scale (mu_c + sigma_c eps) with a vector mu_c is added to every query; or, site residual, to
 * every row of the layer's input. At scale 0 there is no code.
 * conditioned: n_ij = mu_j + sigma_i scale eps_ij with mu and log sigma^2 computed from the rows themselves; mu, being
 * indexed by the key, travels as extra features of k (attention.c), so only log sigma^2 is seen here.
 * "Distributions" of a layer: one (scope layer) or one per head (scope head). */
#ifndef NOISED_NOISE_H
#define NOISED_NOISE_H

#include "model/forward.h"
#include "model/params.h"

typedef struct Noise {
    /* [n] (gaussian), [n, M] (mixture); n = 1 or heads. Span sequence: mu only of a mixture, [n, M, k_dim], or [1, M,
     * d] where the site is residual. */
    Weight mu, sigma;
    Weight weight; /* [n, M] logits of the mixture, but for span sequence */
    Weight condition_down_w, condition_down_b, condition_up_w, condition_up_b; /* [m, d], [m], [2n, m], [2n] */
} Noise;

void noise_declare(Noise *z, ParamSet *ps, const Config *c);

/* Conditioned noise: z = gelu(down x), (mu, log sigma^2) = up z -> [n, 2 distributions]. x [n, d]. */
Mat *noise_condition(Forward *f, const Noise *z, Mat *x);

/* Span sequence: x + scale (mu_c + sigma eps) for every row of x: the queries as they enter the scores, [n, heads
 * k_dim], or a layer's input [n, d], which is changed in its place unless the tape records. */
Mat *noise_code(Forward *f, const Noise *z, Mat *x);

/* The component of a sequence under this key, below config_noise_components. */
int noise_component(const Config *c, const NoiseKey *key);

/* p[M]: how probable the components of a mixture's distribution are. */
void noise_component_weights(const Config *c, const Noise *z, int distribution, double *p);

/* Standard deviation of what is added to a score (span sequence: to a feature, in the mean over features), noise_scale
 * 1, for every distribution of a layer: out[n]. That of a mixture has the spread of its means in it. Conditioned noise
 * has none of its own: it depends on the token. */
void noise_deviation(const Config *c, const Noise *z, float *out);

/* sum of 0.5 (mu^2 + sigma^2 - log(sigma^2 + 1e-12) - 1) over the distributions of one layer -> [1, 1]; a mixture
 * counts its components by their weights (convex bound), those of a sequence without their means, conditioned noise
 * (condition as above) is the mean over rows.
 */
Mat *noise_kl(Tape *t, const Config *c, const Noise *z, Mat *condition);

/* A mixture's distribution as its rows draw from it: the same for all of them, so made once. */
typedef struct Mixture {
    double p[NOISE_COMPONENTS_MAX]; /* noise_component_weights */
    int limits;
    uint16_t limit[NOISE_COMPONENTS_MAX]; /* a draw of 16 bits is of the component that counts the limits it reaches */
} Mixture;

/* Those of a layer, on the tape; NULL unless each pair or key draws a component. */
const Mixture *noise_mixtures(Tape *t, const Config *c, const Noise *z);

/* One row of scores and where its noise comes from. */
typedef struct NoiseRow {
    const Config *cfg;
    const Noise *noise;
    const Mixture *mixtures; /* of the layer */
    NoiseKey key;
    int layer, head;    /* query head; scope layer draws as head 0 */
    int i, first, n;    /* absolute query position; keys first..first+n-1, first a multiple of 8 */
    float log_variance; /* conditioned only */
} NoiseRow;

/* Draws what is random about a row: eps[n] the Gaussians (0 at scale 0), component[n] the drawn components (mixture
 * only, else maybe NULL). Then s[j] += n_ij, s[0] being that of key `first`. */
void noise_row_draw(const NoiseRow *row, float *eps, uint16_t *component);
void noise_row_add(const NoiseRow *row, const float *eps, const uint16_t *component, float *s);

/* Adds the gradient of one row to sums[3 M]: mu, sigma, weight of every component (M = 1 and only the first two for
 * the gaussian), and to *d_log_variance when conditioned. ds[n] is d loss / d score. */
void noise_row_backward(const NoiseRow *row, const float *ds, const float *eps, const uint16_t *component, double *sums,
                        float *d_log_variance);

#endif
