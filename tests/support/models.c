#include "tests/support/models.h"

#include "base/err.h"
#include "base/memory.h"
#include "base/random.h"
#include "model/config_check.h"
#include "model/shape.h"
#include "tests/support/test.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

bool test_model_init(TestModel *t, const Config *c, uint64_t seed) {
    Err err;
    *t = (TestModel){0};
    if (model_init(&t->model, c, &err)) {
        test_fail(__FILE__, __LINE__, "model_init: %s", err.msg);
        return false;
    }
    ParamSet *ps = &t->model.params;
    t->count = params_trained(ps);
    t->data = xcalloc(params_count(ps), sizeof(float));
    t->grad = xcalloc(t->count, sizeof(float));
    params_bind_flat(ps, t->data, t->grad);
    float *frozen = t->data + t->count;
    for (int i = 0; i < ps->n; i++) {
        Weight *w = ps->params[i].weight;
        Draws d = draws_open(seed, DRAW_TEST, (uint32_t)i);
        /* Those of a mixture are many: near 0 one would be, where the KL has no end. */
        bool sigmas = w->n_dims == 2 && strstr(w->name, "noise.sigma");
        bool centered_at_one = strstr(w->name, "norm.weight") || strstr(w->name, "freq") || sigmas;
        float spread = w->n_dims >= 2 ? 0.25f : 0.15f;
        if (ps->params[i].frozen) {
            w->data = frozen;
            frozen += weight_count(w);
        }
        for (size_t k = 0; k < weight_count(w); k++)
            weight_f32(w)[k] = (centered_at_one ? 1.0f : 0.0f) + spread * (float)draw_normal(&d);
    }
    return true;
}

void test_model_free(TestModel *t) {
    model_free(&t->model);
    free(t->data);
    free(t->grad);
}

Config test_config(const AttentionKind *kind) {
    Config c = {.vocab_size = 19,
                .hidden_size = 12,
                .n_layers = 2,
                .n_heads = 2,
                .n_kv_heads = 2,
                .head_dim = 4,
                .max_positions = 128,
                .norm = NORM_LAYER,
                .norm_eps = 1e-5f,
                .position = POSITION_LEARNED,
                .rope_theta = 10000,
                .bias = true,
                .causal = true,
                .tie_embeddings = true,
                .mlp = {.activation = ACT_GELU, .width = 20},
                .attention = {.kind = kind},
                .bos_token_id = 0,
                .eos_token_id = 0,
                .torch_dtype = "float32"};
    if (kind->own_kv_heads) c.n_kv_heads = 1;
    for (int k = 0; k < ATTENTION_VALUES && kind->keys[k]; k++) c.attention.values[k] = 4 + 2 * (k % 2);
    if (config_check(&c, NULL)) c.head_dim = c.hidden_size; /* a kind whose heads have the full width */
    return c;
}

const char *const test_variants[10] = {"plain",    "noise", "key",   "sequence", "components",
                                       "residual", "sas",   "noble", "window",   "all"};

Config test_variant(const AttentionKind *kind, const char *variant) {
    Config c = test_config(kind);
    bool all = !strcmp(variant, "all");
    if (all || !strcmp(variant, "noise")) c.noise.scope = NOISE_HEAD;
    for (int span = SPAN_KEY; span <= SPAN_SEQUENCE; span++)
        if (!strcmp(variant, span_names[span])) {
            c.noise.scope = NOISE_HEAD;
            c.noise.span = (NoiseSpan)span;
        }
    bool residual = !strcmp(variant, "residual");
    if (residual || !strcmp(variant, "components")) {
        c.noise.scope = residual ? NOISE_LAYER : NOISE_HEAD;
        c.noise.span = SPAN_SEQUENCE;
        c.noise.density = DENSITY_MIXTURE;
        c.noise.components = 3;
        c.noise.site = residual ? SITE_RESIDUAL : SITE_QUERY;
    }
    if (all || !strcmp(variant, "sas")) {
        c.sas.heads = 2 * c.n_heads;
        c.sas.head_dim = kind->heads(&c).k_dim + 2;
        c.sas.kernel = 3;
        c.sas.relu = true;
    }
    if (all || !strcmp(variant, "noble")) {
        c.noble.rank = 3;
        c.noble.layers = 2;
    }
    if (!strcmp(variant, "window")) { /* what Llama's descendants have */
        c.position = POSITION_ROPE;
        c.rope_scaling.kind = ROPE_LLAMA3;
        c.rope_scaling.factor = 4;
        c.rope_scaling.low_freq_factor = 1;
        c.rope_scaling.high_freq_factor = 4;
        c.rope_scaling.original_positions = 16;
        c.bias = BIAS_QKV;
        c.qk_norm = kind->norms_heads;
        c.sliding_window = 5;
    }
    if (all) {
        c.position = POSITION_ROPE;
        c.norm = NORM_RMS;
        c.bias = false;
        c.mlp.gated = true;
        c.mlp.activation = ACT_SILU;
    }
    return c;
}

void test_gradient(TestModel *t, const char *name, double (*loss)(const Model *m, void *context, bool backward),
                   void *context) {
    memset(t->grad, 0, t->count * sizeof(float));
    loss(&t->model, context, true);
    double norm = 0, side[2];
    for (size_t i = 0; i < t->count; i++) norm += (double)t->grad[i] * t->grad[i];
    norm = sqrt(norm);
    float *kept = xmalloc(t->count * sizeof(float));
    memcpy(kept, t->data, t->count * sizeof(float));
    double h = 2e-3 / norm;
    for (int k = 0; k < 2; k++) {
        for (size_t i = 0; i < t->count; i++) t->data[i] = kept[i] + (float)((k ? -h : h) * t->grad[i]);
        side[k] = loss(&t->model, context, false);
    }
    memcpy(t->data, kept, t->count * sizeof(float));
    free(kept);
    double numeric = (side[0] - side[1]) / (2 * h * norm);
    CHECK_MSG(norm > 1e-3 && fabs(numeric - norm) < 2e-2 * norm, "%s: gradient norm %g, difference quotient %g", name,
              norm, numeric);
}

static float *serve_whole(const Model *m, const int *tokens, int n, NoiseKey noise) {
    size_t count = (size_t)n * (size_t)m->cfg.vocab_size;
    float *logits = xmalloc(count * sizeof(float));
    Segment seg = {.n = n, .noise = noise};
    Batch batch = {.tokens = tokens, .n = n, .segments = &seg, .n_segments = 1};
    Tape tape;
    tape_init(&tape, false);
    memcpy(logits, model_forward(m, &tape, &batch, NULL)->x, count * sizeof(float));
    tape_free(&tape);
    return logits;
}

float *test_serve_form(const Model *m, const int *tokens, int n, NoiseKey noise, const int *chunks, int n_chunks,
                       KvForm form, Dtype dtype) {
    int vocab = m->cfg.vocab_size, n_blocks = kv_blocks(n);
    float *logits = xmalloc((size_t)n * (size_t)vocab * sizeof(float));
    int *blocks = xmalloc((size_t)n_blocks * sizeof *blocks);
    KvCache kv;
    Tape tape;
    BUG_ON(kv_init(&kv, &m->cfg, n_blocks, dtype, form, NULL));
    tape_init(&tape, false);
    for (int b = 0; b < n_blocks; b++) blocks[b] = n_blocks - 1 - b;
    for (int at = 0, k = 0; at < n; k++) {
        int rows = MIN(chunks[MIN(k, n_chunks - 1)], n - at);
        Segment seg = {.n = rows, .pos0 = at, .noise = noise, .blocks = blocks};
        Batch batch = {.tokens = tokens + at, .n = rows, .segments = &seg, .n_segments = 1};
        Mat *out = model_forward(m, &tape, &batch, &kv);
        memcpy(logits + (size_t)at * (size_t)vocab, out->x, (size_t)rows * (size_t)vocab * sizeof(float));
        tape_reset(&tape);
        at += rows;
    }
    kv_free(&kv);
    tape_free(&tape);
    free(blocks);
    return logits;
}

float *test_serve(const Model *m, const int *tokens, int n, NoiseKey noise, const int *chunks, int n_chunks) {
    if (!m->cfg.causal) return serve_whole(m, tokens, n, noise);
    return test_serve_form(m, tokens, n, noise, chunks, n_chunks, config_kv_form(&m->cfg), DTYPE_F32);
}
