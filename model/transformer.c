#include "model/transformer.h"

#include "base/arena.h"
#include "base/err.h"
#include "base/memory.h"
#include "model/config_check.h"
#include "model/ops/op.h"

#include <stdlib.h>

int model_init(Model *m, const Config *c, Err *err) {
    *m = (Model){.cfg = *c};
    if (config_check(c, err)) return -1;
    ParamSet *ps = &m->params;
    Init small = {.kind = INIT_NORMAL, .b = 0.02f};
    size_t model = params_enter(ps, "model.");
    param_declare(ps, &m->embed, "embed_tokens.weight", 2, (int[]){c->vocab_size, c->hidden_size}, small);
    if (c->position == POSITION_LEARNED)
        param_declare(ps, &m->positions, "embed_positions.weight", 2, (int[]){c->max_positions, c->hidden_size}, small);
    m->blocks = xcalloc((size_t)c->n_layers, sizeof *m->blocks);
    for (int l = 0; l < c->n_layers; l++) {
        Block *b = &m->blocks[l];
        size_t layer = params_enter(ps, "layers.%d.", l);
        ps->bin = l + 1;
        norm_declare(&b->attention_norm, ps, c, "input_layernorm");
        attention_declare(&b->attention, ps, c);
        norm_declare(&b->mlp_norm, ps, c, "post_attention_layernorm");
        mlp_declare(&b->mlp, ps, c);
        ps->bin = 0;
        params_leave(ps, layer);
    }
    norm_declare(&m->norm, ps, c, "norm");
    params_leave(ps, model);
    if (!c->tie_embeddings)
        param_declare(ps, &m->lm_head, "lm_head.weight", 2, (int[]){c->vocab_size, c->hidden_size}, small);
    return 0;
}

void model_free(Model *m) {
    for (int l = 0; m->blocks && l < m->cfg.n_layers; l++) attention_free(&m->blocks[l].attention);
    free(m->blocks);
    params_free(&m->params);
    *m = (Model){0};
}

static const int *row_positions(Tape *t, const Batch *batch) {
    int *positions = tape_alloc(t, (size_t)batch->n * sizeof *positions);
    int row = 0;
    for (int s = 0; s < batch->n_segments; s++) {
        const Segment *seg = &batch->segments[s];
        BUG_ON(seg->row0 != row);
        for (int i = 0; i < seg->n; i++) positions[row++] = seg->pos0 + i;
    }
    BUG_ON(row != batch->n);
    return positions;
}

/* Serving keeps one residual stream and forgets a layer's scratch as soon as it is added to it. */
static Mat *block_forward(Forward *f, const Block *b, Mat *x) {
    ArenaMark mark = arena_mark(&f->tape->arena);
    x = op_residual(f->tape, x, attention(f, &b->attention, norm(f, &b->attention_norm, x)));
    x = op_residual(f->tape, x, mlp(f, &b->mlp, norm(f, &b->mlp_norm, x)));
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
    int n_layers = m->cfg.n_layers, n_blocks = 0;
    Forward *f = tape_alloc(tape, (size_t)n_layers * sizeof *f);
    KvLayer *layers = NULL;
    if (!tape->recording) {
        layers = tape_alloc(tape, (size_t)n_layers * sizeof *layers);
        if (!kv) batch = kv_number_blocks(tape, batch, &n_blocks);
        for (int l = 0; l < n_layers; l++)
            layers[l] = kv ? kv_layer(kv, l) : l ? layers[0] : kv_local(tape, &m->cfg, n_blocks);
    }
    const int *positions = row_positions(tape, batch);
    for (int l = 0; l < n_layers; l++)
        f[l] = (Forward){.tape = tape,
                         .cfg = &m->cfg,
                         .batch = batch,
                         .positions = positions,
                         .kv = layers ? &layers[l] : NULL,
                         .layer = l};
    return f;
}

Dtype model_precision(const Model *m) { return m->embed.dtype == DTYPE_F32 ? DTYPE_F32 : DTYPE_BF16; }

Mat *model_hidden(const Model *m, Tape *tape, const Batch *batch, const KvCache *kv) {
    const Config *c = &m->cfg;
    BUG_ON(kv && (tape->recording || !c->causal));
    if (!tape->recording) tape->bf16 = model_precision(m) == DTYPE_BF16;
    Forward *layers = model_layers(m, tape, batch, kv);
    Mat *x = op_embed(tape, &m->embed, batch->tokens, batch->n);
    if (c->position == POSITION_LEARNED)
        x = op_residual(tape, x, op_embed(tape, &m->positions, layers->positions, batch->n));
    for (int l = 0; l < c->n_layers; l++)
        x = tape->recompute ? block_recompute(&layers[l], &m->blocks[l], x)
                            : block_forward(&layers[l], &m->blocks[l], x);
    if (batch->want) x = op_rows(tape, x, batch->want, batch->n_want);
    return norm(layers, &m->norm, x);
}

Mat *model_logits(const Model *m, Tape *tape, Mat *hidden) {
    return op_linear(tape, hidden, m->cfg.tie_embeddings ? &m->embed : &m->lm_head, NULL);
}

Mat *model_forward(const Model *m, Tape *tape, const Batch *batch, const KvCache *kv) {
    return model_logits(m, tape, model_hidden(m, tape, batch, kv));
}

Mat *model_loss(Tape *tape, Mat *logits, const int *targets, const float *weights, float kl_weight, double *kl) {
    Mat *loss = op_cross_entropy(tape, logits, targets, weights);
    if (kl) *kl = tape->penalty ? tape->penalty->x[0] : 0;
    return tape->penalty ? op_add_scaled(tape, loss, tape->penalty, kl_weight) : loss;
}
