/* kv_pool: which blocks of the KV cache are free, in use or worth keeping.
 *
 * A job gets all the blocks of its worst case at once, so nothing running is ever thrown out. Prompts share their
 * beginning where keys and values are equal by construction: same tokens from position 0 on, same noise of the prompt
 * rows, same tenant (no tenant can probe what another one asked). A whole block of a prompt is shared as it is; of the
 * block where two prompts part, or where one ends, the rows in common are copied. The last row of a prompt is always
 * computed, for its logits.
 *
 * A shared block is `ready` once the rows of its tokens are in the cache; until then everybody may write them, always
 * the same bits. Blocks that nobody uses any more keep their contents and go, least recently used first, when others
 * are needed.
 *
 * A shared block is known by the serial number of the one before it, its own tokens and the PrefixKey. Serial numbers
 * never come back, so equality of the whole prefix is compared, not guessed from a hash.
 * Nothing is allocated after kv_pool_init; one thread. */
#ifndef NOISED_KV_POOL_H
#define NOISED_KV_POOL_H

#include "model/kv.h"

typedef struct PrefixKey {
    uint64_t tenant, noise_seed; /* those of the noise are 0 where there is none */
    float noise_scale;
    int component; /* NoiseKey's */
} PrefixKey;

typedef struct PoolBlock {
    int references;
    int older, newer;          /* neighbours in the list of unused blocks, -1 at its ends */
    int chain;                 /* next block in the same hash bucket, -1 at the end */
    bool shared, ready;        /* shared: in the hash table */
    uint64_t serial, previous; /* of this block and of the one before it in the prompt (0: none) */
    uint64_t step;             /* in which its rows were last planned */
    PrefixKey key;
    int n_tokens, tokens[KV_BLOCK]; /* of the prompt; generated ones may follow in the cache */
} PoolBlock;

typedef struct KvPool {
    PoolBlock *blocks; /* [n] */
    int n, n_used;     /* used: referenced by at least one job */
    int oldest, newest;
    int *buckets; /* [n_buckets] */
    unsigned n_buckets;
    uint64_t serial;
} KvPool;

void kv_pool_init(KvPool *p, int n_blocks);
void kv_pool_free(KvPool *p);

/* What a job found of its prompt. */
typedef struct PoolPrefix {
    int n_blocks;             /* at the head of its table are shared with others */
    int copy_from, copy_rows; /* the next block begins with the first copy_rows (0: none) rows of block copy_from */
} PoolPrefix;

/* Takes n blocks into table[], which hold prompt[0 .. n_prompt) and are shared under key, and then what is the job's
 * own. False, and nothing taken, when there are not enough. Where copy_rows is not 0, copy_from is taken too: the
 * caller copies and releases it. */
bool kv_pool_take(KvPool *p, int *table, int n, const int *prompt, int n_prompt, const PrefixKey *key,
                  PoolPrefix *found);
void kv_pool_release(KvPool *p, const int *table, int n);

#endif
