#include "kv.h"

#include <sys/mman.h>

static HeadShape cached_heads(const Config *c, KvForm form) {
    HeadShape heads = config_heads(c);
    if (form == KV_COMPACT) heads = (HeadShape){.heads = heads.heads, .kv_heads = 1, .k_dim = config_compact_width(c)};
    return heads;
}

static KvLayer layer_of(HeadShape heads, Dtype dtype, unsigned char *data) {
    size_t per_feature = KV_BLOCK * dtype_size(dtype);
    KvLayer kv = {.heads = heads, .dtype = dtype, .data = data};
    kv.k_bytes = (size_t)heads.k_dim * per_feature;
    kv.v_bytes = (size_t)heads.v_dim * per_feature;
    kv.block_bytes = (size_t)heads.kv_heads * (kv.k_bytes + kv.v_bytes);
    return kv;
}

KvLayer kv_layer(const KvCache *kv, int layer) {
    size_t before = (size_t)layer * (size_t)kv->n_blocks * kv->block_bytes;
    return layer_of(kv->heads, kv->dtype, kv->data + before);
}

KvLayer kv_scratch(Tape *t, HeadShape heads, int n_blocks) {
    KvLayer kv = layer_of(heads, DTYPE_F32, NULL);
    kv.data = tape_alloc(t, (size_t)n_blocks * kv.block_bytes);
    return kv;
}

int kv_init(KvCache *kv, const Config *c, int n_blocks, Dtype dtype, KvForm form, Err *err) {
    *kv = (KvCache){0};
    BUG_ON(dtype != DTYPE_F32 && dtype != DTYPE_BF16);
    if (config_check_kv_form(c, form, err)) return -1;
    HeadShape heads = cached_heads(c, form);
    *kv = (KvCache){.heads = heads, .form = form, .n_layers = c->n_layers, .n_blocks = n_blocks, .dtype = dtype};
    kv->block_bytes = layer_of(heads, dtype, NULL).block_bytes;
    size_t total;
    if (!size_mul(kv->block_bytes, (size_t)c->n_layers, &total) || !size_mul(total, (size_t)n_blocks, &total))
        return err_set(err, "a cache of %d blocks of %zu bytes in %d layers overflows", n_blocks, kv->block_bytes,
                       c->n_layers);
    /* Anonymous pages are zero and cost nothing until they are written. */
    void *data = mmap(NULL, total, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (data == MAP_FAILED) return err_set(err, "no memory for a cache of %zu bytes", total);
    kv->data = data;
    return 0;
}

void kv_free(KvCache *kv) {
    if (kv->data) munmap(kv->data, kv->block_bytes * (size_t)kv->n_layers * (size_t)kv->n_blocks);
    *kv = (KvCache){0};
}

size_t kv_bytes_per_token(const Config *c, Dtype dtype, KvForm form) {
    HeadShape heads = cached_heads(c, form);
    return (size_t)c->n_layers * (size_t)heads.kv_heads * (size_t)(heads.k_dim + heads.v_dim) * dtype_size(dtype);
}

/* Column `at` of the transposed keys k [k_dim, KV_BLOCK], row `at` of v [KV_BLOCK, v_dim]. */
static void store(const KvLayer *kv, unsigned char *k, unsigned char *v, int at, const float *from_k,
                  const float *from_v) {
    int k_dim = kv->heads.k_dim, v_dim = kv->heads.v_dim;
    if (kv->dtype == DTYPE_F32) {
        float *into_k = (float *)(void *)k + at, *into_v = (float *)(void *)v + at * v_dim;
        for (int d = 0; d < k_dim; d++) into_k[d * KV_BLOCK] = from_k[d];
        for (int d = 0; d < v_dim; d++) into_v[d] = from_v[d];
    } else {
        uint16_t *into_k = (uint16_t *)(void *)k + at, *into_v = (uint16_t *)(void *)v + at * v_dim;
        for (int d = 0; d < k_dim; d++) into_k[d * KV_BLOCK] = f32_to_bf16(from_k[d]);
        for (int d = 0; d < v_dim; d++) into_v[d] = f32_to_bf16(from_v[d]);
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
            int at = d * KV_BLOCK + i % KV_BLOCK;
            row[d] = kv->dtype == DTYPE_F32 ? ((const float *)(const void *)k)[at]
                                            : bf16_to_f32(((const uint16_t *)(const void *)k)[at]);
        }
    }
    return rows;
}
