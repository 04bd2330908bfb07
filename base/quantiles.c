#include "base/quantiles.h"

#include "base/fixed_math.h"

#include <math.h>

float gaussian_quantiles[4096];

/* x with P(0 < z < x) = p, z normal: the rational start of Hastings (good to 4.5e-4) and three steps of Halley, each of
 * which triples the number of correct digits. P(0 < z < x) = density(x) (x + x^3 / 3 + x^5 / (3 5) + ...) */
static double normal_quantile(double p) {
    double t = sqrt(-2 * fixed_log(0.5 - p));
    double x = t - (2.515517 + t * (0.802853 + t * 0.010328)) / (1 + t * (1.432788 + t * (0.189269 + t * 0.001308)));
    for (int step = 0; step < 3; step++) {
        double density = fixed_exp(-0.5 * x * x) * 0.39894228040143267794, sum = x, term = x;
        for (int k = 3; term > 1e-18 * sum; k += 2) sum += term *= x * x / k;
        double e = sum - p / density;
        x -= e / (1 + 0.5 * x * e);
    }
    return x;
}

void gaussian_quantiles_build(void) {
    for (int m = 0; m < 4096; m++) gaussian_quantiles[m] = (float)normal_quantile((m + 0.5) / 8192);
}
