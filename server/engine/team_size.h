/* team_size: how many threads compute. All of the team, unless other programs run on some of its cores: a loop of a
 * step is done when its last member is, so one core of two that somebody else wants costs more than that core is worth.
 * No result depends on the number.
 *
 * Every fifth of a second of computing the kernel is asked how long each member has been ready to run without a core
 * (the second number of /proc/self/task/N/schedstat). Where n members and h others share cores by turns, each waits for
 * d = h / (n + h) of the time, so from the mean d of all members
 *
 *     h = n d / (1 - d)
 *
 * and so many, rounded, are left out: what is left has cores of its own. But when fewer than half of the team would be
 * left, all compute. A smaller team stays only as long as it is faster: its steps are timed, and what the full team
 * took for steps of about as many rows just before is what they must stay below. The full team is tried again after
 * half a second, and if that was too early after twice as long, up to 16 seconds, as far as there are threads to be
 * had; a smaller one that was of no use is not tried again for as long. Where the kernel tells nothing all compute. The
 * engine thread's, with its team set. */
#ifndef NOISED_TEAM_SIZE_H
#define NOISED_TEAM_SIZE_H

#include "base/err.h"

#include <sys/types.h>

enum { TEAM_PACES = 16 }; /* by the rows of a step: 1, 2 to 3, 4 to 7, ... */

typedef struct TeamSize {
    int most, size;          /* threads of the team; those that compute */
    pid_t *threads;          /* [most], of which the first `size` are set */
    double *delays;          /* [most] seconds without a core so far, as the last look found them; -1: not known */
    double since, busy;      /* when that was, and seconds of computing since then */
    double pace[TEAM_PACES]; /* seconds a row of the full team's latest steps of such sizes; 0: not known */
    double spent,
        full_team;          /* seconds of the smaller team's steps since the last look, and what all would have taken */
    double until, patience; /* when the other size is tried next; how long a size that was of no use is not tried */
    bool trying;            /* this size, since the last look */
} TeamSize;

/* Whether the system gives so many more threads, tried by starting them: 0 or errno. OpenMP ends the process when it is
 * refused one, so this comes before. Allocates nothing. Any thread. */
int team_size_try(int more);

void team_size_init(TeamSize *c); /* allocates */
void team_size_free(TeamSize *c);

/* After a step of so many rows, which took so many seconds up to `now`. Changes the team's size. */
void team_size_observe(TeamSize *c, int rows, double seconds, double now);

/* The two parts of it: what the step tells of the paces, */
void team_size_time(TeamSize *c, int rows, double seconds);
/* and the size from `now` on, when a member was kept waiting for this share of the time since the last decision. */
int team_size_decide(TeamSize *c, double delayed, double now);

#endif
