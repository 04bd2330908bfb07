/* Grouped-query attention (MQA: one kv head), and MHA as the case of as many kv heads as query heads:
 * q, k, v = x W_Q, x W_K, x W_V; query head h reads kv head h / (H / G). */
#include "model/attention/attention.h"
#include "model/norm.h"
#include "model/ops/op.h"

typedef struct Gqa {
    Linear q, k, v;      /* [H D, d], [G D, d], [G D, d] */
    Norm q_norm, k_norm; /* [D], with qk_norm only */
} Gqa;

static void declare(void *weights, ParamSet *ps, const Config *c) {
    Gqa *w = weights;
    linear_declare(&w->q, ps, c, "q_proj", c->hidden_size, c->n_heads * c->head_dim, LINEAR_QKV);
    linear_declare(&w->k, ps, c, "k_proj", c->hidden_size, c->n_kv_heads * c->head_dim, LINEAR_QKV);
    linear_declare(&w->v, ps, c, "v_proj", c->hidden_size, c->n_kv_heads * c->head_dim, LINEAR_QKV);
    if (!c->qk_norm) return;
    norm_declare_rms(&w->q_norm, ps, c, "q_norm", c->head_dim);
    norm_declare_rms(&w->k_norm, ps, c, "k_norm", c->head_dim);
}

static Mat *rotated(Forward *f, Mat *x, const Norm *n, int heads) {
    const Config *c = f->cfg;
    if (c->qk_norm) x = tape_view(f->tape, norm(f, n, tape_view(f->tape, x, x->n * heads, c->head_dim)), x->n, x->d);
    return attention_rope(f, x, heads, c->head_dim);
}

static Qkv project(Forward *f, const void *weights, Mat *x) {
    const Gqa *w = weights;
    const Config *c = f->cfg;
    Mat *y[3];
    linears(f, 3, (const Linear *const[]){&w->q, &w->k, &w->v}, x, y);
    return (Qkv){
        .q = rotated(f, y[0], &w->q_norm, c->n_heads), .k = rotated(f, y[1], &w->k_norm, c->n_kv_heads), .v = y[2]};
}

static HeadShape heads(const Config *c) {
    return (HeadShape){.heads = c->n_heads, .kv_heads = c->n_kv_heads, .k_dim = c->head_dim, .v_dim = c->head_dim};
}

const AttentionKind attention_gqa = {.name = "gqa",
                                     .weights_size = sizeof(Gqa),
                                     .declare = declare,
                                     .project = project,
                                     .heads = heads,
                                     .own_kv_heads = true,
                                     .rotates_late = true,
                                     .norms_heads = true};

const AttentionKind attention_mha = {.name = "mha",
                                     .weights_size = sizeof(Gqa),
                                     .declare = declare,
                                     .project = project,
                                     .heads = heads,
                                     .rotates_late = true,
                                     .norms_heads = true};
