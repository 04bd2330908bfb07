/* sampler: logits of one position -> one token. A pure function of (logits, settings, seed, position): docs/spec.md 6.
 *
 * Order of the filters: logit_bias, penalties, temperature, top_k, top_p, min_p (typical_p after top_p when below 1).
 * Candidates are sorted by probability, ties by lower id; the token is the first whose cumulative probability exceeds
 * u times the total, u = word 0 of Philox((position, 0, 0, "SAMP"), seed) mapped to (x + 0.5) / 2^32.
 * temperature 0 is argmax, ties to the lower id.
 *
 * Probabilities are float32 exponentials rounded to multiples of 2^-33, so that every sum of them is exact in float64
 * and the answer does not depend on how the candidates were searched. A NaN logit counts as -INFINITY, +INFINITY as
 * the largest float; a token with a logit of -INFINITY is never chosen. */
#ifndef NOISED_SAMPLER_H
#define NOISED_SAMPLER_H

#include "base/err.h"

typedef struct LogitBias {
    int id;
    float bias;
} LogitBias;

typedef struct Sampling {
    float temperature;        /* 0 = argmax */
    int top_k;                /* 0 = off */
    float top_p, min_p;       /* 1 and 0 = off */
    float typical_p;          /* 1 = off */
    float repetition_penalty; /* 1 = off; divides positive and multiplies negative logits of tokens seen */
    int repetition_window;    /* 0 = all tokens; else so many of the last */
    float frequency_penalty, presence_penalty; /* 0 = off; of generated tokens only */
    const LogitBias *bias;                     /* owned by the caller, for as long as the Sampling is used; ids distinct
                                                  and below V */
    int n_bias;
    uint64_t seed;
} Sampling;

/* One thread's working memory; the functions that draw and score allocate nothing. */
typedef struct SampleScratch {
    float *logits, *weights, *typical, *masked; /* [V] */
    uint16_t *buckets;                          /* [V] */
    double *logs;                               /* [V] */
    int *candidates;                            /* [V] */
    int *shortlist;                             /* [V] */
    int *counts;                                /* [V], zero between calls */
} SampleScratch;
void sample_scratch_init(SampleScratch *s, int vocab);
void sample_scratch_free(SampleScratch *s);

/* logits with -INFINITY for all but the n ids that are allowed: drawn from and scored like any others, they give the
 * probabilities among these alone. In the scratch, until the next call. */
const float *mask_logits(const float *logits, int vocab, const int *allowed, int n, SampleScratch *scratch);

/* history[0..n_prompt) is the prompt, history[n_prompt..n_history) what was generated so far; n_history is the
 * absolute position of the token to be drawn. banned ids (EOS before min_tokens) are never chosen. -1 when no token is
 * left to choose from. */
int sample_token(const Sampling *s, const float *logits, int vocab, const int *history, int n_prompt, int n_history,
                 const int *banned, int n_banned, SampleScratch *scratch);

/* The same, once more, because what was drawn before may not come: attempt 0 is sample_token's. Of what the filters
 * leave of logits only tokens are drawn whose element of `within` [V] is not -INFINITY (NULL: all); -1 when these are
 * none. What is drawn in the end, whatever was refused on the way, has the probabilities that the filters leave, among
 * the tokens that may come. `within` may be scratch->masked. */
typedef struct Attempt {
    int number;
    const float *within;
} Attempt;
int sample_again(const Sampling *s, Attempt attempt, const float *logits, int vocab, const int *history, int n_prompt,
                 int n_history, const int *banned, int n_banned, SampleScratch *scratch);

/* Natural-log probabilities of the model itself, before any filter: lp = logit - log sum exp, reduced in one fixed
 * order so that scoring and decoding agree bit for bit. */
typedef struct TokenLogprob {
    int id;
    float logprob;
} TokenLogprob;

/* Fills *chosen for token `id` and top[0..n_top) with the n_top most probable tokens, best first, ties by lower id.
 * Entries beyond what the vocabulary has are {-1, -INFINITY}; NaN logits make every logprob NaN. */
void token_logprobs(const float *logits, int vocab, int id, float *chosen, TokenLogprob *top, int n_top);

/* The same of what sample_token draws from, whose token is id: bias, penalties and temperature have acted, and what the
 * filters leave adds up to 1. With temperature 0 that is the token alone. What they drop follows in the order of its
 * logits, with -INFINITY. */
void sampled_logprobs(const Sampling *s, const float *logits, int vocab, const int *history, int n_prompt,
                      int n_history, const int *banned, int n_banned, SampleScratch *scratch, int id, float *chosen,
                      TokenLogprob *top, int n_top);

/* Seeds of choice c (docs/spec.md 6): c = 0 the request's own, else derived from it. */
uint64_t choice_seed(uint64_t request_seed, int c);

#endif
