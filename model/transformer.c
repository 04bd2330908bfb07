#include "model/transformer.h"

#include "base/arena.h"
#include "base/err.h"
#include "base/memory.h"
#include "model/config_check.h"
#include "model/kernels/kernels.h"
#include "model/network.h"
#include "model/ops/op.h"
#include "model/shape.h"

#include <stdlib.h>
#include <string.h>

static void declare_input(Model *m, ParamSet *ps, const Config *c, Init small) {
    int d = c->hidden_size, patch = c->input.channels * c->input.patch * c->input.patch;
    if (c->input.kind == INPUT_TOKENS) {
        param_declare(ps, &m->embed, "embed_tokens.weight", 2, (int[]){c->vocab_size, d}, small);
        return;
    }
    param_declare(ps, &m->patches, "embed_patches.weight", 2, (int[]){d, patch}, small);
    param_declare(ps, &m->patch_bias, "embed_patches.bias", 1, &d, (Init){.kind = INIT_CONSTANT});
    if (c->pool == POOL_FIRST) param_declare(ps, &m->class_row, "cls_token", 1, &d, small);
}

static void declare_head(Model *m, ParamSet *ps, const Config *c, Init small) {
    int dims[2] = {config_outputs(c), c->hidden_size};
    if (!config_classifies(c)) {
        if (!c->tie_embeddings) param_declare(ps, &m->lm_head, "lm_head.weight", 2, dims, small);
        return;
    }
    size_t at = params_enter(ps, config_pools(c) ? "score." : "classifier.");
    param_declare(ps, &m->score, "weight", 2, dims, small);
    if (c->bias == BIAS_ALL) param_declare(ps, &m->score_bias, "bias", 1, dims, (Init){.kind = INIT_CONSTANT});
    params_leave(ps, at);
}

int model_init(Model *m, const Config *c, Err *err) {
    *m = (Model){.cfg = *c};
    if (config_check(c, err)) return -1;
    ParamSet *ps = &m->params;
    if (c->network) {
        m->network = xcalloc(1, c->network->weights_size);
        c->network->declare(m->network, ps, c);
        return 0;
    }
    Init small = {.kind = INIT_NORMAL, .b = 0.02f};
    size_t model = params_enter(ps, "model.");
    declare_input(m, ps, c, small);
    if (c->position == POSITION_LEARNED)
        param_declare(ps, &m->positions, "embed_positions.weight", 2, (int[]){c->max_positions, c->hidden_size}, small);
    m->blocks = xcalloc((size_t)c->n_layers, sizeof *m->blocks);
    for (int l = 0; l < c->n_layers; l++) {
        Block *b = &m->blocks[l];
        size_t layer = params_enter(ps, "layers.%d.", l);
        ps->bin = l + 1;
        /* Llama's names where the norms come first, OLMo 2's where they come last. */
        bool first = c->block.norm == BLOCK_PRE, normed = c->block.norm != BLOCK_NO_NORM;
        if (normed) norm_declare(&b->attention_norm, ps, c, first ? "input_layernorm" : "post_attention_layernorm");
        attention_declare(&b->attention, ps, c, "self_attn");
        if (normed && c->mlp.width)
            norm_declare(&b->mlp_norm, ps, c, first ? "post_attention_layernorm" : "post_feedforward_layernorm");
        if (c->mlp.width) mlp_declare(&b->mlp, ps, c);
        ps->bin = 0;
        params_leave(ps, layer);
    }
    if (c->block.norm == BLOCK_PRE) norm_declare(&m->norm, ps, c, "norm");
    params_leave(ps, model);
    declare_head(m, ps, c, small);
    return 0;
}

void model_free(Model *m) {
    for (int l = 0; m->blocks && l < m->cfg.n_layers; l++) attention_free(&m->blocks[l].attention);
    free(m->blocks);
    if (m->network) m->cfg.network->release(m->network);
    free(m->network);
    params_free(&m->params);
    *m = (Model){0};
}

static Mat *norm_first(Forward *f, const Norm *n, Mat *x) {
    return f->cfg->block.norm == BLOCK_PRE ? norm(f, n, x) : x;
}

/* What follows on the rows x and what a sublayer has made of them; not recording, in the memory of x. */
static Mat *join(Forward *f, const Norm *n, Mat *x, Mat *made, int sublayer) {
    const Config *c = f->cfg;
    Mat *y = op_dropout(f->tape, made, c->dropout, 2 * f->layer + sublayer, &f->batch->segments->noise);
    if (!c->block.no_residual) y = op_residual(f->tape, x, y);
    if (c->block.norm == BLOCK_POST) y = norm(f, n, y);
    if (f->tape->recording || y == x) return y;
    memcpy(x->x, y->x, (size_t)x->n * (size_t)x->d * sizeof(float));
    return x;
}

/* Serving keeps one stream of rows and forgets a layer's scratch as soon as it is part of it. */
static Mat *block_forward(Forward *f, const Block *b, Mat *x) {
    ArenaMark mark = arena_mark(&f->tape->arena);
    bool hidden = f->cfg->mlp.width; /* else o_proj is the feed-forward layer */
    if (f->cfg->noise.site == SITE_RESIDUAL) x = noise_code(f, &b->attention.noise, x);
    Mat *made = attention(f, &b->attention, norm_first(f, &b->attention_norm, x));
    if (!hidden) made = op_activation(f->tape, made, f->cfg->mlp.activation);
    x = join(f, &b->attention_norm, x, made, 1);
    if (hidden) x = join(f, &b->mlp_norm, x, mlp(f, &b->mlp, norm_first(f, &b->mlp_norm, x)), 2);
    if (!f->tape->recording) arena_rewind(&f->tape->arena, mark);
    return x;
}

typedef struct BlockCall {
    Forward *f;
    const Block *block;
} BlockCall;

static Mat *block_again(void *context, Mat *x) {
    const BlockCall *c = context;
    return block_forward(c->f, c->block, x);
}

static Mat *block_recompute(Forward *f, const Block *b, Mat *x) {
    BlockCall *c = tape_alloc(f->tape, sizeof *c);
    *c = (BlockCall){.f = f, .block = b};
    return tape_recompute(f->tape, block_again, c, x);
}

Forward *model_layers(const Model *m, Tape *tape, const Batch *batch, const KvCache *kv) {
    return forward_layers(&m->cfg, 0, m->cfg.n_layers, tape, batch, kv);
}

const Noise *model_noise(const Model *m, int i) {
    const Network *network = m->cfg.network;
    if (m->cfg.noise.scope == NOISE_NONE) return NULL;
    if (network) return network->noise ? network->noise(m->network, i) : NULL;
    return i < m->cfg.n_layers ? &m->blocks[i].attention.noise : NULL;
}

Dtype model_precision(const Model *m) {
    if (m->network) return DTYPE_F32;
    const Weight *first = m->cfg.input.kind == INPUT_TOKENS ? &m->embed : &m->patches;
    return first->dtype == DTYPE_F32 ? DTYPE_F32 : DTYPE_BF16;
}

static bool has_bf16(const Model *m) {
    for (int i = 0; i < m->params.n; i++)
        if (m->params.params[i].weight->dtype == DTYPE_BF16) return true;
    return false;
}

const char *model_arithmetic(const Model *m) { return has_bf16(m) ? kernels->arithmetic_bf16 : kernels->arithmetic; }

static Mat *embed_images(const Model *m, Tape *t, const Batch *batch) {
    const Config *c = &m->cfg;
    int rows = config_image_rows(c);
    for (int s = 0; s < batch->n_segments; s++) BUG_ON(batch->segments[s].n != rows || batch->segments[s].pos0);
    Mat *x = op_linear(t, op_patches(t, batch->images, batch->n_segments, c), &m->patches, &m->patch_bias);
    return c->pool == POOL_FIRST ? op_class_rows(t, x, &m->class_row, batch->n_segments) : x;
}

static Mat *embed(const Model *m, Tape *t, const Batch *batch, const int *positions) {
    const Config *c = &m->cfg;
    Mat *x =
        c->input.kind == INPUT_PATCHES ? embed_images(m, t, batch) : op_embed(t, &m->embed, batch->tokens, batch->n);
    if (c->position == POSITION_LEARNED) x = op_residual(t, x, op_embed(t, &m->positions, positions, batch->n));
    if (c->position == POSITION_SINUSOIDAL) x = op_add_sinusoids(t, x, positions);
    return op_dropout(t, x, c->dropout, 0, &batch->segments->noise);
}

Mat *model_hidden(const Model *m, Tape *tape, const Batch *batch, const KvCache *kv) {
    const Config *c = &m->cfg;
    BUG_ON(kv && (tape->recording || !c->causal));
    if (!tape->recording) {
        tape->bf16 = model_precision(m) == DTYPE_BF16;
        tape->own_bf16 = kernels->scores_blocks && has_bf16(m);
    }
    Forward *layers = model_layers(m, tape, batch, kv);
    Mat *x = embed(m, tape, batch, layers->positions);
    for (int l = 0; l < c->n_layers; l++) {
        tape_enter_layer(tape, l);
        x = tape->recompute ? block_recompute(&layers[l], &m->blocks[l], x)
                            : block_forward(&layers[l], &m->blocks[l], x);
    }
    if (batch->want) x = op_rows(tape, x, batch->want, batch->n_want);
    return norm_first(layers, &m->norm, x);
}

Mat *model_pool(const Model *m, Tape *tape, const Batch *batch, Mat *hidden) {
    if (!config_pools(&m->cfg)) return hidden;
    BUG_ON(batch->want || hidden->n != batch->n);
    if (m->cfg.pool == POOL_MEAN) return op_mean(tape, hidden, batch);
    int *rows = tape_alloc(tape, (size_t)batch->n_segments * sizeof *rows);
    for (int s = 0; s < batch->n_segments; s++) {
        const Segment *seg = &batch->segments[s];
        rows[s] = seg->row0 + (m->cfg.pool == POOL_LAST ? seg->n - 1 : 0);
    }
    return op_rows(tape, hidden, rows, batch->n_segments);
}

const Weight *model_head(const Model *m) {
    return config_classifies(&m->cfg) ? &m->score : m->cfg.tie_embeddings ? &m->embed : &m->lm_head;
}

bool model_looks_up(const Model *m, const Weight *w) {
    return w == &m->positions || (w == &m->embed && w != model_head(m));
}

Mat *model_logits(const Model *m, Tape *tape, Mat *pooled) {
    return op_linear(tape, pooled, model_head(m), m->score_bias.data ? &m->score_bias : NULL);
}

Mat *model_forward(const Model *m, Tape *tape, const Batch *batch, const KvCache *kv) {
    if (m->network) {
        BUG_ON(kv);
        if (!tape->recording) tape->bf16 = false;
        return m->cfg.network->forward(m->network, &m->cfg, tape, batch);
    }
    return model_logits(m, tape, model_pool(m, tape, batch, model_hidden(m, tape, batch, kv)));
}

Mat *model_loss(Tape *tape, Mat *logits, const int *targets, const float *weights, float kl_weight, double *kl) {
    return model_penalised(tape, op_cross_entropy(tape, logits, targets, weights), kl_weight, kl);
}

Mat *model_penalised(Tape *tape, Mat *loss, float kl_weight, double *kl) {
    if (kl) *kl = tape->penalty ? tape->penalty->x[0] : 0;
    return tape->penalty ? op_add_scaled(tape, loss, tape->penalty, kl_weight) : loss;
}
