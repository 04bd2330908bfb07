#include "model/norm.h"

#include "model/ops/op.h"

static void declare(Norm *n, ParamSet *ps, const char *name, int width) {
    size_t at = params_enter(ps, "%s.", name);
    param_declare(ps, &n->w, "weight", 1, &width, (Init){.kind = INIT_CONSTANT, .a = 1});
    if (n->has_bias) param_declare(ps, &n->b, "bias", 1, &width, (Init){.kind = INIT_CONSTANT});
    params_leave(ps, at);
}

void norm_declare(Norm *n, ParamSet *ps, const Config *c, const char *name) {
    *n = (Norm){.kind = c->norm, .has_bias = c->norm == NORM_LAYER && c->bias == BIAS_ALL, .eps = c->norm_eps};
    declare(n, ps, name, c->hidden_size);
}

void norm_declare_rms(Norm *n, ParamSet *ps, const Config *c, const char *name, int width) {
    *n = (Norm){.kind = NORM_RMS, .eps = c->norm_eps};
    declare(n, ps, name, width);
}

Mat *norm(Forward *f, const Norm *n, Mat *x) {
    if (n->kind == NORM_RMS) return op_rmsnorm(f->tape, x, &n->w, n->eps);
    return op_layernorm(f->tape, x, &n->w, n->has_bias ? &n->b : NULL, n->eps);
}
