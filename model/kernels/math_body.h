/* math_body: the elementary functions, one element at a time and without branches, so that the compiler turns a loop
 * over them into vectors of any width with the same bits. Errors are the largest found over their whole range. */

#define FMA(a, b, c) __builtin_fmaf(a, b, c)

/* 1.5 2^23: adding it rounds |x| < 2^22 to the nearest integer (ties to even), which then sits in the low bits. */
static const float ROUND_MAGIC = 12582912.0f;
static const uint32_t ROUND_MAGIC_BITS = 0x4b400000;

/* exp(x) = 2^n e^r, |r| <= ln 2 / 2, within 0.9 ulp. 2^n goes in as two factors, so that overflow to Inf, denormals and
 * 0 come out as IEEE rounding has them. n is capped where the result is Inf anyway; r then grows with x and cannot turn
 * it back. */
INLINE float exp_of(float x) {
    enum { BIAS2 = 254, CAP = 129 };
    x = x < -104.0f ? -104.0f : x; /* exp(-104) is 0 */
    int32_t e = (int32_t)(bits_of_float(FMA(x, 1.44269504f, ROUND_MAGIC)) - ROUND_MAGIC_BITS);
    e = MIN(e, CAP);
    float n = (float)e, r = FMA(n, 1.90465430e-9f, FMA(n, -0.693147182f, x));
    float p = FMA(1.9875691500e-4f, r, 1.3981999507e-3f);
    p = FMA(p, r, 8.3334519073e-3f);
    p = FMA(p, r, 4.1665795894e-2f);
    p = FMA(p, r, 1.6666665459e-1f);
    p = FMA(p, r, 5.0000001201e-1f);
    p = FMA(p, r, 1.0f);
    p = FMA(p, r, 1.0f);
    uint32_t biased = (uint32_t)e + BIAS2, half = biased >> 1;
    return p * float_of_bits(half << 23) * float_of_bits((biased - half) << 23);
}

/* erf(x), a rational minimax approximation, clamped where erf rounds to 1; off by at most 3e-7. */
INLINE float erf_of(float x) {
    x = x < -4.0f ? -4.0f : x;
    x = x > 4.0f ? 4.0f : x;
    float s = x * x;
    float p = FMA(-2.72614225801306e-10f, s, 2.77068142495902e-08f);
    p = FMA(p, s, -2.10102402082508e-06f);
    p = FMA(p, s, -5.69250639462346e-05f);
    p = FMA(p, s, -7.34990630326855e-04f);
    p = FMA(p, s, -2.95459980854025e-03f);
    p = FMA(p, s, -1.60960333262415e-02f);
    float q = FMA(-1.45660718464996e-05f, s, -2.13374055278905e-04f);
    q = FMA(q, s, -1.68282697438203e-03f);
    q = FMA(q, s, -7.37332916720468e-03f);
    q = FMA(q, s, -1.42647390514189e-02f);
    return x * p / q;
}

/* tanh(x), likewise; 3e-7. */
INLINE float tanh_of(float x) {
    x = x < -7.99881172f ? -7.99881172f : x;
    x = x > 7.99881172f ? 7.99881172f : x;
    float s = x * x;
    float p = FMA(-2.76076847742355e-16f, s, 2.00018790482477e-13f);
    p = FMA(p, s, -8.60467152213735e-11f);
    p = FMA(p, s, 5.12229709037114e-08f);
    p = FMA(p, s, 1.48572235717979e-05f);
    p = FMA(p, s, 6.37261928875436e-04f);
    p = FMA(p, s, 4.89352455891786e-03f);
    float q = FMA(1.19825839466702e-06f, s, 1.18534705686654e-04f);
    q = FMA(q, s, 2.26843463243900e-03f);
    q = FMA(q, s, 4.89352518554385e-03f);
    return x * p / q;
}

/* cos(t), |t| <= COS_LIMIT: t = (n + 1/2) pi + r, cos(t) = -(-1)^n sin(r), pi / 2 in three parts (Cody and
 * Waite); off by at most 1.2e-7. */
static const float COS_LIMIT = 1e4f;
INLINE float cos_of(float t) {
    float z = FMA(t, 0.318309886f, -0.5f) + ROUND_MAGIC, q = FMA(2.0f, z - ROUND_MAGIC, 1.0f);
    float r = FMA(q, 1.71512451e-15f, FMA(q, 4.37113883e-8f, FMA(q, -1.57079637f, t)));
    float s = r * r;
    float p = FMA(2.60831598e-6f, s, -1.98106907e-4f);
    p = FMA(p, s, 8.33307858e-3f);
    p = FMA(p, s, -1.66666597e-1f);
    float y = FMA(p * s, r, r);
    return float_of_bits(bits_of_float(y) ^ (~bits_of_float(z) & 1) << 31);
}
