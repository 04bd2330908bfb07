/* past_run: a training as its folder tells it (run_folder.h): what was trained, and what every evaluation said. */
#ifndef NOISED_PAST_RUN_H
#define NOISED_PAST_RUN_H

#include "base/err.h"
#include "base/files.h"
#include "base/sha256.h"

typedef struct PastRun {
    char dir[PATH_BYTES];
    char *network; /* config and settings as JSON, but for the seed, the rates and what changes no weight: runs that
                      have it in common compete by their rates alone */
    double lr, min_lr;
    int64_t seed, steps, done; /* steps asked for, and steps in the log */
    char texts[SHA256_HEX];    /* of --data and --val */
    char tokenizer[SHA256_HEX];
    /* [n] for each evaluation; seconds of training by the clock up to there, NaN where the log does not tell; tokens
     * it was made of. The last of a finished run is of all held-out tokens, those before of 64 windows. */
    double *step, *seconds, *loss, *tokens;
    int n;
} PastRun;

/* A folder that holds none is an error; one whose run has no evaluation is not. */
int past_run_load(PastRun *r, const char *dir, Err *err);
void past_run_free(PastRun *r);

bool past_run_finished(const PastRun *r);
int past_run_alike(const PastRun *r); /* the first so many evaluations were made of the same tokens */

/* dir itself if it holds a run, else the folders in it that do, by name; *dirs is malloc'ed, as are they. */
int past_runs_find(const char *dir, char ***dirs, int *n, Err *err);

#endif
