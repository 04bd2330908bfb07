/* draft: a small network that has the same tokens says what may come next (speculative decoding: Leviathan, Kalman and
 * Matias, ICML 2023). Its tokens are drawn as the text's own will be, by the job's settings, seed and position, and
 * tried ahead as guesses are (guess.h): kept as long as they are what is drawn. So nothing is accepted by lot as
 * there, and the answer is the same, bit for bit, whatever the draft is.
 *
 * How many tokens pay, each right with probability a, when a pass of the draft costs c of a step: n for which
 *
 *     (1 + a + ... + a^n) / (1 + n c)
 *
 * is most, if any is above 1. a is learned for each text, which begins with that of those before it; c is what the
 * weights of both weigh, for a pass of few rows costs what they do, and a sixth for the row that is tried. Where
 * nothing pays one token is tried now and then.
 *
 * Up to DRAFT_TEXTS texts are in its cache at a time, with what they share of tokens with the last in their place. The
 * draft has no noise, for the text's own is none of its weights'; but of components, where both have as many, the
 * means. Its files may be changed under it: then its guesses get worse, and nothing else happens.
 *
 * The engine thread's, but for init and free. After draft_warm_up nothing is allocated. */
#ifndef NOISED_DRAFT_H
#define NOISED_DRAFT_H

#include "model/sampler.h"
#include "model/transformer.h"
#include "server/engine/job.h"

enum { DRAFT_TEXTS = 4, DRAFT_ROWS = 128 }; /* rows of a pass at most; a longer text comes in over several steps */

typedef struct DraftText {
    const void *whose;
    NoiseKey noise;
    int *tokens; /* [context] of the rows in the cache */
    int n_rows;
    int *blocks;   /* [kv_blocks(context)] */
    uint64_t step; /* when it was asked about last */
} DraftText;

typedef struct Draft {
    const Model *model;
    int context;     /* tokens that it can read */
    double cost;     /* c */
    double right;    /* a of all texts */
    bool components; /* as many as the model has */
    KvCache kv;
    Tape tape;
    SampleScratch scratch;
    DraftText texts[DRAFT_TEXTS];
    int tokens[DRAFT_ROWS];
    uint64_t step;
} Draft;

/* What is asked about a text; zeroed but for the first four. */
typedef struct DraftAsk {
    void *whose; /* tells texts apart */
    const Job *job;
    int *tokens; /* n_tokens that are known, and room for `most`, one at least */
    int n_tokens, most;
    int n; /* the answer: so many were written behind them */
    bool over;
    DraftText *text;
} DraftAsk;

/* Zeroed but for right, the draft's, when a text begins. */
typedef struct DraftTrust {
    double right; /* a */
    int rest;     /* steps since a token was tried */
} DraftTrust;

/* Of which model it is the draft. Both are borrowed. */
int draft_init(Draft *d, const Model *m, const Model *of, Err *err);
size_t draft_memory(const Model *m, const Model *of); /* bytes */
void draft_warm_up(Draft *d);
void draft_free(Draft *d); /* zeroed is fine */

/* How many tokens to ask for behind n_tokens, `most` at most. */
int draft_plan(const Draft *d, DraftTrust *t, int n_tokens, int most);
void draft_next(Draft *d, DraftAsk *asks, int n); /* n <= DRAFT_TEXTS */
/* Of `guessed` tokens, one at least, the first `right` were drawn. */
void draft_learn(Draft *d, DraftTrust *t, int guessed, int right);

#endif
