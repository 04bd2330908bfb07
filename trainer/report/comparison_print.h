/* comparison_print: a comparison as a table of 80 columns and as CSV. */
#ifndef NOISED_COMPARISON_PRINT_H
#define NOISED_COMPARISON_PRINT_H

#include "trainer/report/comparison.h"

#include <stdio.h>

/* One row an arm, and what its columns mean. `loss` as in comparison_make. */
void comparison_print(const Comparison *c, double loss, FILE *f);

/* network,lr,seed,step,seconds,val_loss,val_tokens: one row for every evaluation of every run. */
int comparison_save_csv(const Comparison *c, const char *path, Err *err);

#endif
