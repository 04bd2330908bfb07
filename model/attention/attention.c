#include "model/attention/attention.h"

#include "base/arena.h"
#include "base/err.h"
#include "base/memory.h"
#include "model/ops/op.h"
#include "model/attention/op_attention.h"
#include "model/shape.h"

#include <math.h>
#include <stdlib.h>

void attention_declare(Attention *a, ParamSet *ps, const Config *c, const char *name) {
    const AttentionKind *kind = c->attention.kind;
    HeadShape base = config_base_heads(c);
    size_t at = params_enter(ps, "%s.", name);
    a->weights = xcalloc(1, kind->weights_size);
    kind->declare(a->weights, ps, c);
    int mixed = kind->o_width ? kind->o_width(c) : base.heads * base.v_dim;
    linear_declare(&a->o_proj, ps, c, "o_proj", mixed, c->hidden_size, LINEAR_OUT);
    sas_declare(&a->sas, ps, c);
    noise_declare(&a->noise, ps, c);
    params_leave(ps, at);
}

void attention_free(Attention *a) { free(a->weights); }

Mat *attention_rope(Forward *f, Mat *x, int heads, int dim) {
    const Config *c = f->cfg;
    if (!config_rope_parts(c) || (c->sas.heads && c->sas.rope_post)) return x;
    return op_rope(f->tape, x, heads, dim, config_rope_parts(c), f->rope_table);
}

/* SAS on the queries; then on keys and values, their heads being repeated to H first (docs/spec.md 3). */
static Mat *expand_stack(Forward *f, const SasStack *stack, Mat *x, bool rotate) {
    const Config *c = f->cfg;
    x = sas_expand(f, stack, x);
    if (!rotate || !config_rope_parts(c) || !c->sas.rope_post) return x;
    return op_rope(f->tape, x, c->sas.heads, c->sas.head_dim, config_rope_parts(c), f->rope_table);
}

/* What is left to be done to projected queries before they meet keys. */
static Mat *finish_queries(Forward *f, const Attention *a, Mat *q) {
    const Config *c = f->cfg;
    if (c->sas.heads) q = expand_stack(f, &a->sas.q, q, true);
    bool coded = c->noise.scope != NOISE_NONE && c->noise.span == SPAN_SEQUENCE && c->noise.site == SITE_QUERY;
    return coded ? noise_code(f, &a->noise, q) : q;
}

static void expand_keys(Forward *f, const Sas *sas, Qkv *p) {
    HeadShape base = config_base_heads(f->cfg);
    if (base.kv_heads < base.heads) p->k = op_head_repeat(f->tape, p->k, base.kv_heads, base.heads / base.kv_heads);
    if (base.v_heads < base.heads) p->v = op_head_repeat(f->tape, p->v, base.v_heads, base.heads / base.v_heads);
    p->k = expand_stack(f, &sas->k, p->k, true);
    p->v = expand_stack(f, &sas->v, p->v, false);
}

/* Conditioned noise adds mu_j, a number of the key, to every score of key j. It therefore travels with the key, as
 * extra features that the query reads with the value 1 / scale; so the cache, the gradients and the kernels know it
 * already. One feature for scope layer; one for each query head of the kv head for scope head, of which a query reads
 * its own. */
static void append_mean(Tape *t, Qkv *p, Mat *condition, const AttentionSpec *spec) {
    HeadShape heads = spec->heads;
    int n_dist = condition->d / 2, group = n_dist > 1 ? heads.heads / heads.kv_heads : 1, k_dim = p->q->d / heads.heads;
    Mat *mean = op_head_columns(t, condition, 1, 0, n_dist);
    Mat *reader = tape_mat(t, p->q->n, heads.heads * group);
    for (int i = 0; i < reader->n; i++)
        for (int h = 0; h < heads.heads; h++)
            for (int g = 0; g < group; g++)
                reader->x[(size_t)i * (size_t)reader->d + (size_t)(h * group + g)] =
                    h % group == g ? 1 / spec->scale : 0;
    p->q = op_head_join(t, p->q, k_dim, reader, group, heads.heads);
    p->k = op_head_join(t, p->k, k_dim, mean, group, heads.kv_heads);
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
        int k_width = base.kv_heads * base.k_dim, v_width = base.v_heads * base.v_dim;
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
static void attend_restored(Forward *f, const Attention *a, const Segment *seg, Qkv p, Mat *y,
                            const AttentionSpec *spec) {
    Tape *t = f->tape;
    ArenaMark mark = arena_mark(&t->arena);
    int n = seg->pos0 + seg->n, n_blocks = kv_blocks(n);
    const int *numbers = counting(t, MAX(n, n_blocks));
    Segment whole = {.n = n, .blocks = numbers}, own = *seg;
    own.blocks = numbers;
    Batch all = {.n = n, .segments = &whole, .n_segments = 1}, rows = {.n = seg->n, .segments = &own, .n_segments = 1};
    const Config *c = f->cfg;
    bool turns = c->sas.heads && c->sas.rope_post; /* else they were turned before they were stored */
    Forward of_all = {.tape = t,
                      .cfg = c,
                      .batch = &all,
                      .positions = numbers,
                      .rope_table = turns ? rope_table(t, n, numbers, config_rope_dim(c), c) : NULL,
                      .kv = f->kv,
                      .layer = f->layer};
    restore(&of_all, a, kv_rows(t, f->kv, seg, n), &p);
    KvLayer scratch = kv_scratch(t, spec->heads, DTYPE_F32, n_blocks);
    kv_append(&scratch, &all, p.k, p.v);
    attention_serve(f, &scratch, &rows, p.q, y, spec);
    arena_rewind(&t->arena, mark);
}

static Mat *attend_compact(Forward *f, const Attention *a, Mat *x, const AttentionSpec *spec) {
    const Config *c = f->cfg;
    const CompactForm *compact = c->attention.kind->compact;
    Tape *t = f->tape;
    Qkv p = project_compact(f, a, x);
    kv_append(f->kv, f->batch, p.k, NULL);
    p.q = finish_queries(f, a, p.q);
    if (compact && compact->absorbs && !c->sas.heads && compact->absorbs(c, a->weights)) {
        int heads = spec->heads.heads;
        AttentionSpec latent = *spec;
        latent.heads = (HeadShape){
            .heads = heads, .kv_heads = 1, .v_heads = 1, .k_dim = compact->width(c), .v_dim = compact->value_width(c)};
        Mat *y = tape_mat(t, x->n, heads * latent.heads.v_dim);
        attention_serve(f, f->kv, f->batch, compact->absorb(f, a->weights, p.q), y, &latent);
        return compact->unfold(f, a->weights, y);
    }
    Mat *y = tape_mat(t, x->n, spec->heads.heads * spec->heads.v_dim);
    for (int s = 0; s < f->batch->n_segments; s++) attend_restored(f, a, &f->batch->segments[s], p, y, spec);
    return y;
}

/* ---- the whole ---- */

/* Queries of x; keys and values of the same rows, or of those of another Forward. */
static Mat *attend(Forward *f, const Attention *a, Mat *x, Forward *of_source, Mat *source, AttentionSpec *spec) {
    const Config *c = f->cfg;
    const AttentionKind *kind = c->attention.kind;
    Qkv p = kind->project(f, a->weights, x);
    Mat *mean = spec->condition;
    if (source != x) {
        Qkv keys = kind->project(of_source, a->weights, source);
        p.k = keys.k;
        p.v = keys.v;
        if (mean) mean = noise_condition(of_source, &a->noise, source);
    }
    p.q = finish_queries(f, a, p.q);
    if (c->sas.heads) expand_keys(of_source, &a->sas, &p);
    if (mean) append_mean(f->tape, &p, mean, spec);
    return op_attention(f, p.q, p.k, p.v, spec);
}

static void add_penalty(Forward *f, const Attention *a, Mat *condition) {
    Tape *t = f->tape;
    if (!t->recording) return;
    Mat *kl = noise_kl(t, f->cfg, &a->noise, condition);
    t->penalty = t->penalty ? op_add_scaled(t, t->penalty, kl, 1) : kl;
}

/* The kind's own edit, and no sight of keys before the window. */
static void window_scores(const ScoreRow *row, float *s, float *slope) {
    const AttentionKind *kind = row->cfg->attention.kind;
    for (int j = 0; slope && j < row->n; j++) slope[j] = 1;
    if (kind->scores) kind->scores(row, s, slope);
    int hidden = MIN(row->n, row->i - row->cfg->sliding_window + 1 - row->first);
    for (int j = 0; j < hidden; j++) {
        s[j] = -INFINITY;
        if (slope) slope[j] = 0;
    }
}

static AttentionSpec spec_of(Forward *f, const Attention *a, Mat *x) {
    const Config *c = f->cfg;
    AttentionSpec spec = {.heads = config_heads(c),
                          .scale = config_score_scale(c),
                          .causal = c->causal,
                          .window = c->sliding_window,
                          .scores = c->sliding_window ? window_scores : c->attention.kind->scores};
    if (c->noise.scope == NOISE_NONE) return spec;
    if (c->noise.span != SPAN_SEQUENCE) spec.noise = &a->noise;
    spec.mixtures = noise_mixtures(f->tape, c, &a->noise);
    if (c->noise.condition_dim) spec.condition = noise_condition(f, &a->noise, x);
    add_penalty(f, a, spec.condition);
    return spec;
}

/* Mixed values to the layer's output. */
static Mat *finish(Forward *f, const Attention *a, Mat *y) {
    const AttentionKind *kind = f->cfg->attention.kind;
    if (f->cfg->sas.heads) y = sas_aggregate(f, y);
    if (kind->combine) y = kind->combine(f, a->weights, y);
    return linear(f, &a->o_proj, y);
}

Mat *attention(Forward *f, const Attention *a, Mat *x) {
    AttentionSpec spec = spec_of(f, a, x);
    bool compact = f->kv && f->kv->form == KV_COMPACT;
    return finish(f, a, compact ? attend_compact(f, a, x, &spec) : attend(f, a, x, f, x, &spec));
}

Mat *attention_cross(Forward *f, const Attention *a, Mat *x, Forward *of_source, Mat *source) {
    AttentionSpec spec = spec_of(f, a, x);
    spec.causal = false;
    spec.window = 0;
    spec.scores = f->cfg->attention.kind->scores;
    spec.keys = of_source->batch;
    return finish(f, a, attend(f, a, x, of_source, source, &spec));
}
