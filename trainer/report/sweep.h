/* sweep: the runs of a sweep: every network at every learning rate with every seed, in DIR/NETWORK-lrRATE-seedN, each
 * what `pretrain` makes of the same options. All networks and rates come before the next seed, so that whatever is
 * there can be compared. */
#ifndef NOISED_SWEEP_H
#define NOISED_SWEEP_H

#include "base/err.h"
#include "base/files.h"
#include "trainer/settings.h"

typedef struct SweepRun {
    char dir[PATH_BYTES];
    char **words; /* [n_words] what `pretrain` is told; owned */
    int n_words;
    double guess; /* seconds, by cost.h */
    double done;  /* share of its steps; 1: finished */
    double spent; /* seconds, by its log */
} SweepRun;

typedef struct Sweep {
    SweepRun *runs;
    int n;
} Sweep;

/* line is the sweep's: `settings` are its values of pretrain's options, of which those given go to every run; but for
 * config, lr and seed, which are these lists and 1..seeds. Refuses whatever can be before the first run begins: a
 * network that does not exist, two networks of one name, and runs in the folder that are other ones than those asked
 * for. */
int sweep_make(Sweep *s, const Command *pretrain, const CommandLine *line, const Settings *settings,
               const OptionList *configs, const OptionList *rates, int64_t seeds, Err *err);
void sweep_free(Sweep *s);

/* Of `settings` at every rate, before any folder is looked at. */
int sweep_check_options(const Settings *settings, const OptionList *rates, Err *err);

/* Whether each run has its own value of this option of `pretrain`. */
bool sweep_tells(const char *option);

/* Reads from its folder, which need not be there, how far a run is. */
void sweep_look(SweepRun *r);

int sweep_done(const Sweep *s);            /* runs that are finished */
double sweep_seconds_left(const Sweep *s); /* by the guesses, times what finished runs took of theirs */

#endif
