/* Tensor product attention (T6): every head is a mean of products of factors,
 *     Q = A_q B_q / Rq, K = A_k B_k / R, V = A_v B_v / R;   A [H, R] and B [R, D] are linear in x,
 * and rope rotates the rows of B_q and B_k, which commutes with the contraction. */
#include "model/attention/attention.h"
#include "model/ops/op.h"

#include <math.h>

enum { Q_RANK, RANK };

typedef struct Tpa {
    Linear a_q, a_k, a_v, b_q, b_k, b_v; /* [H Rq, d] [H R, d] [H R, d] [Rq D, d] [R D, d] [R D, d] */
} Tpa;

/* A factor of m rows of n. It starts by Xavier's uniform distribution on the weight seen as [d, m, n], as the paper's
 * code has it: the fan in of such a tensor is m n, its fan out d n. With a noble object it starts as NOBLE says. */
static void declare_factor(Linear *l, ParamSet *ps, const Config *c, const char *name, int m, int n) {
    float bound = (float)sqrt(6.0 / ((double)n * (m + c->hidden_size)));
    int weight = ps->n;
    linear_declare(l, ps, c, name, c->hidden_size, m * n, LINEAR_QKV);
    if (!c->noble.layers) ps->params[weight].init = (Init){.kind = INIT_UNIFORM, .a = -bound, .b = bound};
}

static void declare(void *weights, ParamSet *ps, const Config *c) {
    Tpa *w = weights;
    int q_rank = c->attention.values[Q_RANK], rank = c->attention.values[RANK];
    declare_factor(&w->a_q, ps, c, "a_q_proj", c->n_heads, q_rank);
    declare_factor(&w->a_k, ps, c, "a_k_proj", c->n_heads, rank);
    declare_factor(&w->a_v, ps, c, "a_v_proj", c->n_heads, rank);
    declare_factor(&w->b_q, ps, c, "b_q_proj", q_rank, c->head_dim);
    declare_factor(&w->b_k, ps, c, "b_k_proj", rank, c->head_dim);
    declare_factor(&w->b_v, ps, c, "b_v_proj", rank, c->head_dim);
}

/* A cache row: a_k [H R], b_k [R D] after rope, a_v [H R], b_v [R D]: 2 R (H + D) floats. */
static int width(const Config *c) { return 2 * c->attention.values[RANK] * (c->n_heads + c->head_dim); }

static Qkv project_factors(Forward *f, const void *weights, Mat *x) {
    const Tpa *w = weights;
    const Config *c = f->cfg;
    Tape *t = f->tape;
    int q_rank = c->attention.values[Q_RANK], rank = c->attention.values[RANK], dim = c->head_dim;
    int a_width = rank * c->n_heads, b_width = rank * dim;
    enum { B_Q, B_K, A_K, B_V, A_V, A_Q, FACTORS };
    Mat *y[FACTORS];
    linears(f, FACTORS, (const Linear *const[]){&w->b_q, &w->b_k, &w->a_k, &w->b_v, &w->a_v, &w->a_q}, x, y);
    Mat *b_q = attention_rope(f, y[B_Q], q_rank, dim), *b_k = attention_rope(f, y[B_K], rank, dim);
    Mat *k = op_head_join(t, y[A_K], a_width, b_k, b_width, 1),
        *v = op_head_join(t, y[A_V], a_width, y[B_V], b_width, 1);
    return (Qkv){.q = op_head_factors(t, y[A_Q], b_q, q_rank, dim),
                 .k = op_head_join(t, k, a_width + b_width, v, a_width + b_width, 1)};
}

static void restore(Forward *f, const void *weights, Mat *rows, Qkv *p) {
    const Config *c = f->cfg;
    Tape *t = f->tape;
    int rank = c->attention.values[RANK], dim = c->head_dim, a_width = rank * c->n_heads, b_width = rank * dim;
    (void)weights;
    Mat **out[2] = {&p->k, &p->v};
    for (int k = 0; k < 2; k++) {
        int at = k * (a_width + b_width);
        *out[k] = op_head_factors(t, op_head_columns(t, rows, 1, at, a_width),
                                  op_head_columns(t, rows, 1, at + a_width, b_width), rank, dim);
    }
}

static Qkv project(Forward *f, const void *weights, Mat *x) {
    Qkv p = project_factors(f, weights, x);
    restore(f, weights, p.k, &p);
    return p;
}

static HeadShape heads(const Config *c) {
    return (HeadShape){.heads = c->n_heads, .kv_heads = c->n_heads, .k_dim = c->head_dim, .v_dim = c->head_dim};
}

const AttentionKind attention_tpa = {
    .name = "tpa",
    .keys = {[Q_RANK] = "q_rank", [RANK] = "rank"},
    .weights_size = sizeof(Tpa),
    .declare = declare,
    .project = project,
    .heads = heads,
    .compact = &(const CompactForm){.width = width, .project = project_factors, .restore = restore},
};
