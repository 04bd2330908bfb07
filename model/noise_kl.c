/* What the parameters of the noise say of its distribution. */
#include "base/err.h"
#include "base/fixed_math.h"
#include "model/noise.h"
#include "model/ops/op.h"
#include "model/shape.h"

#include <math.h>

#define KL_FLOOR 1e-12 /* keeps log(sigma^2) finite at sigma = 0 */

/* Of span sequence none counts: those of its components are vectors that are learned freely. */
static double mean_of(const Noise *z, int k) {
    return z->mu.n_dims == 1 || z->mu.n_dims == 2 ? weight_f32(&z->mu)[k] : 0;
}

/* Of the code of a sequence: the mean over its features. */
static double code_variance(const Config *cfg, const Noise *z, int distribution) {
    int m = cfg->noise.components, dim = z->mu.dims[2];
    double sum = 0;
    for (int f = 0; f < dim; f++) {
        double mean = 0, squares = 0;
        for (int c = 0; c < m; c++) {
            double mu = weight_f32(&z->mu)[(distribution * m + c) * dim + f];
            mean += mu / m;
            squares += mu * mu / m;
        }
        sum += (squares - mean * mean) / dim;
    }
    for (int c = 0; c < m; c++) {
        double sigma = weight_f32(&z->sigma)[distribution * m + c];
        sum += sigma * sigma / m;
    }
    return sum;
}

void noise_deviation(const Config *cfg, const Noise *z, float *out) {
    BUG_ON(cfg->noise.scope == NOISE_NONE || cfg->noise.condition_dim);
    int m = cfg->noise.density == DENSITY_MIXTURE ? cfg->noise.components : 1;
    for (int k = 0; k < config_noise_heads(cfg); k++) {
        if (config_noise_components(cfg)) {
            out[k] = (float)sqrt(code_variance(cfg, z, k));
            continue;
        }
        const float *sigma = weight_f32(&z->sigma) + k * m;
        double p[NOISE_COMPONENTS_MAX] = {1}, mean = 0, variance = 0;
        if (m > 1) noise_component_weights(cfg, z, k, p);
        for (int c = 0; c < m; c++) mean += p[c] * mean_of(z, k * m + c);
        for (int c = 0; c < m; c++) {
            double off = mean_of(z, k * m + c) - mean;
            variance += p[c] * (sigma[c] * sigma[c] + off * off);
        }
        out[k] = (float)sqrt(variance);
    }
}

/* ---- KL to the standard normal ---- */

typedef struct KlContext {
    const Config *cfg;
    const Noise *noise;
    Mat *condition, *kl;
} KlContext;

static double kl_term(double mu, double variance) {
    return 0.5 * (mu * mu + variance - fixed_log(variance + KL_FLOOR) - 1);
}

/* d/d sigma of 0.5 (sigma^2 - log(sigma^2 + floor)) */
static double kl_slope(double sigma) { return sigma - sigma / (sigma * sigma + KL_FLOOR); }

static void kl_mixture_backward(const KlContext *c, int first, double g) {
    int m = c->cfg->noise.components;
    const Noise *z = c->noise;
    double p[NOISE_COMPONENTS_MAX], kl[NOISE_COMPONENTS_MAX], mean = 0;
    noise_component_weights(c->cfg, z, first / m, p);
    for (int k = 0; k < m; k++) {
        double mu = mean_of(z, first + k), sigma = weight_f32(&z->sigma)[first + k];
        kl[k] = kl_term(mu, sigma * sigma);
        mean += p[k] * kl[k];
        z->sigma.grad[first + k] += (float)(g * p[k] * kl_slope(sigma));
        if (z->weight.grad) z->mu.grad[first + k] += (float)(g * p[k] * mu);
    }
    for (int k = 0; k < m && z->weight.grad; k++) z->weight.grad[first + k] += (float)(g * p[k] * (kl[k] - mean));
}

static void kl_backward(void *context) {
    const KlContext *c = context;
    int n = config_noise_heads(c->cfg);
    double g = mat_gradient(c->kl)[0];
    if (c->condition) {
        Mat *z = c->condition;
        mat_gradient(z);
        for (size_t i = 0; i < (size_t)z->n; i++)
            for (int k = 0; k < n; k++) {
                size_t mu = i * (size_t)z->d + (size_t)k, lv = mu + (size_t)n;
                double variance = fixed_exp(z->x[lv]);
                z->dx[mu] += (float)(g * z->x[mu] / z->n);
                z->dx[lv] += (float)(g * 0.5 * (variance - variance / (variance + KL_FLOOR)) / z->n);
            }
        return;
    }
    if (!c->noise->sigma.grad) return;
    for (int k = 0; k < n; k++) {
        if (c->cfg->noise.density == DENSITY_MIXTURE) {
            kl_mixture_backward(c, k * c->cfg->noise.components, g);
            continue;
        }
        if (c->noise->mu.grad) c->noise->mu.grad[k] += (float)(g * weight_f32(&c->noise->mu)[k]);
        c->noise->sigma.grad[k] += (float)(g * kl_slope(weight_f32(&c->noise->sigma)[k]));
    }
}

static double kl_parameters(const Config *c, const Noise *z) {
    int n = config_noise_heads(c), m = c->noise.density == DENSITY_MIXTURE ? c->noise.components : 1;
    double sum = 0, p[NOISE_COMPONENTS_MAX] = {1};
    for (int k = 0; k < n; k++) {
        if (m > 1) noise_component_weights(c, z, k, p);
        for (int q = k * m; q < (k + 1) * m; q++) {
            double sigma = weight_f32(&z->sigma)[q];
            sum += p[q - k * m] * kl_term(mean_of(z, q), sigma * sigma);
        }
    }
    return sum;
}

static double kl_condition(const Mat *z, int n) {
    double sum = 0;
    for (size_t i = 0; i < (size_t)z->n; i++)
        for (int k = 0; k < n; k++) {
            size_t at = i * (size_t)z->d + (size_t)k;
            sum += kl_term(z->x[at], fixed_exp(z->x[at + (size_t)n]));
        }
    return sum / z->n;
}

Mat *noise_kl(Tape *t, const Config *c, const Noise *z, Mat *condition) {
    Mat *kl = tape_mat(t, 1, 1);
    kl->x[0] = (float)(condition ? kl_condition(condition, config_noise_heads(c)) : kl_parameters(c, z));
    KlContext *context = tape_alloc(t, sizeof *context);
    *context = (KlContext){.cfg = c, .noise = z, .condition = condition, .kl = kl};
    if (t->recording) tape_push(t, kl_backward, context);
    return kl;
}
