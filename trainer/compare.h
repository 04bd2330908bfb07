/* compare: the curves of several networks trained alike, as a picture. The CSV has a line an evaluation,
 *     member,seed,step,train_loss,val_loss
 * and all of it is named by its first member, against which the others stand: one panel with every member's validation
 * loss, and panels of a few with the difference, the mean over the seeds in a band from the lowest to the highest. */
#ifndef NOISED_COMPARE_H
#define NOISED_COMPARE_H

#include "base/err.h"

/* Reads `csv` and writes `path` atomically. */
int compare_curves(const char *csv, const char *path, Err *err);

#endif
