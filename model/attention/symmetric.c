/* Symmetric attention (Courtois et al. 2024; NoiseFormer's base): K is Q, one projection, s = Q Q^T / sqrt(D). */
#include "model/attention/attention.h"

typedef struct Symmetric {
    Linear q, v; /* [H D, d] */
} Symmetric;

static void declare(void *weights, ParamSet *ps, const Config *c) {
    Symmetric *w = weights;
    linear_declare(&w->q, ps, c, "q_proj", c->hidden_size, c->n_heads * c->head_dim, LINEAR_QKV);
    linear_declare(&w->v, ps, c, "v_proj", c->hidden_size, c->n_heads * c->head_dim, LINEAR_QKV);
}

static Qkv project(Forward *f, const void *weights, Mat *x) {
    const Symmetric *w = weights;
    const Config *c = f->cfg;
    Mat *y[2];
    linears(f, 2, (const Linear *const[]){&w->q, &w->v}, x, y);
    Mat *q = attention_rope(f, y[0], c->n_heads, c->head_dim);
    return (Qkv){.q = q, .k = q, .v = y[1]};
}

static HeadShape heads(const Config *c) {
    return (HeadShape){.heads = c->n_heads, .kv_heads = c->n_heads, .k_dim = c->head_dim, .v_dim = c->head_dim};
}

const AttentionKind attention_symmetric = {.name = "symmetric",
                                           .weights_size = sizeof(Symmetric),
                                           .declare = declare,
                                           .project = project,
                                           .heads = heads,
                                           .rotates_late = true};
