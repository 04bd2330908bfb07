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
    return a->tenant == b->tenant && a->noise_seed == b->noise_seed && a->noise_scale == b->noise_scale &&
           a->component == b->component;
}

/* All blocks that may follow `previous` are in one bucket. */
static int *bucket_of(const KvPool *p, const PrefixKey *key, uint64_t previous) {
    uint64_t h = key->tenant * 3 + key->noise_seed * 5 + previous * 7;
    h = (h ^ h >> 29) * UINT64_C(0x9E3779B97F4A7C15);
    return &p->buckets[(h >> 32) & (p->n_buckets - 1)];
}

static int tokens_in_common(const PoolBlock *k, const int *tokens, int n) {
    int i = 0;
    while (i < n && i < k->n_tokens && k->tokens[i] == tokens[i]) i++;
    return i;
}

typedef struct Match {
    int block, rows; /* how many rows of tokens it has: a whole block, ready or not, or fewer that are ready */
    bool known;      /* some block has all of the tokens, or will have them */
} Match;

static Match shared_find(const KvPool *p, const PrefixKey *key, uint64_t previous, const int *tokens, int n) {
    Match best = {0};
    for (int b = *bucket_of(p, key, previous); b >= 0; b = p->blocks[b].chain) {
        const PoolBlock *k = &p->blocks[b];
        if (k->previous != previous || !same_key(&k->key, key)) continue;
        int rows = tokens_in_common(k, tokens, n);
        best.known |= rows == n;
        if (rows > best.rows && (k->ready || rows == KV_BLOCK)) best.block = b, best.rows = rows;
    }
    return best;
}

static void shared_add(KvPool *p, int b, const PrefixKey *key, uint64_t previous, const int *tokens, int n) {
    PoolBlock *k = &p->blocks[b];
    int *bucket = bucket_of(p, key, previous);
    k->chain = *bucket;
    *bucket = b;
    k->shared = true;
    k->serial = ++p->serial;
    k->previous = previous;
    k->key = *key;
    k->n_tokens = n;
    memcpy(k->tokens, tokens, (size_t)n * sizeof *tokens);
}

static void shared_remove(KvPool *p, int b) {
    PoolBlock *k = &p->blocks[b];
    int *at = bucket_of(p, &k->key, k->previous);
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
    return b;
}

/* Tokens of a prompt in block i. */
static int tokens_in(int n_prompt, int i) { return MAX(MIN(n_prompt - i * KV_BLOCK, KV_BLOCK), 0); }

bool kv_pool_take(KvPool *p, int *table, int n, const int *prompt, int n_prompt, const PrefixKey *key,
                  PoolPrefix *found) {
    int at = 0, in_block;
    uint64_t previous = 0;
    Match m = {0};
    for (; (in_block = tokens_in(n_prompt, at)) > 0; at++, previous = p->blocks[m.block].serial) {
        m = shared_find(p, key, previous, prompt + at * KV_BLOCK, in_block);
        if (m.rows < KV_BLOCK) break;
        reference(p, table[at] = m.block);
    }
    int left = p->n - p->n_used - (n - at);
    if (left < 0) {
        kv_pool_release(p, table, at);
        return false;
    }
    *found = (PoolPrefix){.n_blocks = at, .copy_from = m.block};
    /* Not from a block that has to give way itself. */
    if (in_block && left >= (p->blocks[m.block].references == 0))
        found->copy_rows = MIN(m.rows, n_prompt - 1 - at * KV_BLOCK);
    if (found->copy_rows) reference(p, m.block);
    for (int i = at; i < n; i++) {
        table[i] = take_oldest(p);
        if (!tokens_in(n_prompt, i) || (i == at && m.known)) continue;
        shared_add(p, table[i], key, previous, prompt + i * KV_BLOCK, tokens_in(n_prompt, i));
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
