/* runner: runs the admitted jobs, one step = one batch: plan -> forward once -> sample -> push -> retire.
 *
 * A step has max_batch slots. A client that has nothing running may be admitted beyond them, while fewer clients than
 * slots run. Of every client the job that was admitted first takes part in the step, then of every client the second,
 * and so on: the newest job of the client with the most rests, with all that it holds, until there is a slot again.
 *
 * It knows neither queue nor locks: everything is called from the engine thread, except init and free, which come
 * before and after it. After runner_warm_up it allocates nothing. */
#ifndef NOISED_RUNNER_H
#define NOISED_RUNNER_H

#include "base/arena.h"
#include "base/err.h"
#include "server/engine/capacity.h"
#include "server/engine/constrained.h"
#include "server/engine/team_size.h"
#include "server/engine/phases.h"
#include "server/engine/scheduler.h"
#include "weights/checkpoint.h"

typedef struct Runner {
    const Model *model;
    const Shards *files; /* that its weights are in */
    KvCache kv;
    KvPool pool;
    Scheduler scheduler;
    Draft draft; /* zeroed: none */
    Tape tape;
    Sequence *sequences; /* [2 max_batch] */
    Sequence **running;  /* [2 max_batch] the first n_running in order of admission, then those not in use */
    int n_running, max_batch;
    double stream_limit;             /* seconds, 0 = none */
    SampleScratch *scratch;          /* [n_scratch] one per thread of the team */
    ConstrainedScratch *constrained; /* [n_scratch] */
    int n_scratch;
    size_t arena_blocks; /* of the tape after warm-up */
    Phases phases;
    TeamSize team_size;
    int step_tokens;              /* of this step: drawn, and those of the prompts that it completed, cached ones too */
    int step_guessed, step_right; /* of this step: tokens that were tried ahead, and those that were drawn then */
    uint64_t prompt_tokens, generated_tokens, jobs_done, jobs_cancelled;
} Runner;

int runner_init(Runner *r, const Checkpoint *checkpoint, const EngineOptions *o, Err *err);
/* On the thread that will step, with its team set. False when the logits that it gets are not finite. */
bool runner_warm_up(Runner *r);
void runner_free(Runner *r); /* no job may be running */

/* Whether the whole cache and the context have room for so many positions. */
bool runner_holds(const Runner *r, int64_t positions);

bool runner_has_slot(const Runner *r, uint64_t client); /* now, as above */
/* False when the client has something running and the last of the cache should be another's. */
bool runner_spares(const Runner *r, uint64_t client);

/* Takes over the job (and the caller's reference), or returns false when there is no room at the moment. */
bool runner_admit(Runner *r, Job *job);

/* Ends running jobs that are cancelled or past their time, computes the next batch; returns its rows, or -1 when the
 * checkpoint's files were changed meanwhile: nothing of the step is published, nothing more must be computed. */
int runner_step(Runner *r);

/* Ends and counts a job, running or not. */
void runner_finish(Runner *r, Job *job, Finish finish, const char *error);
void runner_end_all(Runner *r, Finish finish);

#endif
