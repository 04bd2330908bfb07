#include "model/noise.h"

#include "base/fixed_math.h"
#include "base/random.h"
#include "model/kernels/kernels.h"
#include "model/ops/op.h"
#include "model/shape.h"

#include <string.h>

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
    } else if (config_noise_components(c)) {
        bool rows = c->noise.site == SITE_RESIDUAL;
        Init means = {.kind = INIT_NORMAL, .b = rows ? 0.05f : 0.3f};
        int dims[3] = {n, c->noise.components, rows ? c->hidden_size : config_heads(c).k_dim};
        Param *mu = param_declare(ps, &z->mu, "mu", 3, dims, means);
        mu->matrix = mu->decay = false;
        Param *sigma = param_declare(ps, &z->sigma, "sigma", 2, dims, small);
        sigma->matrix = sigma->decay = false;
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

/* ---- one row of scores ---- */

static int distribution_of(const NoiseRow *row) { return row->cfg->noise.scope == NOISE_HEAD ? row->head : 0; }

void noise_component_weights(const Config *c, const Noise *z, int distribution, double *p) {
    int n = c->noise.components;
    if (config_noise_components(c)) {
        for (int k = 0; k < n; k++) p[k] = 1.0 / n;
        return;
    }
    const float *logits = weight_f32(&z->weight) + distribution * n;
    double max = logits[0], sum = 0;
    for (int k = 1; k < n; k++) max = logits[k] > max ? logits[k] : max;
    for (int k = 0; k < n; k++) sum += p[k] = fixed_exp(logits[k] - max);
    for (int k = 0; k < n; k++) p[k] /= sum;
}

/* The query's word of the counter. */
static uint32_t counter_query(const NoiseRow *row) { return row->cfg->noise.span == SPAN_KEY ? 0 : (uint32_t)row->i; }

/* limit[c]: the least k of sixteen bits with (k + 0.5) / 65536 >= cumulative probability of component c, below which
 * c or one before it is drawn. Returns how many limits there are: none that no k reaches, and none for the last. */
static int component_limits(const NoiseRow *row, uint16_t *limit) {
    int m = row->cfg->noise.components, n = 0;
    double p[NOISE_COMPONENTS_MAX], sum = 0;
    noise_component_weights(row->cfg, row->noise, distribution_of(row), p);
    for (; n < m - 1; n++) {
        sum += p[n];
        int k = MAX(0, (int)(sum * 65536) - 1); /* the limit, or one or two below it */
        while (k < 65536 && (k + 0.5) / 65536 < sum) k++;
        if (k == 65536) break;
        limit[n] = (uint16_t)k;
    }
    return n;
}

/* component[j] = first c whose cumulative probability exceeds u_j = (bits + 0.5) / 65536: as many limits as the bits
 * reach. */
static void draw_components(const NoiseRow *row, uint32_t head_layer, uint16_t *component) {
    enum { SOME = 64 };
    uint16_t limit[NOISE_COMPONENTS_MAX], bits[SOME];
    int limits = component_limits(row, limit);
    kernels->gaussian_bits(row->key.seed, row->key.stream | 0x80000000u, head_layer, counter_query(row),
                           row->key.sequence, row->first, row->n, component);
    for (int done = 0; done < row->n; done += SOME, component += SOME) {
        int n = MIN(SOME, row->n - done);
        memcpy(bits, component, (size_t)n * sizeof *bits);
        memset(component, 0, (size_t)n * sizeof *component);
        for (int c = 0; c < limits; c++)
            for (int j = 0; j < n; j++) component[j] = (uint16_t)(component[j] + (bits[j] >= limit[c]));
    }
}

void noise_row_draw(const NoiseRow *row, float *eps, uint16_t *component) {
    uint32_t head_layer = (uint32_t)distribution_of(row) | (uint32_t)row->layer << 16;
    if (row->key.scale == 0)
        memset(eps, 0, (size_t)row->n * sizeof *eps); /* a mixture keeps its means, and nothing of these */
    else
        kernels->gaussians(row->key.seed, row->key.stream, head_layer, counter_query(row), row->key.sequence,
                           row->first, row->n, eps);
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
    noise_component_weights(row->cfg, row->noise, distribution_of(row), p);
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
