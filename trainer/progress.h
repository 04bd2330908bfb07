/* progress: what a person sees on standard output. On a terminal one line that is drawn again and again, as wide as it,
 * with a bar and the time left; elsewhere a plain line now and then. Notes are lines of their own. */
#ifndef NOISED_PROGRESS_H
#define NOISED_PROGRESS_H

#include "base/err.h"

typedef struct Progress {
    bool terminal;
    int64_t first_step, steps;                          /* already done at the start; of the whole run */
    double tokens_per_step, started, evaluating, shown; /* the times of a start, and of the last line */
} Progress;

void progress_start(Progress *p, int64_t first_step, int64_t steps, double tokens_per_step);
/* `step` steps are done; shows it when it is time to, always after the first and the last step of the run. */
void progress_step(Progress *p, int64_t step, double loss, double lr);
/* An evaluation between two steps has computed `done` of `parts`; 0 when it begins. */
void progress_evaluation(Progress *p, int64_t done, int64_t parts);
void progress_note(const Progress *p, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
void progress_end(const Progress *p);

#endif
