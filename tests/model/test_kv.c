/* The cache of keys and values: where rows come to lie, and what lies beside them. */
#include "base/memory.h"
#include "model/kv.h"
#include "tests/support/test.h"

#include <stdlib.h>
#include <string.h>

enum { HEADS = 2, K_DIM = 5, V_DIM = 3, BLOCKS = 2 };

static const HeadShape heads = {.heads = HEADS, .kv_heads = HEADS, .v_heads = HEADS, .k_dim = K_DIM, .v_dim = V_DIM};

/* Row i of a matrix of n rows of d is i + 1 throughout. */
static Mat *rows_of(Tape *t, int n, int d) {
    Mat *m = tape_mat(t, n, d);
    for (int i = 0; i < n * d; i++) m->x[i] = (float)(1 + i / d);
    return m;
}

static float stored(const KvLayer *kv, const unsigned char *at, size_t i) {
    return kv->dtype == DTYPE_F32 ? ((const float *)(const void *)at)[i]
                                  : bf16_to_f32(((const uint16_t *)(const void *)at)[i]);
}

/* `n` positions, as many at a time as `step`, in memory that was something else: keys that are not there are zeros in
 * the blocks that were begun. */
static void check_append(Dtype dtype, int n, int step) {
    Tape t;
    tape_init(&t, false);
    ArenaMark mark = arena_mark(&t.arena);
    KvLayer kv = kv_scratch(&t, heads, dtype, BLOCKS);
    memset(kv.data, 0x01, BLOCKS * kv.block_stride);
    arena_rewind(&t.arena, mark);
    kv = kv_scratch(&t, heads, dtype, BLOCKS);
    Mat *k = rows_of(&t, n, HEADS * K_DIM), *v = rows_of(&t, n, HEADS * V_DIM);
    const int blocks[BLOCKS] = {1, 0};
    for (int i = 0; i < n; i += step) {
        Segment seg = {.row0 = i, .n = MIN(step, n - i), .pos0 = i, .blocks = blocks};
        kv_append(&kv, &(Batch){.n = seg.n, .segments = &seg, .n_segments = 1}, k, v);
    }
    for (int j = 0; j < kv_blocks(n) * KV_BLOCK; j++)
        for (int h = 0; h < HEADS; h++) {
            float want = j < n ? (float)(j + 1) : 0;
            const unsigned char *key = kv_k(&kv, blocks[j / KV_BLOCK], h), *value = kv_v(&kv, blocks[j / KV_BLOCK], h);
            for (int d = 0; d < K_DIM; d++) CHECK(stored(&kv, key, kv_key_at(dtype, d, j % KV_BLOCK)) == want);
            for (int d = 0; d < V_DIM && j < n; d++)
                CHECK(stored(&kv, value, kv_value_at(dtype, V_DIM, d, j % KV_BLOCK)) == want);
        }
    tape_free(&t);
}

TEST(kv_scratch_has_zeros_for_the_keys_of_a_block_that_are_not_there) {
    const Dtype dtypes[] = {DTYPE_F32, DTYPE_BF16};
    for (size_t i = 0; i < COUNTOF(dtypes); i++) {
        check_append(dtypes[i], 1, 1);
        check_append(dtypes[i], KV_BLOCK, KV_BLOCK);
        check_append(dtypes[i], KV_BLOCK + 17, KV_BLOCK + 17);
        check_append(dtypes[i], KV_BLOCK + 3, 1);
        check_append(dtypes[i], 2 * KV_BLOCK - 1, 7);
    }
}
