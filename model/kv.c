#include "model/kv.h"

#include "base/err.h"
#include "base/memory.h"
#include "model/kernels/kernels.h"

#include <string.h>
#include <sys/mman.h>

static HeadShape cached_heads(const Config *c, KvForm form) {
    HeadShape heads = config_heads(c);
    if (form == KV_COMPACT) heads = (HeadShape){.heads = heads.heads, .kv_heads = 1, .k_dim = config_compact_width(c)};
    return heads;
}

/* Features of a key as stored: a last single one has a zero for a partner. */
static size_t key_width(HeadShape heads, Dtype dtype) {
    return (size_t)(dtype == DTYPE_F32 ? heads.k_dim : (heads.k_dim + 1) / 2 * 2);
}

/* A layer by itself; data is the caller's. */
static KvLayer layer_of(HeadShape heads, Dtype dtype) {
    size_t per_feature = KV_BLOCK * dtype_size(dtype);
    KvLayer kv = {.heads = heads, .dtype = dtype};
    kv.k_bytes = key_width(heads, dtype) * per_feature;
    kv.v_bytes = (size_t)heads.v_dim * per_feature;
    kv.block_stride = (size_t)heads.kv_heads * (kv.k_bytes + kv.v_bytes);
    return kv;
}

KvLayer kv_layer(const KvCache *kv, int layer) {
    KvLayer l = layer_of(kv->heads, kv->dtype);
    l.data = kv->data + (size_t)layer * l.block_stride;
    l.block_stride = kv->block_bytes;
    return l;
}

KvLayer kv_scratch(Tape *t, HeadShape heads, int n_blocks) {
    KvLayer kv = layer_of(heads, DTYPE_F32);
    kv.data = tape_alloc(t, (size_t)n_blocks * kv.block_stride);
    return kv;
}

int kv_init(KvCache *kv, const Config *c, int n_blocks, Dtype dtype, KvForm form, Err *err) {
    *kv = (KvCache){0};
    BUG_ON(dtype != DTYPE_F32 && dtype != DTYPE_BF16);
    if (config_check_kv_form(c, form, err)) return -1;
    HeadShape heads = cached_heads(c, form);
    *kv = (KvCache){.heads = heads, .form = form, .n_layers = c->n_layers, .n_blocks = n_blocks, .dtype = dtype};
    size_t total, in_layer = layer_of(heads, dtype).block_stride;
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
    size_t width = key_width(heads, dtype) + (size_t)heads.v_dim;
    return (size_t)c->n_layers * (size_t)heads.kv_heads * width * dtype_size(dtype);
}

/* Key and value `at` of a block. */
static void store(const KvLayer *kv, unsigned char *k, unsigned char *v, int at, const float *from_k,
                  const float *from_v) {
    enum { PIECE = 128 };
    int k_dim = kv->heads.k_dim, v_dim = kv->heads.v_dim;
    if (kv->dtype == DTYPE_F32) {
        float *into_k = (float *)(void *)k + at, *into_v = (float *)(void *)v + at * v_dim;
        for (int d = 0; d < k_dim; d++) into_k[d * KV_BLOCK] = from_k[d];
        for (int d = 0; d < v_dim; d++) into_v[d] = from_v[d];
        return;
    }
    uint16_t half[PIECE] = {0};
    uint16_t *into_k = (uint16_t *)(void *)k, *into_v = (uint16_t *)(void *)v + kv_value_at(DTYPE_BF16, v_dim, 0, at);
    for (int d0 = 0; d0 < k_dim; d0 += PIECE) {
        int n = MIN(PIECE, k_dim - d0);
        kernels->to_bf16(n, from_k + d0, half);
        if (n % 2) half[n] = 0;
        for (int d = 0; d < n; d += 2) memcpy(into_k + kv_key_at(DTYPE_BF16, d0 + d, at), half + d, 2 * sizeof *half);
    }
    for (int d0 = 0; d0 < v_dim; d0 += PIECE) {
        int n = MIN(PIECE, v_dim - d0);
        kernels->to_bf16(n, from_v + d0, half);
        for (int d = 0; d < n; d++) into_v[2 * (d0 + d)] = half[d];
    }
}

void kv_append(const KvLayer *kv, const Batch *batch, const Mat *k, const Mat *v) {
    HeadShape heads = kv->heads;
    BUG_ON(k->d != heads.kv_heads * heads.k_dim || (v ? v->d : 0) != heads.kv_heads * heads.v_dim);
#pragma omp parallel for if ((size_t)k->n * (size_t)k->d > 1 << 15)
    for (int head = 0; head < heads.kv_heads; head++)
        for (int s = 0; s < batch->n_segments; s++) {
            const Segment *seg = &batch->segments[s];
            for (int i = 0; i < seg->n; i++) {
                int position = seg->pos0 + i, block = seg->blocks[position / KV_BLOCK];
                size_t row = (size_t)(seg->row0 + i);
                const float *from_v = v ? v->x + row * (size_t)v->d + (size_t)(head * heads.v_dim) : NULL;
                store(kv, kv_k(kv, block, head), kv_v(kv, block, head), position % KV_BLOCK,
                      k->x + row * (size_t)k->d + (size_t)(head * heads.k_dim), from_v);
            }
        }
}

Mat *kv_rows(Tape *t, const KvLayer *kv, const Segment *seg, int n) {
    int width = kv->heads.k_dim;
    Mat *rows = tape_mat(t, n, width);
#pragma omp parallel for if ((size_t)n * (size_t)width > 1 << 15)
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
