#include "trainer/tasks/scores.h"

#include "base/memory.h"

#include <math.h>
#include <stdlib.h>

double score_accuracy(const int *gold, const int *got, int n) {
    int right = 0;
    for (int i = 0; i < n; i++) right += gold[i] == got[i];
    return (double)right / n;
}

double score_f1(const int *gold, const int *got, int n, int class) {
    int both = 0, either = 0; /* TP, and TP + FP + TP + FN */
    for (int i = 0; i < n; i++) {
        both += gold[i] == class && got[i] == class;
        either += (gold[i] == class) + (got[i] == class);
    }
    return either ? 2.0 * both / either : 0;
}

double score_matthews(const int *gold, const int *got, int n, int classes) {
    double right = 0, cross = 0, answers = 0, truth = 0, total = n;
    double *counts = xcalloc(2 * (size_t)classes, sizeof *counts); /* answers and examples of class k at 2 k */
    for (int i = 0; i < n; i++) {
        right += gold[i] == got[i];
        counts[2 * got[i]]++;
        counts[2 * gold[i] + 1]++;
    }
    for (int k = 0; k < classes; k++) {
        double p = counts[2 * k], t = counts[2 * k + 1];
        cross += p * t;
        answers += p * p;
        truth += t * t;
    }
    free(counts);
    double below = (total * total - answers) * (total * total - truth);
    return below > 0 ? (right * total - cross) / sqrt(below) : 0;
}

double score_pearson(const double *x, const double *y, int n) {
    double mean_x = 0, mean_y = 0, xx = 0, yy = 0, xy = 0;
    for (int i = 0; i < n; i++) {
        mean_x += x[i] / n;
        mean_y += y[i] / n;
    }
    for (int i = 0; i < n; i++) {
        double a = x[i] - mean_x, b = y[i] - mean_y;
        xx += a * a;
        yy += b * b;
        xy += a * b;
    }
    return xx > 0 && yy > 0 ? xy / sqrt(xx * yy) : 0;
}

typedef struct Ranked {
    double value;
    int place;
} Ranked;

static int by_value(const void *a, const void *b) {
    double x = ((const Ranked *)a)->value, y = ((const Ranked *)b)->value;
    return (x > y) - (x < y);
}

static double *ranks(const double *x, int n) {
    Ranked *sorted = xcalloc((size_t)n, sizeof *sorted);
    double *rank = xcalloc((size_t)n, sizeof *rank);
    for (int i = 0; i < n; i++) sorted[i] = (Ranked){x[i], i};
    qsort(sorted, (size_t)n, sizeof *sorted, by_value);
    for (int first = 0, last; first < n; first = last) {
        for (last = first; last < n && sorted[last].value == sorted[first].value;) last++;
        for (int i = first; i < last; i++) rank[sorted[i].place] = (first + 1 + last) / 2.0; /* from 1 */
    }
    free(sorted);
    return rank;
}

double score_spearman(const double *x, const double *y, int n) {
    double *rank_x = ranks(x, n), *rank_y = ranks(y, n), r = score_pearson(rank_x, rank_y, n);
    free(rank_x);
    free(rank_y);
    return r;
}

Spread score_spread(const double *x, int n) {
    Spread s = {0};
    double squares = 0;
    for (int i = 0; i < n; i++) s.mean += x[i];
    s.mean /= n;
    for (int i = 0; i < n; i++) squares += (x[i] - s.mean) * (x[i] - s.mean);
    if (n > 1) s.deviation = sqrt(squares / (n - 1));
    return s;
}
