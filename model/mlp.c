#include "model/mlp.h"

#include "model/ops/op.h"

void mlp_declare(Mlp *m, ParamSet *ps, const Config *c) {
    size_t at = params_enter(ps, "mlp.");
    if (c->mlp.gated)
        linear_declare(&m->up, ps, c, "gate_up_proj", c->hidden_size, 2 * c->mlp.width, LINEAR_UP);
    else
        linear_declare(&m->up, ps, c, "up_proj", c->hidden_size, c->mlp.width, LINEAR_UP);
    linear_declare(&m->down, ps, c, "down_proj", c->mlp.width, c->hidden_size, LINEAR_DOWN);
    params_leave(ps, at);
}

static Mat *mlp_serve(Forward *f, const Mlp *m, Mat *x) {
    return op_feed_forward(f->tape, x,
                           &(FeedForward){.up = &m->up.w,
                                          .up_b = m->up.has_bias ? &m->up.b : NULL,
                                          .down = &m->down.w,
                                          .down_b = m->down.has_bias ? &m->down.b : NULL,
                                          .activation = f->cfg->mlp.activation,
                                          .gated = f->cfg->mlp.gated});
}

Mat *mlp(Forward *f, const Mlp *m, Mat *x) {
    if (!f->tape->recording && !m->up.has_noble) return mlp_serve(f, m, x);
    Mat *up = linear(f, &m->up, x);
    Mat *hidden = f->cfg->mlp.gated ? op_gate(f->tape, up, f->cfg->mlp.activation)
                                    : op_activation(f->tape, up, f->cfg->mlp.activation);
    return linear(f, &m->down, hidden);
}
