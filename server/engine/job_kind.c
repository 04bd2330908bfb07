#include "server/engine/job_kind.h"

#include <string.h>

const JobKind job_tokens = {.draws = true};

static void take_last(Job *job, int position, const float *row, int d) {
    if (position == job->n_prompt) memcpy(job->values, row, (size_t)d * sizeof *row);
}

const JobKind job_last_row = {.take_row = take_last};

/* Summed in the order of the rows, whatever the chunks. */
static void add_to_mean(Job *job, int position, const float *row, int d) {
    for (int i = 0; i < d; i++) job->values[i] += row[i];
    for (int i = 0; i < d && position == job->n_prompt; i++) job->values[i] /= (float)job->n_prompt;
}

const JobKind job_mean_row = {.every_row = true, .take_row = add_to_mean};

static void take_all(Job *job, int k, const float *logits, int d) {
    memcpy(job->values + (size_t)k * (size_t)d, logits, (size_t)d * sizeof *logits);
}

const JobKind job_logits = {.take_logits = take_all};
