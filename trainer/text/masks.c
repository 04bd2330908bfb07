#include "trainer/text/masks.h"

#include "base/random.h"
#include "model/shape.h"

static const uint32_t chosen_below = (uint32_t)(0.15 * 0x1p32), masked_below = (uint32_t)(0.8 * 0x1p32),
                      changed_below = (uint32_t)(0.9 * 0x1p32);

static bool one_image(const Config *c, int n) {
    return c->input.kind == INPUT_TOKENS && c->input.height && n == config_image_rows(c);
}

bool masks_any(const Config *c, int n) { return c->task == TASK_FILL_MASK || one_image(c, n); }

static int weigh_all(const Config *c, int n, float *weights) {
    int counting = one_image(c, n) ? n - 1 : n;
    for (int i = 0; i < n; i++) weights[i] = i < counting;
    return counting;
}

int masks_apply(const Config *c, uint64_t seed, uint64_t window, int n, int *tokens, int *targets, float *weights) {
    int chosen = 0;
    if (c->task != TASK_FILL_MASK) return weigh_all(c, n, weights);
    for (int i = 0; i < n; i++) {
        Philox p = philox4x32((uint32_t)i, (uint32_t)window, (uint32_t)(window >> 32), DRAW_MASK, seed);
        targets[i] = tokens[i];
        weights[i] = 0;
        if (tokens[i] == c->eos_token_id || p.v[0] >= chosen_below) continue;
        weights[i] = 1;
        chosen++;
        if (p.v[1] < masked_below)
            tokens[i] = c->mask_token_id;
        else if (p.v[1] < changed_below)
            tokens[i] = (int)(((uint64_t)p.v[2] << 32 | p.v[3]) % (uint64_t)c->vocab_size);
    }
    return chosen;
}
