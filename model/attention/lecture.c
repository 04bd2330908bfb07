/* The attention of the lecture notes: with items as the columns of H [D, K], head h is
 *     V_h H softmax((K_h H)^T (Q_h H)),   K_h, Q_h and V_h [D, D] of the full width, every column of the softmax
 * summing to 1, nothing dividing the scores; the heads are put under each other. head_dim is therefore hidden_size. The
 * notes have no mask: `causal` false is theirs, true makes a language model of it. */
#include "base/err.h"
#include "model/attention/attention.h"

typedef struct Lecture {
    Linear q, k, v; /* [H d, d] */
} Lecture;

static int check(const Config *c, Err *err) {
    if (c->head_dim == c->hidden_size) return 0;
    return err_set(err, "head_dim is %d, but attention.kind lecture needs hidden_size, %d", c->head_dim,
                   c->hidden_size);
}

static void declare(void *weights, ParamSet *ps, const Config *c) {
    Lecture *w = weights;
    linear_declare(&w->q, ps, c, "q_proj", c->hidden_size, c->n_heads * c->head_dim, LINEAR_QKV);
    linear_declare(&w->k, ps, c, "k_proj", c->hidden_size, c->n_heads * c->head_dim, LINEAR_QKV);
    linear_declare(&w->v, ps, c, "v_proj", c->hidden_size, c->n_heads * c->head_dim, LINEAR_QKV);
}

static Qkv project(Forward *f, const void *weights, Mat *x) {
    const Lecture *w = weights;
    const Config *c = f->cfg;
    Mat *y[3];
    linears(f, 3, (const Linear *const[]){&w->q, &w->k, &w->v}, x, y);
    return (Qkv){.q = attention_rope(f, y[0], c->n_heads, c->head_dim),
                 .k = attention_rope(f, y[1], c->n_heads, c->head_dim),
                 .v = y[2]};
}

static HeadShape heads(const Config *c) {
    return (HeadShape){.heads = c->n_heads, .kv_heads = c->n_heads, .k_dim = c->head_dim, .v_dim = c->head_dim};
}

const AttentionKind attention_lecture = {.name = "lecture",
                                         .weights_size = sizeof(Lecture),
                                         .declare = declare,
                                         .project = project,
                                         .heads = heads,
                                         .unscaled = true,
                                         .rotates_late = true,
                                         .check = check};
