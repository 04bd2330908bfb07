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

/* ---- rows of a mixture ---- */

enum { DRAWS = MIN(2 * LANES, COUNTERS *NOISE_PER_COUNTER) };
typedef uint16_t Draws __attribute__((vector_size(DRAWS * sizeof(uint16_t))));

/* out[t] = how many limits draws[t] reaches, t < DRAWS */
INLINE void count_reached(const uint16_t *draws, int limits, const uint16_t *limit, uint16_t *out) {
    Draws x, reached = {0};
    memcpy(&x, draws, sizeof x);
    for (int c = 0; c < limits; c++) reached -= (Draws)(x >= limit[c]);
    memcpy(out, &reached, sizeof reached);
}

static void components(uint64_t seed, uint32_t stream, uint32_t head_layer, uint32_t i, uint32_t sequence, int j0,
                       int n, int limits, const uint16_t *limit, uint16_t *out) {
    NoiseCounter counter = noise_counter(seed, stream, head_layer, i, sequence);
    NoiseBatch b;
    for (int got; n > 0; n -= got, j0 += got, out += got) {
        got = noise_next(&counter, (uint32_t)j0 / NOISE_PER_COUNTER, n, &b);
        int t = 0;
        for (; t + DRAWS <= got; t += DRAWS) count_reached(b.draws + t, limits, limit, out + t);
        if (t == got) continue;
        uint16_t last[DRAWS];
        count_reached(b.draws + t, limits, limit, last);
        for (int k = 0; t < got; k++, t++) out[t] = last[k];
    }
}

/* s += mu + sigma eps of the n <= LANES components */
INLINE void add_picked(int n, Vec mu, Vec sigma, const uint16_t *component, const float *eps, float *s) {
    Vec noise = vec_add(vec_pick(mu, component), vec_mul(vec_pick(sigma, component), vec_load_n(eps, n)));
    vec_store_n(s, vec_add(vec_load_n(s, n), noise), n);
}

static void add_mixture_row(int n, int m, const float *mu, const float *sigma, float scale, const uint16_t *component,
                            const float *eps, float *s) {
    if (m > LANES) {
        for (int j = 0; j < n; j++) s[j] += mu[component[j]] + sigma[component[j]] * scale * eps[j];
        return;
    }
    Vec means = vec_load_n(mu, m), deviations = vec_mul(vec_load_n(sigma, m), vec_set1(scale));
    int j = 0;
    for (; j + LANES <= n; j += LANES) add_picked(LANES, means, deviations, component + j, eps + j, s + j);
    if (j == n) return;
    uint16_t last[LANES] = {0};
    memcpy(last, component + j, (size_t)(n - j) * sizeof *last);
    add_picked(n - j, means, deviations, last, eps + j, s + j);
}

/* ---- draw_normal of many ----
 *
 * normals: draw_normal (base/random.h) of many pairs of draws, side by side: the same operations on doubles as
 * fixed_math's, without its branches, so that the compiler turns the loop into vectors of any width with the same bits.
 * Two things are others. The quarter of the turn is read off the draw, and what is left of the angle is found with
 * pi / 2 in three parts (Cody and Waite), which for angles of a draw is as exact as Payne and Hanek's. And no integer
 * is converted: processors before AVX-512 have no vectors of that. */

typedef struct Doubles2 {
    double hi, lo;
} Doubles2;

INLINE uint64_t bits_of_double(double x) {
    uint64_t bits;
    memcpy(&bits, &x, sizeof bits);
    return bits;
}

INLINE double double_of_bits(uint64_t bits) {
    double x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

/* Of an integer below 2^52. */
INLINE double double_of_small(uint64_t n) { return double_of_bits(n | 0x4330000000000000) - 0x1p52; }

INLINE Doubles2 exact_sum(double a, double b) {
    double s = a + b, of_b = s - a;
    return (Doubles2){s, (a - (s - of_b)) + (b - of_b)};
}

INLINE Doubles2 exact_sum_falling(double a, double b) {
    double s = a + b;
    return (Doubles2){s, b - (s - a)};
}

INLINE Doubles2 exact_square(double a) {
    double upper = double_of_bits(bits_of_double(a) & ~((UINT64_C(1) << 27) - 1));
    return (Doubles2){upper * upper, (a - upper) * (a + upper)};
}

/* Even and odd powers apart. */
#define EVEN_ODD_8(x, xx, c)                                                                                           \
    ((((c[6] * xx + c[4]) * xx + c[2]) * xx + c[0]) + x * (((c[7] * xx + c[5]) * xx + c[3]) * xx + c[1]))

/* fixed_log of 0 < x < 1, not subnormal. */
INLINE double log_of_draw(double x) {
    const double ln2_hi = 0x1.62e42fefa38p-1, ln2_lo = 0x1.ef35793c7673p-45;
    const uint64_t root_half = 0x3fe6a09e667f3bcd, bias = 64;
    uint64_t exponent = (bits_of_double(x) - root_half + (bias << 52)) >> 52;
    double k = double_of_small(exponent) - (double)bias;
    double f = double_of_bits(bits_of_double(x) - ((exponent - bias) << 52)) - 1, s = f / (2 + f), z = s * s,
           zz = z * z;
    double even = 2 / 23.0, odd = 2 / 25.0;
    even = even * zz + 2 / 19.0, odd = odd * zz + 2 / 21.0;
    even = even * zz + 2 / 15.0, odd = odd * zz + 2 / 17.0;
    even = even * zz + 2 / 11.0, odd = odd * zz + 2 / 13.0;
    even = even * zz + 2 / 7.0, odd = odd * zz + 2 / 9.0;
    even = even * zz + 2 / 3.0, odd = odd * zz + 2 / 5.0;
    Doubles2 ff = exact_square(f), a = exact_sum_falling(f, -0.5 * ff.hi), b = exact_sum(k * ln2_hi, a.hi);
    double cubes = s * (0.5 * f * f + z * (even + z * odd));
    return b.hi + (b.lo + (a.lo - 0.5 * ff.lo + (cubes + k * ln2_lo)));
}

/* fixed_cos of 2 pi (draw + 1/2) / 2^32. */
INLINE double cos_of_draw(uint64_t draw) {
    static const double of_sine[] = {-1 / 6.0,        1 / 120.0,        -1 / 5040.0,          1 / 362880.0,
                                     -1 / 39916800.0, 1 / 6227020800.0, -1 / 1307674368000.0, 1 / 355687428096000.0};
    static const double of_cosine[] = {
        1 / 24.0,        -1 / 720.0,         1 / 40320.0,          -1 / 3628800.0,
        1 / 479001600.0, -1 / 87178291200.0, 1 / 20922789888000.0, -1 / 6402373705728000.0};
    /* pi / 2: the first two have 50 bits, so that their products with a quarter are exact. */
    const double half_pi[] = {0x1.921fb54442d18p+0, 0x1.1a62633145c00p-54, 0x1.b839a252049c1p-104};
    double x = 6.283185307179586 * ((double_of_small(draw) + 0.5) * 0x1p-32);
    uint64_t quarter = (draw + (UINT64_C(1) << 29)) >> 30;
    double q = double_of_small(quarter);
    Doubles2 r = exact_sum(x - q * half_pi[0], -(q * half_pi[1]));
    r = exact_sum_falling(r.hi, r.lo - q * half_pi[2]);
    double z = r.hi * r.hi, zz = z * z;
    double sine = r.hi + (r.lo * (1 - 0.5 * z) + r.hi * z * EVEN_ODD_8(z, zz, of_sine));
    Doubles2 rr = exact_square(r.hi), a = exact_sum_falling(1, -0.5 * rr.hi);
    double cosine = a.hi + (a.lo - 0.5 * rr.lo - r.hi * r.lo + z * z * EVEN_ODD_8(z, zz, of_cosine));
    uint64_t odd = 0 - (quarter & 1), sign = ((quarter + 1) & 2) << 62;
    return double_of_bits((bits_of_double(cosine) ^ ((bits_of_double(cosine) ^ bits_of_double(sine)) & odd)) ^ sign);
}

static void normals(int n, const uint64_t *draws, double mean, double deviation, float *out) {
#pragma GCC ivdep
    for (int i = 0; i < n; i++) {
        double u = (double_of_small(draws[i] & 0xffffffff) + 0.5) * 0x1p-32;
        out[i] = (float)(mean + deviation * (sqrt(-2 * log_of_draw(u)) * cos_of_draw(draws[i] >> 32)));
    }
}
