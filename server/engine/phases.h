/* phases: where the time from the end of one step to the end of the next goes. Each phase ends where the following one
 * begins, by the same reading of the clock, so they leave no gap and their sum is the whole time:
 *
 *   wait      for work, for the engine's lock, and for the housekeeping of the step before
 *   plan      taking jobs from the queue, ending those that are past their time, the draft, choosing the rows, copying
 * prefixes forward   the network, and a look whether its files still are what was mapped sample    drawing tokens,
 * log-probabilities publish   handing tokens over and waking connections; the text is made by the HTTP thread meanwhile
 *
 * A round of the loop that computes nothing (everything was cancelled) belongs to the step after it. The engine
 * thread's. */
#ifndef NOISED_PHASES_H
#define NOISED_PHASES_H

#include "base/clock.h"
#include "server/metrics/metrics.h"

enum { PHASES = TIME_STEP_PUBLISH - TIME_STEP_WAIT + 1 };

typedef struct Phases {
    double at;            /* when the last phase ended */
    double spent[PHASES]; /* seconds since the last step, by phase */
} Phases;

static inline void phases_begin(Phases *p) { *p = (Phases){.at = now_seconds()}; }

static inline void phase_ends(Phases *p, Distribution phase) {
    double now = now_seconds();
    p->spent[phase - TIME_STEP_WAIT] += now - p->at;
    p->at = now;
}

/* A step is over: one observation of each. */
static inline void phases_count(Phases *p, Metrics *m) {
    for (int i = 0; i < PHASES; i++) {
        metrics_observe(m, TIME_STEP_WAIT + i, p->spent[i]);
        p->spent[i] = 0;
    }
}

#endif
