#include "trainer/micro_batch.h"

#include "base/fixed_math.h"
#include "base/memory.h"
#include "base/random.h"
#include "model/ops/op.h"
#include "model/shape.h"
#include "trainer/text/masks.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { CHOICE_ROWS = 512, BALANCE_ROUNDS = 100 };
#define LEAST_SHARE 1e-300 /* of a component that no window would have: its logarithm is finite */

int micro_batch_copies(const Settings *s, const Config *c) {
    int components = config_noise_components(c);
    if (components) return s->noise_assign == ASSIGN_SOFT ? components : 1;
    return s->noise_draws_weight == DRAWS_BEST ? 1 : (int)s->noise_draws;
}

bool micro_batch_tries(const Settings *s, const Config *c) {
    if (config_noise_components(c)) return s->noise_assign == ASSIGN_HARD || s->noise_assign == ASSIGN_BALANCED;
    return s->noise_draws_weight == DRAWS_BEST;
}

void micro_batch_init(MicroBatch *b, const Settings *s, const Model *m, Windows *w) {
    size_t windows = (size_t)(s->batch * micro_batch_copies(s, &m->cfg)), rows = windows * (size_t)w->length;
    size_t most = s->pieces ? windows * (((size_t)w->length - 1) / (size_t)s->pieces + 1) : windows;
    *b = (MicroBatch){.settings = s,
                      .model = m,
                      .windows = w,
                      .tokens = xcalloc(rows, sizeof *b->tokens),
                      .targets = xcalloc(rows, sizeof *b->targets),
                      .noise = xcalloc(windows, sizeof *b->noise),
                      .segments = xcalloc(most, sizeof *b->segments)};
    if (masks_any(&m->cfg, w->length)) b->weights = xcalloc(rows, sizeof *b->weights);
    tape_init(&b->choice, false);
    b->choice.bf16 = s->recipe.precision == PRECISION_BF16;
}

void micro_batch_free(MicroBatch *b) {
    tape_free(&b->choice);
    free(b->tokens);
    free(b->targets);
    free(b->weights);
    free(b->noise);
    free(b->segments);
}

/* One window in ten, whatever micro-batch it is in. */
static bool leaves_code_out(const MicroBatch *b, uint64_t window) {
    uint32_t draw =
        philox4x32(0, (uint32_t)window, (uint32_t)(window >> 32), DRAW_CODE, (uint64_t)b->settings->seed).v[0];
    return config_noise_components(&b->model->cfg) && 10 * (uint64_t)draw < UINT64_C(1) << 32;
}

/* Of copy k of window i. */
static NoiseKey noise_of(const MicroBatch *b, int64_t step, uint64_t number, int i, int k) {
    const Settings *s = b->settings;
    int components = config_noise_components(&b->model->cfg), copies = micro_batch_copies(s, &b->model->cfg);
    bool numbered = s->noise_per_sequence || s->noise_draws > 1 || components;
    float scale = step < s->noise_warmup ? (float)(step + 1) / (float)s->noise_warmup : 1;
    int each = components ? copies : (int)s->noise_draws, component = copies > 1 ? 1 + k : 0;
    if (s->noise_assign == ASSIGN_SOURCE) component = 1 + windows_row(b->windows, b->first + (uint64_t)i);
    return (NoiseKey){.seed = (uint64_t)s->seed,
                      .stream = (uint32_t)(1 + number % UINT32_MAX),
                      .sequence = numbered ? (uint32_t)(i * each + k) : 0,
                      .scale = leaves_code_out(b, b->first + (uint64_t)i) ? 0 : scale,
                      .component = components ? component : 0};
}

int micro_batch_read(MicroBatch *b, int64_t step, int64_t micro, Err *err) {
    const Settings *s = b->settings;
    int copies = micro_batch_copies(s, &b->model->cfg), length = b->windows->length, rows = copies * length;
    uint64_t number = (uint64_t)step * (uint64_t)s->accumulate + (uint64_t)micro;
    b->first = number * (uint64_t)s->batch;
    for (int i = 0; i < (int)s->batch; i++) {
        int at = i * rows, *tokens = b->tokens + at, *targets = b->targets + at;
        float *weights = b->weights ? b->weights + at : NULL;
        uint64_t window = b->first + (uint64_t)i;
        if (windows_read(b->windows, window, b->model->cfg.vocab_size, tokens, targets, err)) return -1;
        if (weights) masks_apply(&b->model->cfg, (uint64_t)s->seed, window, length, tokens, targets, weights);
        for (int k = length; k < rows; k++) {
            tokens[k] = tokens[k - length];
            targets[k] = targets[k - length];
            if (weights) weights[k] = weights[k - length];
        }
        for (int k = 0; k < copies; k++) b->noise[i * copies + k] = noise_of(b, step, number, i, k);
    }
    return 0;
}

/* Fills b->segments with n windows from the first-th on, each under its `copies` of `noise`; returns how many they are.
 */
static int lay_out(MicroBatch *b, int first, int n, int copies, const NoiseKey *noise) {
    int length = b->windows->length, pieces = (int)b->settings->pieces, m = 0;
    for (int i = 0; i < n * copies; i++) {
        bool cut = pieces > 0 && (b->first + (uint64_t)(first + i / copies)) % 2;
        for (int at = 0, most = cut ? pieces : length; at < length; at += most)
            b->segments[m++] = (Segment){.row0 = i * length + at, .n = MIN(most, length - at), .noise = noise[i]};
    }
    return m;
}

/* ---- what is tried before, forwards only ---- */

/* The mean losses of the n windows from the first-th on, each under its own of `noise`. */
static void window_losses(MicroBatch *b, int first, int n, const NoiseKey *noise, float *loss) {
    int length = b->windows->length, row = first * length;
    Batch rows = {.tokens = b->tokens + row,
                  .n = n * length,
                  .segments = b->segments,
                  .n_segments = lay_out(b, first, n, 1, noise)};
    tape_reset(&b->choice);
    const Mat *logits = model_forward(b->model, &b->choice, &rows, NULL);
    for (int i = 0; i < n; i++, row += length) {
        Mat own = {.n = length, .d = logits->d, .x = logits->x + (size_t)i * (size_t)length * (size_t)logits->d};
        loss[i] = op_cross_entropy(&b->choice, &own, b->targets + row, b->weights ? b->weights + row : NULL)->x[0];
    }
}

/* Candidate k for the noise of a window that has `given`: another draw, or the mean of a component. */
static NoiseKey candidate(const MicroBatch *b, NoiseKey given, int window, int k) {
    if (config_noise_components(&b->model->cfg)) {
        given.component = 1 + k;
        given.means_only = true;
    } else {
        given.sequence = (uint32_t)(window * (int)b->settings->noise_draws + k);
    }
    return given;
}

/* Mean losses [most][batch] of all windows under their candidates; some windows at a time: enough rows to multiply by,
 * and little memory. */
static void candidate_losses(MicroBatch *b, int most, float *losses) {
    int windows = (int)b->settings->batch, length = b->windows->length;
    int some = MIN(windows, MAX(1, CHOICE_ROWS / length));
    NoiseKey *tried = xcalloc((size_t)some, sizeof *tried);
    for (int first = 0; first < windows; first += some) {
        int n = MIN(some, windows - first);
        for (int k = 0; k < most; k++) {
            for (int i = 0; i < n; i++) tried[i] = candidate(b, b->noise[first + i], first + i, k);
            window_losses(b, first, n, tried, losses + k * windows + first);
        }
    }
    free(tried);
}

static double targets_of(const MicroBatch *b, int window) {
    double sum = b->windows->length;
    if (b->weights) sum = 0;
    for (int i = 0; i < b->windows->length && b->weights; i++)
        sum += (double)b->weights[window * b->windows->length + i];
    return sum;
}

/* -log mean_z p of a window in nats, from its nats under `most` components, `stride` apart; *effective grows by
 * 1 / the sum of their squared shares. */
static double marginal(const double *nats, int most, int stride, double *effective) {
    double least = INFINITY, sum = 0, squares = 0;
    for (int k = 0; k < most; k++) least = fmin(least, nats[k * stride]);
    for (int k = 0; k < most; k++) {
        double p = fixed_exp(least - nats[k * stride]);
        sum += p;
        squares += p * p;
    }
    *effective += sum * sum / squares;
    return least - fixed_log(sum / most);
}

/* Sinkhorn's iteration: lift[k], in nats, is what component k is favoured by so that the windows' posteriors,
 * p_ik ~ exp(lift_k - nats_ik), come to as much for every component. A window that learns without one does not count.
 */
static void balance(const MicroBatch *b, const double *nats, int most, double *lift) {
    int windows = (int)b->settings->batch;
    double *share = xcalloc((size_t)most, sizeof *share), *p = xcalloc((size_t)most, sizeof *p);
    for (int round = 0; round < BALANCE_ROUNDS; round++) {
        memset(share, 0, (size_t)most * sizeof *share);
        double counted = 0;
        for (int i = 0; i < windows; i++) {
            if (b->noise[i].scale == 0) continue;
            double highest = -INFINITY, sum = 0;
            for (int k = 0; k < most; k++) highest = fmax(highest, lift[k] - nats[k * windows + i]);
            for (int k = 0; k < most; k++) sum += p[k] = fixed_exp(lift[k] - nats[k * windows + i] - highest);
            for (int k = 0; k < most; k++) share[k] += p[k] / sum;
            counted++;
        }
        for (int k = 0; k < most && counted > 0; k++)
            lift[k] -= fixed_log(fmax(share[k], LEAST_SHARE) * most / counted);
    }
    free(p);
    free(share);
}

/* Every window gets the likeliest of `most` candidates; of components also *r. */
static void choose_noise(MicroBatch *b, int most, MicroLoss *r) {
    int windows = (int)b->settings->batch;
    float *losses = xcalloc((size_t)(windows * most), sizeof *losses);
    double *nats = xcalloc((size_t)(windows * most), sizeof *nats), *lift = xcalloc((size_t)most, sizeof *lift);
    double sum = 0, tokens = 0, effective = 0;
    candidate_losses(b, most, losses);
    for (int i = 0; i < windows; i++) {
        double own = targets_of(b, i);
        for (int k = 0; k < most; k++) nats[k * windows + i] = (double)losses[k * windows + i] * own;
        sum += marginal(nats + i, most, windows, &effective);
        tokens += own;
    }
    if (config_noise_components(&b->model->cfg) && b->settings->noise_assign == ASSIGN_BALANCED)
        balance(b, nats, most, lift);
    for (int i = 0; i < windows; i++) {
        int best = 0;
        for (int k = 1; k < most; k++)
            if (nats[k * windows + i] - lift[k] < nats[best * windows + i] - lift[best]) best = k;
        b->noise[i] = candidate(b, b->noise[i], i, best);
        b->noise[i].means_only = false;
    }
    free(lift);
    free(nats);
    free(losses);
    *r = (MicroLoss){.loss = sum / fmax(tokens, 1), .draws = effective / windows};
}

MicroLoss micro_batch_gradient(MicroBatch *b, Tape *tape) {
    const Settings *s = b->settings;
    int components = config_noise_components(&b->model->cfg), copies = micro_batch_copies(s, &b->model->cfg);
    int windows = (int)s->batch * copies, length = b->windows->length;
    NoiseDraws draws = {.n = copies, .length = length};
    MicroLoss r = {.draws = 1}, tried = {0};
    if (micro_batch_tries(s, &b->model->cfg)) choose_noise(b, components ? components : (int)s->noise_draws, &tried);
    Batch rows = {.tokens = b->tokens,
                  .n = windows * length,
                  .segments = b->segments,
                  .n_segments = lay_out(b, 0, (int)s->batch, copies, b->noise)};
    tape->bf16 = s->recipe.precision == PRECISION_BF16;
    tape->recompute = s->recompute;
    tape_reset(tape);
    Mat *logits = model_forward(b->model, tape, &rows, NULL);
    Mat *loss = copies > 1 ? op_cross_entropy_draws(tape, logits, b->targets, b->weights, &draws, &r.draws)
                           : op_cross_entropy(tape, logits, b->targets, b->weights);
    loss = model_penalised(tape, loss, (float)s->kl_weight, &r.kl);
    r.loss = loss->x[0] - s->kl_weight * r.kl;
    tape_backward(tape, loss);
    if (components && tried.draws)
        r = (MicroLoss){.loss = tried.loss, .kl = r.kl, .draws = tried.draws, .chosen = r.loss};
    return r;
}
