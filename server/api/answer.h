/* answer: what the engine's work for one request becomes, of any kind: completions, pooling (pooling.h).
 *
 * An answer belongs to one thread at a time; only `wake` is called from others. */
#ifndef NOISED_API_ANSWER_H
#define NOISED_API_ANSWER_H

#include "server/api/context.h"
#include "server/engine/engine.h"

/* Borrowed, constant while the server runs, but for `cut`. */
typedef struct AnswerContext {
    const ApiContext *api;
    Engine *engine;
    const atomic_bool *cut; /* true: end what is unfinished with an error, now */
    Metrics *metrics;
} AnswerContext;

/* Who asks. wake(wake_arg) is called from the engine's thread whenever a poll may have news, and perhaps once more
 * after the answer is gone. */
typedef struct Requester {
    uint64_t tenant, client; /* as a job's */
    double arrived;          /* now_seconds() when the request was there */
    void (*wake)(void *);
    void *wake_arg;
} Requester;

/* How it went so far, or in the end. */
typedef struct AnswerSummary {
    int prompt_tokens, completion_tokens;
    int64_t most_completion_tokens;            /* what the latter may come to */
    int choices, running;                      /* jobs; those that have begun and not ended */
    double submitted;                          /* now_seconds() */
    double queue_seconds, first_token_seconds; /* the longest wait and the first token of all jobs; -1: not yet */
    int tokens;                                /* that the engine has drawn, before what the answer leaves out */
    double longest_gap;                        /* seconds between two tokens of a job, or since its last; -1: none */
    int n_gaps;                                /* between the tokens of each job, all jobs together, and: */
    double gap_seconds;                        /* their sum */
    int64_t seed, noise_seed;                  /* of the first job; -1: without effect */
    const char *fingerprint;                   /* borrowed from the answer */
    Finish finish;                             /* of several the last of: stop, length, deadline, cancelled, error */
} AnswerSummary;

typedef struct AnswerKind AnswerKind;
struct AnswerKind {
    /* Reads the body by the route's fields and hands the jobs to the engine. NULL with e filled otherwise. Names of
     * fields that were left aside go to *ignored. */
    void *(*start)(const AnswerKind *kind, const AnswerContext *ctx, const FieldList *fields, const char *body,
                   size_t n, const Requester *requester, Buffer *ignored, ApiError *e);
    /* Appends what is new to out. True when the answer is complete; then *status is its HTTP status (a stream's is 200
     * whatever happens, errors are events of it). When memory runs out that is so too: out->failed is set, whole events
     * are in it, and the status is 503. */
    bool (*poll)(void *answer, Buffer *out, int *status);
    /* Whether poll has left to its next calls what takes so long to write that nobody should wait for it: a complete
     * answer of many numbers, a piece a call, or of a stream with diversity the end. */
    bool (*is_long)(const void *answer);
    bool (*streams)(const void *answer); /* NULL: never */
    AnswerSummary (*summary)(const void *answer);
    void (*free)(void *answer); /* cancels what still runs */
    const void *form;           /* for start: what distinguishes kinds of the same functions */
};

/* ---- for the kinds ---- */

/* Hands all jobs of a request to the engine, or none: -1 with e filled. `too_long` names the field that is to blame. */
int answer_submit(const AnswerContext *ctx, Job *const *jobs, int n, const char *too_long, ApiError *e);

/* True, and e says why, when the engine gave the job up. */
bool answer_gave_up(Job *job, Finish finish, ApiError *e);

int answer_shutting_down(ApiError *e); /* a 503, returns -1 */
uint64_t answer_draw_seed(void);
enum { ANSWER_ID = 40 };
void answer_draw_id(char id[ANSWER_ID], const char *before); /* "before-0123456789abcdef01234567" */
/* "noise_seed", null where it acts on nothing; where sequences have components "noise_component", this one's. */
void answer_put_noise(Buffer *b, const Config *c, const NoiseKey *key);
/* A summary of no job, and one with another job, which ended so for the client. */
#define ANSWER_NO_JOB                                                                                                  \
    ((AnswerSummary){.queue_seconds = -1,                                                                              \
                     .first_token_seconds = -1,                                                                        \
                     .longest_gap = -1,                                                                                \
                     .seed = -1,                                                                                       \
                     .noise_seed = -1,                                                                                 \
                     .finish = FINISH_STOP})
void answer_add_job(AnswerSummary *s, const Config *c, const Job *job, const JobProgress *p, Finish finish);
double answer_tokens_per_second(const AnswerSummary *s); /* of one job, on average, behind its first token; -1: none */
const char *answer_finish_name(Finish f);
void answer_count_end(Metrics *m, Finish f); /* how a job ended, when nothing more will come of it */

#endif
