/* job_kind: what the engine makes of a job's rows. Scheduler and runner ask nothing else about it, so another kind is
 * another table of these. */
#ifndef NOISED_JOB_KIND_H
#define NOISED_JOB_KIND_H

#include "server/engine/job.h"

struct JobKind {
    bool draws;     /* the prompt is continued, a token out of the logits of the last row; else it alone is read */
    bool every_row; /* of the prompt is read, so none may come from the cache */
    /* A wanted row of the prompt after the last norm, row [d], which predicts the token at `position`. NULL: none. */
    void (*take_row)(Job *job, int position, const float *row, int d);
    /* The k-th row of logits [d] that the head of a network that does not generate has for the job. NULL: none. */
    void (*take_logits)(Job *job, int k, const float *logits, int d);
};

/* The first row of the prompt that something is made of beside the last: from there on none may come from a cache.
 * n_prompt: there is none. */
static inline int job_wants_from(const Job *job) {
    return job->kind->every_row ? 0 : job->score_prompt ? job->score_from - 1 : job->n_prompt;
}

#endif
