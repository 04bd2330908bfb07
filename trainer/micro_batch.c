#include "trainer/micro_batch.h"

#include "base/memory.h"
#include "model/ops/op.h"
#include "trainer/masks.h"

#include <stdlib.h>

void micro_batch_init(MicroBatch *b, const Training *t) {
    size_t windows = (size_t)(t->settings->batch * t->settings->noise_draws),
           rows = windows * (size_t)t->windows->length;
    *b = (MicroBatch){.tokens = xcalloc(rows, sizeof *b->tokens),
                      .targets = xcalloc(rows, sizeof *b->targets),
                      .segments = xcalloc(windows, sizeof *b->segments)};
    if (t->model->cfg.task == TASK_FILL_MASK) b->weights = xcalloc(rows, sizeof *b->weights);
    tape_init(&b->tape, true);
    b->tape.bf16 = t->settings->precision == PRECISION_BF16;
    b->tape.recompute = t->settings->recompute;
}

void micro_batch_free(MicroBatch *b) {
    tape_free(&b->tape);
    free(b->tokens);
    free(b->targets);
    free(b->weights);
    free(b->segments);
}

int micro_batch_read(MicroBatch *b, const Training *t, int64_t step, int64_t micro, Err *err) {
    const Settings *s = t->settings;
    int draws = (int)s->noise_draws, length = t->windows->length, rows = draws * length;
    uint64_t number = (uint64_t)step * (uint64_t)s->accumulate + (uint64_t)micro;
    uint32_t stream = (uint32_t)(1 + number % UINT32_MAX);
    float scale = step < s->noise_warmup ? (float)(step + 1) / (float)s->noise_warmup : 1;
    for (int i = 0; i < (int)s->batch; i++) {
        int at = i * rows, *tokens = b->tokens + at, *targets = b->targets + at;
        float *weights = b->weights ? b->weights + at : NULL;
        uint64_t window = number * (uint64_t)s->batch + (uint64_t)i;
        if (windows_read(t->windows, window, t->model->cfg.vocab_size, tokens, targets, err)) return -1;
        if (weights) masks_apply(&t->model->cfg, (uint64_t)s->seed, window, length, tokens, targets, weights);
        for (int k = length; k < rows; k++) {
            tokens[k] = tokens[k - length];
            targets[k] = targets[k - length];
            if (weights) weights[k] = weights[k - length];
        }
    }
    for (int i = 0; i < (int)s->batch * draws; i++)
        b->segments[i] = (Segment){.row0 = i * length,
                                   .n = length,
                                   .noise = {.seed = (uint64_t)s->seed,
                                             .stream = stream,
                                             .sequence = s->noise_per_sequence || draws > 1 ? (uint32_t)i : 0,
                                             .scale = scale}};
    return 0;
}

void micro_batch_gradient(MicroBatch *b, const Training *t, MicroBatchResult *r) {
    const Settings *s = t->settings;
    int windows = (int)(s->batch * s->noise_draws), length = t->windows->length;
    Batch rows = {.tokens = b->tokens, .n = windows * length, .segments = b->segments, .n_segments = windows};
    NoiseDraws draws = {.n = (int)s->noise_draws, .length = length, .best = s->noise_draws_weight == DRAWS_BEST};
    *r = (MicroBatchResult){.draws = 1};
    tape_reset(&b->tape);
    Mat *logits = model_forward(t->model, &b->tape, &rows, NULL);
    Mat *loss = draws.n > 1 ? op_cross_entropy_draws(&b->tape, logits, b->targets, b->weights, &draws, &r->draws)
                            : op_cross_entropy(&b->tape, logits, b->targets, b->weights);
    loss = model_penalised(&b->tape, loss, (float)s->kl_weight, &r->kl);
    tape_backward(&b->tape, loss);
    r->loss = loss->x[0] - s->kl_weight * r->kl;
}
