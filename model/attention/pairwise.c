/* Pairwise attention (Courtois et al. 2024): s = Q F Q^T / sqrt(D) with a learned matrix F per head, not constrained to
 * be symmetric; F ~ N(0, 1) at the start. */
#include "model/attention/attention.h"
#include "model/ops/op.h"

typedef struct Pairwise {
    Linear q, v; /* [H D, d] */
    Weight pair; /* [H, D, D] */
} Pairwise;

static void declare(void *weights, ParamSet *ps, const Config *c) {
    Pairwise *w = weights;
    linear_declare(&w->q, ps, c, "q_proj", c->hidden_size, c->n_heads * c->head_dim, LINEAR_QKV);
    linear_declare(&w->v, ps, c, "v_proj", c->hidden_size, c->n_heads * c->head_dim, LINEAR_QKV);
    param_declare(ps, &w->pair, "pair.weight", 3, (int[]){c->n_heads, c->head_dim, c->head_dim},
                  (Init){.kind = INIT_NORMAL, .b = 1})
        ->matrix = false;
}

static Qkv project(Forward *f, const void *weights, Mat *x) {
    const Pairwise *w = weights;
    const Config *c = f->cfg;
    Mat *y[2];
    linears(f, 2, (const Linear *const[]){&w->q, &w->v}, x, y);
    Mat *q = attention_rope(f, y[0], c->n_heads, c->head_dim);
    return (Qkv){.q = op_head_matmul(f->tape, q, &w->pair), .k = q, .v = y[1]};
}

static HeadShape heads(const Config *c) {
    return (HeadShape){.heads = c->n_heads, .kv_heads = c->n_heads, .k_dim = c->head_dim, .v_dim = c->head_dim};
}

const AttentionKind attention_pairwise = {
    .name = "pairwise", .weights_size = sizeof(Pairwise), .declare = declare, .project = project, .heads = heads};
