/* request_job: what the engine is asked for: one choice of a checked request as its job. */
#ifndef NOISED_API_REQUEST_JOB_H
#define NOISED_API_REQUEST_JOB_H

#include "server/api/answer.h"
#include "server/api/completions/request.h"

/* Choice i of prompt p, of which each has best_of, for engine_submit; it has copies of what it needs of r, whose seeds
 * are given. NULL when memory runs out. */
Job *request_job_new(const CompletionRequest *r, const ApiContext *ctx, int p, int i, const Requester *requester);

#endif
