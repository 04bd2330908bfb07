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

Spread score_spread(const double *x, int n) {
    Spread s = {0};
    double squares = 0;
    for (int i = 0; i < n; i++) s.mean += x[i];
    s.mean /= n;
    for (int i = 0; i < n; i++) squares += (x[i] - s.mean) * (x[i] - s.mean);
    if (n > 1) s.deviation = sqrt(squares / (n - 1));
    return s;
}
