#include "op_attention.h"

#include "kernels/kernels.h"
#include "team.h"

#include <math.h>
#include <string.h>

/* A task is a tile of query rows of one segment with all query heads that read one kv head: they share its keys.
 * TILE bounds the rows of scores held at once; a row's result does not depend on which rows share its tile. */
enum { TILE = 16 };

typedef struct Serve {
    Forward *f;
    const KvLayer *kv;
    const Mat *q;
    Mat *y;
    const AttentionSpec *spec;
    int group, tile_rows; /* query heads per kv head; positions per tile */
    int rows_max;         /* rows of scores per tile: positions times group */
    int keys_max;         /* longest row, rounded up to whole blocks */
    float *scratch;       /* [threads, scratch_floats] */
    size_t scratch_floats;
} Serve;

static int round_up(int n) { return (n + KV_BLOCK - 1) / KV_BLOCK * KV_BLOCK; }

/* scores [rows, keys_max] of the packed queries against every block of the sequence up to n_keys. */
static void tile_scores(const Serve *a, const Segment *seg, int kv_head, int rows, int n_keys, const float *q,
                        float *s) {
    const KvLayer *kv = a->kv;
    int k_dim = a->spec->heads.k_dim;
    for (int b = 0; b * KV_BLOCK < n_keys; b++) {
        const void *k = kv_k(kv, seg->blocks[b], kv_head);
        if (kv->dtype == DTYPE_F32)
            kernels->scores_f32(rows, k_dim, q, k, s + b * KV_BLOCK, a->keys_max);
        else
            kernels->scores_bf16(rows, k_dim, q, k, s + b * KV_BLOCK, a->keys_max);
    }
}

/* acc[rows, v_dim] += p v over one block. Values behind a row's own position are never touched: they may be another
 * request's leftovers. */
static void mix_block(const Serve *a, const void *v, int rows, int n_keys, const float *p, float *acc) {
    if (a->kv->dtype == DTYPE_F32 || a->kv->heads.v_dim == 0)
        kernels->mix_f32(rows, n_keys, a->spec->heads.v_dim, p, a->keys_max, v, acc);
    else
        kernels->mix_bf16(rows, n_keys, a->spec->heads.v_dim, p, a->keys_max, v, acc);
}

/* Values of a block. Where a value is the beginning of its key, the keys are turned round into `turned` first. */
static const void *block_values(const Serve *a, int block, int kv_head, float *turned) {
    int v_dim = a->spec->heads.v_dim;
    if (a->kv->heads.v_dim) return kv_v(a->kv, block, kv_head);
    const void *k = kv_k(a->kv, block, kv_head);
    for (int d = 0; d < v_dim; d++)
        for (int j = 0; j < KV_BLOCK; j++) {
            int at = d * KV_BLOCK + j;
            turned[j * v_dim + d] =
                a->kv->dtype == DTYPE_F32 ? ((const float *)k)[at] : bf16_to_f32(((const uint16_t *)k)[at]);
        }
    return turned;
}

static void tile_mix(const Serve *a, const Segment *seg, int kv_head, int i0, int n_rows, const float *p, float *acc,
                     float *turned) {
    int rows = n_rows * a->group, v_dim = a->spec->heads.v_dim;
    memset(acc, 0, (size_t)rows * (size_t)v_dim * sizeof(float));
    for (int b = 0; b * KV_BLOCK < i0 + n_rows; b++) {
        const void *v = block_values(a, seg->blocks[b], kv_head, turned);
        const float *pb = p + b * KV_BLOCK;
        if ((b + 1) * KV_BLOCK <= i0 + 1) {
            mix_block(a, v, rows, KV_BLOCK, pb, acc);
            continue;
        }
        for (int r = 0; r < rows; r++) {
            int seen = i0 + r / a->group + 1 - b * KV_BLOCK;
            if (seen > 0)
                mix_block(a, v, 1, MIN(seen, KV_BLOCK), pb + (size_t)r * (size_t)a->keys_max,
                          acc + (size_t)r * (size_t)v_dim);
        }
    }
}

/* Row r of a tile is position r / group, head kv_head group + r % group. */
static void serve_tile(const Serve *a, const Segment *seg, int kv_head, int first, int n_rows, float *scratch) {
    int k_dim = a->spec->heads.k_dim, v_dim = a->spec->heads.v_dim, rows = n_rows * a->group;
    int i0 = seg->pos0 + first;
    float *q = scratch, *acc = q + a->rows_max * k_dim, *sum = acc + a->rows_max * v_dim, *eps = sum + a->rows_max;
    float *s = eps + 2 * a->keys_max;
    uint16_t *component = (uint16_t *)(void *)(eps + a->keys_max);
    for (int r = 0; r < rows; r++) {
        int head = kv_head * a->group + r % a->group;
        size_t at = (size_t)(seg->row0 + first + r / a->group) * (size_t)a->q->d + (size_t)(head * k_dim);
        for (int d = 0; d < k_dim; d++) q[r * k_dim + d] = a->q->x[at + (size_t)d] * a->spec->scale;
    }
    tile_scores(a, seg, kv_head, rows, i0 + n_rows, q, s);
    for (int r = 0; r < rows; r++) {
        int i = i0 + r / a->group, head = kv_head * a->group + r % a->group;
        float *row = s + (size_t)r * (size_t)a->keys_max;
        NoiseRow noise;
        if (attention_noise_row(a->f, a->spec, seg, head, seg->row0 + first + r / a->group, i, &noise)) {
            noise_row_draw(&noise, eps, component);
            noise_row_add(&noise, eps, component, row);
        }
        int padded = round_up(i + 1);
        for (int j = i + 1; j < padded; j++) row[j] = -INFINITY;
        sum[r] = kernels->exp_sum_row(padded, row, row, kernels->max_row(padded, row));
    }
    tile_mix(a, seg, kv_head, i0, n_rows, s, acc, s + (size_t)a->rows_max * (size_t)a->keys_max);
    for (int r = 0; r < rows; r++) {
        int head = kv_head * a->group + r % a->group;
        float *out = a->y->x + (size_t)(seg->row0 + first + r / a->group) * (size_t)a->y->d + (size_t)(head * v_dim);
        float inverse = 1 / sum[r];
        for (int d = 0; d < v_dim; d++) out[d] = acc[r * v_dim + d] * inverse;
    }
}

typedef struct Tile {
    int segment, first, n;
} Tile;

void attention_serve(Forward *f, const KvLayer *kv, const Batch *batch, const Mat *q, Mat *y,
                     const AttentionSpec *spec) {
    Tape *t = f->tape;
    HeadShape h = spec->heads;
    ArenaMark mark = arena_mark(&t->arena);
    Serve a = {.f = f, .kv = kv, .q = q, .y = y, .spec = spec, .group = h.heads / h.kv_heads};
    a.tile_rows = MAX(1, TILE / a.group);
    a.rows_max = a.tile_rows * a.group;
    int n_tiles = 0, keys = 0;
    Tile *tiles = tape_alloc(t, (size_t)q->n * sizeof *tiles);
    for (int s = 0; s < batch->n_segments; s++) {
        const Segment *seg = &batch->segments[s];
        keys = MAX(keys, seg->pos0 + seg->n);
        for (int first = 0; first < seg->n; first += a.tile_rows)
            tiles[n_tiles++] = (Tile){.segment = s, .first = first, .n = MIN(a.tile_rows, seg->n - first)};
    }
    a.keys_max = round_up(keys);
    a.scratch_floats =
        (size_t)a.rows_max * (size_t)(h.k_dim + h.v_dim + 1) + (size_t)(2 + a.rows_max) * (size_t)a.keys_max;
    if (kv->heads.v_dim == 0) a.scratch_floats += (size_t)(KV_BLOCK * h.v_dim);
    a.scratch = tape_alloc(t, (size_t)team_size() * a.scratch_floats * sizeof(float));
#pragma omp parallel for schedule(dynamic) if ((size_t)q->n * (size_t)q->d * (size_t)keys > 1 << 17)
    for (int task = 0; task < n_tiles * h.kv_heads; task++) {
        const Tile *tile = &tiles[task / h.kv_heads];
        serve_tile(&a, &batch->segments[tile->segment], task % h.kv_heads, tile->first, tile->n,
                   a.scratch + (size_t)team_member() * a.scratch_floats);
    }
    arena_rewind(&t->arena, mark);
}
