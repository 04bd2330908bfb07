/* Multi-head latent attention (DeepSeek-V2):
 *     cq = rms(x W_DQ), [qn; qr]^h = cq W_UQ;   [c; kr] = x W_DKV, [kn; v]^h = rms(c) W_UKV;   qr, kr rotated
 *     s = [qn; qr]^h . [kn^h; kr] / sqrt(Dn + Dr), kr being one vector for all heads. */
#include "../attention.h"

#include "../norm.h"
#include "../op.h"

#include <math.h>

enum { Q_RANK, KV_RANK, NOPE_DIM, ROPE_DIM, V_DIM };

typedef struct Mla {
    Linear q_a, q_b, kv_a, kv_b; /* [rq, d] [H (Dn + Dr), rq] [dc + Dr, d] [H (Dn + Dv), dc] */
    Norm q_norm, kv_norm;        /* [rq] [dc] */
} Mla;

static int check(const Config *c, Err *err) {
    const int *v = c->attention.values;
    if (c->position == POSITION_ROPE && v[ROPE_DIM] % 2)
        return err_set(err, "attention.qk_rope_head_dim %d is odd, rope rotates halves", v[ROPE_DIM]);
    return 0;
}

static void declare(void *weights, ParamSet *ps, const Config *c) {
    Mla *w = weights;
    const int *v = c->attention.values;
    int d = c->hidden_size, heads = c->n_heads;
    linear_declare(&w->q_a, ps, c, "q_a_proj", d, v[Q_RANK], false);
    norm_declare_rms(&w->q_norm, ps, c, "q_a_layernorm", v[Q_RANK]);
    linear_declare(&w->q_b, ps, c, "q_b_proj", v[Q_RANK], heads * (v[NOPE_DIM] + v[ROPE_DIM]), false);
    linear_declare(&w->kv_a, ps, c, "kv_a_proj_with_mqa", d, v[KV_RANK] + v[ROPE_DIM], false);
    norm_declare_rms(&w->kv_norm, ps, c, "kv_a_layernorm", v[KV_RANK]);
    linear_declare(&w->kv_b, ps, c, "kv_b_proj", v[KV_RANK], heads * (v[NOPE_DIM] + v[V_DIM]), false);
}

static Qkv project(Forward *f, const void *weights, Mat *x) {
    const Mla *w = weights;
    Tape *t = f->tape;
    const int *v = f->cfg->attention.values;
    int heads = f->cfg->n_heads, nope = v[NOPE_DIM], rope = v[ROPE_DIM];
    Mat *q = linear(f, &w->q_b, norm(f, &w->q_norm, linear(f, &w->q_a, x)));
    Mat *q_rope = attention_rope(f, op_head_columns(t, q, heads, nope, rope), heads, rope);
    q = op_head_join(t, op_head_columns(t, q, heads, 0, nope), nope, q_rope, rope, heads);
    Mat *latent = linear(f, &w->kv_a, x);
    Mat *k_rope = attention_rope(f, op_head_columns(t, latent, 1, v[KV_RANK], rope), 1, rope);
    Mat *kv = linear(f, &w->kv_b, norm(f, &w->kv_norm, op_head_columns(t, latent, 1, 0, v[KV_RANK])));
    return (Qkv){.q = q,
                 .k = op_head_join(t, op_head_columns(t, kv, heads, 0, nope), nope, k_rope, rope, heads),
                 .v = op_head_columns(t, kv, heads, nope, v[V_DIM]),
                 .scale = 1 / sqrtf((float)(nope + rope))};
}

static HeadShape heads(const Config *c) {
    const int *v = c->attention.values;
    return (HeadShape){
        .heads = c->n_heads, .kv_heads = c->n_heads, .k_dim = v[NOPE_DIM] + v[ROPE_DIM], .v_dim = v[V_DIM]};
}

const AttentionKind attention_mla = {
    .name = "mla",
    .keys = {[Q_RANK] = "q_lora_rank",
             [KV_RANK] = "kv_lora_rank",
             [NOPE_DIM] = "qk_nope_head_dim",
             [ROPE_DIM] = "qk_rope_head_dim",
             [V_DIM] = "v_head_dim"},
    .weights_size = sizeof(Mla),
    .check = check,
    .declare = declare,
    .project = project,
    .heads = heads,
};
