#include "tests/soak/soak.h"

#include "base/err.h"

#include <math.h>

/* Student's t for 95%, two-sided, by degrees of freedom; 1.96 is the limit. */
static double quantile(int freedom) { return 1.96 + 2.4 / MAX(freedom, 1) + (freedom < 4 ? 2 : 0); }

Trend trend_of(const Sample *s, int n, double (*what)(const Vitals *v)) {
    double x = 0, y = 0, xx = 0, xy = 0, rest = 0;
    if (n < 3) return (Trend){.interval = INFINITY};
    for (int i = 0; i < n; i++) {
        x += s[i].hours / n;
        y += what(&s[i].vitals) / n;
    }
    for (int i = 0; i < n; i++) {
        xx += (s[i].hours - x) * (s[i].hours - x);
        xy += (s[i].hours - x) * (what(&s[i].vitals) - y);
    }
    double slope = xy / xx;
    for (int i = 0; i < n; i++) {
        double off = what(&s[i].vitals) - y - slope * (s[i].hours - x);
        rest += off * off;
    }
    return (Trend){.mean = y, .slope = slope, .interval = quantile(n - 2) * sqrt(rest / (n - 2) / xx)};
}
