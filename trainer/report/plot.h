/* plot: log.jsonl of a run as a picture, plot.svg: loss and validation loss, learning rate, and sigma of every head. */
#ifndef NOISED_PLOT_H
#define NOISED_PLOT_H

#include "base/err.h"

/* Reads dir/log.jsonl and writes `path` atomically. */
int plot_run(const char *dir, const char *path, Err *err);

#endif
