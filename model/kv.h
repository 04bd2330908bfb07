/* kv: the cache of keys and values, one allocation of fixed-size blocks of KV_BLOCK positions.
 *
 * A sequence owns a table of block numbers (Segment.blocks); block b of the table holds positions
 * b KV_BLOCK .. b KV_BLOCK + KV_BLOCK - 1 of every layer. Inside a block, keys are stored transposed so that the
 * scores of a whole block come out of one pass with a key per lane, and no reduction crosses lanes:
 *     k [G, k_dim, KV_BLOCK], v [Gv, KV_BLOCK, v_dim]                           F32, per layer and block
 *     k [G, ceil(k_dim / 2), KV_BLOCK, 2], v [Gv, KV_BLOCK / 2, v_dim, 2]       BF16: pairs of what is summed over
 * In the compact form (KvForm) there is one head, a row takes the place of its key, and v_dim is 0.
 * Which blocks are free, shared or whose is the engine's business. One thread appends and attends at a time; the op's
 * own team splits the work. */
#ifndef NOISED_KV_H
#define NOISED_KV_H

#include "base/err.h"
#include "model/config.h"
#include "model/tape.h"

enum { KV_BLOCK = 32 };
static inline int kv_blocks(int64_t positions) { return (int)((positions + KV_BLOCK - 1) / KV_BLOCK); }

typedef struct KvCache {
    HeadShape heads; /* of what is stored */
    KvForm form;
    int n_layers, n_blocks;
    Dtype dtype;
    size_t block_bytes;  /* of one block, all layers */
    unsigned char *data; /* [n_blocks, n_layers, block_bytes / n_layers] */
} KvCache;

/* -1 when the config can have no cache of this form or the memory is not to be had; the message says how much was asked
 * for. */
int kv_init(KvCache *kv, const Config *c, int n_blocks, Dtype dtype, KvForm form, Err *err);
void kv_free(KvCache *kv);
size_t kv_bytes_per_token(const Config *c, Dtype dtype, KvForm form); /* all layers */

/* One layer of a cache: what attention works on. */
typedef struct KvLayer {
    HeadShape heads;
    KvForm form;
    Dtype dtype;
    size_t k_bytes, v_bytes; /* of one head in one block */
    size_t block_stride;     /* from a block to the next; of it the k and v of all heads are this layer's */
    unsigned char *data;     /* of block 0 */
} KvLayer;

KvLayer kv_layer(const KvCache *kv, int layer);

/* Without a cache: layers in memory of t, which live as long as its activations. kv_local is what a cache of the
 * config's own form would hold, at kv_precision; kv_scratch holds expanded k and v. They begin as zeros, as a cache
 * does: scores are made of whole blocks, and in memory that was something else lie subnormal numbers, for each of which
 * a product takes a hundred times as long. */
KvLayer kv_local(Tape *t, const Config *c, int n_blocks);
KvLayer kv_scratch(Tape *t, HeadShape heads, Dtype dtype, int n_blocks);
Dtype kv_precision(const Tape *t); /* BF16 where t rounds to it, else F32 */
/* The same rows, all of them whole sequences, with blocks 0.. for its segments to name; *n_blocks is how many. */
const Batch *kv_number_blocks(Tape *t, const Batch *batch, int *n_blocks);

static inline unsigned char *kv_k(const KvLayer *kv, int block, int head) {
    return kv->data + (size_t)block * kv->block_stride + (size_t)head * kv->k_bytes;
}
static inline unsigned char *kv_v(const KvLayer *kv, int block, int head) {
    return kv->data + (size_t)block * kv->block_stride + (size_t)kv->heads.kv_heads * kv->k_bytes +
           (size_t)head * kv->v_bytes;
}

/* Asks for what is read soon, a share of the keys, or values, of `heads` kv heads from `head` on: that of one of them.
 * It pays where memory is read in streams (kernels.h). */
void kv_fetch(const KvLayer *kv, int block, bool values, int head, int heads, int share);

/* Which element of a head's block is feature d of key j, or of value j. */
static inline size_t kv_key_at(Dtype dtype, int d, int j) {
    return (size_t)(dtype == DTYPE_F32 ? d * KV_BLOCK + j : d / 2 * 2 * KV_BLOCK + 2 * j + d % 2);
}
static inline size_t kv_value_at(Dtype dtype, int v_dim, int d, int j) {
    return (size_t)(dtype == DTYPE_F32 ? j * v_dim + d : j / 2 * 2 * v_dim + 2 * d + j % 2);
}

/* Stores the new rows of every segment: k [n, G k_dim], v [n, Gv v_dim] (NULL in the compact form). */
void kv_append(const KvLayer *kv, const Batch *batch, const Mat *k, const Mat *v);

/* Makes block `to` equal to block `from`, all layers. */
void kv_copy_block(KvCache *kv, int from, int to);

/* The compact rows of positions 0..n-1 of a sequence -> [n, k_dim]. */
Mat *kv_rows(Tape *t, const KvLayer *kv, const Segment *seg, int n);

#endif
