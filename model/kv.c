#include "model/kv.h"

#include "base/err.h"
#include "base/memory.h"
#include "base/team.h"
#include "model/kernels/kernels.h"
#include "model/shape.h"

#include <string.h>
#include <sys/mman.h>

static HeadShape cached_heads(const Config *c, KvForm form) {
    HeadShape heads = config_heads(c);
    if (form == KV_COMPACT)
        heads = (HeadShape){.heads = heads.heads, .kv_heads = 1, .v_heads = 1, .k_dim = config_compact_width(c)};
    return heads;
}

/* Features of a key as stored: a last single one has a zero for a partner. */
static size_t key_width(HeadShape heads, Dtype dtype) {
    return (size_t)(dtype == DTYPE_F32 ? heads.k_dim : (heads.k_dim + 1) / 2 * 2);
}

/* A layer by itself; data is the caller's. */
static KvLayer layer_of(HeadShape heads, KvForm form, Dtype dtype) {
    size_t per_feature = KV_BLOCK * dtype_size(dtype);
    KvLayer kv = {.heads = heads, .form = form, .dtype = dtype};
    kv.k_bytes = key_width(heads, dtype) * per_feature;
    kv.v_bytes = (size_t)heads.v_dim * per_feature;
    kv.block_stride = (size_t)heads.kv_heads * kv.k_bytes + (size_t)heads.v_heads * kv.v_bytes;
    return kv;
}

KvLayer kv_layer(const KvCache *kv, int layer) {
    KvLayer l = layer_of(kv->heads, kv->form, kv->dtype);
    l.data = kv->data + (size_t)layer * l.block_stride;
    l.block_stride = kv->block_bytes;
    return l;
}

static KvLayer layer_on(Tape *t, KvLayer kv, int n_blocks) {
    size_t bytes = (size_t)n_blocks * kv.block_stride;
    kv.data = memset(tape_alloc(t, bytes), 0, bytes);
    return kv;
}

KvLayer kv_scratch(Tape *t, HeadShape heads, Dtype dtype, int n_blocks) {
    return layer_on(t, layer_of(heads, KV_EXPANDED, dtype), n_blocks);
}

KvLayer kv_local(Tape *t, const Config *c, int n_blocks) {
    KvForm form = config_kv_form(c);
    return layer_on(t, layer_of(cached_heads(c, form), form, kv_precision(t)), n_blocks);
}

Dtype kv_precision(const Tape *t) { return t->bf16 ? DTYPE_BF16 : DTYPE_F32; }

const Batch *kv_number_blocks(Tape *t, const Batch *batch, int *n_blocks) {
    Batch *b = tape_alloc(t, sizeof *b);
    Segment *segments = tape_alloc(t, (size_t)batch->n_segments * sizeof *segments);
    *n_blocks = 0;
    for (int s = 0; s < batch->n_segments; s++) {
        int n = kv_blocks(batch->segments[s].n);
        int *blocks = tape_alloc(t, (size_t)n * sizeof *blocks);
        BUG_ON(batch->segments[s].pos0 != 0);
        for (int i = 0; i < n; i++) blocks[i] = *n_blocks + i;
        segments[s] = batch->segments[s];
        segments[s].blocks = blocks;
        *n_blocks += n;
    }
    *b = *batch;
    b->segments = segments;
    return b;
}

int kv_init(KvCache *kv, const Config *c, int n_blocks, Dtype dtype, KvForm form, Err *err) {
    *kv = (KvCache){0};
    BUG_ON(dtype != DTYPE_F32 && dtype != DTYPE_BF16);
    if (config_check_kv_form(c, form, err)) return -1;
    HeadShape heads = cached_heads(c, form);
    *kv = (KvCache){.heads = heads, .form = form, .n_layers = c->n_layers, .n_blocks = n_blocks, .dtype = dtype};
    size_t total, in_layer = layer_of(heads, form, dtype).block_stride;
    if (!size_mul(in_layer, (size_t)c->n_layers, &kv->block_bytes) ||
        !size_mul(kv->block_bytes, (size_t)n_blocks, &total))
        return err_set(err, "a cache of %d blocks of %zu bytes in %d layers overflows", n_blocks, in_layer,
                       c->n_layers);
    /* Anonymous pages are zero and cost nothing until they are written. Huge ones, because a head of a block is as
     * large as a small page: attention would miss the TLB at each. */
    void *data = mmap(NULL, total, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (data == MAP_FAILED) return err_set(err, "no memory for a cache of %zu bytes", total);
    madvise(data, total, MADV_HUGEPAGE);
    kv->data = data;
    return 0;
}

void kv_free(KvCache *kv) {
    if (kv->data) munmap(kv->data, kv->block_bytes * (size_t)kv->n_blocks);
    *kv = (KvCache){0};
}

size_t kv_bytes_per_token(const Config *c, Dtype dtype, KvForm form) {
    HeadShape heads = cached_heads(c, form);
    size_t width = (size_t)heads.kv_heads * key_width(heads, dtype) + (size_t)(heads.v_heads * heads.v_dim);
    return (size_t)c->n_layers * width * dtype_size(dtype);
}

enum { PIECE = 128 };

/* Key `at` of a block. */
static void store_key(const KvLayer *kv, unsigned char *block, int at, const float *from_k) {
    int k_dim = kv->heads.k_dim;
    if (kv->dtype == DTYPE_F32) {
        float *into_k = (float *)(void *)block + at;
        for (int d = 0; d < k_dim; d++) into_k[d * KV_BLOCK] = from_k[d];
        return;
    }
    uint16_t half[PIECE] = {0};
    uint16_t *into_k = (uint16_t *)(void *)block;
    for (int d0 = 0; d0 < k_dim; d0 += PIECE) {
        int n = MIN(PIECE, k_dim - d0);
        kernels->to_bf16(n, from_k + d0, half);
        if (n % 2) half[n] = 0;
        for (int d = 0; d < n; d += 2) memcpy(into_k + kv_key_at(DTYPE_BF16, d0 + d, at), half + d, 2 * sizeof *half);
    }
}

/* Value `at` of a block. */
static void store_value(const KvLayer *kv, unsigned char *block, int at, const float *from_v) {
    int v_dim = kv->heads.v_dim;
    if (kv->dtype == DTYPE_F32) {
        memcpy((float *)(void *)block + at * v_dim, from_v, (size_t)v_dim * sizeof(float));
        return;
    }
    uint16_t half[PIECE];
    uint16_t *into_v = (uint16_t *)(void *)block + kv_value_at(DTYPE_BF16, v_dim, 0, at);
    for (int d0 = 0; d0 < v_dim; d0 += PIECE) {
        int n = MIN(PIECE, v_dim - d0);
        kernels->to_bf16(n, from_v + d0, half);
        for (int d = 0; d < n; d++) into_v[2 * (d0 + d)] = half[d];
    }
}

/* What store_key and store_value would do with KV_BLOCK rows `ld` apart, the whole of a block: keys are turned by the
 * kernels, values two at a time. */
static void store_keys(const KvLayer *kv, unsigned char *block, const float *from_k, size_t ld) {
    int k_dim = kv->heads.k_dim;
    uint32_t *into = (uint32_t *)(void *)block;
    if (kv->dtype == DTYPE_F32) {
        kernels->train->transpose(KV_BLOCK, k_dim, ld, (const uint32_t *)(const void *)from_k, into);
        return;
    }
    uint16_t half[KV_BLOCK][PIECE];
    for (int d0 = 0; d0 < k_dim; d0 += PIECE, into += PIECE / 2 * KV_BLOCK) {
        int n = MIN(PIECE, k_dim - d0);
        for (int j = 0; j < KV_BLOCK; j++) {
            kernels->to_bf16(n, from_k + (size_t)j * ld + d0, half[j]);
            if (n % 2) half[j][n] = 0;
        }
        kernels->train->transpose(KV_BLOCK, (n + 1) / 2, PIECE / 2, (const uint32_t *)(const void *)half, into);
    }
}

static void store_values(const KvLayer *kv, unsigned char *block, const float *from_v, size_t ld) {
    int v_dim = kv->heads.v_dim;
    for (int j = 0; j < KV_BLOCK && kv->dtype == DTYPE_F32; j++) store_value(kv, block, j, from_v + (size_t)j * ld);
    uint16_t half[2][PIECE];
    for (int j = 0; j < KV_BLOCK && kv->dtype == DTYPE_BF16; j += 2)
        for (int d0 = 0; d0 < v_dim; d0 += PIECE) {
            int n = MIN(PIECE, v_dim - d0);
            uint16_t *into_v = (uint16_t *)(void *)block + kv_value_at(DTYPE_BF16, v_dim, d0, j);
            for (int k = 0; k < 2; k++) kernels->to_bf16(n, from_v + (size_t)(j + k) * ld + d0, half[k]);
            for (int d = 0; d < n; d++) into_v[2 * d] = half[0][d], into_v[2 * d + 1] = half[1][d];
        }
}

void kv_append(const KvLayer *kv, const Batch *batch, const Mat *k, const Mat *v) {
    HeadShape heads = kv->heads;
    BUG_ON(k->d != heads.kv_heads * heads.k_dim || (v ? v->d : 0) != heads.v_heads * heads.v_dim);
#pragma omp parallel for if (team_pays((size_t)k->n * (size_t)k->d, TEAM_ELEMENTS))
    for (int head = 0; head < heads.kv_heads; head++)
        for (int s = 0; s < batch->n_segments; s++) {
            const Segment *seg = &batch->segments[s];
            for (int i = 0, rows; i < seg->n; i += rows) {
                int position = seg->pos0 + i, at = position % KV_BLOCK, block = seg->blocks[position / KV_BLOCK];
                size_t row = (size_t)(seg->row0 + i);
                const float *from_k = k->x + row * (size_t)k->d + (size_t)(head * heads.k_dim), *from_v = NULL;
                if (v && head < heads.v_heads) from_v = v->x + row * (size_t)v->d + (size_t)(head * heads.v_dim);
                rows = at == 0 && seg->n - i >= KV_BLOCK ? KV_BLOCK : 1;
                if (rows == KV_BLOCK) {
                    store_keys(kv, kv_k(kv, block, head), from_k, (size_t)k->d);
                    if (from_v) store_values(kv, kv_v(kv, block, head), from_v, (size_t)v->d);
                    continue;
                }
                store_key(kv, kv_k(kv, block, head), at, from_k);
                if (from_v) store_value(kv, kv_v(kv, block, head), at, from_v);
            }
        }
}

/* Lines of all pages by turns. */
void kv_fetch(const KvLayer *kv, int block, bool values, int head, int heads, int share) {
    enum { PAGE = 4096, LINE = 64 };
    if (values && !kv->heads.v_dim) return;
    int alike = values ? kv->heads.kv_heads / kv->heads.v_heads : 1;
    const unsigned char *from = values ? kv_v(kv, block, head / alike) : kv_k(kv, block, head);
    size_t bytes = (size_t)((heads + alike - 1) / alike) * (values ? kv->v_bytes : kv->k_bytes);
    size_t pages = MAX(bytes / PAGE, 1), each = bytes / pages / LINE, lines = pages * each;
    size_t first = lines * (size_t)share / (size_t)heads, end = lines * ((size_t)share + 1) / (size_t)heads;
    for (size_t i = first, page = first % pages, line = first / pages; i < end; i++) {
        __builtin_prefetch(from + (page * each + line) * LINE, 0, 2);
        if (++page == pages) page = 0, line++;
    }
}

void kv_copy_block(KvCache *kv, int from, int to) {
    memcpy(kv->data + (size_t)to * kv->block_bytes, kv->data + (size_t)from * kv->block_bytes, kv->block_bytes);
}

Mat *kv_rows(Tape *t, const KvLayer *kv, const Segment *seg, int n) {
    int width = kv->heads.k_dim;
    Mat *rows = tape_mat(t, n, width);
#pragma omp parallel for if (team_pays((size_t)n * (size_t)width, TEAM_ELEMENTS))
    for (int i = 0; i < n; i++) {
        const unsigned char *k = kv_k(kv, seg->blocks[i / KV_BLOCK], 0);
        float *row = rows->x + (size_t)i * (size_t)width;
        for (int d = 0; d < width; d++) {
            size_t at = kv_key_at(kv->dtype, d, i % KV_BLOCK);
            row[d] = kv->dtype == DTYPE_F32 ? ((const float *)(const void *)k)[at]
                                            : bf16_to_f32(((const uint16_t *)(const void *)k)[at]);
        }
    }
    return rows;
}
