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
#include "server/engine/capacity.h"
#include "server/engine/job.h"
#include "weights/checkpoint.h"

typedef struct Engine Engine;

/* Starts the thread. The checkpoint is borrowed until engine_stop. */
int engine_start(Engine **out, const Checkpoint *checkpoint, const EngineOptions *options, Err *err);

typedef enum Submit {
    SUBMIT_OK,
    SUBMIT_QUEUE_FULL,
    SUBMIT_TOO_LONG,
    SUBMIT_DRAINING,
    SUBMIT_DAMAGED,
    SUBMIT_NO_MEMORY
} Submit;

/* All jobs of one request, which have one tenant and one client, or none: at most max_queue jobs wait together, so a
 * request of more is never taken. Token ids must be below the vocabulary size. On SUBMIT_OK the engine holds a
 * reference to each.
 *
 * Clients take turns (queue.h). Where the queue is full, requests that have not begun make room for those of a client
 * that has less waiting: their jobs end as FINISH_DISPLACED. A client that has nothing running has a slot in the next
 * step, while fewer clients than slots run: another's job rests meanwhile (runner.h). And while clients alternate, one
 * that has something running leaves the last of the cache to the others.
 *
 * QUEUE_FULL sets *retry_after (seconds, from the predicted wait). TOO_LONG: job_positions exceed the context or the
 * whole cache.
 */
Submit engine_submit(Engine *e, Job *const *jobs, int n, double *retry_after);

double engine_wait(Engine *e); /* the predicted wait in the queue, seconds */

void engine_drain(Engine *e); /* new jobs are refused, accepted ones finish */
void engine_stop(Engine *e);  /* cancels what is left, joins the thread, frees */

typedef struct EngineStats {
    int running, queued;
    double wait;                   /* of a new job in the queue, as predicted, seconds; 0: none is waiting */
    int kv_blocks, kv_blocks_used; /* used: by running jobs; kept prefixes do not count, as they give way */
    int threads;                   /* that compute: fewer than the team's where other programs have its cores */
    const char *kv_type;           /* what the cache holds: F32 or BF16 */
    uint64_t steps, prompt_tokens, generated_tokens, jobs_done, jobs_cancelled;
    bool damaged;         /* the checkpoint's files are not what was mapped: every job ends as FINISH_DAMAGED */
    bool broken;          /* the model's logits are NaN or infinite from the start */
    bool no_memory;       /* it could not warm up, and takes no jobs */
    double heartbeat_age; /* seconds since the engine thread last showed life; INFINITY before it is ready */
} EngineStats;
EngineStats engine_stats(Engine *e);

#endif
