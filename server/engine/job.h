/* job: the engine's side of a Job. Called from the engine thread; wakes the submitter after every change. */
#ifndef NOISED_JOB_H
#define NOISED_JOB_H

#include "server/engine/engine.h"

/* Prepares what only the engine needs; called by the submitter's thread, in engine_submit. -1 when out of memory. */
int job_prepare(Job *job, int eos_token_id);

void job_start(Job *job, double now);

/* The result so far, whose new entries of prompt_scores and tokens are filled in already. */
void job_publish(Job *job, int n_scored, int n_tokens, int cached_tokens);

/* Ends the job and drops the engine's reference. `error` belongs to FINISH_ERROR, NULL otherwise. */
void job_finish(Job *job, Finish finish, const char *error);

bool job_is_end(const Job *job, int id);

#endif
