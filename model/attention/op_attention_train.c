#include "base/err.h"
#include "base/team.h"
#include "model/kernels/kernels.h"
#include "model/attention/op_attention.h"
#include "model/shape.h"

#include <string.h>

typedef struct TrainContext {
    const Forward *f;
    Mat *q, *k, *v, *y;
    AttentionSpec spec;
    const Segment *key_segments; /* the queries' own but in cross-attention */
    int longest;                 /* segment of keys */
    size_t scratch_floats;
    float *scratch;        /* [threads, scratch_floats] */
    double *noise_sums;    /* [n_segments, H, 3 M] */
    float *d_log_variance; /* [n, H] */
} TrainContext;

/* Views of one head of one segment. */
typedef struct HeadView {
    const Segment *seg, *keys;
    int head, ldq, ldk, ldv, ldy;
    size_t q, k, v, y; /* offsets of row 0 */
} HeadView;

static HeadView head_view(const TrainContext *c, int segment, int head) {
    const Segment *seg = &c->f->batch->segments[segment], *keys = &c->key_segments[segment];
    HeadShape s = c->spec.heads;
    size_t row = (size_t)seg->row0, key_row = (size_t)keys->row0;
    int k_head = head / (s.heads / s.kv_heads), v_head = head / (s.heads / s.v_heads);
    return (HeadView){.seg = seg,
                      .keys = keys,
                      .head = head,
                      .ldq = c->q->d,
                      .ldk = c->k->d,
                      .ldv = c->v->d,
                      .ldy = c->y->d,
                      .q = row * (size_t)c->q->d + (size_t)(head * s.k_dim),
                      .k = key_row * (size_t)c->k->d + (size_t)(k_head * s.k_dim),
                      .v = key_row * (size_t)c->v->d + (size_t)(v_head * s.v_dim),
                      .y = row * (size_t)c->y->d + (size_t)(head * s.v_dim)};
}

static int keys_seen(const TrainContext *c, const HeadView *h, int i) {
    return attention_keys_seen(&c->spec, h->keys, i);
}

/* ---- products ---- */

/* A thread's memory: ATTENTION_TILE rows of scores, of their gradients, of the slopes of the kind's edit, of Gaussians
 * and of components; packed operands: what a head packs once and what a tile does. */
typedef struct Scratch {
    float *p, *ds, *slope, *eps;
    uint16_t *component;
    uint32_t *keys_across, *keys, *values_across, *values; /* across: a vector is a key, else a feature */
    uint32_t *left, *right;
} Scratch;

static size_t left_words(const TrainContext *c, int n, size_t k) {
    return train_panels_words(kernels->train->tile_rows[c->f->tape->bf16], n, k);
}
static size_t right_words(int n, size_t k) { return train_panels_words(kernels->train->tile_columns, n, k); }

/* Lays the scratch out at `at`, which may be NULL, and returns its size in floats. */
static size_t scratch_layout(const TrainContext *c, float *at, Scratch *s) {
    size_t t = (size_t)c->longest, k_dim = (size_t)c->spec.heads.k_dim, v_dim = (size_t)c->spec.heads.v_dim;
    size_t wide = MAX(t, MAX(k_dim, v_dim));
    const size_t sizes[] = {ATTENTION_TILE * t,
                            ATTENTION_TILE * t,
                            c->spec.scores ? ATTENTION_TILE * t : 0,
                            c->spec.noise ? ATTENTION_TILE * t : 0,
                            c->spec.mixtures ? (ATTENTION_TILE * t + 1) / 2 : 0,
                            right_words(c->longest, k_dim),
                            right_words((int)k_dim, t),
                            right_words(c->longest, v_dim),
                            right_words((int)v_dim, t),
                            MAX(left_words(c, ATTENTION_TILE, wide), left_words(c, (int)wide, ATTENTION_TILE)),
                            right_words((int)MAX(k_dim, v_dim), ATTENTION_TILE)};
    size_t first[COUNTOF(sizes)], total = 0;
    for (size_t i = 0; i < COUNTOF(sizes); i++) {
        first[i] = total;
        total += (sizes[i] + 15) / 16 * 16;
    }
    if (!at) return total;
    uint32_t *words = (uint32_t *)(void *)at;
    *s = (Scratch){.p = at + first[0],
                   .ds = at + first[1],
                   .slope = at + first[2],
                   .eps = at + first[3],
                   .component = (uint16_t *)(void *)(at + first[4]),
                   .keys_across = words + first[5],
                   .keys = words + first[6],
                   .values_across = words + first[7],
                   .values = words + first[8],
                   .left = words + first[9],
                   .right = words + first[10]};
    return total;
}

/* For one pass: to be given back at the mark. */
static ArenaMark take_scratch(TrainContext *c) {
    Tape *t = c->f->tape;
    ArenaMark mark = arena_mark(&t->arena);
    c->scratch_floats = scratch_layout(c, NULL, NULL);
    c->scratch = tape_alloc(t, (size_t)team_size() * c->scratch_floats * sizeof(float));
    return mark;
}

static Scratch scratch_of(const TrainContext *c) {
    Scratch s;
    scratch_layout(c, c->scratch + (size_t)team_member() * c->scratch_floats, &s);
    return s;
}

static int units_of(const TrainContext *c, int k) { return train_units(c->f->tape->bf16, k); }

/* n vectors of k elements of the matrix x: its rows, or `across` its columns. */
static PackSource source(const float *x, int ld, bool across, int n, int k) {
    return (PackSource){.x = x, .n = n, .k = k, .stride = across ? 1 : (size_t)ld, .step = across ? (size_t)ld : 1};
}

/* In f32 rows stay where they are. */
static Panels pack_left(const TrainContext *c, PackSource x, uint32_t *out) {
    const TrainKernels *t = kernels->train;
    bool pairs = c->f->tape->bf16;
    size_t rows = (size_t)t->tile_rows[pairs], units = (size_t)units_of(c, x.k);
    if (x.step == 1 && !pairs)
        return (Panels){.at = (const uint32_t *)(const void *)x.x, .words = rows * x.stride, .row = x.stride};
    if (x.step != 1) t->pack_rows(pairs, &x, out);
    for (int i = 0; x.step == 1 && i < x.n; i++) t->pair_row(x.k, x.x + (size_t)i * x.stride, out + (size_t)i * units);
    return (Panels){.at = out, .words = rows * units, .row = x.step == 1 ? units : 0};
}

/* Panels that are as far apart as k elements need. */
static Panels packed_right(const TrainContext *c, const uint32_t *at, int k) {
    return (Panels){.at = at, .words = (size_t)(kernels->train->tile_columns * units_of(c, k))};
}

static Panels pack_right(const TrainContext *c, PackSource x, uint32_t *out) {
    kernels->train->pack_columns(c->f->tape->bf16, &x, out);
    return packed_right(c, out, x.k);
}

/* y [m, n] (+)= a b over k elements */
static void product(const TrainContext *c, int m, int n, int k, Panels a, Panels b, float *y, int ldy, bool add) {
    kernels->train->multiply(c->f->tape->bf16, m, n, units_of(c, k), a, b, y, (size_t)ldy, add);
}

/* ---- forward ---- */

/* The noise of query i for the keys that it sees; false when it has none. */
static bool noise_of_row(const TrainContext *c, const HeadView *h, int i, NoiseRow *out) {
    return attention_noise_row(c->f, &c->spec, h->seg, h->head, h->seg->row0 + i, i, 0, keys_seen(c, h, i), out);
}

/* p[r, 0..keys) = softmax of row i0 + r, zero behind the keys that it sees; keys = those that the tile's last row sees.
 * What was drawn for it stays in the scratch. */
static void tile_probabilities(const TrainContext *c, const HeadView *h, int i0, int rows, const Scratch *s) {
    int keys = keys_seen(c, h, i0 + rows - 1), k_dim = c->spec.heads.k_dim;
    const float *q = c->q->x + h->q + (size_t)i0 * (size_t)h->ldq;
    Panels left = pack_left(c, source(q, h->ldq, false, rows, k_dim), s->left);
    product(c, rows, keys, k_dim, left, packed_right(c, s->keys_across, k_dim), s->p, keys, false);
    for (int r = 0; r < rows; r++) {
        float *row = s->p + (size_t)r * (size_t)keys;
        int i = i0 + r, seen = keys_seen(c, h, i);
        NoiseRow noise;
        kernels->train->scale_in_place(seen, c->spec.scale, row);
        if (c->spec.scores)
            c->spec.scores(&(ScoreRow){.cfg = c->f->cfg, .layer = c->f->layer, .head = h->head, .i = i, .n = seen}, row,
                           s->slope + (size_t)r * (size_t)keys);
        if (noise_of_row(c, h, i, &noise)) {
            float *eps = s->eps + (size_t)r * (size_t)keys;
            uint16_t *component = s->component + (size_t)r * (size_t)keys;
            noise_row_draw(&noise, eps, component);
            noise_row_add(&noise, eps, component, row);
        }
        float inverse = 1 / kernels->exp_sum_row(seen, row, row, kernels->max_row(seen, row));
        kernels->train->scale_in_place(seen, inverse, row);
        memset(row + seen, 0, (size_t)(keys - seen) * sizeof(float));
    }
}

static void head_forward(const TrainContext *c, int segment, int head) {
    HeadView h = head_view(c, segment, head);
    Scratch s = scratch_of(c);
    int k_dim = c->spec.heads.k_dim, v_dim = c->spec.heads.v_dim, n = h.seg->n, n_keys = h.keys->n;
    pack_right(c, source(c->k->x + h.k, h.ldk, false, n_keys, k_dim), s.keys_across);
    Panels values = pack_right(c, source(c->v->x + h.v, h.ldv, true, v_dim, n_keys), s.values);
    for (int i0 = 0; i0 < n; i0 += ATTENTION_TILE) {
        int rows = MIN(ATTENTION_TILE, n - i0), keys = keys_seen(c, &h, i0 + rows - 1);
        tile_probabilities(c, &h, i0, rows, &s);
        Panels left = pack_left(c, source(s.p, keys, false, rows, keys), s.left);
        product(c, rows, v_dim, keys, left, values, c->y->x + h.y + (size_t)i0 * (size_t)h.ldy, h.ldy, false);
    }
}

/* ---- backward ---- */

/* dS = P (dP - dy . y), in place of dP; the noise's own gradients from dS and what tile_probabilities drew; then dS
 * scale. */
static void tile_score_gradient(const TrainContext *c, const HeadView *h, int i0, int rows, const Scratch *s,
                                double *sums) {
    int keys = keys_seen(c, h, i0 + rows - 1), v_dim = c->spec.heads.v_dim;
    for (int r = 0; r < rows; r++) {
        int i = i0 + r, seen = keys_seen(c, h, i);
        const float *y = c->y->x + h->y + (size_t)i * (size_t)h->ldy;
        const float *dy = c->y->dx + h->y + (size_t)i * (size_t)h->ldy;
        const float *pr = s->p + (size_t)r * (size_t)keys;
        float *row = s->ds + (size_t)r * (size_t)keys;
        kernels->train->softmax_slope_row(seen, pr, kernels->train->dot_row(v_dim, dy, y), row);
        memset(row + seen, 0, (size_t)(keys - seen) * sizeof(float));
        NoiseRow noise;
        if (noise_of_row(c, h, i, &noise)) {
            size_t at = (size_t)(h->seg->row0 + i) * (size_t)c->spec.heads.heads + (size_t)h->head;
            size_t drawn = (size_t)r * (size_t)keys;
            noise_row_backward(&noise, row, s->eps + drawn, s->component + drawn, sums,
                               c->d_log_variance ? c->d_log_variance + at : NULL);
        }
        if (c->spec.scores) kernels->train->product_row(seen, row, s->slope + (size_t)r * (size_t)keys, false, row);
        kernels->train->scale_in_place(seen, c->spec.scale, row);
    }
}

/* With S = scale Q K^T + N, P = softmax(S), Y = P V:
 * dV += P^T dY, dP = dY V^T, dQ += scale dS K, dK += scale dS^T Q. Symmetric attention has dK = dQ: both roles add. */
static void tile_backward(const TrainContext *c, const HeadView *h, int i0, int rows, const Scratch *s, double *sums) {
    int keys = keys_seen(c, h, i0 + rows - 1), k_dim = c->spec.heads.k_dim, v_dim = c->spec.heads.v_dim;
    const float *dy = c->y->dx + h->y + (size_t)i0 * (size_t)h->ldy;
    size_t q = h->q + (size_t)i0 * (size_t)h->ldq;
    tile_probabilities(c, h, i0, rows, s);
    Panels left = pack_left(c, source(s->p, keys, true, keys, rows), s->left);
    Panels right = pack_right(c, source(dy, h->ldy, true, v_dim, rows), s->right);
    product(c, keys, v_dim, rows, left, right, c->v->dx + h->v, h->ldv, true);

    left = pack_left(c, source(dy, h->ldy, false, rows, v_dim), s->left);
    product(c, rows, keys, v_dim, left, packed_right(c, s->values_across, v_dim), s->ds, keys, false);
    tile_score_gradient(c, h, i0, rows, s, sums);

    left = pack_left(c, source(s->ds, keys, false, rows, keys), s->left);
    product(c, rows, k_dim, keys, left, packed_right(c, s->keys, h->keys->n), c->q->dx + q, h->ldq, true);

    left = pack_left(c, source(s->ds, keys, true, keys, rows), s->left);
    right = pack_right(c, source(c->q->x + q, h->ldq, true, k_dim, rows), s->right);
    product(c, keys, k_dim, rows, left, right, c->k->dx + h->k, h->ldk, true);
}

static void head_backward(const TrainContext *c, int segment, int head) {
    HeadView h = head_view(c, segment, head);
    Scratch s = scratch_of(c);
    int k_dim = c->spec.heads.k_dim, v_dim = c->spec.heads.v_dim, n = h.seg->n, n_keys = h.keys->n;
    int components = MAX(1, c->f->cfg->noise.components);
    double *sums = c->noise_sums + (size_t)(segment * c->spec.heads.heads + head) * (size_t)(3 * components);
    pack_right(c, source(c->k->x + h.k, h.ldk, false, n_keys, k_dim), s.keys_across);
    pack_right(c, source(c->k->x + h.k, h.ldk, true, k_dim, n_keys), s.keys);
    pack_right(c, source(c->v->x + h.v, h.ldv, false, n_keys, v_dim), s.values_across);
    for (int i0 = 0; i0 < n; i0 += ATTENTION_TILE) tile_backward(c, &h, i0, MIN(ATTENTION_TILE, n - i0), &s, sums);
}

/* Adds the per-head sums in segment and head order, whatever thread made them. */
static void collect_noise_gradients(const TrainContext *c) {
    const Config *cfg = c->f->cfg;
    const Noise *z = c->spec.noise;
    int heads = c->spec.heads.heads, m = MAX(1, cfg->noise.components), n = config_noise_heads(cfg);
    if (c->spec.condition) {
        Mat *condition = c->spec.condition;
        mat_gradient(condition);
        for (int i = 0; i < condition->n; i++)
            for (int h = 0; h < heads; h++)
                condition->dx[(size_t)i * (size_t)condition->d + (size_t)(n + (n > 1 ? h : 0))] +=
                    c->d_log_variance[(size_t)i * (size_t)heads + (size_t)h];
        return;
    }
    if (!z->mu.grad) return;
    for (int s = 0; s < c->f->batch->n_segments; s++)
        for (int h = 0; h < heads; h++) {
            const double *sums = c->noise_sums + (size_t)(s * heads + h) * (size_t)(3 * m);
            int first = (cfg->noise.scope == NOISE_HEAD ? h : 0) * m;
            for (int k = 0; k < m; k++) {
                z->mu.grad[first + k] += (float)sums[k];
                z->sigma.grad[first + k] += (float)sums[m + k];
                if (z->weight.grad) z->weight.grad[first + k] += (float)sums[2 * m + k];
            }
        }
}

static void train_backward(void *context) {
    TrainContext *c = context;
    int v_heads = c->spec.heads.v_heads, group = c->spec.heads.heads / v_heads;
    Mat *mats[] = {c->q, c->k, c->v, c->y};
    for (size_t i = 0; i < COUNTOF(mats); i++) mat_gradient(mats[i]);
    size_t sums =
        (size_t)(c->f->batch->n_segments * c->spec.heads.heads) * (size_t)(3 * MAX(1, c->f->cfg->noise.components));
    memset(c->noise_sums, 0, sums * sizeof(double));
    if (c->d_log_variance) memset(c->d_log_variance, 0, (size_t)c->q->n * (size_t)c->spec.heads.heads * sizeof(float));
    ArenaMark mark = take_scratch(c);
    /* query heads of one value head add into the same dk, dv: they stay with one thread, in order */
#pragma omp parallel for collapse(2) schedule(dynamic)
    for (int s = 0; s < c->f->batch->n_segments; s++)
        for (int g = 0; g < v_heads; g++)
            for (int h = g * group; h < (g + 1) * group; h++) head_backward(c, s, h);
    arena_rewind(&c->f->tape->arena, mark);
    if (c->spec.noise) collect_noise_gradients(c);
}

void attention_train(Forward *f, Mat *q, Mat *k, Mat *v, Mat *y, const AttentionSpec *spec) {
    Tape *t = f->tape;
    TrainContext *c = tape_alloc(t, sizeof *c);
    *c = (TrainContext){.f = f, .q = q, .k = k, .v = v, .y = y, .spec = *spec};
    c->key_segments = spec->keys ? spec->keys->segments : f->batch->segments;
    int n_segments = f->batch->n_segments, heads = spec->heads.heads;
    for (int s = 0; s < n_segments; s++) {
        BUG_ON(f->batch->segments[s].pos0 != 0 || c->key_segments[s].pos0 != 0);
        c->longest = MAX(c->longest, c->key_segments[s].n);
    }
    c->noise_sums =
        tape_alloc(t, (size_t)(n_segments * heads) * (size_t)(3 * MAX(1, f->cfg->noise.components)) * sizeof(double));
    if (spec->condition) c->d_log_variance = tape_alloc(t, (size_t)q->n * (size_t)heads * sizeof(float));
    ArenaMark mark = take_scratch(c);
#pragma omp parallel for collapse(2) schedule(dynamic)
    for (int s = 0; s < n_segments; s++)
        for (int h = 0; h < heads; h++) head_forward(c, s, h);
    arena_rewind(&t->arena, mark);
    tape_push(t, train_backward, c);
}
