#include "model/noise.h"

#include "base/fixed_math.h"
#include "base/random.h"
#include "model/kernels/kernels.h"
#include "model/ops/op.h"
#include "model/shape.h"

#include <math.h>

#define KL_FLOOR 1e-12 /* keeps log(sigma^2) finite at sigma = 0 */

void noise_declare(Noise *z, ParamSet *ps, const Config *c) {
    if (c->noise.scope == NOISE_NONE) return;
    int n = config_noise_heads(c);
    size_t at = params_enter(ps, "noise.");
    Init small = {.kind = INIT_NORMAL, .b = 0.01f};
    if (c->noise.condition_dim) {
        int m = c->noise.condition_dim;
        Init weights = {.kind = INIT_NORMAL, .b = 0.02f}, zero = {0};
        Init start = {.kind = INIT_HALVES, .b = (float)(2 * fixed_log(0.01))}; /* means 0, sigmas 0.01 */
        param_declare(ps, &z->condition_down_w, "condition.down.weight", 2, (int[]){m, c->hidden_size}, weights)
            ->decay = false;
        param_declare(ps, &z->condition_down_b, "condition.down.bias", 1, (int[]){m}, zero);
        param_declare(ps, &z->condition_up_w, "condition.up.weight", 2, (int[]){2 * n, m}, weights)->decay = false;
        param_declare(ps, &z->condition_up_b, "condition.up.bias", 1, (int[]){2 * n}, start);
    } else if (c->noise.density == DENSITY_MIXTURE) {
        int dims[2] = {n, c->noise.components};
        Weight *weights[3] = {&z->weight, &z->mu, &z->sigma};
        static const char *const names[3] = {"weight", "mu", "sigma"};
        for (int k = 0; k < 3; k++) {
            Param *p = param_declare(ps, weights[k], names[k], 2, dims, small);
            p->matrix = p->decay = false;
        }
    } else {
        if (c->noise.span != SPAN_SEQUENCE) param_declare(ps, &z->mu, "mu", 1, &n, small);
        param_declare(ps, &z->sigma, "sigma", 1, &n, small);
    }
    params_leave(ps, at);
}

Mat *noise_condition(Forward *f, const Noise *z, Mat *x) {
    Mat *latent = op_linear(f->tape, x, &z->condition_down_w, &z->condition_down_b);
    return op_linear(f->tape, op_activation(f->tape, latent, ACT_GELU), &z->condition_up_w, &z->condition_up_b);
}

float noise_gaussian(const NoiseKey *key, int layer, int head, int i, int j) {
    Philox p = philox4x32(key->sequence << 16 | (uint32_t)j / 8, (uint32_t)i, (uint32_t)head | (uint32_t)layer << 16,
                          key->stream, key->seed);
    uint32_t k = p.v[j % 8 / 2] >> 16 * (j % 2) & 0xFFFF;
    float magnitude = gaussian_quantiles[k >> 3 & 4095];
    return k >> 15 ? -magnitude : magnitude;
}

/* ---- one row of scores ---- */

static int distribution_of(const NoiseRow *row) { return row->cfg->noise.scope == NOISE_HEAD ? row->head : 0; }

static void softmax_double(const float *logits, int n, double *p) {
    double max = logits[0], sum = 0;
    for (int k = 1; k < n; k++) max = logits[k] > max ? logits[k] : max;
    for (int k = 0; k < n; k++) sum += p[k] = fixed_exp(logits[k] - max);
    for (int k = 0; k < n; k++) p[k] /= sum;
}

static double mean_of(const Noise *z, int k) { return z->mu.data ? weight_f32(&z->mu)[k] : 0; }

void noise_deviation(const Config *cfg, const Noise *z, float *out) {
    BUG_ON(cfg->noise.scope == NOISE_NONE || cfg->noise.condition_dim);
    int m = cfg->noise.density == DENSITY_MIXTURE ? cfg->noise.components : 1;
    for (int k = 0; k < config_noise_heads(cfg); k++) {
        const float *sigma = weight_f32(&z->sigma) + k * m;
        double p[NOISE_COMPONENTS_MAX] = {1}, mean = 0, variance = 0;
        if (m > 1) softmax_double(weight_f32(&z->weight) + k * m, m, p);
        for (int c = 0; c < m; c++) mean += p[c] * mean_of(z, k * m + c);
        for (int c = 0; c < m; c++) {
            double off = mean_of(z, k * m + c) - mean;
            variance += p[c] * (sigma[c] * sigma[c] + off * off);
        }
        out[k] = (float)sqrt(variance);
    }
}

/* The query's word of the counter. */
static uint32_t counter_query(const NoiseRow *row) { return row->cfg->noise.span == SPAN_KEY ? 0 : (uint32_t)row->i; }

/* component[j] = first c whose cumulative probability exceeds u_j = (bits + 0.5) / 65536. */
static void draw_components(const NoiseRow *row, uint32_t head_layer, uint16_t *component) {
    int m = row->cfg->noise.components;
    double p[NOISE_COMPONENTS_MAX], limit[NOISE_COMPONENTS_MAX], sum = 0;
    softmax_double(weight_f32(&row->noise->weight) + distribution_of(row) * m, m, p);
    for (int c = 0; c < m; c++) limit[c] = sum += p[c];
    kernels->gaussian_bits(row->key.seed, row->key.stream | 0x80000000u, head_layer, counter_query(row),
                           row->key.sequence, row->first, row->n, component);
    for (int j = 0; j < row->n; j++) {
        double u = (component[j] + 0.5) / 65536;
        uint16_t c = 0;
        while (c < m - 1 && limit[c] <= u) c++;
        component[j] = c;
    }
}

void noise_row_draw(const NoiseRow *row, float *eps, uint16_t *component) {
    uint32_t head_layer = (uint32_t)distribution_of(row) | (uint32_t)row->layer << 16;
    kernels->gaussians(row->key.seed, row->key.stream, head_layer, counter_query(row), row->key.sequence, row->first,
                       row->n, eps);
    if (row->cfg->noise.density == DENSITY_MIXTURE) draw_components(row, head_layer, component);
}

void noise_row_add(const NoiseRow *row, const float *eps, const uint16_t *component, float *s) {
    const Config *cfg = row->cfg;
    if (cfg->noise.condition_dim) {
        float sigma = (float)fixed_exp(0.5f * row->log_variance) * row->key.scale;
        kernels->add_affine_row(row->n, 0, sigma, eps, s);
        return;
    }
    int m = cfg->noise.density == DENSITY_MIXTURE ? cfg->noise.components : 1;
    const float *mu = weight_f32(&row->noise->mu) + distribution_of(row) * m;
    const float *sigma = weight_f32(&row->noise->sigma) + distribution_of(row) * m;
    if (cfg->noise.density == DENSITY_GAUSSIAN) {
        kernels->add_affine_row(row->n, mu[0], sigma[0] * row->key.scale, eps, s);
        return;
    }
    for (int j = 0; j < row->n; j++) s[j] += mu[component[j]] + sigma[component[j]] * row->key.scale * eps[j];
}

/* Mixture, straight-through (docs/spec.md 4): with x_k = mu_k + sigma_k eps, the weight of component c gets
 * dS p_c (x_c - sum_k p_k x_k). */
static void mixture_backward(const NoiseRow *row, const float *ds, const float *eps, const uint16_t *component,
                             double *sums) {
    int m = row->cfg->noise.components;
    double p[NOISE_COMPONENTS_MAX], scale = row->key.scale;
    const float *mu = weight_f32(&row->noise->mu) + distribution_of(row) * m;
    const float *sigma = weight_f32(&row->noise->sigma) + distribution_of(row) * m;
    softmax_double(weight_f32(&row->noise->weight) + distribution_of(row) * m, m, p);
    for (int j = 0; j < row->n; j++) {
        double e = scale * eps[j], mean = 0;
        sums[component[j]] += ds[j];
        sums[m + component[j]] += ds[j] * e;
        for (int c = 0; c < m; c++) mean += p[c] * (mu[c] + sigma[c] * e);
        for (int c = 0; c < m; c++) sums[2 * m + c] += ds[j] * p[c] * (mu[c] + sigma[c] * e - mean);
    }
}

void noise_row_backward(const NoiseRow *row, const float *ds, const float *eps, const uint16_t *component, double *sums,
                        float *d_log_variance) {
    if (row->cfg->noise.density == DENSITY_MIXTURE) {
        mixture_backward(row, ds, eps, component, sums);
        return;
    }
    double d_mu = 0, d_sigma = 0;
    for (int j = 0; j < row->n; j++) {
        d_mu += ds[j];
        d_sigma += (double)ds[j] * eps[j];
    }
    d_sigma *= row->key.scale;
    if (row->cfg->noise.condition_dim) {
        *d_log_variance += (float)(d_sigma * 0.5 * fixed_exp(0.5 * row->log_variance));
        return;
    }
    sums[0] += d_mu;
    sums[1] += d_sigma;
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
    softmax_double(weight_f32(&z->weight) + first, m, p);
    for (int k = 0; k < m; k++) {
        double mu = weight_f32(&z->mu)[first + k], sigma = weight_f32(&z->sigma)[first + k];
        kl[k] = kl_term(mu, sigma * sigma);
        mean += p[k] * kl[k];
        z->mu.grad[first + k] += (float)(g * p[k] * mu);
        z->sigma.grad[first + k] += (float)(g * p[k] * kl_slope(sigma));
    }
    for (int k = 0; k < m; k++) z->weight.grad[first + k] += (float)(g * p[k] * (kl[k] - mean));
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
        if (m > 1) softmax_double(weight_f32(&z->weight) + k * m, m, p);
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
