#include "model/encoder_decoder.h"

#include "base/err.h"
#include "base/memory.h"
#include "model/ops/op.h"
#include "model/shape.h"
#include "model/transformer.h"

#include <math.h>
#include <stdlib.h>

enum { HEAD = 3 };

typedef struct DecoderBlock {
    Block own;
    Attention cross;
    Norm cross_norm;
} DecoderBlock;

typedef struct EncoderDecoder {
    int n_encoder, n_decoder; /* layers */
    Weight vectors;
    PlainLinear input;
    Block *encoder_blocks;        /* [n_encoder] */
    DecoderBlock *decoder_blocks; /* [n_decoder] */
    Norm encoder_norm, decoder_norm;
    PlainLinear head[HEAD];
} EncoderDecoder;

static int check(const Config *c, Err *err) {
    if (c->task != TASK_TEXT_CLASSIFICATION)
        return err_set(err, "network is encoder-decoder, but task is %s, not text-classification", task_names[c->task]);
    if (c->decoder_layers < 1 || c->decoder_layers > 1024)
        return err_set(err, "num_decoder_layers is %d, must be 1 to 1024", c->decoder_layers);
    if (c->hidden_size < 4) return err_set(err, "hidden_size is %d, must be 4 or more", c->hidden_size);
    if (c->causal) return err_set(err, "network is encoder-decoder, but causal is true: its encoder sees whole texts");
    if (c->pool != POOL_MEAN)
        return err_set(err, "network is encoder-decoder, but pool is %s, not mean", pool_names[c->pool]);
    if (c->sliding_window)
        return err_set(err, "network is encoder-decoder, but sliding_window is %d", c->sliding_window);
    if (c->block.norm != BLOCK_POST || c->block.no_residual)
        return err_set(err, "network is encoder-decoder, but block is not {\"norm\": \"post\", \"residual\": true}");
    if (!c->mlp.width) return err_set(err, "network is encoder-decoder, but mlp.intermediate_size is 0");
    if (c->position == POSITION_SINUSOIDAL || c->position == POSITION_NONE) return 0;
    return err_set(err, "network is encoder-decoder, but position is %s, must be sinusoidal or none",
                   position_names[c->position]);
}

/* ---- parameters ---- */

static void declare_block(Block *b, ParamSet *ps, const Config *c) {
    attention_declare(&b->attention, ps, c, "self_attn");
    norm_declare(&b->attention_norm, ps, c, "post_attention_layernorm");
    mlp_declare(&b->mlp, ps, c);
    norm_declare(&b->mlp_norm, ps, c, "post_feedforward_layernorm");
}

static void declare_encoder(EncoderDecoder *e, ParamSet *ps, const Config *c) {
    size_t at = params_enter(ps, "encoder.");
    e->encoder_blocks = xcalloc((size_t)c->n_layers, sizeof *e->encoder_blocks);
    for (int l = 0; l < c->n_layers; l++) {
        size_t layer = params_enter(ps, "layers.%d.", l);
        ps->bin++;
        declare_block(&e->encoder_blocks[l], ps, c);
        params_leave(ps, layer);
    }
    norm_declare(&e->encoder_norm, ps, c, "norm");
    params_leave(ps, at);
}

static void declare_decoder(EncoderDecoder *e, ParamSet *ps, const Config *c) {
    size_t at = params_enter(ps, "decoder.");
    e->decoder_blocks = xcalloc((size_t)c->decoder_layers, sizeof *e->decoder_blocks);
    for (int l = 0; l < c->decoder_layers; l++) {
        DecoderBlock *b = &e->decoder_blocks[l];
        size_t layer = params_enter(ps, "layers.%d.", l);
        ps->bin++;
        declare_block(&b->own, ps, c);
        attention_declare(&b->cross, ps, c, "cross_attn");
        norm_declare(&b->cross_norm, ps, c, "post_cross_attention_layernorm");
        params_leave(ps, layer);
    }
    norm_declare(&e->decoder_norm, ps, c, "norm");
    params_leave(ps, at);
}

/* By the shape alone: U(-b, b), b = sqrt(6 / (in + out)). */
static void start_as_xavier(ParamSet *ps, int first) {
    for (int i = first; i < ps->n; i++) {
        const int *dims = ps->params[i].weight->dims;
        float bound = (float)sqrt(6.0 / (dims[0] + dims[1]));
        if (ps->params[i].matrix) ps->params[i].init = (Init){.kind = INIT_UNIFORM, .a = -bound, .b = bound};
    }
}

static void declare(void *weights, ParamSet *ps, const Config *c) {
    EncoderDecoder *e = weights;
    int d = c->hidden_size, widths[HEAD + 1] = {d, d / 2, d / 4, config_outputs(c)};
    e->n_encoder = c->n_layers;
    e->n_decoder = c->decoder_layers;
    size_t model = params_enter(ps, "model.");
    network_declare_vectors(&e->vectors, ps, c);
    plain_linear_declare(&e->input, ps, "input", c->input.size, d);
    int first = ps->n;
    declare_encoder(e, ps, c);
    declare_decoder(e, ps, c);
    start_as_xavier(ps, first);
    params_leave(ps, model);
    for (int k = 0; k < HEAD; k++) {
        char name[24];
        snprintf(name, sizeof name, "head.%d", k);
        ps->bin++;
        plain_linear_declare(&e->head[k], ps, name, widths[k], widths[k + 1]);
    }
    ps->bin = 0;
}

static void release(void *weights) {
    EncoderDecoder *e = weights;
    for (int l = 0; l < e->n_encoder; l++) attention_free(&e->encoder_blocks[l].attention);
    for (int l = 0; l < e->n_decoder; l++) {
        attention_free(&e->decoder_blocks[l].own.attention);
        attention_free(&e->decoder_blocks[l].cross);
    }
    free(e->encoder_blocks);
    free(e->decoder_blocks);
}

static const Noise *noise_of(const void *weights, int i) {
    const EncoderDecoder *e = weights;
    if (i < e->n_encoder) return &e->encoder_blocks[i].attention.noise;
    int layer = (i - e->n_encoder) / 2;
    if (layer >= e->n_decoder) return NULL;
    const DecoderBlock *b = &e->decoder_blocks[layer];
    return (i - e->n_encoder) % 2 ? &b->cross.noise : &b->own.attention.noise;
}

/* ---- forward ---- */

/* norm(x + dropout(made)); a layer has two sublayers, counted from 1, for 0 is the input's place. */
static Mat *join(Forward *f, const Norm *n, Mat *x, Mat *made, int sublayer) {
    const NoiseKey *key = &f->batch->segments->noise;
    made = op_dropout(f->tape, made, f->cfg->dropout, 2 * f->layer + sublayer, key);
    return norm(f, n, op_residual(f->tape, x, made));
}

static Mat *embed(const EncoderDecoder *e, const Forward *f) {
    const Config *c = f->cfg;
    Mat *x = plain_linear(f->tape, &e->input, op_embed(f->tape, &e->vectors, f->batch->tokens, f->batch->n));
    if (c->position == POSITION_SINUSOIDAL) x = op_add_sinusoids(f->tape, x, f->positions);
    return op_dropout(f->tape, x, c->dropout, 0, &f->batch->segments->noise);
}

static Mat *encode(const EncoderDecoder *e, Forward *layers) {
    Mat *x = embed(e, layers);
    for (int l = 0; l < e->n_encoder; l++) {
        Forward *f = &layers[l];
        const Block *b = &e->encoder_blocks[l];
        tape_enter_layer(f->tape, l);
        x = join(f, &b->attention_norm, x, attention(f, &b->attention, x), 1);
        x = join(f, &b->mlp_norm, x, mlp(f, &b->mlp, x), 2);
    }
    return norm(layers, &e->encoder_norm, x);
}

/* Of two Forwards a layer the first is its self-attention's. */
static Mat *decode(const EncoderDecoder *e, Forward *layers, Forward *of_memory, Mat *memory) {
    Mat *x = embed(e, layers);
    for (int l = 0; l < e->n_decoder; l++) {
        Forward *self = &layers[2 * l], *cross = self + 1;
        const DecoderBlock *b = &e->decoder_blocks[l];
        tape_enter_layer(self->tape, e->n_encoder + l);
        x = join(self, &b->own.attention_norm, x, attention(self, &b->own.attention, x), 1);
        x = join(cross, &b->cross_norm, x, attention_cross(cross, &b->cross, x, of_memory, memory), 1);
        x = join(cross, &b->own.mlp_norm, x, mlp(cross, &b->own.mlp, x), 2);
    }
    return norm(layers, &e->decoder_norm, x);
}

static Mat *forward(const void *weights, const Config *c, Tape *tape, const Batch *batch) {
    const EncoderDecoder *e = weights;
    Config *causal = tape_alloc(tape, sizeof *causal);
    *causal = *c;
    causal->causal = true;
    BUG_ON(batch->want);
    Forward *encoder = forward_layers(c, 0, e->n_encoder, tape, batch, NULL);
    Forward *decoder = forward_layers(causal, e->n_encoder, 2 * e->n_decoder, tape, batch, NULL);
    Mat *x = op_mean(tape, decode(e, decoder, encoder, encode(e, encoder)), batch);
    for (int k = 0; k < HEAD; k++) {
        tape_enter_layer(tape, e->n_encoder + e->n_decoder + k);
        x = plain_linear(tape, &e->head[k], x);
        if (k < HEAD - 1) x = op_activation(tape, x, ACT_RELU);
    }
    return x;
}

const Network encoder_decoder_network = {.name = "encoder-decoder",
                                         .weights_size = sizeof(EncoderDecoder),
                                         .attends = true,
                                         .check = check,
                                         .declare = declare,
                                         .release = release,
                                         .forward = forward,
                                         .noise = noise_of};
