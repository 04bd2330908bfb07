#include "trainer/text/masks.h"

#include "base/random.h"
#include "model/shape.h"
#include "tokenizer/tokenizer_json.h"

#include <string.h>

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

int masks_same_ids(const Tokenizer *t, const char *file, const char *hash, char sum[SHA256_HEX], Err *err) {
    char without[SHA256_HEX], with[SHA256_HEX];
    Tokenizer *plain, *more = NULL;
    if (tokenizer_json_sha256(t, sum, err)) return -1;
    if (!strcmp(sum, hash)) return 1;
    if (tokenizer_find_special(t, MASK_TOKEN) < 0) return 0;
    if (tokenizer_json_load(&plain, file, err)) return -1;
    int rc = tokenizer_json_sha256(plain, without, err);
    if (rc == 0 && !strcmp(without, hash) && tokenizer_find_special(plain, MASK_TOKEN) < 0) {
        more = tokenizer_with_special(plain, MASK_TOKEN, err);
        rc = more ? tokenizer_json_sha256(more, with, err) : -1;
    }
    if (more) tokenizer_free(more);
    tokenizer_free(plain);
    return rc < 0 ? -1 : more && !strcmp(sum, with);
}
