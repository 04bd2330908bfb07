/* job: one choice of one request, or one text to be embedded, from the submitter to the engine and back.
 *
 * Ownership: the submitter allocates a Job with job_new; it has two owners, submitter and engine, each calling
 * job_release once. Fields above the line are written before engine_submit and read-only afterwards; those below are
 * written by the engine only, under job->mutex, and job->wake(wake_arg) is called (without the mutex, from the engine
 * thread) after what a step has changed; it must not block and must not call back into the engine. */
#ifndef NOISED_JOB_H
#define NOISED_JOB_H

#include "model/config.h"
#include "model/sampler.h"
#include "model/tensor.h"
#include "server/engine/bad_words.h"
#include "server/engine/trie.h"
#include "server/form/vocabulary.h"
#include "server/metrics/metrics.h"

#include <pthread.h>
#include <stdatomic.h>

typedef enum Finish {
    FINISH_NONE, /* still running */
    FINISH_STOP, /* EOS or a stop token id, which is the last token pushed, or the last of an answer of trie or form */
    FINISH_LENGTH,   /* max_tokens reached */
    FINISH_DEADLINE, /* cut by its deadline */
    FINISH_CANCELLED,
    FINISH_DISPLACED, /* before it began, for another client's: the queue was full */
    FINISH_DAMAGED,   /* the checkpoint's files were changed under the engine, which computes nothing any more */
    FINISH_ERROR,     /* see job->error */
} Finish;

/* Tokens that continue the prompt; values [d], the hidden row of its last token after the last norm; values [d], the
 * mean of these rows of all its tokens; values [rows, config_outputs], of a network that does not generate: what its
 * head makes of what is pooled, of every row, or of those whose token is the mask. */
typedef struct JobKind JobKind; /* job_kind.h */
extern const JobKind job_tokens, job_last_row, job_mean_row, job_logits;

typedef struct JobToken {
    int id;
    float logprob;     /* of the model itself, before temperature, or sampled_logprobs; valid when n_top >= 0 */
    TokenLogprob *top; /* [n_top], into the job's own storage */
    Finish finish;     /* what the job ends with behind it, or FINISH_NONE */
} JobToken;

/* How far it is. */
typedef struct JobProgress {
    int n_scored;      /* entries of prompt_scores that are ready */
    int n_tokens;      /* tokens pushed so far */
    int cached_tokens; /* prompt tokens taken from shared blocks */
    Finish finish;
    double submitted, started, first_token, last_token, finished; /* now_seconds(); 0 = not yet */
    double longest_gap; /* seconds from one token to the next, at most; 0 before the second */
} JobProgress;

typedef struct Job {
    /* ---- the request: set by the submitter before engine_submit ---- */
    const JobKind *kind;
    int *prompt;  /* [n_prompt], owned by the job, at least 1 token; of an image zeros, one a row */
    float *image; /* [channels, height, width] (Batch.images), owned by the job; NULL for tokens */
    int n_prompt, max_tokens, min_tokens;
    Sampling sampling; /* its bias is the job's (malloc'ed or NULL), freed by the last job_release, on any thread */
    NoiseKey noise, noise_prompt; /* of generated rows and of those of the prompt */
    int n_top;                    /* -1: no logprobs; else number of alternatives per token, 0..20 */
    bool score_sampled;           /* these of what the filters leave; not with a form */
    bool score_prompt;            /* echo with logprobs: also fill prompt_scores */
    int score_from;               /* with it: from this token on, 1 (the first that has a score) unless set; what is
                                     before the token in front of it may come from the cache */
    bool ignore_eos;
    int *stop_ids; /* [n_stop_ids], owned by the job */
    int n_stop_ids;
    int *allowed_ids; /* [n_allowed_ids], owned by the job: only these are drawn; NULL: any */
    int n_allowed_ids;
    BadWords *bad_words; /* NULL, or held by the job */
    Trie *trie;          /* NULL, or the answers that the job may give; held by the job */
    FormWalk *walk; /* NULL, or where the text stands in the form that it keeps to; the job's, the engine moves it */
    const Vocabulary *vocabulary; /* with it: borrowed as long as the engine */
    double deadline;              /* now_seconds() value; 0 = the engine's own limit only */
    uint64_t tenant;              /* who shares cached prompts with whom */
    uint64_t client;      /* the requests of one number share their turns in the queue: a key's or an address's */
    void (*wake)(void *); /* may be NULL */
    void *wake_arg;
    /* ---- the result: guarded by mutex ---- */
    pthread_mutex_t mutex;
    JobToken *prompt_scores; /* [n_prompt], valid from score_from on; entry 0 has no logprob (NaN) */
    JobToken *tokens;        /* [max_tokens] */
    float *values;           /* of kinds that draw no tokens; all there with FINISH_LENGTH */
    JobProgress progress;
    char error[160];
    /* ---- anybody ---- */
    atomic_bool cancelled;
    atomic_int references;
    /* ---- the engine's own ---- */
    Metrics *metrics;
    struct Job *next;      /* queue link */
    uint64_t round;        /* of fair turns */
    uint64_t request;      /* its number, the same for all jobs of one */
    bool begun, displaced; /* some job of the request was taken out of the queue; it must leave it */
    int *ends;             /* [n_ends] stop_ids and, unless ignored, EOS */
    int n_ends;
    int *banned;  /* [n_ends + bad words]; NULL without bad words */
    int *allowed; /* [n_ends + answers of trie] */
} Job;

/* Positions that a job takes up: the last token drawn is never fed back, so it needs none. */
static inline int64_t job_positions(int64_t n_prompt, int64_t max_tokens) {
    return n_prompt + (max_tokens > 0 ? max_tokens - 1 : 0);
}

/* Allocates a job with room for its results. n_top and max_tokens are fixed from here on. NULL when out of memory. */
Job *job_new(const int *prompt, int n_prompt, int max_tokens, int n_top, bool score_prompt);
/* What a job reads that draws no tokens: ids [rows], or a picture. */
typedef struct JobInput {
    const int *ids;
    const float *image; /* [n_floats] */
    size_t n_floats;
    int rows;
} JobInput;
/* One that wants `n_values` numbers and no token. */
Job *job_new_pooling(const JobKind *kind, JobInput input, int n_values);
void job_release(Job *job);
JobProgress job_progress(Job *job);
void job_cancel(Job *job); /* takes effect within one step, in queue, prefill or decode */

/* ---- the engine's side: called from the engine thread ---- */

/* Prepares what only the engine needs; called by the submitter's thread, in engine_submit. -1 when out of memory. */
int job_prepare(Job *job, const Config *c);

void job_start(Job *job, double now);

/* The result so far, whose new entries of prompt_scores and tokens are filled in already. The submitter hears of it by
 * job_wake, once all jobs of a step are published. */
void job_publish(Job *job, int n_scored, int n_tokens, int cached_tokens);
void job_wake(const Job *job);

/* Ends the job, wakes the submitter and drops the engine's reference. `error` belongs to FINISH_ERROR, NULL otherwise.
 */
void job_finish(Job *job, Finish finish, const char *error);

bool job_is_end(const Job *job, int id);
bool job_is_masked(const Job *job); /* not every token may be drawn */

#endif
