/* engine: the one thread that computes. Integers in, integers out: no JSON, no text, no socket.
 *
 * One step = one batch: admit -> plan (decode rows first, then prefill chunks) -> forward once -> sample -> push ->
 * retire. A Job is one choice of one request: a prompt of token ids and what to do with it. Its tokens come back in
 * an array sized for all of them, so pushing never blocks and a slow reader never holds up anybody else.
 *
 * A job's result depends on the checkpoint and the job alone, bit for bit: not on the other jobs, the thread count,
 * the chunk size or on what the cache already held.
 *
 * Ownership: the submitter allocates a Job with job_new; it has two owners, submitter and engine, each calling
 * job_release once. Fields above the line are written before engine_submit and read-only afterwards; those below are
 * written by the engine only, under job->mutex, and job->wake(wake_arg) is called (without the mutex, from the engine
 * thread) after each change; it must not block and must not call back into the engine. */
#ifndef NOISED_ENGINE_H
#define NOISED_ENGINE_H

#include "base/err.h"
#include "model/sampler.h"
#include "server/metrics/metrics.h"
#include "weights/checkpoint.h"

#include <pthread.h>
#include <stdatomic.h>

typedef enum Finish {
    FINISH_NONE,     /* still running */
    FINISH_STOP,     /* EOS or a stop token id, which is the last token pushed */
    FINISH_LENGTH,   /* max_tokens reached */
    FINISH_DEADLINE, /* cut by its deadline */
    FINISH_CANCELLED,
    FINISH_DAMAGED, /* the checkpoint's files were changed under the engine, which computes nothing any more */
    FINISH_ERROR,   /* see job->error */
} Finish;

typedef struct JobToken {
    int id;
    float logprob;     /* of the model itself, before temperature; valid when n_top >= 0 */
    TokenLogprob *top; /* [n_top], into the job's own storage */
} JobToken;

typedef struct Job {
    /* ---- the request: set by the submitter before engine_submit ---- */
    int *prompt; /* [n_prompt], owned by the job, at least 1 token */
    int n_prompt, max_tokens, min_tokens;
    Sampling sampling; /* sampling.bias is owned by the job (may be NULL) */
    uint64_t noise_seed, noise_prompt_seed;
    float noise_scale;
    int n_top;         /* -1: no logprobs; else number of alternatives per token, 0..20 */
    bool score_prompt; /* echo with logprobs: also fill prompt_scores */
    bool ignore_eos;
    int *stop_ids; /* [n_stop_ids], owned by the job */
    int n_stop_ids;
    double deadline;      /* now_seconds() value; 0 = the engine's own limit only */
    uint64_t tenant;      /* key of fair queueing and of cache sharing */
    void (*wake)(void *); /* may be NULL */
    void *wake_arg;
    /* ---- the result: guarded by mutex ---- */
    pthread_mutex_t mutex;
    JobToken *prompt_scores; /* [n_prompt]; entry 0 has no logprob (NaN) and no alternatives */
    int n_scored;            /* entries of prompt_scores that are ready */
    JobToken *tokens;        /* [max_tokens] */
    int n_tokens;            /* tokens pushed so far */
    Finish finish;
    char error[160];
    double submitted, started, first_token, last_token, finished; /* now_seconds(); 0 = not yet */
    int cached_tokens;                                            /* prompt tokens taken from shared blocks */
    /* ---- anybody ---- */
    atomic_bool cancelled;
    atomic_int references;
    /* ---- the engine's own ---- */
    Metrics *metrics;
    struct Job *next; /* queue link */
    uint64_t round;   /* of fair turns */
    int *ends;        /* [n_ends] stop_ids and, unless ignored, EOS */
    int n_ends;
} Job;

/* Positions that a job takes up: the last token drawn is never fed back, so it needs none. */
static inline int64_t job_positions(int64_t n_prompt, int64_t max_tokens) {
    return n_prompt + (max_tokens > 0 ? max_tokens - 1 : 0);
}

/* Allocates a job with room for its results. n_top and max_tokens are fixed from here on. NULL when out of memory. */
Job *job_new(const int *prompt, int n_prompt, int max_tokens, int n_top, bool score_prompt);
void job_release(Job *job);
void job_cancel(Job *job); /* takes effect within one step, in queue, prefill or decode */

typedef struct EngineOptions {
    int threads;       /* OpenMP team; 0 = all cores */
    int max_batch;     /* sequences running together */
    int prefill_chunk; /* prompt rows per step at most */
    int max_queue;
    int kv_tokens; /* capacity of the cache in tokens, all sequences together; 0 = max_batch full contexts, capped */
    Dtype kv_dtype;
    KvForm kv_form;      /* a form that config_check_kv_form refuses is an error of engine_start */
    double stream_limit; /* seconds from its start until a job is cut (FINISH_DEADLINE); 0 = none */
    double queue_limit;  /* seconds in the queue until it fails (FINISH_ERROR); 0 = none */
    Metrics *metrics;    /* where steps and times are counted; borrowed, may be NULL */
} EngineOptions;

typedef struct Engine Engine;

/* What it will allocate: known before it does. */
typedef struct EngineFootprint {
    int kv_tokens;
    size_t kv_bytes, work_bytes; /* the cache; what the largest batch takes */
} EngineFootprint;
EngineFootprint engine_footprint(const Model *m, const EngineOptions *options);

/* Starts the thread. The checkpoint is borrowed until engine_stop. */
int engine_start(Engine **out, const Checkpoint *checkpoint, const EngineOptions *options, Err *err);

typedef enum Submit { SUBMIT_OK, SUBMIT_QUEUE_FULL, SUBMIT_TOO_LONG, SUBMIT_DRAINING, SUBMIT_DAMAGED } Submit;

/* All jobs of one request, which have one tenant, or none: a request is taken whole while fewer than max_queue jobs
 * wait. Token ids must be below the vocabulary size. On SUBMIT_OK the engine holds a reference to each. QUEUE_FULL sets
 * *retry_after (seconds, from the predicted wait). TOO_LONG: job_positions exceed the context or the whole cache.
 */
Submit engine_submit(Engine *e, Job *const *jobs, int n, double *retry_after);

void engine_drain(Engine *e); /* new jobs are refused, accepted ones finish */
bool engine_idle(Engine *e);  /* nothing queued, nothing running */
void engine_stop(Engine *e);  /* cancels what is left, joins the thread, frees */

typedef struct EngineStats {
    int running, queued;
    int kv_blocks, kv_blocks_used; /* used: by running jobs; kept prefixes do not count, as they give way */
    uint64_t steps, prompt_tokens, generated_tokens, jobs_done, jobs_cancelled;
    bool damaged;         /* the checkpoint's files are not what was mapped: every job ends as FINISH_DAMAGED */
    bool broken;          /* the model's logits are NaN or infinite from the start */
    double heartbeat_age; /* seconds since the engine thread last showed life; INFINITY before it is ready */
} EngineStats;
EngineStats engine_stats(Engine *e);

#endif
