/* engine: the one thread that computes. Integers in, integers out: no JSON, no text, no socket.
 *
 * One step = one batch: admit -> plan (decode rows first, then prefill chunks) -> forward once -> sample -> push ->
 * retire. A Job is one choice of one request: a prompt of token ids and what to do with it. Its tokens come back in
 * an array sized for all of them, so pushing never blocks and a slow reader never holds up anybody else.
 *
 * A job's result depends on the checkpoint and the job alone, bit for bit: not on the other jobs, the thread count,
 * the chunk size or on what the cache already held. */
#ifndef NOISED_ENGINE_H
#define NOISED_ENGINE_H

#include "base/err.h"
#include "server/engine/job.h"
#include "server/metrics/metrics.h"
#include "weights/checkpoint.h"

typedef struct EngineOptions {
    int threads;       /* OpenMP team; 0 = all cores */
    int max_batch;     /* sequences running together */
    int prefill_chunk; /* prompt rows per step at most */
    int max_queue;     /* jobs that wait */
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

/* All jobs of one request, which have one tenant, or none: at most max_queue jobs wait together, so a request of more
 * is never taken. Token ids must be below the vocabulary size. On SUBMIT_OK the engine holds a reference to each.
 * QUEUE_FULL sets *retry_after (seconds, from the predicted wait). TOO_LONG: job_positions exceed the context or the
 * whole cache.
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
