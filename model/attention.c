#include "attention.h"

#include "op.h"
#include "op_attention.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

const AttentionKind *attention_kind_find(const char *name) {
    for (int k = 0; attention_kinds[k]; k++)
        if (!strcmp(attention_kinds[k]->name, name)) return attention_kinds[k];
    return NULL;
}

void attention_declare(Attention *a, ParamSet *ps, const Config *c) {
    const AttentionKind *kind = c->attention.kind;
    HeadShape base = config_base_heads(c);
    size_t at = params_enter(ps, "self_attn.");
    a->weights = xcalloc(1, kind->weights_size);
    kind->declare(a->weights, ps, c);
    linear_declare(&a->o_proj, ps, c, "o_proj", base.heads * base.v_dim, c->hidden_size, true);
    sas_declare(&a->sas, ps, c);
    noise_declare(&a->noise, ps, c);
    params_leave(ps, at);
}

void attention_free(Attention *a) { free(a->weights); }

Mat *attention_rope(Forward *f, Mat *x, int heads, int dim) {
    const Config *c = f->cfg;
    if (c->position != POSITION_ROPE || (c->sas.heads && c->sas.rope_post)) return x;
    return op_rope(f->tape, x, heads, dim, f->positions, c->rope_theta);
}

/* Base q, k, v -> Hx heads each (spec section 3: kv heads are repeated to H first). */
static void expand(Forward *f, const Sas *sas, Qkv *p) {
    const Config *c = f->cfg;
    HeadShape base = config_base_heads(c);
    int times = base.heads / base.kv_heads;
    if (times > 1) {
        p->k = op_head_repeat(f->tape, p->k, base.kv_heads, times);
        p->v = op_head_repeat(f->tape, p->v, base.kv_heads, times);
    }
    p->q = sas_expand(f, &sas->q, p->q);
    p->k = sas_expand(f, &sas->k, p->k);
    p->v = sas_expand(f, &sas->v, p->v);
    if (c->position == POSITION_ROPE && c->sas.rope_post) {
        p->q = op_rope(f->tape, p->q, c->sas.heads, c->sas.head_dim, f->positions, c->rope_theta);
        p->k = op_rope(f->tape, p->k, c->sas.heads, c->sas.head_dim, f->positions, c->rope_theta);
    }
}

/* Conditioned noise adds mu_j, a number of the key, to every score of key j. It therefore travels with the key, as
 * extra features that the query reads with the value 1 / scale; so the cache, the gradients and the kernels know it
 * already. One feature for scope layer; one for each query head of the kv head for scope head, of which a query reads
 * its own. */
static void append_mean(Forward *f, Qkv *p, Mat *condition, HeadShape heads, int k_dim) {
    Tape *t = f->tape;
    int n_dist = condition->d / 2, group = n_dist > 1 ? heads.heads / heads.kv_heads : 1;
    Mat *mean = op_head_columns(t, condition, 1, 0, n_dist);
    Mat *reader = tape_mat(t, p->q->n, heads.heads * group);
    for (int i = 0; i < reader->n; i++)
        for (int h = 0; h < heads.heads; h++)
            for (int g = 0; g < group; g++)
                reader->x[(size_t)i * (size_t)reader->d + (size_t)(h * group + g)] = h % group == g ? 1 / p->scale : 0;
    Mat *k = p->k;
    p->q = op_head_join(t, p->q, k_dim, reader, group, heads.heads);
    p->k = op_head_join(t, k, k_dim, mean, group, heads.kv_heads);
}

Mat *attention(Forward *f, const Attention *a, Mat *x) {
    const Config *c = f->cfg;
    Tape *t = f->tape;
    HeadShape heads = config_heads(c);
    Qkv p = c->attention.kind->project(f, a->weights, x);
    if (c->sas.heads) {
        expand(f, &a->sas, &p);
        p.scale = 1 / sqrtf((float)c->sas.head_dim);
    }
    AttentionSpec spec = {.heads = heads, .scale = p.scale};
    if (c->noise.scope != NOISE_NONE) {
        spec.noise = &a->noise;
        if (c->noise.condition_dim) {
            spec.condition = noise_condition(f, &a->noise, x);
            append_mean(f, &p, spec.condition, heads, p.q->d / heads.heads);
        }
        if (t->recording) {
            Mat *kl = noise_kl(t, c, &a->noise, spec.condition);
            t->penalty = t->penalty ? op_add_scaled(t, t->penalty, kl, 1) : kl;
        }
    }
    Mat *y = op_attention(f, p.q, p.k, p.v, &spec);
    if (c->sas.heads) y = sas_aggregate(f, y);
    return linear(f, &a->o_proj, y);
}
