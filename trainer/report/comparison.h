/* comparison: finished runs on one text beside each other. Runs that differ in nothing but their seed are an arm; arms
 * that differ in nothing but their learning rate are a network, which is judged by the arm with the lowest mean loss.
 * Every other arm is compared with the best one of one network, the base, seed by seed (paired.h). */
#ifndef NOISED_COMPARISON_H
#define NOISED_COMPARISON_H

#include "base/err.h"
#include "trainer/report/paired.h"
#include "trainer/report/past_run.h"

#include <stdio.h>

enum { NETWORK_NAME = 64 };

typedef struct Arm {
    int network;
    double lr, min_lr;
    const PastRun **runs; /* [n] by ascending seed; borrowed */
    int n;
    bool best;              /* of its network */
    double mean, deviation; /* of the losses at the end */
    Interval difference;    /* of those from the base's runs of the same seed; of the base itself: n = 0 */
    int told, reached;      /* seeds of which the loss to be reached is known; that reach it */
    double steps, seconds;  /* mean over those that do; NaN: none */
} Arm;

typedef struct Comparison {
    char (*names)[NETWORK_NAME];  /* [n_networks] */
    Arm *arms;                    /* [n_arms], of one network behind each other, by learning rate */
    int n_networks, n_arms, base; /* base: index of an arm */
} Comparison;

/* A network has the name of its first run's folder without the seed and the rate at its end ("mha-nano-lr0.002-seed1"
 * is mha-nano), the whole path where two would be called alike.
 *
 * `against` names the base's network; NULL: that of the first run. `loss` is what is to be reached; NaN: for every
 * seed what the base's run has at its last evaluation of those that can be compared. A run reaches a loss where its
 * curve comes down to it for good.
 *
 * Runs must be finished, on the same texts with the same tokens, and no two of an arm have one seed: anything else is
 * an error that names the folders. They must outlive the comparison. */
int comparison_make(Comparison *c, const PastRun *runs, int n, const char *against, double loss, Err *err);
void comparison_free(Comparison *c);

/* The arm's run of a seed, or NULL. */
const PastRun *arm_run(const Arm *a, int64_t seed);

/* ---- what is shown of it: comparison_print.c, comparison_draw.c ---- */

/* A table of 80 columns: one row an arm, and what its columns mean. `loss` as in comparison_make. */
void comparison_print(const Comparison *c, double loss, FILE *f);

/* CSV: network,lr,seed,step,seconds,val_loss,val_tokens: one row for every evaluation of every run. */
int comparison_save_csv(const Comparison *c, const char *path, Err *err);

/* A picture (chart.h): every network at its best rate: loss by step and by second, mean and range of its seeds; and the
 * difference from the base's of the same seeds, mean and 95% interval, from a quarter of the run on, for early on all
 * differ by more than at the end. Written atomically. */
int comparison_draw(const Comparison *c, const char *path, Err *err);

#endif
