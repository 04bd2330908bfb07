/* Grouped-query attention (MQA: one kv head), and MHA as the case of as many kv heads as query heads:
 * q, k, v = x W_Q, x W_K, x W_V; query head h reads kv head h / (H / G). */
#include "model/attention/attention.h"

typedef struct Gqa {
    Linear q, k, v; /* [H D, d], [G D, d], [G D, d] */
} Gqa;

static void declare(void *weights, ParamSet *ps, const Config *c) {
    Gqa *w = weights;
    linear_declare(&w->q, ps, c, "q_proj", c->hidden_size, c->n_heads * c->head_dim, false);
    linear_declare(&w->k, ps, c, "k_proj", c->hidden_size, c->n_kv_heads * c->head_dim, false);
    linear_declare(&w->v, ps, c, "v_proj", c->hidden_size, c->n_kv_heads * c->head_dim, false);
}

static Qkv project(Forward *f, const void *weights, Mat *x) {
    const Gqa *w = weights;
    const Config *c = f->cfg;
    return (Qkv){.q = attention_rope(f, linear(f, &w->q, x), c->n_heads, c->head_dim),
                 .k = attention_rope(f, linear(f, &w->k, x), c->n_kv_heads, c->head_dim),
                 .v = linear(f, &w->v, x)};
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
                                     .rotates_late = true};

const AttentionKind attention_mha = {.name = "mha",
                                     .weights_size = sizeof(Gqa),
                                     .declare = declare,
                                     .project = project,
                                     .heads = heads,
                                     .rotates_late = true};
