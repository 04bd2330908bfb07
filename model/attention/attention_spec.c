#include "model/attention/attention_spec.h"

#include "model/shape.h"

int attention_keys_seen(const AttentionSpec *spec, const Segment *keys, int i) {
    return spec->causal ? i + 1 : keys->pos0 + keys->n;
}

bool attention_noise_row(const Forward *f, const AttentionSpec *spec, const Segment *seg, int head, int row, int i,
                         int first, int n, NoiseRow *out) {
    if (!spec->noise || !config_noise_acts(f->cfg, seg->noise.scale)) return false;
    *out = (NoiseRow){.cfg = f->cfg,
                      .noise = spec->noise,
                      .mixtures = spec->mixtures,
                      .key = seg->noise,
                      .layer = f->layer,
                      .head = head,
                      .i = i,
                      .first = first,
                      .n = n};
    if (spec->condition) {
        int count = spec->condition->d / 2, distribution = f->cfg->noise.scope == NOISE_HEAD ? head : 0;
        out->log_variance =
            spec->condition->x[(size_t)row * (size_t)spec->condition->d + (size_t)(count + distribution)];
    }
    return true;
}
