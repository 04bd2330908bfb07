/* bar: one line of a terminal that is drawn again and again, as wide as it: a bar, and texts in a row. */
#ifndef NOISED_BAR_H
#define NOISED_BAR_H

#include "base/err.h"

enum { BAR_TEXT = 48, BAR_TEXTS = 8 };
typedef char BarText[BAR_TEXT]; /* blanks in front part it from the one before */

/* `done` of 0..1 and texts[n], n at most BAR_TEXTS. Where all of it has no room the bar is shorter or goes, then the
 * texts from the last but one to the first; the last stays. */
void bar_draw(FILE *terminal, BarText *texts, int n, double done);

void bar_duration(double seconds, char out[32]); /* "2:05", "1:02:05" */

#endif
