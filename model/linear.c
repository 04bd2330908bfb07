#include "model/linear.h"

#include "base/err.h"
#include "base/fixed_math.h"
#include "model/ops/op.h"

#include <math.h>
#include <stdio.h>

static const Activation plain_activations[] = {
    [NOBLE_TANH] = ACT_TANH, [NOBLE_GELU] = ACT_GELU, [NOBLE_LEAKY_RELU] = ACT_LEAKY_RELU, [NOBLE_RELU] = ACT_RELU};

/* Learning-rate multipliers are powers of m = min(in, out) / r for up and mix, constants for frequencies and phases. */
typedef struct NobleRates {
    double up, mix;
    float freq, phase;
} NobleRates;

static const NobleRates noble_rates[] = {[RECIPE_PAPER] = {.up = 0.6, .mix = 0.45, .freq = 3, .phase = 5},
                                         [RECIPE_REPOSITORY] = {.up = 0.4, .mix = 0.5, .freq = 2, .phase = 4}};

/* The paper mixes by Xavier uniform, the repository by N(0, 0.5 / sqrt(r)). */
static Init mix_init(NobleRecipe recipe, int r) {
    float xavier = (float)sqrt(6.0 / (2.0 * r));
    if (recipe == RECIPE_REPOSITORY) return (Init){.kind = INIT_NORMAL, .b = (float)(0.5 / sqrt(r))};
    return (Init){.kind = INIT_UNIFORM, .a = -xavier, .b = xavier};
}

static void noble_declare(Noble *b, ParamSet *ps, const Config *c, int in, int out) {
    int r = c->noble.rank, layers = c->noble.layers;
    double m = (double)MIN(in, out) / r;
    const NobleRates *rates = &noble_rates[c->noble.recipe];
    size_t at = params_enter(ps, "noble.");
    param_declare(ps, &b->down, "down.weight", 2, (int[]){r, in},
                  (Init){.kind = INIT_NORMAL, .b = (float)(1 / sqrt(in))});
    for (int k = 0; k < layers - 1; k++)
        param_declare(ps, &b->mix[k], k ? "mix2.weight" : "mix.weight", 2, (int[]){r, r}, mix_init(c->noble.recipe, r))
            ->lr_scale = (float)fixed_pow(m, rates->mix);
    param_declare(ps, &b->up, "up.weight", 2, (int[]){out, r},
                  (Init){.kind = INIT_NORMAL, .b = (float)(0.01 / sqrt(r))})
        ->lr_scale = (float)fixed_pow(m, rates->up);
    for (int k = 0; k < layers && c->noble.activation == NOBLE_COSNET; k++) {
        const char *place = k == 0 ? "in" : k == layers - 1 ? "out" : "mid";
        char freq[16], phase[16];
        snprintf(freq, sizeof freq, "freq_%s", place);
        snprintf(phase, sizeof phase, "phase_%s", place);
        param_declare(ps, &b->freq[k], freq, 1, &r, (Init){.kind = INIT_UNIFORM, .a = 0.8f, .b = 1.2f})->lr_scale =
            rates->freq;
        param_declare(ps, &b->phase[k], phase, 1, &r, (Init){.kind = INIT_NORMAL, .b = 0.1f})->lr_scale = rates->phase;
    }
    params_leave(ps, at);
}

static bool has_bias(BiasPlaces bias, LinearPlace place) {
    if (bias == BIAS_QKV) return place == LINEAR_QKV;
    if (bias == BIAS_ATTENTION) return place == LINEAR_QKV || place == LINEAR_OUT;
    return bias == BIAS_ALL;
}

void linear_declare(Linear *l, ParamSet *ps, const Config *c, const char *name, int in, int out, LinearPlace place) {
    bool residual = place == LINEAR_OUT || place == LINEAR_DOWN;
    *l = (Linear){.has_bias = has_bias(c->bias, place), .has_noble = c->noble.rank > 0};
    double noble = (c->noble.recipe == RECIPE_KAIMING ? 1 : 0.5) / sqrt(in);
    double deviation = c->noble.layers ? noble : residual ? 0.02 / sqrt(2.0 * c->n_layers) : 0.02;
    size_t at = params_enter(ps, "%s.", name);
    param_declare(ps, &l->w, "weight", 2, (int[]){out, in}, (Init){.kind = INIT_NORMAL, .b = (float)deviation})
        ->product = true;
    if (l->has_bias) param_declare(ps, &l->b, "bias", 1, &out, (Init){.kind = INIT_CONSTANT});
    if (l->has_noble) noble_declare(&l->noble, ps, c, in, out);
    params_leave(ps, at);
}

/* act(down x) through 1, 2 or 3 activations with a mixing matrix between each two. */
static Mat *noble_activate(Forward *f, const Noble *b, Mat *h) {
    Tape *t = f->tape;
    NobleActivation a = f->cfg->noble.activation;
    for (int k = 0; k < f->cfg->noble.layers; k++) {
        if (k > 0) h = op_linear(t, h, &b->mix[k - 1], NULL);
        h = a == NOBLE_COSNET ? op_cos(t, h, &b->freq[k], &b->phase[k]) : op_activation(t, h, plain_activations[a]);
    }
    return h;
}

void linears(Forward *f, int n, const Linear *const *l, Mat *x, Mat **y) {
    const Weight *w[LINEARS_MOST] = {NULL}, *b[LINEARS_MOST] = {NULL};
    Mat *products[LINEARS_MOST];
    bool noble = l[0]->has_noble;
    if (n > 1 && noble && f->tape->recording) { /* each branch beside its product, for so gradients add up */
        for (int i = 0; i < n; i++) y[i] = linear(f, l[i], x);
        return;
    }
    BUG_ON(n * (1 + noble) > LINEARS_MOST);
    for (int i = 0; i < n; i++) {
        w[i] = &l[i]->w;
        if (l[i]->has_bias) b[i] = &l[i]->b;
        if (noble) w[n + i] = &l[i]->noble.down;
    }
    op_linears(f->tape, x, n * (1 + noble), w, b, products);
    for (int i = 0; i < n; i++) {
        y[i] = products[i];
        if (noble) op_linear_add(f->tape, noble_activate(f, &l[i]->noble, products[n + i]), &l[i]->noble.up, y[i]);
    }
}

Mat *linear(Forward *f, const Linear *l, Mat *x) {
    Mat *y;
    linears(f, 1, &l, x, &y);
    return y;
}
