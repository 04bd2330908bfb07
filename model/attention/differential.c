/* Differential attention (Ye et al. 2024, equations 1 to 3): a head has two softmax maps over one value of twice the
 * width, and the second is subtracted,
 *     y = (softmax(Q1 K1^T / sqrt(D)) - lambda softmax(Q2 K2^T / sqrt(D))) V,   out = (1 - lambda_init) RMSNorm(y) W_O
 *     lambda = exp(q1 . k1) - exp(q2 . k2) + lambda_init,   lambda_init = 0.8 - 0.6 exp(-0.3 (l - 1)),  l = 1, 2, ...
 * with four learned vectors, lambda_q1 ... lambda_k2, and a norm over each head, whose gain all heads share. The maps
 * 2 h and 2 h + 1 are those of head h. Mixing V is linear, so the difference is taken of what the maps have mixed. */
#include "base/fixed_math.h"
#include "model/attention/attention.h"
#include "model/norm.h"
#include "model/ops/op.h"

#include <math.h>

typedef struct Differential {
    Linear q, k, v;   /* [2 H D, d] */
    Weight lambda[4]; /* [D] q1, k1, q2, k2 */
    Norm norm;        /* [2 D] */
} Differential;

static int width(const Config *c) { return 2 * c->n_heads * c->head_dim; }

static void declare(void *weights, ParamSet *ps, const Config *c) {
    Differential *w = weights;
    static const char *const names[4] = {"lambda_q1", "lambda_k1", "lambda_q2", "lambda_k2"};
    linear_declare(&w->q, ps, c, "q_proj", c->hidden_size, width(c), LINEAR_QKV);
    linear_declare(&w->k, ps, c, "k_proj", c->hidden_size, width(c), LINEAR_QKV);
    linear_declare(&w->v, ps, c, "v_proj", c->hidden_size, width(c), LINEAR_QKV);
    for (int i = 0; i < 4; i++)
        param_declare(ps, &w->lambda[i], names[i], 1, &c->head_dim, (Init){.kind = INIT_NORMAL, .b = 0.1f});
    norm_declare_rms(&w->norm, ps, c, "head_norm", 2 * c->head_dim);
    w->norm.eps = 1e-5f;
}

static Qkv project(Forward *f, const void *weights, Mat *x) {
    const Differential *w = weights;
    const Config *c = f->cfg;
    Mat *y[3];
    linears(f, 3, (const Linear *const[]){&w->q, &w->k, &w->v}, x, y);
    return (Qkv){.q = attention_rope(f, y[0], 2 * c->n_heads, c->head_dim),
                 .k = attention_rope(f, y[1], 2 * c->n_heads, c->head_dim),
                 .v = y[2]};
}

static HeadShape heads(const Config *c) {
    return (HeadShape){.heads = 2 * c->n_heads,
                       .kv_heads = 2 * c->n_heads,
                       .v_heads = c->n_heads,
                       .k_dim = c->head_dim,
                       .v_dim = 2 * c->head_dim};
}

/* y [n, 2 H, 2 D] -> [n, H, 2 D] */
static Mat *combine(Forward *f, const void *weights, Mat *y) {
    const Differential *w = weights;
    Tape *t = f->tape;
    float lambda_init = 0.8f - 0.6f * (float)fixed_exp(-0.3f * (float)f->layer);
    int heads = f->cfg->n_heads, dim = 2 * f->cfg->head_dim;
    Mat *one = op_head_difference(t, y, dim, w->lambda, lambda_init);
    Mat *normed = norm(f, &w->norm, tape_view(t, one, y->n * heads, dim));
    return tape_view(t, op_scale(t, normed, 1 - lambda_init), y->n, heads * dim);
}

const AttentionKind attention_differential = {.name = "differential",
                                              .weights_size = sizeof(Differential),
                                              .declare = declare,
                                              .project = project,
                                              .heads = heads,
                                              .rotates_late = true,
                                              .combine = combine,
                                              .o_width = width};
