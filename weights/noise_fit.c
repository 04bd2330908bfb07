#include "weights/noise_fit.h"

#include "base/arena.h"
#include "base/fixed_math.h"
#include "base/memory.h"
#include "base/team.h"
#include "model/kernels/kernels.h"
#include "model/shape.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { ROWS = 64 /* whose logits are there at a time */, PASSES = 40 };

#define TOLERANCE 0.005
#define STRENGTH_FIRST 0.0625
#define STRENGTH_MOST 64.0

typedef struct Fit {
    Model *m;
    const int *tokens;
    size_t n;
    int bos, length;
    HeadShape heads;
    Tape tape;
    double *squares; /* [layers, heads] sums over the queries' elements */
} Fit;

static void read_window(const Fit *f, int w, int *out) {
    size_t own = (size_t)(f->length - (f->bos >= 0));
    if (f->bos >= 0) *out++ = f->bos;
    memcpy(out, f->tokens + (f->n - own) * (size_t)w / (NOISE_FIT_WINDOWS - 1), own * sizeof *out);
}

/* ---- how long queries are ---- */

static void add_squares(void *context, int layer, const Mat *queries) {
    const Fit *f = context;
    int dim = f->heads.k_dim;
    for (int h = 0; h < f->heads.heads; h++) {
        double sum = 0;
        for (int i = 0; i < queries->n; i++) {
            const float *q = queries->x + (size_t)i * (size_t)queries->d + (size_t)(h * dim);
            for (int k = 0; k < dim; k++) sum += (double)q[k] * q[k];
        }
        f->squares[layer * f->heads.heads + h] += sum;
    }
}

/* Every sigma becomes what r = 1 makes it. */
static void measure_queries(Fit *f) {
    int tokens[NOISE_FIT_LENGTH], heads = f->heads.heads;
    Segment whole = {.n = f->length};
    Batch batch = {.tokens = tokens, .n = f->length, .segments = &whole, .n_segments = 1};
    f->tape.coded = add_squares;
    f->tape.coded_context = f;
    for (int w = 0; w < NOISE_FIT_WINDOWS; w++) {
        read_window(f, w, tokens);
        tape_reset(&f->tape);
        model_hidden(f->m, &f->tape, &batch, NULL);
    }
    f->tape.coded = NULL;
    double elements = (double)NOISE_FIT_WINDOWS * f->length * f->heads.k_dim;
    for (int l = 0; l < f->m->cfg.n_layers; l++)
        for (int h = 0; h < heads; h++)
            weight_f32(&f->m->blocks[l].attention.noise.sigma)[h] = (float)sqrt(f->squares[l * heads + h] / elements);
}

/* ---- what a strength comes to ---- */

/* KL(p || q) in nats of the softmax of two rows of logits; scratch[d]. */
static double row_divergence(int d, const float *p, const float *q, float *scratch) {
    float max_p = kernels->max_row(d, p), max_q = kernels->max_row(d, q);
    double sum_q = kernels->exp_sum_row(d, q, scratch, max_q), sum_p = kernels->exp_sum_row(d, p, scratch, max_p);
    double shift = (fixed_log(sum_q) + max_q) - (fixed_log(sum_p) + max_p), sum = 0;
    for (int i = 0; i < d; i++) sum += scratch[i] * ((double)p[i] - q[i]);
    return sum / sum_p + shift;
}

/* The sum over n rows of the hidden ones, from `first` on, and those as far behind the plain window. */
static double rows_divergence(Fit *f, const Mat *hidden, int first, int n) {
    size_t width = (size_t)hidden->d;
    Mat plain = {.n = n, .d = hidden->d, .x = hidden->x + (size_t)first * width}, noisy = plain;
    noisy.x += (size_t)f->length * width;
    const Mat *p = model_logits(f->m, &f->tape, &plain), *q = model_logits(f->m, &f->tape, &noisy);
    size_t d = (size_t)p->d;
    float *scratch = tape_alloc(&f->tape, (size_t)team_size() * d * sizeof *scratch);
    double nats[ROWS], sum = 0;
#pragma omp parallel for if (team_pays((size_t)n * d, TEAM_ELEMENTS))
    for (int i = 0; i < n; i++) {
        size_t at = (size_t)i * d;
        nats[i] = row_divergence(p->d, p->x + at, q->x + at, scratch + (size_t)team_member() * d);
    }
    for (int i = 0; i < n; i++) sum += nats[i];
    return sum;
}

/* The mean over the rows of window w, which stands in the batch twice: plain, and under its seed. */
static double window_divergence(Fit *f, int w, double strength) {
    int tokens[2 * NOISE_FIT_LENGTH], n = f->length;
    NoiseKey seed = {.seed = (uint64_t)w, .scale = (float)strength};
    Segment both[2] = {{.n = n}, {.row0 = n, .n = n, .noise = seed}};
    Batch batch = {.tokens = tokens, .n = 2 * n, .segments = both, .n_segments = 2};
    double sum = 0;
    read_window(f, w, tokens);
    read_window(f, w, tokens + n);
    tape_reset(&f->tape);
    const Mat *hidden = model_hidden(f->m, &f->tape, &batch, NULL);
    ArenaMark mark = arena_mark(&f->tape.arena);
    for (int i = 0; i < n; i += ROWS) {
        sum += rows_divergence(f, hidden, i, MIN(ROWS, n - i));
        arena_rewind(&f->tape.arena, mark);
    }
    return sum / n;
}

static int try_strength(Fit *f, double strength, NoiseFit *out, Err *err) {
    double sum = 0;
    out->strength = strength;
    out->least = INFINITY;
    out->greatest = 0;
    for (int w = 0; w < NOISE_FIT_WINDOWS; w++) {
        double nats = window_divergence(f, w, strength);
        if (!isfinite(nats)) return err_set(err, "the network's answers to window %d of the text are not finite", w);
        out->least = fmin(out->least, nats);
        out->greatest = fmax(out->greatest, nats);
        sum += nats;
    }
    out->nats = sum / NOISE_FIT_WINDOWS;
    return 0;
}

/* ---- the search ---- */

/* A strength tried, and the nats that it came to; none: strength 0. */
typedef struct Bound {
    double strength, nats;
} Bound;

/* Between two bounds nats go like a power of r, the one that joins them; else like that of 2, which they do where they
 * are few, but twice as far at least. */
static double next_strength(Bound low, Bound high, double budget) {
    if (high.strength == 0) return low.strength * fmin(fmax(sqrt(budget / low.nats), 2), 4);
    if (low.strength == 0) return high.strength * fmin(fmax(sqrt(budget / high.nats), 0.25), 0.5);
    double share = fixed_log(budget / low.nats) / fixed_log(high.nats / low.nats);
    return low.strength * fixed_pow(high.strength / low.strength, fmin(fmax(share, 0.02), 0.98));
}

static int search(Fit *f, double budget, NoiseFit *out, Err *err) {
    Bound low = {0}, high = {0};
    double strength = STRENGTH_FIRST;
    for (int pass = 0; pass < PASSES; pass++) {
        if (try_strength(f, strength, out, err)) return -1;
        if (fabs(out->nats - budget) <= TOLERANCE * budget) return 0;
        *(out->nats < budget ? &low : &high) = (Bound){strength, fmax(out->nats, 1e-12)};
        if (low.strength == STRENGTH_MOST)
            return err_set(err, "a budget of %g nats cannot be reached: noise %g times as long as the queries makes %g",
                           budget, STRENGTH_MOST, out->nats);
        strength = fmin(next_strength(low, high, budget), STRENGTH_MOST);
    }
    return err_set(err, "a budget of %g nats cannot be met: %g of the queries makes %g, and %g makes %g", budget,
                   low.strength, low.nats, high.strength, high.nats);
}

int noise_fit(Model *m, const int *tokens, size_t n, int bos, double budget, NoiseFit *out, Err *err) {
    Fit f = {.m = m, .tokens = tokens, .n = n, .bos = bos, .heads = config_heads(&m->cfg)};
    size_t distributions = (size_t)(m->cfg.n_layers * f.heads.heads);
    f.length = MIN(NOISE_FIT_LENGTH, m->cfg.max_positions);
    if (n + (bos >= 0) < (size_t)f.length)
        return err_set(err, "the text has %zu tokens, a window has %d", n + (bos >= 0), f.length);
    f.squares = xcalloc(distributions, sizeof *f.squares);
    tape_init(&f.tape, false);
    measure_queries(&f);
    *out = (NoiseFit){.length = f.length};
    int rc = search(&f, budget, out, err);
    for (int l = 0; l < m->cfg.n_layers; l++)
        for (int h = 0; h < f.heads.heads; h++)
            weight_f32(&m->blocks[l].attention.noise.sigma)[h] *= (float)out->strength;
    tape_free(&f.tape);
    free(f.squares);
    return rc;
}
