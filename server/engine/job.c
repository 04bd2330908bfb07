#include "server/engine/job.h"

#include "base/clock.h"
#include "base/err.h"
#include "base/memory.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* What both kinds of jobs start from. */
static Job *job_allocate(size_t size, Job start) {
    Job *job = try_calloc(1, size);
    if (!job) return NULL;
    *job = start;
    pthread_mutex_init(&job->mutex, NULL);
    atomic_init(&job->cancelled, false);
    atomic_init(&job->references, 1);
    return job;
}

/* The job and its results are one allocation: Job, prompt_scores, tokens, alternatives of both, prompt. */
Job *job_new(const int *prompt, int n_prompt, int max_tokens, int n_top, bool score_prompt) {
    BUG_ON(n_prompt < 1 || max_tokens < 0 || n_top < -1);
    size_t n_scores = score_prompt ? (size_t)n_prompt : 0, n_tokens = (size_t)max_tokens;
    size_t slots = n_scores + n_tokens, top = (size_t)MAX(n_top, 0), tops, bytes, size = sizeof(Job);
    if (!size_mul(slots, sizeof(JobToken), &bytes) || !size_add(size, bytes, &size)) return NULL;
    if (!size_mul(slots, top * sizeof(TokenLogprob), &tops) || !size_add(size, tops, &size)) return NULL;
    if (!size_add(size, (size_t)n_prompt * sizeof(int), &size)) return NULL;
    Job *job =
        job_allocate(size, (Job){.kind = &job_tokens,
                                 .n_prompt = n_prompt,
                                 .max_tokens = max_tokens,
                                 .sampling = {.temperature = 1, .top_p = 1, .typical_p = 1, .repetition_penalty = 1},
                                 .noise = {.scale = 1},
                                 .noise_prompt = {.scale = 1},
                                 .n_top = n_top,
                                 .score_prompt = score_prompt,
                                 .score_from = 1});
    if (!job) return NULL;
    JobToken *slot = (JobToken *)(job + 1);
    TokenLogprob *alternatives = (TokenLogprob *)(slot + slots);
    for (size_t i = 0; i < slots && top; i++) slot[i].top = alternatives + i * top;
    job->prompt_scores = score_prompt ? slot : NULL;
    job->tokens = slot + n_scores;
    job->prompt = memcpy(alternatives + slots * top, prompt, (size_t)n_prompt * sizeof(int));
    if (score_prompt) job->prompt_scores[0] = (JobToken){.id = prompt[0], .logprob = NAN};
    return job;
}

/* One allocation too: Job, values, image, prompt. */
Job *job_new_pooling(const JobKind *kind, JobInput input, int n_values) {
    BUG_ON(kind == &job_tokens || input.rows < 1 || n_values < 1 || !input.ids == !input.image);
    size_t floats = (size_t)n_values + input.n_floats, rows = (size_t)input.rows;
    Job *job = job_allocate(sizeof(Job) + floats * sizeof(float) + rows * sizeof(int),
                            (Job){.kind = kind, .n_prompt = input.rows, .noise_prompt = {.scale = 1}, .n_top = -1});
    if (!job) return NULL;
    job->values = (float *)(job + 1);
    job->prompt = (int *)(job->values + floats);
    if (input.ids) memcpy(job->prompt, input.ids, rows * sizeof(int));
    if (input.image) job->image = memcpy(job->values + n_values, input.image, input.n_floats * sizeof(float));
    return job;
}

void job_release(Job *job) {
    if (!job || atomic_fetch_sub(&job->references, 1) > 1) return;
    pthread_mutex_destroy(&job->mutex);
    free((void *)job->sampling.bias);
    free(job->stop_ids);
    free(job->ends);
    free(job->allowed);
    free(job->allowed_ids);
    free(job->banned);
    bad_words_release(job->bad_words);
    trie_release(job->trie);
    form_walk_free(job->walk);
    free(job);
}

JobProgress job_progress(Job *job) {
    pthread_mutex_lock(&job->mutex);
    JobProgress p = job->progress;
    pthread_mutex_unlock(&job->mutex);
    return p;
}

void job_cancel(Job *job) { atomic_store(&job->cancelled, true); }

/* ---- the engine's side ---- */

int job_prepare(Job *job, const Config *c) {
    int most = job->n_stop_ids + 1 + c->n_more_ends;
    free(job->ends);
    free(job->allowed);
    free(job->banned);
    job->n_ends = 0;
    job->ends = try_malloc((size_t)most * sizeof *job->ends);
    job->allowed = job->trie ? try_malloc((size_t)(most + job->trie->n) * sizeof *job->allowed) : NULL;
    job->banned = job->bad_words ? try_malloc((size_t)(most + bad_words_count(job->bad_words)) * sizeof(int)) : NULL;
    if (!job->ends || (job->trie && !job->allowed) || (job->bad_words && !job->banned)) return -1;
    for (int i = 0; i < job->n_stop_ids; i++) job->ends[job->n_ends++] = job->stop_ids[i];
    if (job->ignore_eos) return 0;
    if (c->eos_token_id >= 0) job->ends[job->n_ends++] = c->eos_token_id;
    for (int i = 0; i < c->n_more_ends; i++) job->ends[job->n_ends++] = c->more_ends[i];
    return 0;
}

void job_wake(const Job *job) {
    if (job->wake) job->wake(job->wake_arg);
}

void job_start(Job *job, double now) {
    pthread_mutex_lock(&job->mutex);
    job->progress.started = now;
    pthread_mutex_unlock(&job->mutex);
    metrics_observe(job->metrics, TIME_QUEUE, now - job->progress.submitted);
}

void job_publish(Job *job, int n_scored, int n_tokens, int cached_tokens) {
    double now = now_seconds();
    int more = n_tokens - job->progress.n_tokens;
    bool first = job->progress.n_tokens == 0;
    double since = first ? job->progress.submitted : job->progress.last_token;
    for (int i = 0; i < more; i++)
        metrics_observe(job->metrics, first ? TIME_FIRST_TOKEN : TIME_BETWEEN, (now - since) / more);
    pthread_mutex_lock(&job->mutex);
    if (more && first) job->progress.first_token = now;
    if (more && !first) job->progress.longest_gap = MAX(job->progress.longest_gap, now - job->progress.last_token);
    if (more) job->progress.last_token = now;
    job->progress.n_scored = n_scored;
    job->progress.n_tokens = n_tokens;
    job->progress.cached_tokens = cached_tokens;
    pthread_mutex_unlock(&job->mutex);
}

void job_finish(Job *job, Finish finish, const char *error) {
    pthread_mutex_lock(&job->mutex);
    job->progress.finish = finish;
    job->progress.finished = now_seconds();
    if (error) snprintf(job->error, sizeof job->error, "%s", error);
    pthread_mutex_unlock(&job->mutex);
    job_wake(job);
    job_release(job);
}

bool job_is_masked(const Job *job) { return job->allowed_ids || job->bad_words; }

bool job_is_end(const Job *job, int id) {
    for (int i = 0; i < job->n_ends; i++)
        if (job->ends[i] == id) return true;
    return false;
}
