/* Multi-head latent attention (DeepSeek-V2):
 *     cq = rms(x W_DQ), [qn; qr]^h = cq W_UQ;   [c; kr] = x W_DKV, [kn; v]^h = rms(c) W_UKV;   qr, kr rotated
 *     s = [qn; qr]^h . [kn^h; kr] / sqrt(Dn + Dr), kr being one vector for all heads. */
#include "base/err.h"
#include "base/team.h"
#include "model/attention/attention.h"
#include "model/kernels/kernels.h"
#include "model/norm.h"
#include "model/ops/op.h"
#include "model/shape.h"

#include <string.h>

enum { Q_RANK, KV_RANK, NOPE_DIM, ROPE_DIM, V_DIM };

typedef struct Mla {
    Linear q_a, q_b, kv_a, kv_b; /* [rq, d] [H (Dn + Dr), rq] [dc + Dr, d] [H (Dn + Dv), dc] */
    Norm q_norm, kv_norm;        /* [rq] [dc] */
} Mla;

static int check(const Config *c, Err *err) {
    const int *v = c->attention.values;
    int parts = config_rope_parts(c);
    if (parts && v[ROPE_DIM] % (2 * parts))
        return err_set(err, "attention.qk_rope_head_dim is %d, but position %s needs a multiple of %d", v[ROPE_DIM],
                       position_names[c->position], 2 * parts);
    return 0;
}

static void declare(void *weights, ParamSet *ps, const Config *c) {
    Mla *w = weights;
    const int *v = c->attention.values;
    int d = c->hidden_size, heads = c->n_heads;
    linear_declare(&w->q_a, ps, c, "q_a_proj", d, v[Q_RANK], LINEAR_QKV);
    norm_declare_rms(&w->q_norm, ps, c, "q_a_layernorm", v[Q_RANK]);
    linear_declare(&w->q_b, ps, c, "q_b_proj", v[Q_RANK], heads * (v[NOPE_DIM] + v[ROPE_DIM]), LINEAR_QKV);
    linear_declare(&w->kv_a, ps, c, "kv_a_proj_with_mqa", d, v[KV_RANK] + v[ROPE_DIM], LINEAR_QKV);
    norm_declare_rms(&w->kv_norm, ps, c, "kv_a_layernorm", v[KV_RANK]);
    linear_declare(&w->kv_b, ps, c, "kv_b_proj", v[KV_RANK], heads * (v[NOPE_DIM] + v[V_DIM]), LINEAR_QKV);
}

/* A cache row: rms(c) [dc], kr [Dr] after rope: what the paper caches. */
static int width(const Config *c) { return c->attention.values[KV_RANK] + c->attention.values[ROPE_DIM]; }

static Qkv project_latent(Forward *f, const void *weights, Mat *x) {
    const Mla *w = weights;
    Tape *t = f->tape;
    const int *v = f->cfg->attention.values;
    int heads = f->cfg->n_heads, nope = v[NOPE_DIM], rope = v[ROPE_DIM], rank = v[KV_RANK];
    Mat *y[2];
    linears(f, 2, (const Linear *const[]){&w->q_a, &w->kv_a}, x, y);
    Mat *q = linear(f, &w->q_b, norm(f, &w->q_norm, y[0])), *latent = y[1];
    Mat *q_rope = attention_rope(f, op_head_columns(t, q, heads, nope, rope), heads, rope);
    Mat *c = norm(f, &w->kv_norm, op_head_columns(t, latent, 1, 0, rank));
    Mat *k_rope = attention_rope(f, op_head_columns(t, latent, 1, rank, rope), 1, rope);
    return (Qkv){.q = op_head_join(t, op_head_columns(t, q, heads, 0, nope), nope, q_rope, rope, heads),
                 .k = op_head_join(t, c, rank, k_rope, rope, 1)};
}

static void restore(Forward *f, const void *weights, Mat *rows, Qkv *p) {
    const Mla *w = weights;
    Tape *t = f->tape;
    const int *v = f->cfg->attention.values;
    int heads = f->cfg->n_heads, nope = v[NOPE_DIM], rope = v[ROPE_DIM], rank = v[KV_RANK];
    Mat *kv = linear(f, &w->kv_b, op_head_columns(t, rows, 1, 0, rank));
    Mat *k_rope = op_head_columns(t, rows, 1, rank, rope);
    p->k = op_head_join(t, op_head_columns(t, kv, heads, 0, nope), nope, k_rope, rope, heads);
    p->v = op_head_columns(t, kv, heads, nope, v[V_DIM]);
}

static Qkv project(Forward *f, const void *weights, Mat *x) {
    Qkv p = project_latent(f, weights, x);
    restore(f, weights, p.k, &p);
    return p;
}

/* ---- absorbed decoding: qn W_UK reads the latent itself, and W_UV turns the mixed latent into the value ---- */

/* A NOBLE branch on kv_b is not linear, so nothing can be absorbed through it. */
static bool absorbs(const Config *c, const void *weights) {
    const Mla *w = weights;
    (void)c;
    return !w->kv_b.has_noble && (w->kv_b.w.dtype == DTYPE_F32 || w->kv_b.w.dtype == DTYPE_BF16);
}

static int value_width(const Config *c) { return c->attention.values[KV_RANK]; }

/* Rows first..first+count-1 of head h of W_UKV [H (Dn + Dv), dc], as a weight of its own. */
static Weight head_rows(const Mla *w, const int *v, int h, int first, int count) {
    size_t row = (size_t)(h * (v[NOPE_DIM] + v[V_DIM]) + first);
    return (Weight){.dtype = w->kv_b.w.dtype,
                    .n_dims = 2,
                    .dims = {count, v[KV_RANK]},
                    .data = (unsigned char *)w->kv_b.w.data + row * (size_t)v[KV_RANK] * dtype_size(w->kv_b.w.dtype)};
}

/* [qn W_UK, qr]. The bias of kn adds the same to every score of a row and cancels in the softmax. */
static Mat *absorb(Forward *f, const void *weights, Mat *q) {
    const Mla *w = weights;
    const int *v = f->cfg->attention.values;
    int heads = f->cfg->n_heads, nope = v[NOPE_DIM], rope = v[ROPE_DIM], rank = v[KV_RANK], wide = rank + rope;
    Mat *out = tape_mat(f->tape, q->n, heads * wide);
    ArenaMark mark = arena_mark(&f->tape->arena);
    float *latent = tape_alloc(f->tape, (size_t)(q->n * heads) * (size_t)rank * sizeof(float));
#pragma omp parallel for if (team_pays((size_t)q->n * (size_t)q->d * (size_t)rank, TEAM_PRODUCTS))
    for (int h = 0; h < heads; h++) {
        Weight uk = head_rows(w, v, h, 0, nope);
        float *mine = latent + (size_t)(h * q->n) * (size_t)rank;
        const float *from = q->x + h * (nope + rope);
        memset(mine, 0, (size_t)q->n * (size_t)rank * sizeof(float));
        if (uk.dtype == DTYPE_F32)
            kernels->mix_f32(q->n, nope, rank, from, q->d, uk.data, mine);
        else
            kernels->mix_bf16(q->n, nope, rank, from, q->d, uk.data, mine);
        for (int i = 0; i < q->n; i++) {
            float *to = out->x + (size_t)i * (size_t)out->d + h * wide;
            memcpy(to, mine + (size_t)i * (size_t)rank, (size_t)rank * sizeof(float));
            memcpy(to + rank, from + (size_t)i * (size_t)q->d + nope, (size_t)rope * sizeof(float));
        }
    }
    arena_rewind(&f->tape->arena, mark);
    return out;
}

static Mat *unfold(Forward *f, const void *weights, Mat *y) {
    const Mla *w = weights;
    Tape *t = f->tape;
    const int *v = f->cfg->attention.values;
    int heads = f->cfg->n_heads, dim = v[V_DIM];
    Mat *out = tape_mat(t, y->n, heads * dim);
    for (int h = 0; h < heads; h++) {
        ArenaMark mark = arena_mark(&t->arena);
        Weight uv = head_rows(w, v, h, v[NOPE_DIM], dim);
        Weight bias = {.n_dims = 1, .dims = {dim}};
        if (w->kv_b.has_bias) bias.data = weight_f32(&w->kv_b.b) + h * (v[NOPE_DIM] + dim) + v[NOPE_DIM];
        Mat *latent = op_head_columns(t, y, 1, h * v[KV_RANK], v[KV_RANK]);
        Mat *value = op_linear(t, latent, &uv, bias.data ? &bias : NULL);
        for (int i = 0; i < y->n; i++)
            memcpy(out->x + (size_t)i * (size_t)out->d + h * dim, value->x + (size_t)i * (size_t)dim,
                   (size_t)dim * sizeof(float));
        arena_rewind(&t->arena, mark);
    }
    return out;
}

static HeadShape heads(const Config *c) {
    const int *v = c->attention.values;
    return (HeadShape){.heads = c->n_heads,
                       .kv_heads = c->n_heads,
                       .k_dim = v[NOPE_DIM] + v[ROPE_DIM],
                       .v_dim = v[V_DIM],
                       .rope_dim = v[ROPE_DIM]};
}

const AttentionKind attention_mla = {
    .name = "mla",
    .keys = {[Q_RANK] = "q_lora_rank",
             [KV_RANK] = "kv_lora_rank",
             [NOPE_DIM] = "qk_nope_head_dim",
             [ROPE_DIM] = "qk_rope_head_dim",
             [V_DIM] = "v_head_dim"},
    .weights_size = sizeof(Mla),
    .rotates_part = true,
    .check = check,
    .declare = declare,
    .project = project,
    .heads = heads,
    .compact = &(const CompactForm){.width = width,
                                    .project = project_latent,
                                    .restore = restore,
                                    .absorbs = absorbs,
                                    .value_width = value_width,
                                    .absorb = absorb,
                                    .unfold = unfold},
};
