/* noise_body: Philox4x32-10 over consecutive counters, one in each 64-bit lane. A round needs the low and high half of
 * two 32 x 32 bit products; the products read only the low half of a lane, so the words of the state are left with
 * garbage above them and a round is two products, two shifts and four exclusive-ors. */

enum { NOISE_BATCH = NOISE_VECS * COUNTERS, NOISE_PER_COUNTER = 8 };

typedef struct NoiseCounter {
    uint32_t key0, key1;
    uint32_t sequence; /* already in the high half */
    uint32_t i, head_layer, stream;
} NoiseCounter;

typedef union NoiseBatch {
    uint64_t words[NOISE_BATCH][2]; /* the four words of a counter */
    uint16_t draws[NOISE_BATCH * NOISE_PER_COUNTER];
} NoiseBatch;

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "the words of a counter are read as sixteen-bit draws");

/* out = output of counters (sequence | first + c, i, head_layer, stream), c < vecs COUNTERS */
INLINE void philox_batch(int vecs, const NoiseCounter *n, uint32_t first, NoiseBatch *out) {
    Counters s0[NOISE_VECS], s1[NOISE_VECS], s2[NOISE_VECS], s3[NOISE_VECS];
    Counters mul0 = counters_set1(0xD2511F53u), mul1 = counters_set1(0xCD9E8D57u);
#pragma GCC unroll 4
    for (int v = 0; v < vecs; v++) {
        s0[v] = (counters_iota() + counters_set1(first + (uint32_t)(v * COUNTERS))) | counters_set1(n->sequence);
        s1[v] = counters_set1(n->i);
        s2[v] = counters_set1(n->head_layer);
        s3[v] = counters_set1(n->stream);
    }
#pragma GCC unroll 10
    for (uint32_t round = 0; round < 10; round++) {
        Counters k0 = counters_set1(n->key0 + round * 0x9E3779B9u), k1 = counters_set1(n->key1 + round * 0xBB67AE85u);
#pragma GCC unroll 4
        for (int v = 0; v < vecs; v++) {
            Counters p0 = counters_mul32(s0[v], mul0), p1 = counters_mul32(s2[v], mul1);
            s0[v] = p1 >> 32 ^ s1[v] ^ k0;
            s2[v] = p0 >> 32 ^ s3[v] ^ k1;
            s1[v] = p1;
            s3[v] = p0;
        }
    }
    Counters low = counters_set1(0xFFFFFFFFu);
#pragma GCC unroll 4
    for (int v = 0; v < vecs; v++)
        counters_store_pairs(out->words[v * COUNTERS], (s0[v] & low) | s1[v] << 32, (s2[v] & low) | s3[v] << 32);
}

/* The next draws, at most one batch; returns how many of the n wanted they are. */
INLINE int noise_next(const NoiseCounter *c, uint32_t first, int n, NoiseBatch *out) {
    if (n <= COUNTERS * NOISE_PER_COUNTER) {
        philox_batch(1, c, first, out);
        return n;
    }
    philox_batch(NOISE_VECS, c, first, out);
    return MIN(n, NOISE_BATCH * NOISE_PER_COUNTER);
}

INLINE NoiseCounter noise_counter(uint64_t seed, uint32_t stream, uint32_t head_layer, uint32_t i, uint32_t sequence) {
    return (NoiseCounter){.key0 = (uint32_t)seed,
                          .key1 = (uint32_t)(seed >> 32),
                          .sequence = sequence << 16,
                          .i = i,
                          .head_layer = head_layer,
                          .stream = stream};
}

static void gaussian_bits(uint64_t seed, uint32_t stream, uint32_t head_layer, uint32_t i, uint32_t sequence, int j0,
                          int n, uint16_t *out) {
    NoiseCounter c = noise_counter(seed, stream, head_layer, i, sequence);
    NoiseBatch b;
    for (int done = 0, got; done < n; done += got) {
        got = noise_next(&c, (uint32_t)(j0 + done) / NOISE_PER_COUNTER, n - done, &b);
        memcpy(out + done, b.draws, (size_t)got * sizeof *out);
    }
}

static void gaussians(uint64_t seed, uint32_t stream, uint32_t head_layer, uint32_t i, uint32_t sequence, int j0, int n,
                      float *out) {
    NoiseCounter c = noise_counter(seed, stream, head_layer, i, sequence);
    NoiseBatch b;
    for (int done = 0, got; done < n; done += got) {
        got = noise_next(&c, (uint32_t)(j0 + done) / NOISE_PER_COUNTER, n - done, &b);
        int t = 0;
        for (; t + 8 <= got; t += 8) gaussian8(b.draws + t, out + done + t);
        if (t < got) {
            float last[8];
            gaussian8(b.draws + t, last);
            memcpy(out + done + t, last, (size_t)(got - t) * sizeof *out);
        }
    }
}
