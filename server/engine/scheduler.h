/* scheduler: the sequences that run, and which of their rows make up the next batch.
 *
 * Decode rows come first, one for every sequence whose prompt is done; then prompt rows, first come, first served, at
 * most `prefill_chunk` of them and at most SCORED_ROWS whose logits are wanted for scoring. Beside decode rows there
 * are fewer. What is left of all prompts goes over PROMPT_STEPS steps, lest all streams wait long for one newcomer; but
 * LEAST_ROWS and LEAST_ROWS_EACH for each decode row at least, with which a step takes about twice as long as without;
 * and at most PROMPT_ROWS_EACH for each (with fewer, streams end faster than long prompts replace them, and half of the
 * slots wait), three times as long, or PROMPT_ROWS beside few, for a step of few rows costs what the weights cost. A
 * sequence whose next prompt block is shared and ready skips it; if another one computes that block in this very step,
 * it waits for the next. Arrays are made once; one thread.
 *
 * With `guess` or a draft, decode rows are followed by those of tokens that may come next (guess.h, draft.h), as long
 * as there are at most DECODE_ROWS of both: a step of few rows costs what the weights cost.
 *
 * Where more run than there are places, clients take turns; and of those whose forms take long to find out what may
 * come as many draw in a step as take as long together as one may (vocabulary.h), for all others wait for that.
 *
 * A network that does not generate (config_generates) reads whole sequences: a step has as many as fit, in the order
 * they came. */
#ifndef NOISED_SCHEDULER_H
#define NOISED_SCHEDULER_H

#include "server/engine/draft.h"
#include "server/engine/guess.h"
#include "server/engine/job.h"
#include "server/engine/kv_pool.h"

enum { LEAST_ROWS = 32, LEAST_ROWS_EACH = 2, PROMPT_ROWS = 128, PROMPT_ROWS_EACH = 6, PROMPT_STEPS = 8 };
enum { DECODE_ROWS = 8 };
/* Bounds the logits of a step to max_batch + SCORED_ROWS rows of a whole vocabulary; so a text has no more masks. */
enum { SCORED_ROWS = 128 };

typedef struct Sequence {
    Job *job;    /* NULL: not in use */
    int *tokens; /* [context + 1] the prompt, then what was generated; behind n_tokens what is guessed */
    int *blocks; /* [n_blocks] of the cache, room for a whole context */
    int n_blocks;
    int n_shared;        /* rows of the prompt that are shared: n_prompt, or those in front of what is scored */
    int copy_from;       /* block of which the next step begins with a copy, -1 if none; a reference to it is held */
    int n_tokens;        /* known */
    int n_prompt;        /* rows of the prompt to compute: all, or all but the last when nothing is generated */
    int n_rows;          /* rows in the cache, of tokens that are known */
    int n_cached;        /* of these, rows that somebody else computed */
    int n_read;          /* rows of logits that a pooling request has got */
    int round;           /* of its client, so many came before it */
    bool rests;          /* takes no part in this step */
    int64_t form_visits; /* that the last draw took of job->walk (constrained.h) */
    TrieNode node;       /* of job->trie, where it stands */
    Guess guess;
    DraftTrust draft;
    int step_rows;     /* in the batch of this step */
    int step_guessed;  /* the last of them, of tokens that are guessed */
    bool step_drafted; /* by the draft */
    int step_wanted;   /* the last of them, whose logits are wanted */
    bool step_news;    /* the step brought something for the submitter, and perhaps the end: */
    Finish step_finish;
} Sequence;

/* Whose a wanted row is: it predicts the token at `position`. */
typedef struct Wanted {
    Sequence *sequence;
    int position;
} Wanted;

enum { HEAD_OF_ROWS = -1, HEAD_OF_SEQUENCES = -2 }; /* of all rows; of none: the head reads what is pooled */

typedef struct Scheduler {
    Batch batch;        /* points into the arrays below */
    int *tokens, *rows; /* [max_batch + prefill_chunk] */
    Wanted *wanted;     /* [max_batch + prefill_chunk], beside batch.want */
    int *
        logit_rows; /* [n_logit_rows] which of the wanted rows' logits are needed, ascending: not of pooling requests */
    int n_logit_rows;
    bool guess;
    Draft *draft;   /* NULL: there is none */
    bool whole;     /* sequences come whole; all their rows are wanted */
    int head_token; /* whole: rows of this token have logits, or: */
    float *images;  /* [max_batch, image_floats], beside the segments */
    size_t image_floats;
    int image_rows;
    Segment *segments; /* [max_batch + prefill_chunk] */
    int prefill_chunk, prompt_rows;
    uint64_t step;
} Scheduler;

/* Rows of prompts that a step has at most: prefill_chunk, or those of the longest sequence where it must come whole. */
int scheduler_chunk(const Config *c, int prefill_chunk);

void scheduler_init(Scheduler *p, const Config *c, int max_batch, int prefill_chunk);
void scheduler_free(Scheduler *p);

int sequences_of(Sequence *const *running, int n, uint64_t client); /* of the first n that run */

/* Which of them rest in the next step. */
void scheduler_share(Sequence *const *running, int n, int max_batch);

/* The batch of the next step; batch.n is 0 when there is nothing to compute. */
void scheduler_step(Scheduler *p, Sequence *const *running, int n, const KvPool *pool);

/* After the forward pass: the rows are in the cache, those of guesses on trial. */
void scheduler_commit(Sequence *s, const KvPool *pool);

/* The largest batch there can be: what memory must be there for. Every sequence is at the end of a context and all
 * segments use `blocks` [ceil(context / KV_BLOCK)]; or they are as many whole sequences as there can be. */
void scheduler_largest(Scheduler *p, int max_batch, int context, const int *blocks);

#endif
