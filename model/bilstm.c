#include "model/bilstm.h"

#include "base/err.h"
#include "base/memory.h"
#include "model/ops/op.h"
#include "model/shape.h"

#include <math.h>
#include <stdlib.h>

enum { DIRECTIONS = 2, GATES = 4 };

typedef struct Layer {
    Weight input, bias, recurrent;
} Layer;

typedef struct Bilstm {
    Weight vectors;
    Layer *layers; /* [L] */
    PlainLinear classifier;
} Bilstm;

static int check(const Config *c, Err *err) {
    if (c->dropout > 0) return err_set(err, "network is bilstm, but dropout is %g", (double)c->dropout);
    if (c->block.norm != BLOCK_PRE || c->block.no_residual)
        return err_set(err, "network is bilstm, which has no blocks, but block is given");
    if (c->task == TASK_TOKEN_CLASSIFICATION) return 0;
    return err_set(err, "network is bilstm, but task is %s, not token-classification", task_names[c->task]);
}

static void declare_layer(Layer *l, ParamSet *ps, int h, int in) {
    float bound = (float)(1 / sqrt(h));
    Init uniform = {.kind = INIT_UNIFORM, .a = -bound, .b = bound};
    int gates = DIRECTIONS * GATES * h;
    param_declare(ps, &l->input, "input.weight", 2, (int[]){gates, in}, uniform);
    param_declare(ps, &l->bias, "input.bias", 1, &gates, uniform);
    param_declare(ps, &l->recurrent, "recurrent.weight", 3, (int[]){DIRECTIONS, GATES * h, h}, uniform);
}

static void declare(void *weights, ParamSet *ps, const Config *c) {
    Bilstm *b = weights;
    size_t model = params_enter(ps, "model.");
    network_declare_vectors(&b->vectors, ps, c);
    b->layers = xcalloc((size_t)c->n_layers, sizeof *b->layers);
    for (int l = 0; l < c->n_layers; l++) {
        size_t layer = params_enter(ps, "layers.%d.", l);
        ps->bin = l + 1;
        declare_layer(&b->layers[l], ps, c->hidden_size, l ? DIRECTIONS * c->hidden_size : c->input.size);
        params_leave(ps, layer);
    }
    ps->bin = 0;
    params_leave(ps, model);
    plain_linear_declare(&b->classifier, ps, "classifier", DIRECTIONS * c->hidden_size, config_outputs(c));
}

static void release(void *weights) { free(((Bilstm *)weights)->layers); }

static Mat *forward(const void *weights, const Config *c, Tape *tape, const Batch *batch) {
    const Bilstm *b = weights;
    Mat *x = op_embed(tape, &b->vectors, batch->tokens, batch->n);
    for (int l = 0; l < c->n_layers; l++) {
        const Layer *layer = &b->layers[l];
        tape_enter_layer(tape, l);
        Mat *gates = op_linear(tape, x, &layer->input, &layer->bias);
        x = op_lstm(tape, gates, &layer->recurrent, batch->segments, batch->n_segments);
    }
    if (batch->want) x = op_rows(tape, x, batch->want, batch->n_want);
    return plain_linear(tape, &b->classifier, x);
}

const Network bilstm_network = {.name = "bilstm",
                                .weights_size = sizeof(Bilstm),
                                .check = check,
                                .declare = declare,
                                .release = release,
                                .forward = forward};
