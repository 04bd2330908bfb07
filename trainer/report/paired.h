/* paired: what a few runs of equal seeds say about each other.
 *
 * Of n differences d_s = a_s - b_s with mean m and deviation sd (n - 1 below): m +- t sd / sqrt(n), Student's 95%
 * interval with t its quantile at 97.5% for n - 1 degrees of freedom. */
#ifndef NOISED_PAIRED_H
#define NOISED_PAIRED_H

#include <stdbool.h>

double sample_mean(const double *v, int n);  /* n >= 1 */
double deviation_of(const double *v, int n); /* 0 for n = 1 */

double student_quantile(int freedom); /* >= 1; to 12 digits */

typedef struct Interval {
    double mean, half; /* half: INFINITY for one difference */
    int n;             /* differences; 0: nothing is known */
} Interval;
Interval interval_of(const double *differences, int n);
bool interval_is_clear(const Interval *i); /* of 0 */

/* Where the line through (x, y) comes down to `level` and stays there; NaN: it ends above. With nothing above it in
 * front that is x[0]. */
double reaches(const double *x, const double *y, int n, double level);

#endif
