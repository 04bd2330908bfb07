#include "trainer/micro_batch.h"

#include "base/memory.h"
#include "model/ops/op.h"
#include "trainer/text/masks.h"

#include <math.h>
#include <stdlib.h>

enum { CHOICE_ROWS = 512 };

int micro_batch_copies(const Settings *s) { return s->noise_draws_weight == DRAWS_BEST ? 1 : (int)s->noise_draws; }

void micro_batch_init(MicroBatch *b, const Settings *s, const Model *m, Windows *w) {
    size_t windows = (size_t)(s->batch * micro_batch_copies(s)), rows = windows * (size_t)w->length;
    *b = (MicroBatch){.settings = s,
                      .model = m,
                      .windows = w,
                      .tokens = xcalloc(rows, sizeof *b->tokens),
                      .targets = xcalloc(rows, sizeof *b->targets),
                      .segments = xcalloc(windows, sizeof *b->segments)};
    if (masks_any(&m->cfg, w->length)) b->weights = xcalloc(rows, sizeof *b->weights);
    tape_init(&b->choice, false);
}

void micro_batch_free(MicroBatch *b) {
    tape_free(&b->choice);
    free(b->tokens);
    free(b->targets);
    free(b->weights);
    free(b->segments);
}

int micro_batch_read(MicroBatch *b, int64_t step, int64_t micro, Err *err) {
    const Settings *s = b->settings;
    int copies = micro_batch_copies(s), draws = (int)s->noise_draws, length = b->windows->length,
        rows = copies * length;
    uint64_t number = (uint64_t)step * (uint64_t)s->accumulate + (uint64_t)micro;
    uint32_t stream = (uint32_t)(1 + number % UINT32_MAX);
    float scale = step < s->noise_warmup ? (float)(step + 1) / (float)s->noise_warmup : 1;
    for (int i = 0; i < (int)s->batch; i++) {
        int at = i * rows, *tokens = b->tokens + at, *targets = b->targets + at;
        float *weights = b->weights ? b->weights + at : NULL;
        uint64_t window = number * (uint64_t)s->batch + (uint64_t)i;
        if (windows_read(b->windows, window, b->model->cfg.vocab_size, tokens, targets, err)) return -1;
        if (weights) masks_apply(&b->model->cfg, (uint64_t)s->seed, window, length, tokens, targets, weights);
        for (int k = length; k < rows; k++) {
            tokens[k] = tokens[k - length];
            targets[k] = targets[k - length];
            if (weights) weights[k] = weights[k - length];
        }
    }
    for (int i = 0; i < (int)s->batch * copies; i++)
        b->segments[i] =
            (Segment){.row0 = i * length,
                      .n = length,
                      .noise = {.seed = (uint64_t)s->seed,
                                .stream = stream,
                                .sequence = s->noise_per_sequence || draws > 1 ? (uint32_t)(i * (draws / copies)) : 0,
                                .scale = scale}};
    return 0;
}

/* Of n windows from the first-th on, each under its k-th draw: keeps that draw where it is likelier than those before.
 */
static void try_draw(MicroBatch *b, int first, int n, int k, float *least, Segment *tried) {
    int length = b->windows->length, row = first * length;
    uint32_t draws = (uint32_t)b->settings->noise_draws;
    for (int i = 0; i < n; i++) {
        tried[i] = (Segment){.row0 = i * length, .n = length, .noise = b->segments[first + i].noise};
        tried[i].noise.sequence = (uint32_t)(first + i) * draws + (uint32_t)k;
    }
    Batch rows = {.tokens = b->tokens + row, .n = n * length, .segments = tried, .n_segments = n};
    tape_reset(&b->choice);
    const Mat *logits = model_forward(b->model, &b->choice, &rows, NULL);
    for (int i = 0; i < n; i++, row += length) {
        Mat own = {.n = length, .d = logits->d, .x = logits->x + (size_t)i * (size_t)length * (size_t)logits->d};
        float loss = op_cross_entropy(&b->choice, &own, b->targets + row, b->weights ? b->weights + row : NULL)->x[0];
        if (loss >= least[i]) continue;
        least[i] = loss;
        b->segments[first + i].noise = tried[i].noise;
    }
}

/* Some windows at a time: enough rows to multiply by, and little memory. */
static void choose_noise(MicroBatch *b) {
    int windows = (int)b->settings->batch, some = MIN(windows, MAX(1, CHOICE_ROWS / b->windows->length));
    float *least = xcalloc((size_t)some, sizeof *least);
    Segment *tried = xcalloc((size_t)some, sizeof *tried);
    for (int first = 0; first < windows; first += some) {
        for (int i = 0; i < some; i++) least[i] = INFINITY;
        for (int k = 0; k < (int)b->settings->noise_draws; k++)
            try_draw(b, first, MIN(some, windows - first), k, least, tried);
    }
    free(tried);
    free(least);
}

MicroLoss micro_batch_gradient(MicroBatch *b, Tape *tape) {
    const Settings *s = b->settings;
    int windows = (int)s->batch * micro_batch_copies(s), length = b->windows->length;
    Batch rows = {.tokens = b->tokens, .n = windows * length, .segments = b->segments, .n_segments = windows};
    NoiseDraws draws = {.n = micro_batch_copies(s), .length = length};
    MicroLoss r = {.draws = 1};
    if (s->noise_draws_weight == DRAWS_BEST) choose_noise(b);
    tape->bf16 = s->precision == PRECISION_BF16;
    tape->recompute = s->recompute;
    tape_reset(tape);
    Mat *logits = model_forward(b->model, tape, &rows, NULL);
    Mat *loss = draws.n > 1 ? op_cross_entropy_draws(tape, logits, b->targets, b->weights, &draws, &r.draws)
                            : op_cross_entropy(tape, logits, b->targets, b->weights);
    loss = model_penalised(tape, loss, (float)s->kl_weight, &r.kl);
    tape_backward(tape, loss);
    r.loss = loss->x[0] - s->kl_weight * r.kl;
    return r;
}
