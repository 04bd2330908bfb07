#include "model/kernels/isa.h"

#include <math.h>

float gaussian_quantiles[4096];

/* x with Q(x) = q, Q the upper tail of the normal distribution, 0 < q < 0.5: the rational start of Hastings (good to
 * 4.5e-4) and three steps of Halley, each of which triples the number of correct digits. */
static double normal_upper_quantile(double q) {
    double t = sqrt(-2 * log(q));
    double x = t - (2.515517 + t * (0.802853 + t * 0.010328)) / (1 + t * (1.432788 + t * (0.189269 + t * 0.001308)));
    for (int step = 0; step < 3; step++) {
        double density = exp(-0.5 * x * x) * 0.39894228040143267794;
        double e = (0.5 * erfc(x * 0.70710678118654752440) - q) / density;
        x += e / (1 - 0.5 * x * e);
    }
    return x;
}

void gaussian_quantiles_build(void) {
    for (int m = 0; m < 4096; m++) gaussian_quantiles[m] = (float)normal_upper_quantile(0.5 - (m + 0.5) / 8192);
}
