#include "trainer/report/paired.h"

#include "base/fixed_math.h"

#include <math.h>

double sample_mean(const double *v, int n) {
    double sum = 0;
    for (int i = 0; i < n; i++) sum += v[i];
    return sum / n;
}

double deviation_of(const double *v, int n) {
    double m = sample_mean(v, n), sum = 0;
    for (int i = 0; i < n; i++) sum += (v[i] - m) * (v[i] - m);
    return n > 1 ? sqrt(sum / (n - 1)) : 0;
}

/* P(|T| < sqrt(freedom) tan(angle)): Abramowitz and Stegun 26.7.3 and 26.7.4. */
static double student_within(int freedom, double angle) {
    double s, c, sum = 0;
    fixed_sin_cos(angle, &s, &c);
    double term = freedom % 2 ? c : 1;
    for (int k = freedom % 2 ? 1 : 0; k <= freedom - 2; k += 2) {
        sum += term;
        term *= c * c * (k + 1) / (k + 2);
    }
    return freedom % 2 ? M_2_PI * (angle + s * sum) : s * sum;
}

double student_quantile(int freedom) {
    double low = 0, high = M_PI_2;
    for (int i = 0; i < 60; i++) {
        double middle = (low + high) / 2;
        *(student_within(freedom, middle) < 0.95 ? &low : &high) = middle;
    }
    return sqrt(freedom) * fixed_sin(low) / fixed_cos(low);
}

Interval interval_of(const double *differences, int n) {
    if (n == 0) return (Interval){.mean = NAN, .half = NAN};
    double half = n > 1 ? student_quantile(n - 1) * deviation_of(differences, n) / sqrt(n) : INFINITY;
    return (Interval){.mean = sample_mean(differences, n), .half = half, .n = n};
}

bool interval_is_clear(const Interval *i) { return i->n > 0 && fabs(i->mean) > i->half; }

double reaches(const double *x, const double *y, int n, double level) {
    if (n == 0 || y[n - 1] > level) return NAN;
    for (int i = n - 1; i > 0; i--)
        if (y[i - 1] > level) return x[i - 1] + (x[i] - x[i - 1]) * (y[i - 1] - level) / (y[i - 1] - y[i]);
    return x[0];
}
