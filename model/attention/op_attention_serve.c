#include "base/arena.h"
#include "base/err.h"
#include "base/random.h"
#include "base/team.h"
#include "model/kernels/kernels.h"
#include "model/attention/op_attention.h"

#include <math.h>
#include <string.h>

/* A task is a tile of up to TILE query rows of one segment under some of the kv heads. Keys are walked in chunks from
 * position 0; a row carries its largest score so far and, relative to it, the sum of exponentials and the mixed values.
 * So a row's bits depend on its own sequence alone, and the memory on the model alone. Heads of few rows walk together,
 * for a block of the cache has the keys of all heads side by side, and memory gives runs of them twice as fast. */
enum { TILE = 32, CHUNK = 8 * KV_BLOCK };

typedef struct Serve {
    Forward *f;
    const KvLayer *kv;
    const Mat *q;
    Mat *y;
    const AttentionSpec *spec;
    bool pairs;           /* the cache is bf16: so are queries and probabilities, and all come in pairs */
    bool blocks;          /* and go by whole blocks, in arithmetic_bf16 (kernels.h) */
    bool shared_noise;    /* one noise for all heads, drawn once per task */
    int group, tile_rows; /* query heads per kv head; positions per tile */
    int rows_max;  /* rows of scores at a time: a tile's positions times group, times the heads that walk together */
    int task_rows; /* those of all heads of a task */
    int q_width;   /* elements of a query: k_dim, in pairs rounded up to even */
    unsigned char *scratch;
    size_t scratch_bytes; /* of one thread */
} Serve;

typedef struct Task {
    const Segment *seg, *keys; /* of the queries; of their keys, which is the same but in cross-attention */
    int first, n;              /* queries of the segment */
    int kv_head, heads;        /* kv heads */
    int seen;                  /* keys that the last query sees */
} Task;

/* Row r of a tile is position r / group, head kv_head group + r % group. */
typedef struct Scratch {
    void *q;             /* [heads, rows, q_width] scaled */
    float *acc;          /* [heads, rows, v_dim] */
    float *max, *sum;    /* [heads, rows] */
    float *s;            /* [heads that walk together, rows, CHUNK] */
    uint16_t *p;         /* the same */
    float *noise;        /* [tile_rows, CHUNK] */
    float *eps;          /* [CHUNK] */
    uint16_t *component; /* [CHUNK] */
    void *transposed;    /* [KV_BLOCK, v_dim] */
} Scratch;

static void *take(size_t *used, unsigned char *base, size_t bytes) {
    void *at = base ? base + *used : NULL;
    *used += (bytes + 63) & ~(size_t)63;
    return at;
}

/* Lays out what is at base; *bytes is how much it is. */
static Scratch scratch_lay(const Serve *a, unsigned char *base, size_t *bytes) {
    size_t rows = (size_t)a->rows_max, all = (size_t)a->task_rows, v_dim = (size_t)a->spec->heads.v_dim;
    *bytes = 0;
    return (Scratch){
        .q = take(bytes, base, all * (size_t)a->q_width * sizeof(float)),
        .acc = take(bytes, base, all * v_dim * sizeof(float)),
        .max = take(bytes, base, all * sizeof(float)),
        .sum = take(bytes, base, all * sizeof(float)),
        .s = take(bytes, base, rows * CHUNK * sizeof(float)),
        .p = take(bytes, base, rows * CHUNK * sizeof(uint16_t)),
        .noise = take(bytes, base, (size_t)a->tile_rows * CHUNK * sizeof(float)),
        .eps = take(bytes, base, CHUNK * sizeof(float)),
        .component = take(bytes, base, CHUNK * sizeof(uint16_t)),
        .transposed = take(bytes, base, KV_BLOCK * v_dim * sizeof(float)),
    };
}

static int head_rows(const Serve *a, const Task *t) { return t->n * a->group; }

static size_t query_at(const Serve *a, const Task *t, int h, int r) {
    return (size_t)(h * head_rows(a, t) + r) * (size_t)a->q_width;
}

static void load_queries(const Serve *a, const Task *t, const Scratch *x) {
    int k_dim = a->spec->heads.k_dim, rows = head_rows(a, t);
    for (int h = 0; h < t->heads; h++)
        for (int r = 0; r < rows; r++) {
            int head = (t->kv_head + h) * a->group + r % a->group;
            size_t row = (size_t)(t->seg->row0 + t->first + r / a->group);
            const float *from = a->q->x + row * (size_t)a->q->d + (size_t)(head * k_dim);
            if (!a->pairs) {
                kernels->scale_row(k_dim, a->spec->scale, from, (float *)x->q + query_at(a, t, h, r));
                continue;
            }
            uint16_t *to = (uint16_t *)x->q + query_at(a, t, h, r);
            for (int d = 0; d < k_dim; d += CHUNK) {
                int n = MIN(CHUNK, k_dim - d);
                kernels->scale_row(n, a->spec->scale, from + d, x->eps);
                kernels->to_bf16(n, x->eps, to + d);
            }
            if (k_dim % 2) to[k_dim] = 0;
        }
}

/* Where the scores of row r of head h lie, heads from h0 on walking together. */
static size_t scores_at(const Serve *a, const Task *t, int h0, int h, int r) {
    return (size_t)((h - h0) * head_rows(a, t) + r) * CHUNK;
}

/* Of one position memory decides. */
static bool fetches(const Task *t) { return reads_in_streams && t->n == 1; }

/* While head h of h0..h1-1 reads its keys, or values, of a block from key j of the chunk on, its share of what they
 * read next is asked for: those of the next block, or values after keys, or the next chunk's keys. */
static void fetch_next(const Serve *a, const Task *t, bool values, int h0, int h1, int h, int c0, int j) {
    int next = c0 + j + KV_BLOCK;
    if (!fetches(t)) return;
    if (next >= MIN(c0 + CHUNK, t->seen)) {
        values = !values;
        if (values) next = c0;
    }
    if (next < t->seen) kv_fetch(a->kv, t->keys->blocks[next / KV_BLOCK], values, t->kv_head + h0, h1 - h0, h - h0);
}

/* Blocks that are given to the kernels together. */
enum { MOST_BLOCKS = 64 };
static int blocks_together(const Task *t) { return fetches(t) ? 1 : MOST_BLOCKS; }

static void chunk_scores_by_blocks(const Serve *a, const Task *t, const Scratch *x, int h0, int h1, int c0,
                                   int n_keys) {
    ScoresBlock some[MOST_BLOCKS];
    int rows = head_rows(a, t), n = 0;
    for (int j = 0; j < n_keys; j += KV_BLOCK)
        for (int h = h0; h < h1; h++) {
            fetch_next(a, t, false, h0, h1, h, c0, j);
            some[n++] = (ScoresBlock){.q = (uint16_t *)x->q + query_at(a, t, h, 0),
                                      .k = kv_k(a->kv, t->keys->blocks[(c0 + j) / KV_BLOCK], t->kv_head + h),
                                      .s = x->s + scores_at(a, t, h0, h, 0) + j};
            if (n < blocks_together(t) && (j + KV_BLOCK < n_keys || h + 1 < h1)) continue;
            kernels->scores_blocks(n, some, rows, a->q_width / 2, CHUNK);
            n = 0;
        }
}

/* Scores of kv heads h0..h1-1 of the task against n_keys keys from position c0 on, and the rest of their last block. */
static void chunk_scores(const Serve *a, const Task *t, const Scratch *x, int h0, int h1, int c0, int n_keys) {
    int rows = head_rows(a, t);
    if (a->blocks) {
        chunk_scores_by_blocks(a, t, x, h0, h1, c0, n_keys);
        return;
    }
    for (int j = 0; j < n_keys; j += KV_BLOCK)
        for (int h = h0; h < h1; h++) {
            fetch_next(a, t, false, h0, h1, h, c0, j);
            const void *k = kv_k(a->kv, t->keys->blocks[(c0 + j) / KV_BLOCK], t->kv_head + h);
            float *s = x->s + scores_at(a, t, h0, h, 0) + j;
            if (a->pairs)
                kernels->scores_pairs(rows, a->q_width / 2, (uint16_t *)x->q + query_at(a, t, h, 0), k, s, CHUNK);
            else
                kernels->scores_f32(rows, a->q_width, (float *)x->q + query_at(a, t, h, 0), k, s, CHUNK);
        }
}

/* s[j] += noise of query head `head`, query r of the task, keys c0..c0+n-1 */
static void add_noise(const Serve *a, const Task *t, const Scratch *x, int head, int r, int c0, int n, float *s) {
    int at = t->first + r;
    NoiseRow noise;
    if (!attention_noise_row(a->f, a->spec, t->seg, head, t->seg->row0 + at, t->seg->pos0 + at, c0, n, &noise)) return;
    noise_row_draw(&noise, x->eps, x->component);
    noise_row_add(&noise, x->eps, x->component, s);
}

/* Keys of chunk c0 that query r of the task sees. */
static int keys_seen(const Serve *a, const Task *t, int r, int c0) {
    return MIN(CHUNK, attention_keys_seen(a->spec, t->keys, t->seg->pos0 + t->first + r) - c0);
}

static void draw_shared(const Serve *a, const Task *t, const Scratch *x, int c0) {
    for (int r = 0; r < t->n; r++) {
        int seen = keys_seen(a, t, r, c0);
        if (seen <= 0) continue;
        float *noise = x->noise + r * CHUNK;
        memset(noise, 0, CHUNK * sizeof *noise);
        add_noise(a, t, x, 0, r, c0, seen, noise);
    }
}

/* The kind's own word on the scores of row r of kv head h of the task; true when it leaves none of them to be seen. */
static bool edit_scores(const Serve *a, const Task *t, int h, int r, int c0, int n, float *s) {
    ScoreRow row = {.cfg = a->f->cfg,
                    .layer = a->f->layer,
                    .head = (t->kv_head + h) * a->group + r % a->group,
                    .i = t->seg->pos0 + t->first + r / a->group,
                    .first = c0,
                    .n = n};
    a->spec->scores(&row, s, NULL);
    return kernels->max_row(n, s) == -INFINITY;
}

/* Scores to probabilities relative to the largest so far; what is mixed already is made relative to it too. */
static void chunk_softmax(const Serve *a, const Task *t, const Scratch *x, int h0, int h, int c0) {
    int v_dim = a->spec->heads.v_dim, rows = head_rows(a, t);
    for (int r = 0; r < rows; r++) {
        int seen = keys_seen(a, t, r / a->group, c0), padded = (seen + KV_BLOCK - 1) / KV_BLOCK * KV_BLOCK;
        if (seen <= 0) continue;
        size_t at = (size_t)(h * rows + r), first = scores_at(a, t, h0, h, r);
        float *s = x->s + first;
        if (a->spec->scores && edit_scores(a, t, h, r, c0, seen, s)) {
            memset(s, 0, (size_t)padded * sizeof *s);
            if (a->pairs) memset(x->p + first, 0, (size_t)padded * sizeof *x->p);
            continue;
        }
        if (a->shared_noise)
            kernels->add_row(seen, x->noise + r / a->group * CHUNK, s);
        else if (a->spec->noise)
            add_noise(a, t, x, (t->kv_head + h) * a->group + r % a->group, r / a->group, c0, seen, s);
        for (int j = seen; j < padded; j++) s[j] = -INFINITY;
        float factor = kernels->online_softmax_row(padded, s, s, &x->max[at], &x->sum[at]),
              *acc = x->acc + at * (size_t)v_dim;
        if (factor != 1) kernels->scale_row(v_dim, factor, acc, acc);
        if (a->pairs) kernels->to_bf16(padded, s, x->p + first);
    }
}

/* Values of a block. Where a value is the beginning of its key, the keys are transposed first. */
static const void *block_values(const Serve *a, int block, int kv_head, void *transposed) {
    int v_dim = a->spec->heads.v_dim;
    if (a->kv->heads.v_dim) return kv_v(a->kv, block, kv_head / (a->spec->heads.kv_heads / a->spec->heads.v_heads));
    const void *k = kv_k(a->kv, block, kv_head);
    for (int d = 0; d < v_dim; d++)
        for (int j = 0; j < KV_BLOCK; j++)
            if (a->pairs)
                ((uint16_t *)transposed)[kv_value_at(a->kv->dtype, v_dim, d, j)] =
                    ((const uint16_t *)k)[kv_key_at(a->kv->dtype, d, j)];
            else
                ((float *)transposed)[kv_value_at(a->kv->dtype, v_dim, d, j)] =
                    ((const float *)k)[kv_key_at(a->kv->dtype, d, j)];
    return transposed;
}

/* acc += p v of `rows` rows, whose probabilities begin at `first`, keys j..j+n_keys-1 of the chunk (j even in its
 * block); v as block_values. */
static void mix(const Serve *a, const Scratch *x, size_t first, int rows, int j, int n_keys, const void *v,
                float *acc) {
    int v_dim = a->spec->heads.v_dim;
    size_t key = (size_t)(j % KV_BLOCK) * (size_t)v_dim, at = first + (size_t)j;
    if (a->pairs)
        kernels->mix_pairs(rows, n_keys, v_dim, x->p + at, CHUNK, (const uint16_t *)v + key, acc);
    else
        kernels->mix_f32(rows, n_keys, v_dim, x->s + at, CHUNK, (const float *)v + key, acc);
}

/* Values of keys that a row does not see are never touched: they may be another request's leftovers. So all rows mix
 * what the first of them sees, in whole pairs, and then each the rest of its own. */
static void block_mix(const Serve *a, const Task *t, const Scratch *x, int h0, int h, int c0, int j) {
    int v_dim = a->spec->heads.v_dim, rows = head_rows(a, t);
    float *acc = x->acc + (size_t)(h * rows) * (size_t)v_dim;
    const void *v = block_values(a, t->keys->blocks[(c0 + j) / KV_BLOCK], t->kv_head + h, x->transposed);
    int common = MAX(0, MIN(KV_BLOCK, keys_seen(a, t, 0, c0) - j));
    if (t->n > 1) common &= ~1;
    if (common) mix(a, x, scores_at(a, t, h0, h, 0), rows, j, common, v, acc);
    for (int r = 0; r < rows && common < KV_BLOCK; r++) {
        int rest = MIN(KV_BLOCK, keys_seen(a, t, r / a->group, c0) - j) - common;
        if (rest > 0) mix(a, x, scores_at(a, t, h0, h, r), 1, j + common, rest, v, acc + (size_t)r * (size_t)v_dim);
    }
}

static bool pairs_are_finite(const uint16_t *v, size_t n) {
    const unsigned exponent = 0x7f80;
    unsigned wild = 0;
    for (size_t i = 0; i < n; i++) wild |= (v[i] & exponent) == exponent;
    return !wild;
}

/* A block that not all rows see to its end. Rows that see less than the last one have probabilities of 0 there; unless
 * a value is not finite, and each row goes alone. Rows that see nothing of it are left as they are. */
static void seen_block_mix(const Serve *a, const Task *t, const MixBlock *b, int c0, int j) {
    int v_dim = a->spec->heads.v_dim, rows = head_rows(a, t), begin = 0;
    int last = MIN(KV_BLOCK, keys_seen(a, t, (rows - 1) / a->group, c0) - j);
    while (begin < rows && keys_seen(a, t, begin / a->group, c0) <= j) begin++;
    if (begin == rows) return;
    bool together = keys_seen(a, t, begin / a->group, c0) - j >= last ||
                    pairs_are_finite(b->v, (size_t)(last + last % 2) * (size_t)v_dim);
    for (int r = begin; r < (together ? begin + 1 : rows); r++) {
        MixBlock own = {.p = (const uint16_t *)b->p + r * CHUNK,
                        .v = b->v,
                        .acc = b->acc + (size_t)r * (size_t)v_dim,
                        .keys = together ? last : MIN(KV_BLOCK, keys_seen(a, t, r / a->group, c0) - j)};
        kernels->mix_blocks(1, &own, together ? rows - begin : 1, v_dim, CHUNK);
    }
}

static void chunk_mix_by_blocks(const Serve *a, const Task *t, const Scratch *x, int h0, int h1, int c0, int n_keys) {
    MixBlock some[MOST_BLOCKS];
    int v_dim = a->spec->heads.v_dim, rows = head_rows(a, t), n = 0;
    for (int j = 0; j < n_keys; j += KV_BLOCK)
        for (int h = h0; h < h1; h++) {
            MixBlock b = {
                .p = x->p + scores_at(a, t, h0, h, 0) + j,
                .v = block_values(a, t->keys->blocks[(c0 + j) / KV_BLOCK], t->kv_head + h, x->transposed),
                .acc = x->acc + (size_t)(h * rows) * (size_t)v_dim,
                .keys = KV_BLOCK,
            };
            bool whole = keys_seen(a, t, 0, c0) - j >= KV_BLOCK;
            fetch_next(a, t, true, h0, h1, h, c0, j);
            if (whole) some[n++] = b;
            if (whole && b.v != x->transposed && n < blocks_together(t)) continue;
            if (n) kernels->mix_blocks(n, some, rows, v_dim, CHUNK);
            n = 0;
            if (!whole) seen_block_mix(a, t, &b, c0, j);
        }
    if (n) kernels->mix_blocks(n, some, rows, v_dim, CHUNK);
}

/* Heads h0..h1-1 of the task walk chunk c0, of n_keys keys, together. */
static void chunk_attend(const Serve *a, const Task *t, const Scratch *x, int h0, int h1, int c0, int n_keys) {
    chunk_scores(a, t, x, h0, h1, c0, n_keys);
    for (int h = h0; h < h1; h++) chunk_softmax(a, t, x, h0, h, c0);
    if (a->blocks) {
        chunk_mix_by_blocks(a, t, x, h0, h1, c0, n_keys);
        return;
    }
    for (int j = 0; j < n_keys; j += KV_BLOCK)
        for (int h = h0; h < h1; h++) {
            fetch_next(a, t, true, h0, h1, h, c0, j);
            block_mix(a, t, x, h0, h, c0, j);
        }
}

/* By blocks -0 becomes 0: which of both a sum that underflows is may depend on the values of keys that are not seen. */
static void store(const Serve *a, const Task *t, const Scratch *x) {
    int v_dim = a->spec->heads.v_dim, rows = head_rows(a, t);
    for (int h = 0; h < t->heads; h++)
        for (int r = 0; r < rows; r++) {
            int head = (t->kv_head + h) * a->group + r % a->group;
            size_t row = (size_t)(t->seg->row0 + t->first + r / a->group), at = (size_t)(h * rows + r);
            float *y = a->y->x + row * (size_t)a->y->d + (size_t)(head * v_dim);
            kernels->scale_row(v_dim, 1 / x->sum[at], x->acc + at * (size_t)v_dim, y);
            for (int d = 0; a->blocks && d < v_dim; d++) y[d] += 0.0f;
        }
}

static void serve_task(const Serve *a, const Task *t) {
    size_t bytes, all = (size_t)(t->heads * head_rows(a, t)), v_dim = (size_t)a->spec->heads.v_dim;
    Scratch x = scratch_lay(a, a->scratch + (size_t)team_member() * a->scratch_bytes, &bytes);
    int together = MAX(1, a->rows_max / head_rows(a, t));
    load_queries(a, t, &x);
    memset(x.acc, 0, all * v_dim * sizeof(float));
    memset(x.sum, 0, all * sizeof(float));
    for (size_t r = 0; r < all; r++) x.max[r] = -INFINITY;
    int first = a->spec->window ? MAX(0, t->seg->pos0 + t->first - a->spec->window + 1) : 0;
    for (int c0 = first / CHUNK * CHUNK; c0 < t->seen; c0 += CHUNK) {
        int n_keys = MIN(CHUNK, t->seen - c0);
        if (a->shared_noise) draw_shared(a, t, &x, c0);
        for (int h = 0; h < t->heads; h += together) chunk_attend(a, t, &x, h, MIN(h + together, t->heads), c0, n_keys);
    }
    store(a, t, &x);
}

typedef struct Tile {
    int segment, first, n;
    int heads; /* of a task */
} Tile;

/* Kv heads of a task: as many of a tile as walk together, but enough tasks for the team. Noise that all heads share is
 * drawn once for all of them. */
static int task_heads(const Serve *a, const Tile *tile, int n_tiles) {
    int kv_heads = a->spec->heads.kv_heads, team = team_size();
    int parts = n_tiles == 1 ? team : (2 * team + n_tiles - 1) / n_tiles;
    if (a->shared_noise) return kv_heads;
    return MAX(1, MIN(a->rows_max / (tile->n * a->group), (kv_heads + parts - 1) / parts));
}

void attention_serve(Forward *f, const KvLayer *kv, const Batch *batch, const Mat *q, Mat *y,
                     const AttentionSpec *spec) {
    Tape *tape = f->tape;
    HeadShape h = spec->heads;
    const Segment *key_segments = spec->keys ? spec->keys->segments : batch->segments;
    ArenaMark mark = arena_mark(&tape->arena);
    Serve a = {.f = f, .kv = kv, .q = q, .y = y, .spec = spec, .pairs = kv->dtype == DTYPE_BF16};
    a.blocks = a.pairs && tape->own_bf16;
    a.group = h.heads / h.kv_heads;
    a.tile_rows = MAX(1, TILE / a.group);
    a.rows_max = a.tile_rows * a.group;
    a.q_width = a.pairs ? (h.k_dim + 1) & ~1 : h.k_dim;
    int n_tiles = 0, keys = 0;
    Tile *tiles = tape_alloc(tape, (size_t)q->n * sizeof *tiles);
    for (int s = 0; s < batch->n_segments; s++) {
        const Segment *seg = &batch->segments[s];
        keys = MAX(keys, key_segments[s].pos0 + key_segments[s].n);
        for (int first = 0; first < seg->n; first += a.tile_rows)
            tiles[n_tiles++] = (Tile){.segment = s, .first = first, .n = MIN(a.tile_rows, seg->n - first)};
    }
    a.shared_noise = spec->noise && f->cfg->noise.scope == NOISE_LAYER && n_tiles >= 4 * team_size();
    a.task_rows = a.shared_noise ? h.kv_heads * a.rows_max : a.rows_max;
    for (int t = 0; t < n_tiles; t++) tiles[t].heads = task_heads(&a, &tiles[t], n_tiles);
    scratch_lay(&a, NULL, &a.scratch_bytes);
    a.scratch = tape_alloc(tape, (size_t)team_size() * a.scratch_bytes);
#pragma omp parallel for schedule(dynamic) if (team_pays((size_t)q->n * (size_t)q->d * (size_t)keys, TEAM_SCORES))
    for (int i = 0; i < n_tiles * h.kv_heads; i++) {
        /* A head's follow each other, so its keys and values stay in the second level; a prompt's longest first. */
        const Tile *tile = &tiles[n_tiles - 1 - i % n_tiles];
        int head = i / n_tiles;
        if (head % tile->heads) continue;
        const Segment *seg = &batch->segments[tile->segment], *of_keys = &key_segments[tile->segment];
        serve_task(&a, &(Task){.seg = seg,
                               .keys = of_keys,
                               .seen = attention_keys_seen(spec, of_keys, seg->pos0 + tile->first + tile->n - 1),
                               .first = tile->first,
                               .n = tile->n,
                               .kv_head = head,
                               .heads = MIN(tile->heads, h.kv_heads - head)});
    }
    arena_rewind(&tape->arena, mark);
}
