/* kv: the cache of keys and values, one allocation of fixed-size blocks of KV_BLOCK positions.
 *
 * A sequence owns a table of block numbers (Segment.blocks); block b of the table holds positions
 * b KV_BLOCK .. b KV_BLOCK + KV_BLOCK - 1 of every layer. Inside a block, keys are stored transposed so that the
 * scores of a whole block come out of one pass with a key per lane, and no reduction crosses lanes:
 *     k [G, k_dim, KV_BLOCK], v [G, KV_BLOCK, v_dim]    per layer and block, elements of `dtype` (F32 or BF16).
 * Which blocks are free, shared or whose is the engine's business. Rows of a block that were never written are zero.
 * One thread appends and attends at a time; the op's own team splits the work by head. */
#ifndef NOISED_KV_H
#define NOISED_KV_H

#include "config.h"
#include "tensor.h"

enum { KV_BLOCK = 32 };

typedef struct KvCache {
    HeadShape heads;
    int n_layers, n_blocks;
    Dtype dtype;
    size_t k_bytes, v_bytes; /* of one head in one block: k_dim KV_BLOCK, KV_BLOCK v_dim elements */
    size_t block_bytes;      /* of one block in one layer: G (k_bytes + v_bytes) */
    unsigned char *data;     /* [n_layers, n_blocks, block_bytes] */
} KvCache;

/* -1 when the memory is not to be had; the message says how much was asked for. */
int kv_init(KvCache *kv, const Config *c, int n_blocks, Dtype dtype, Err *err);
void kv_free(KvCache *kv);
size_t kv_bytes_per_token(const Config *c, Dtype dtype); /* all layers */

static inline unsigned char *kv_k(const KvCache *kv, int layer, int block, int head) {
    size_t at = (size_t)layer * (size_t)kv->n_blocks + (size_t)block;
    return kv->data + at * kv->block_bytes + (size_t)head * kv->k_bytes;
}
static inline unsigned char *kv_v(const KvCache *kv, int layer, int block, int head) {
    size_t at = (size_t)layer * (size_t)kv->n_blocks + (size_t)block;
    return kv->data + at * kv->block_bytes + (size_t)kv->heads.kv_heads * kv->k_bytes + (size_t)head * kv->v_bytes;
}

/* Stores the new rows of every segment: k [n, G k_dim], v [n, G v_dim]. */
void kv_append(KvCache *kv, int layer, const Batch *batch, const Mat *k, const Mat *v);

#endif
