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
 * c or one before it is drawn. There is none that no k reaches, and none for the last component. */
static void find_limits(Mixture *x, int components) {
    double sum = 0;
    for (x->limits = 0; x->limits < components - 1; x->limits++) {
        sum += x->p[x->limits];
        int k = MAX(0, (int)(sum * 65536) - 1); /* the limit, or one or two below it */
        while (k < 65536 && (k + 0.5) / 65536 < sum) k++;
        if (k == 65536) break;
        x->limit[x->limits] = (uint16_t)k;
    }
}

const Mixture *noise_mixtures(Tape *t, const Config *c, const Noise *z) {
    if (c->noise.density != DENSITY_MIXTURE || c->noise.span == SPAN_SEQUENCE) return NULL;
    int n = config_noise_heads(c);
    Mixture *mixtures = tape_alloc(t, (size_t)n * sizeof *mixtures);
    for (int k = 0; k < n; k++) {
        noise_component_weights(c, z, k, mixtures[k].p);
        find_limits(&mixtures[k], c->noise.components);
    }
    return mixtures;
}

/* component[j] = first c whose cumulative probability exceeds u_j = (bits + 0.5) / 65536 */
static void draw_components(const NoiseRow *row, uint32_t head_layer, uint16_t *component) {
    const Mixture *mixture = &row->mixtures[distribution_of(row)];
    kernels->components(row->key.seed, row->key.stream | 0x80000000u, head_layer, counter_query(row), row->key.sequence,
                        row->first, row->n, mixture->limits, mixture->limit, component);
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
    kernels->add_mixture_row(row->n, m, mu, sigma, row->key.scale, component, eps, s);
}

/* Two components side by side: p, mu, sigma, and the sums of their weights. */
typedef double Two __attribute__((vector_size(2 * sizeof(double))));

typedef struct Slope {
    Two p, mu, sigma, sum;
} Slope;

enum { SLOPE_KEYS = 64 };

/* sum += dS p (x - mean) of each of n keys, one after the other, for four components: an addition waits for the one
 * before it. */
static void weigh_slopes(int n, const double *ds, const double *eps, const double *mean, Slope s[2]) {
    Slope a = s[0], b = s[1];
    for (int j = 0; j < n; j++) {
        a.sum += ds[j] * a.p * (a.mu + a.sigma * eps[j] - mean[j]);
        b.sum += ds[j] * b.p * (b.mu + b.sigma * eps[j] - mean[j]);
    }
    s[0].sum = a.sum;
    s[1].sum = b.sum;
}

/* Mixture, straight-through (docs/spec.md 4): with x_k = mu_k + sigma_k eps, the weight of component c gets
 * dS p_c (x_c - sum_k p_k x_k). */
static void mixture_backward(const NoiseRow *row, const float *ds, const float *eps, const uint16_t *component,
                             double *sums) {
    int m = row->cfg->noise.components;
    const double *p = row->mixtures[distribution_of(row)].p;
    const float *mu = weight_f32(&row->noise->mu) + distribution_of(row) * m;
    const float *sigma = weight_f32(&row->noise->sigma) + distribution_of(row) * m;
    Slope slopes[NOISE_COMPONENTS_MAX / 2];
    memset(slopes, 0, (size_t)((m + 3) / 4 * 2) * sizeof *slopes);
    for (int c = 0; c < m; c++) {
        Slope *s = &slopes[c / 2];
        s->p[c % 2] = p[c], s->mu[c % 2] = mu[c], s->sigma[c % 2] = sigma[c], s->sum[c % 2] = sums[2 * m + c];
    }
    for (int first = 0; first < row->n; first += SLOPE_KEYS) {
        int n = MIN(SLOPE_KEYS, row->n - first);
        double d[SLOPE_KEYS], e[SLOPE_KEYS], mean[SLOPE_KEYS] = {0};
        for (int j = 0; j < n; j++) d[j] = ds[first + j], e[j] = (double)row->key.scale * eps[first + j];
        for (int c = 0; c < m; c++)
            for (int j = 0; j < n; j++) mean[j] += p[c] * (mu[c] + sigma[c] * e[j]);
        for (int j = 0; j < n; j++) {
            double *sum = sums + component[first + j];
            sum[0] += d[j];
            sum[m] += d[j] * e[j];
        }
        for (int c = 0; c < m; c += 4) weigh_slopes(n, d, e, mean, &slopes[c / 2]);
    }
    for (int c = 0; c < m; c++) sums[2 * m + c] = slopes[c / 2].sum[c % 2];
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
