#include "server/engine/kv_pool.h"

#include "base/err.h"
#include "base/memory.h"

#include <stdlib.h>
#include <string.h>

static void unused_remove(KvPool *p, int b) {
    PoolBlock *k = &p->blocks[b];
    *(k->older < 0 ? &p->oldest : &p->blocks[k->older].newer) = k->newer;
    *(k->newer < 0 ? &p->newest : &p->blocks[k->newer].older) = k->older;
}

/* Blocks with contents worth keeping go to the new end, the others to the old one, from where blocks are taken. */
static void unused_add(KvPool *p, int b) {
    PoolBlock *k = &p->blocks[b];
    if (k->shared) {
        k->older = p->newest;
        k->newer = -1;
        *(k->older < 0 ? &p->oldest : &p->blocks[k->older].newer) = b;
        p->newest = b;
    } else {
        k->older = -1;
        k->newer = p->oldest;
        *(k->newer < 0 ? &p->newest : &p->blocks[k->newer].older) = b;
        p->oldest = b;
    }
}

void kv_pool_init(KvPool *p, int n_blocks) {
    *p = (KvPool){.n = n_blocks, .oldest = -1, .newest = -1, .n_buckets = 16};
    while (p->n_buckets < (unsigned)n_blocks) p->n_buckets *= 2;
    p->blocks = xcalloc((size_t)n_blocks, sizeof *p->blocks);
    p->buckets = xmalloc(p->n_buckets * sizeof *p->buckets);
    for (unsigned i = 0; i < p->n_buckets; i++) p->buckets[i] = -1;
    for (int b = n_blocks - 1; b >= 0; b--) unused_add(p, b);
}

void kv_pool_free(KvPool *p) {
    free(p->blocks);
    free(p->buckets);
    *p = (KvPool){0};
}

/* ---- the table of shared blocks ---- */

static bool same_key(const PrefixKey *a, const PrefixKey *b) {
    return a->tenant == b->tenant && a->noise_seed == b->noise_seed && a->noise_scale == b->noise_scale;
}

static int *bucket_of(const KvPool *p, const PrefixKey *key, uint64_t previous, const int *tokens) {
    uint64_t h = key->tenant * 3 + key->noise_seed * 5 + previous * 7;
    for (int i = 0; i < KV_BLOCK; i++) h = (h ^ (uint64_t)tokens[i]) * UINT64_C(0x9E3779B97F4A7C15) + (h >> 29);
    return &p->buckets[(h >> 32) & (p->n_buckets - 1)];
}

static int shared_find(const KvPool *p, const PrefixKey *key, uint64_t previous, const int *tokens) {
    int b = *bucket_of(p, key, previous, tokens);
    for (; b >= 0; b = p->blocks[b].chain) {
        const PoolBlock *k = &p->blocks[b];
        if (k->previous == previous && same_key(&k->key, key) && !memcmp(k->tokens, tokens, sizeof k->tokens)) break;
    }
    return b;
}

static void shared_add(KvPool *p, int b, const PrefixKey *key, uint64_t previous, const int *tokens) {
    PoolBlock *k = &p->blocks[b];
    int *bucket = bucket_of(p, key, previous, tokens);
    k->chain = *bucket;
    *bucket = b;
    k->shared = true;
    k->serial = ++p->serial;
    k->previous = previous;
    k->key = *key;
    memcpy(k->tokens, tokens, sizeof k->tokens);
}

static void shared_remove(KvPool *p, int b) {
    PoolBlock *k = &p->blocks[b];
    int *at = bucket_of(p, &k->key, k->previous, k->tokens);
    while (*at != b) at = &p->blocks[*at].chain;
    *at = k->chain;
    k->shared = k->ready = false;
}

/* ---- taking and giving back ---- */

static void reference(KvPool *p, int b) {
    if (p->blocks[b].references++ > 0) return;
    unused_remove(p, b);
    p->n_used++;
}

static int take_oldest(KvPool *p) {
    int b = p->oldest;
    reference(p, b);
    if (p->blocks[b].shared) shared_remove(p, b);
    p->blocks[b].step = 0;
    return b;
}

bool kv_pool_take(KvPool *p, int *table, int n, const int *prompt, int n_shared, const PrefixKey *key) {
    int found = 0;
    uint64_t previous = 0;
    for (int b; found < n_shared; found++, previous = p->blocks[b].serial) {
        b = shared_find(p, key, previous, prompt + found * KV_BLOCK);
        if (b < 0) break;
        reference(p, table[found] = b);
    }
    if (n - found > p->n - p->n_used) {
        kv_pool_release(p, table, found);
        return false;
    }
    for (int i = found; i < n; i++) {
        table[i] = take_oldest(p);
        if (i >= n_shared) continue;
        shared_add(p, table[i], key, previous, prompt + i * KV_BLOCK);
        previous = p->blocks[table[i]].serial;
    }
    return true;
}

/* From the last block to the first, so that the end of a prefix goes before its beginning. */
void kv_pool_release(KvPool *p, const int *table, int n) {
    for (int i = n - 1; i >= 0; i--) {
        PoolBlock *k = &p->blocks[table[i]];
        BUG_ON(k->references < 1);
        if (--k->references > 0) continue;
        p->n_used--;
        if (k->shared && !k->ready) shared_remove(p, table[i]);
        unused_add(p, table[i]);
    }
}
