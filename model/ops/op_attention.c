#include "model/ops/op_attention.h"

#include "base/err.h"

bool attention_noise_row(const Forward *f, const AttentionSpec *spec, const Segment *seg, int head, int row, int i,
                         NoiseRow *out) {
    if (!spec->noise || seg->noise.scale == 0) return false;
    *out = (NoiseRow){
        .cfg = f->cfg, .noise = spec->noise, .key = seg->noise, .layer = f->layer, .head = head, .i = i, .n = i + 1};
    if (spec->condition) {
        int n = spec->condition->d / 2, distribution = f->cfg->noise.scope == NOISE_HEAD ? head : 0;
        out->log_variance = spec->condition->x[(size_t)row * (size_t)spec->condition->d + (size_t)(n + distribution)];
    }
    return true;
}

Mat *op_attention(Forward *f, Mat *q, Mat *k, Mat *v, const AttentionSpec *spec) {
    HeadShape s = spec->heads;
    BUG_ON(q->d != s.heads * s.k_dim || k->d != s.kv_heads * s.k_dim || v->d != s.kv_heads * s.v_dim);
    Mat *y = tape_mat(f->tape, q->n, s.heads * s.v_dim);
    if (f->tape->recording) {
        attention_train(f, q, k, v, y, spec);
    } else {
        KvLayer kv = kv_layer(f->kv, f->layer);
        kv_append(&kv, f->batch, k, v);
        attention_serve(f, &kv, f->batch, q, y, spec);
    }
    return y;
}
