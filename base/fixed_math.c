#include "base/fixed_math.h"

#include <float.h>
#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

/* ---- numbers of twice the precision ---- */

typedef struct Pair {
    double hi, lo; /* hi + lo, |lo| at most half an ulp of hi */
} Pair;

static inline uint64_t bits_of(double x) {
    uint64_t bits;
    memcpy(&bits, &x, sizeof bits);
    return bits;
}

static inline double of_bits(uint64_t bits) {
    double x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

static inline double power_of_two(int n) { return of_bits((uint64_t)(1023 + n) << 52); } /* -1022 <= n <= 1023 */

/* a + b exactly (Knuth). */
static inline Pair sum(double a, double b) {
    double s = a + b, of_b = s - a;
    return (Pair){s, (a - (s - of_b)) + (b - of_b)};
}

/* The same for |a| >= |b|. */
static inline Pair normalised(double a, double b) {
    double s = a + b;
    return (Pair){s, b - (s - a)};
}

/* a b exactly (Dekker): halves of 26 bits, whose products are exact. Not near overflow or underflow. */
static inline Pair product(double a, double b) {
    double p = a * b, wide_a = 134217729 * a, wide_b = 134217729 * b; /* 2^27 + 1 */
    double a1 = wide_a - (wide_a - a), a2 = a - a1, b1 = wide_b - (wide_b - b), b2 = b - b1;
    return (Pair){p, ((a1 * b1 - p) + a1 * b2 + a2 * b1) + a2 * b2};
}

/* a a exactly, hi being the square of the upper 26 bits of a. */
static inline Pair square(double a) {
    double upper = of_bits(bits_of(a) & ~((UINT64_C(1) << 27) - 1));
    return (Pair){upper * upper, (a - upper) * (a + upper)};
}

/* c[0] + c[1] x + ...: even and odd powers apart, which do not wait for each other; n is even. */
static inline double polynomial(double x, int n, const double *c) {
    double xx = x * x, even = c[n - 2], odd = c[n - 1];
#pragma GCC unroll 8
    for (int i = n - 4; i >= 0; i -= 2) {
        even = even * xx + c[i];
        odd = odd * xx + c[i + 1];
    }
    return even + x * odd;
}

/* ---- exp and log ---- */

/* ln 2 = LN2_HI + LN2_LO, the first of 42 bits: its products with an exponent are exact. */
static const double LN2_HI = 0x1.62e42fefa38p-1, LN2_LO = 0x1.ef35793c7673p-45, LOG2_E = 0x1.71547652b82fep+0;

/* exp(x) = 2^n exp(r), |r| <= ln 2 / 2, exp(r) = 1 + r + r^2 / 2 + r^3 (1 / 3! + r / 4! + ...) */
static double exp_of_pair(Pair x) {
    static const double c[] = {1 / 6.0,        1 / 24.0,        1 / 120.0,        1 / 720.0,
                               1 / 5040.0,     1 / 40320.0,     1 / 362880.0,     1 / 3628800.0,
                               1 / 39916800.0, 1 / 479001600.0, 1 / 6227020800.0, 1 / 87178291200.0};
    const double round = 0x1.8p52; /* adding it rounds to an integer */
    if (!(x.hi > -746)) return x.hi <= -746 ? 0 : x.hi;
    if (x.hi > 710) return INFINITY;
    double n = x.hi * LOG2_E + round - round;
    Pair r = sum(x.hi - n * LN2_HI, -n * LN2_LO), rr = square(r.hi);
    r.lo += x.lo;
    Pair a = normalised(1, r.hi), b = normalised(a.hi, 0.5 * rr.hi);
    double cubes = r.hi * (r.hi * r.hi) * polynomial(r.hi, 12, c);
    double y = b.hi + (a.lo + b.lo + (0.5 * rr.lo + (r.lo + r.lo * r.hi) + cubes));
    /* In two steps: overflow and subnormals come out as IEEE rounding has them. */
    int half = (int)n / 2;
    return y * power_of_two(half) * power_of_two((int)n - half);
}

/* log(2^k m) = k ln 2 + log(1 + f), m in [sqrt 1/2, sqrt 2), for 0 < x < Inf:
 * log(1 + f) = f - f^2 / 2 + s (f^2 / 2 + s^2 (2 / 3 + s^2 2 / 5 + ...)), s = f / (2 + f) */
static Pair log_of(double x) {
    static const double c[] = {2 / 3.0,  2 / 5.0,  2 / 7.0,  2 / 9.0,  2 / 11.0, 2 / 13.0,
                               2 / 15.0, 2 / 17.0, 2 / 19.0, 2 / 21.0, 2 / 23.0, 2 / 25.0};
    const uint64_t root_half = 0x3fe6a09e667f3bcd;
    int k = x < DBL_MIN ? -54 : 0;
    if (k) x *= 0x1p54;
    int64_t exponent = (int64_t)(bits_of(x) - root_half) >> 52;
    double f = of_bits(bits_of(x) - ((uint64_t)exponent << 52)) - 1, s = f / (2 + f), z = s * s;
    k += (int)exponent;
    Pair ff = square(f), a = normalised(f, -0.5 * ff.hi), b = sum(k * LN2_HI, a.hi);
    double cubes = s * (0.5 * f * f + z * polynomial(z, 12, c));
    return normalised(b.hi, b.lo + (a.lo - 0.5 * ff.lo + (cubes + k * LN2_LO)));
}

double fixed_exp(double x) { return exp_of_pair((Pair){x, 0}); }

double fixed_log(double x) {
    if (!(x > 0)) return x == 0 ? -INFINITY : NAN;
    return x == INFINITY ? x : log_of(x).hi;
}

double fixed_pow(double x, double y) {
    if (y == 0) return 1;
    if (!(x > 0 && x < INFINITY)) return exp_of_pair((Pair){y * fixed_log(x), 0});
    Pair l = log_of(x), p = product(l.hi, y);
    return exp_of_pair(normalised(p.hi, p.lo + l.lo * y));
}

/* ---- sine and cosine ---- */

/* r with |x| = q pi / 2 + r, |r| <= pi / 4; returns q modulo 4. Of |x| 2 / pi = mantissa 2^e 2 / pi only the bits of
 * 2 / pi from weight 2^(1 - e) on count (Payne and Hanek): 192 of them leave 2^-137. pi / 4 <= x < 2^128. */
static int reduce(double x, Pair *r) {
    /* 64 zeros, then the binary digits of 2 / pi */
    static const uint64_t digits[] = {
        0, 0xa2f9836e4e441529, 0xfc2757d1f534ddc0, 0xdb6295993c439041, 0xfe5163abdebbc561, 0xb7246e3a424dd2e0};
    uint64_t mantissa = (bits_of(x) & ((UINT64_C(1) << 52) - 1)) | UINT64_C(1) << 52, w[3];
    int from = 62 + (int)(bits_of(x) >> 52) - 1075, shift = from % 64;
    for (int i = 0; i < 3; i++) {
        const uint64_t *at = digits + from / 64 + i;
        w[i] = shift ? at[0] << shift | at[1] >> (64 - shift) : at[0];
    }
    unsigned __int128 middle =
        (unsigned __int128)mantissa * w[1] + (uint64_t)((unsigned __int128)mantissa * w[2] >> 64);
    uint64_t top = mantissa * w[0] + (uint64_t)(middle >> 64);
    /* turns = 2 bits of quarters, then their fraction; its nearest quarter is q, the rest has a sign. */
    unsigned __int128 turns = (unsigned __int128)top << 64 | (uint64_t)middle, rest = turns << 2;
    bool negative = rest >> 127;
    if (negative) rest = -rest;
    int zeros = rest >> 64 ? __builtin_clzll((uint64_t)(rest >> 64)) : 64;
    rest <<= zeros;
    const double half_pi_hi = 0x1.921fb54442d18p+0, half_pi_lo = 0x1.1a62633145c07p-54;
    double hi = (double)(uint64_t)(rest >> 75) * power_of_two(-53 - zeros);
    double lo = (double)((uint64_t)(rest >> 22) & ((UINT64_C(1) << 53) - 1)) * power_of_two(-106 - zeros);
    Pair p = product(hi, half_pi_hi);
    *r = normalised(p.hi, p.lo + (hi * half_pi_lo + lo * half_pi_hi));
    if (negative) *r = (Pair){-r->hi, -r->lo};
    return ((int)(top >> 62) + negative) & 3;
}

/* sin(r) = r - r^3 (1 / 3! - r^2 / 5! + ...), |r| <= pi / 4 */
static double sine_of(Pair r) {
    static const double c[] = {-1 / 6.0,        1 / 120.0,        -1 / 5040.0,          1 / 362880.0,
                               -1 / 39916800.0, 1 / 6227020800.0, -1 / 1307674368000.0, 1 / 355687428096000.0};
    double z = r.hi * r.hi;
    return r.hi + (r.lo * (1 - 0.5 * z) + r.hi * z * polynomial(z, 8, c));
}

/* cos(r) = 1 - r^2 / 2 + r^4 (1 / 4! - r^2 / 6! + ...) */
static double cosine_of(Pair r) {
    static const double c[] = {1 / 24.0,        -1 / 720.0,         1 / 40320.0,          -1 / 3628800.0,
                               1 / 479001600.0, -1 / 87178291200.0, 1 / 20922789888000.0, -1 / 6402373705728000.0};
    Pair rr = square(r.hi), a = normalised(1, -0.5 * rr.hi);
    double z = r.hi * r.hi;
    return a.hi + (a.lo - 0.5 * rr.lo - r.hi * r.lo + z * z * polynomial(z, 8, c));
}

void fixed_sin_cos(double x, double *sine, double *cosine) {
    double size = fabs(x);
    if (!(size < 0x1p128)) {
        *sine = *cosine = NAN;
        return;
    }
    Pair r = {size, 0};
    int quarter = size <= 0.78539816339744830962 ? 0 : reduce(size, &r);
    double s = sine_of(r), c = cosine_of(r), of_quarter = quarter & 1 ? c : s;
    *cosine = quarter & 1 ? s : c;
    if (quarter == 1 || quarter == 2) *cosine = -*cosine;
    *sine = (quarter >= 2) != (bool)signbit(x) ? -of_quarter : of_quarter;
}

double fixed_sin(double x) {
    double sine, cosine;
    fixed_sin_cos(x, &sine, &cosine);
    return sine;
}

double fixed_cos(double x) {
    double sine, cosine;
    fixed_sin_cos(x, &sine, &cosine);
    return cosine;
}
