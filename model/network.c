#include "model/network.h"

#include "model/ops/op.h"

#include <math.h>

void network_declare_vectors(Weight *w, ParamSet *ps, const Config *c) {
    param_declare(ps, w, "word_vectors.weight", 2, (int[]){c->vocab_size, c->input.size}, (Init){.kind = INIT_CONSTANT})
        ->frozen = true;
}

void plain_linear_declare(PlainLinear *l, ParamSet *ps, const char *name, int in, int out) {
    float bound = (float)(1 / sqrt(in));
    Init uniform = {.kind = INIT_UNIFORM, .a = -bound, .b = bound};
    size_t at = params_enter(ps, "%s.", name);
    param_declare(ps, &l->w, "weight", 2, (int[]){out, in}, uniform);
    param_declare(ps, &l->b, "bias", 1, &out, uniform);
    params_leave(ps, at);
}

Mat *plain_linear(Tape *tape, const PlainLinear *l, Mat *x) { return op_linear(tape, x, &l->w, &l->b); }
