#include "model/attention/attention.h"

#include "base/arena.h"
#include "base/err.h"
#include "base/memory.h"
#include "model/ops/op.h"
#include "model/ops/op_attention.h"

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

/* SAS on the queries; then on keys and values, kv heads being repeated to H first (spec section 3). */
static Mat *expand_stack(Forward *f, const SasStack *stack, Mat *x, bool rotate) {
    const Config *c = f->cfg;
    x = sas_expand(f, stack, x);
    if (!rotate || c->position != POSITION_ROPE || !c->sas.rope_post) return x;
    return op_rope(f->tape, x, c->sas.heads, c->sas.head_dim, f->positions, c->rope_theta);
}

static void expand_keys(Forward *f, const Sas *sas, Qkv *p) {
    HeadShape base = config_base_heads(f->cfg);
    int times = base.heads / base.kv_heads;
    if (times > 1) {
        p->k = op_head_repeat(f->tape, p->k, base.kv_heads, times);
        p->v = op_head_repeat(f->tape, p->v, base.kv_heads, times);
    }
    p->k = expand_stack(f, &sas->k, p->k, true);
    p->v = expand_stack(f, &sas->v, p->v, false);
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

/* ---- the compact cache ---- */

static Qkv project_compact(Forward *f, const Attention *a, Mat *x) {
    const AttentionKind *kind = f->cfg->attention.kind;
    if (kind->compact) return kind->compact->project(f, a->weights, x);
    Qkv p = kind->project(f, a->weights, x);
    p.k = op_head_join(f->tape, p.k, p.k->d, p.v, p.v->d, 1);
    p.v = NULL;
    return p;
}

static void restore(Forward *f, const Attention *a, Mat *rows, Qkv *p) {
    const AttentionKind *kind = f->cfg->attention.kind;
    if (kind->compact) {
        kind->compact->restore(f, a->weights, rows, p);
    } else {
        HeadShape base = config_base_heads(f->cfg);
        int k_width = base.kv_heads * base.k_dim, v_width = base.kv_heads * base.v_dim;
        p->k = op_head_columns(f->tape, rows, 1, 0, k_width);
        p->v = op_head_columns(f->tape, rows, 1, k_width, v_width);
    }
    if (f->cfg->sas.heads) expand_keys(f, &a->sas, p);
}

static const int *counting(Tape *t, int n) {
    int *numbers = tape_alloc(t, (size_t)n * sizeof *numbers);
    for (int i = 0; i < n; i++) numbers[i] = i;
    return numbers;
}

/* One segment: all keys and values of its sequence are restored from the rows into a scratch layer and attended to. */
static void attend_restored(Forward *f, const Attention *a, const KvLayer *kv, const Segment *seg, Qkv p, Mat *y,
                            const AttentionSpec *spec) {
    Tape *t = f->tape;
    ArenaMark mark = arena_mark(&t->arena);
    int n = seg->pos0 + seg->n, n_blocks = (n + KV_BLOCK - 1) / KV_BLOCK;
    const int *numbers = counting(t, MAX(n, n_blocks));
    Segment whole = {.n = n, .blocks = numbers}, own = *seg;
    own.blocks = numbers;
    Batch all = {.n = n, .segments = &whole, .n_segments = 1}, rows = {.n = seg->n, .segments = &own, .n_segments = 1};
    Forward of_all = *f;
    of_all.positions = numbers;
    restore(&of_all, a, kv_rows(t, kv, seg, n), &p);
    KvLayer scratch = kv_scratch(t, spec->heads, n_blocks);
    kv_append(&scratch, &all, p.k, p.v);
    attention_serve(f, &scratch, &rows, p.q, y, spec);
    arena_rewind(&t->arena, mark);
}

static Mat *attend_compact(Forward *f, const Attention *a, Mat *x, AttentionSpec *spec) {
    const Config *c = f->cfg;
    const CompactForm *compact = c->attention.kind->compact;
    Tape *t = f->tape;
    KvLayer kv = kv_layer(f->kv, f->layer);
    Qkv p = project_compact(f, a, x);
    kv_append(&kv, f->batch, p.k, NULL);
    if (!c->sas.heads) spec->scale = p.scale;
    if (compact && compact->absorbs && !c->sas.heads && compact->absorbs(c, a->weights)) {
        int heads = spec->heads.heads;
        AttentionSpec latent = *spec;
        latent.heads =
            (HeadShape){.heads = heads, .kv_heads = 1, .k_dim = compact->width(c), .v_dim = compact->value_width(c)};
        Mat *y = tape_mat(t, x->n, heads * latent.heads.v_dim);
        attention_serve(f, &kv, f->batch, compact->absorb(f, a->weights, p.q), y, &latent);
        return compact->unfold(f, a->weights, y);
    }
    if (c->sas.heads) p.q = expand_stack(f, &a->sas.q, p.q, true);
    Mat *y = tape_mat(t, x->n, spec->heads.heads * spec->heads.v_dim);
    for (int s = 0; s < f->batch->n_segments; s++) attend_restored(f, a, &kv, &f->batch->segments[s], p, y, spec);
    return y;
}

/* ---- the whole ---- */

static Mat *attend(Forward *f, const Attention *a, Mat *x, AttentionSpec *spec) {
    const Config *c = f->cfg;
    Qkv p = c->attention.kind->project(f, a->weights, x);
    if (c->sas.heads) {
        p.q = expand_stack(f, &a->sas.q, p.q, true);
        expand_keys(f, &a->sas, &p);
        p.scale = spec->scale;
    }
    spec->scale = p.scale;
    if (spec->condition) append_mean(f, &p, spec->condition, spec->heads, p.q->d / spec->heads.heads);
    return op_attention(f, p.q, p.k, p.v, spec);
}

Mat *attention(Forward *f, const Attention *a, Mat *x) {
    const Config *c = f->cfg;
    Tape *t = f->tape;
    AttentionSpec spec = {.heads = config_heads(c)};
    if (c->sas.heads) spec.scale = 1 / sqrtf((float)c->sas.head_dim);
    if (c->noise.scope != NOISE_NONE) {
        spec.noise = &a->noise;
        if (c->noise.condition_dim) spec.condition = noise_condition(f, &a->noise, x);
        if (t->recording) {
            Mat *kl = noise_kl(t, c, &a->noise, spec.condition);
            t->penalty = t->penalty ? op_add_scaled(t, t->penalty, kl, 1) : kl;
        }
    }
    Mat *y = f->kv && f->kv->form == KV_COMPACT ? attend_compact(f, a, x, &spec) : attend(f, a, x, &spec);
    if (c->sas.heads) y = sas_aggregate(f, y);
    return linear(f, &a->o_proj, y);
}
