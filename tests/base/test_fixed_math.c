/* exp, log, pow, sine and cosine of our own: rounded to float they are the right function of every float but a
 * few, and their bits are those written here on every machine. FLOATS_EVERY=1 goes through all floats (minutes). */
#include "base/fixed_math.h"
#include "base/random.h"
#include "tests/support/test.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct Function {
    const char *name;
    double (*ours)(double x);
    long double (*judge)(long double x); /* 64 bits of mantissa or more */
    double ulps;                         /* as the header says */
    int missed;                          /* floats whose result is the other neighbour, likewise */
} Function;

static const Function functions[] = {{"exp", fixed_exp, expl, 0.53, 0},
                                     {"log", fixed_log, logl, 0.57, 5},
                                     {"sin", fixed_sin, sinl, 0.82, 2},
                                     {"cos", fixed_cos, cosl, 0.82, 4}};
enum { FUNCTIONS = sizeof functions / sizeof *functions };

static float float_of(uint32_t bits) {
    float x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

static bool same_float(float a, float b) { return !memcmp(&a, &b, sizeof a) || (isnan(a) && isnan(b)); }

TEST(fixed_math_every_float) {
    int64_t every = getenv("FLOATS_EVERY") ? atoll(getenv("FLOATS_EVERY")) : 4999;
    REQUIRE(every > 0);
    if (every < 100) test_takes_long();
    for (int f = 0; f < FUNCTIONS; f++) {
        int64_t wrong = 0, last = 0;
#pragma omp parallel for reduction(+ : wrong) reduction(max : last)
        for (int64_t bits = 0; bits < INT64_C(1) << 32; bits += every) {
            float x = float_of((uint32_t)bits);
            if (same_float((float)functions[f].ours((double)x), (float)functions[f].judge((long double)x))) continue;
            wrong++;
            last = bits;
        }
        float x = float_of((uint32_t)last);
        CHECK_MSG(wrong <= functions[f].missed, "%s: %lld floats wrong, one is %a: %a, not %a", functions[f].name,
                  (long long)wrong, (double)x, functions[f].ours((double)x),
                  (double)functions[f].judge((long double)x));
    }
}

static double ulps_off(double got, long double right) {
    double unit = nextafter(fabs(got), INFINITY) - fabs(got);
    return (double)(fabsl(right - (long double)got) / (long double)unit);
}

/* Between -range and range, near 0 more often. */
static double draw_argument(Draws *d, double range) {
    double size = range * draw_uniform(d);
    size += range * 0x1p-32 * draw_uniform(d);
    if (draw_below(d, 4) == 0) size = ldexp(size, -(int)draw_below(d, 40));
    return draw_below(d, 2) ? size : -size;
}

TEST(fixed_math_doubles) {
    Draws d = draws_open(71, DRAW_TEST, 0);
    double worst[FUNCTIONS] = {0}, pow_worst = 0, far_worst = 0;
    for (int i = 0; i < 100000; i++) {
        static const double ranges[FUNCTIONS] = {700, 1e6, 100, 100};
        for (int f = 0; f < FUNCTIONS; f++) {
            double x = draw_argument(&d, ranges[f]);
            if (functions[f].judge == logl) x = fabs(x);
            worst[f] = fmax(worst[f], ulps_off(functions[f].ours(x), functions[f].judge((long double)x)));
        }
        double base = fabs(draw_argument(&d, 1e6)), y = draw_argument(&d, 1), far = ldexp(draw_argument(&d, 1), 100);
        pow_worst = fmax(pow_worst, ulps_off(fixed_pow(base, y), powl((long double)base, (long double)y)));
        far_worst = fmax(far_worst, ulps_off(fixed_sin(far), sinl((long double)far)));
    }
    for (int f = 0; f < FUNCTIONS; f++)
        CHECK_MSG(worst[f] < functions[f].ulps, "%s is off by %.3f ulp", functions[f].name, worst[f]);
    CHECK_MSG(pow_worst < 2, "pow is off by %.3f ulp", pow_worst);
    CHECK_MSG(far_worst < 0.82, "sin of large numbers is off by %.3f ulp", far_worst);
}

TEST(fixed_math_special) {
    CHECK(fixed_exp(0) == 1 && fixed_exp(-INFINITY) == 0 && fixed_exp(INFINITY) == INFINITY && isnan(fixed_exp(NAN)));
    CHECK(fixed_exp(710) == INFINITY && fixed_exp(709.7) < INFINITY && fixed_exp(1e300) == INFINITY);
    CHECK(fixed_exp(-745) == 0x1p-1074 && fixed_exp(-746) == 0 && fixed_exp(-1e300) == 0);
    CHECK(fixed_log(1) == 0 && fixed_log(0) == -INFINITY && fixed_log(INFINITY) == INFINITY);
    CHECK(isnan(fixed_log(-1)) && isnan(fixed_log(NAN)) && fabs(fixed_log(0x1p-1074) + 744.44007192138126) < 1e-12);
    CHECK(fixed_pow(0, 2) == 0 && fixed_pow(0, 0) == 1 && fixed_pow(0, -1) == INFINITY && fixed_pow(NAN, 0) == 1);
    CHECK(fixed_pow(INFINITY, 1) == INFINITY && fixed_pow(INFINITY, -1) == 0 && isnan(fixed_pow(NAN, 1)));
    CHECK(fabs(fixed_pow(10, 300) / 1e300 - 1) < 1e-14 && fixed_pow(10, 400) == INFINITY && fixed_pow(10, -400) == 0);
    for (int i = 1; i < 50; i++) CHECK(fixed_pow(i, 1) == i && fixed_pow(i, 2) == i * i && fixed_pow(1, i) == 1);
    CHECK(fixed_sin(0) == 0 && signbit(fixed_sin(-0.0)) && fixed_cos(0) == 1 && fixed_sin(1e-300) == 1e-300);
    CHECK(isnan(fixed_sin(INFINITY)) && isnan(fixed_cos(-INFINITY)) && isnan(fixed_sin(NAN)) &&
          isnan(fixed_cos(1e300)));
}

/* One number for the bits of many results, x86-64's: other machines are held to it by the same test there. */
TEST(fixed_math_bits) {
    uint64_t hash = 0xcbf29ce484222325;
    Draws d = draws_open(72, DRAW_TEST, 0);
    for (int i = 0; i < 20000; i++) {
        static const double ranges[6] = {740, 1e30, 1e3, 1e38, 1e6, 2};
        double x[6], y[6];
        for (int k = 0; k < 6; k++) x[k] = draw_argument(&d, ranges[k]);
        y[0] = fixed_exp(x[0]);
        y[1] = fixed_log(fabs(x[1]));
        y[2] = fixed_sin(x[2]);
        y[3] = fixed_cos(x[3]);
        y[4] = fixed_pow(fabs(x[4]), x[5]);
        y[5] = draw_normal(&d);
        for (size_t k = 0; k < sizeof y; k++) hash = (hash ^ ((unsigned char *)y)[k]) * 0x100000001b3;
    }
    CHECK_MSG(hash == 0xdcbaad6fb5900cfa, "%016llx", (unsigned long long)hash);
}

/* Whether `name` is a function of the C library whose last bits are its own choice. */
static bool varies(const char *name) {
    static const char *const stems[] = {"exp",  "exp2", "exp10", "expm1", "log",   "log2",   "log10",  "log1p", "pow",
                                        "sin",  "cos",  "tan",   "asin",  "acos",  "atan",   "atan2",  "sinh",  "cosh",
                                        "tanh", "erf",  "erfc",  "cbrt",  "hypot", "sincos", "lgamma", "tgamma"};
    for (size_t i = 0; i < sizeof stems / sizeof *stems; i++) {
        size_t n = strlen(stems[i]);
        if (!strncmp(name, stems[i], n) && (!name[n] || (strchr("fl", name[n]) && !name[n + 1]))) return true;
    }
    return false;
}

/* The trainer draws its charts and rounds the sizes of presets by the C library's. */
TEST(fixed_math_is_what_programs_use) {
    static const char *const programs[] = {"noised", "noised-weights", "noised-train"};
    const char *build = getenv("BUILD");
    for (int i = 0; i < 3; i++) {
        char line[256], name[128];
        FILE *f = popen(test_text("nm -uD '%s/%s'", build ? build : "build", programs[i]), "r");
        int symbols = 0;
        REQUIRE(f);
        while (fgets(line, sizeof line, f)) {
            if (sscanf(line, " %*c %127[^@ \n]", name) != 1) continue;
            symbols++;
            bool cosmetic = i == 2 && (!strcmp(name, "pow") || !strcmp(name, "log10"));
            CHECK_MSG(!varies(name) || cosmetic, "%s calls the C library's %s", programs[i], name);
        }
        CHECK(pclose(f) == 0 && symbols > 20);
    }
}
