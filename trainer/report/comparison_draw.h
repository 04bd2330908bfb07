/* comparison_draw: a comparison as a picture (chart.h). */
#ifndef NOISED_COMPARISON_DRAW_H
#define NOISED_COMPARISON_DRAW_H

#include "trainer/report/comparison.h"

/* Every network at its best rate: loss by step and by second, mean and range of its seeds; and the difference from the
 * base's of the same seeds, mean and 95% interval, from a quarter of the run on, for early on all differ by more than
 * at the end. Written atomically. */
int comparison_draw(const Comparison *c, const char *path, Err *err);

#endif
