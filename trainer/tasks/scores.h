/* scores: how well answers agree with what is right. Labels are numbers of classes; n is at least 1. */
#ifndef NOISED_SCORES_H
#define NOISED_SCORES_H

double score_accuracy(const int *gold, const int *got, int n);

/* 2 TP / (2 TP + FP + FN) of one class; 0 where nothing is or is called of that class. */
double score_f1(const int *gold, const int *got, int n, int class);

/* Matthews' correlation for any number of classes (Gorodkin's R_K),
 *     (c n - sum_k p_k t_k) / sqrt((n^2 - sum_k p_k^2) (n^2 - sum_k t_k^2)),
 * c answers right, p_k answers and t_k examples of class k; for two classes (TP TN - FP FN) / sqrt((TP + FP) (TP + FN)
 * (TN + FP) (TN + FN)). 0 where the denominator is. */
double score_matthews(const int *gold, const int *got, int n, int classes);

/* Mean, and sample standard deviation (n - 1 below; 0 for n = 1). */
typedef struct Spread {
    double mean, deviation;
} Spread;
Spread score_spread(const double *x, int n);

#endif
