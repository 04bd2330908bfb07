/* zero_shot: how likely a language model finds the continuations of questions, through the serving path.
 *
 * The tokens of a continuation are those of the whole text (context, delimiter, continuation) behind as many as the
 * context alone has; its log-likelihood is the sum of their log-probabilities, added in order in float64. So
 * /v1/completions gives the same numbers bit for bit: the whole as the prompt (text or ids), echo, logprobs 1,
 * max_tokens 0, and the last token_logprobs added up. Where the daemon puts a token in front of a text, it stands here;
 * before a query that is empty stands the token that starts a document. */
#ifndef NOISED_ZERO_SHOT_H
#define NOISED_ZERO_SHOT_H

#include "trainer/tasks/questions.h"
#include "weights/checkpoint.h"

typedef struct ZeroShot {
    const Checkpoint *checkpoint; /* with a tokenizer */
    const char *delimiter;
    bool truncate; /* a text longer than the context loses its first tokens; else it is refused */
    NoiseKey noise;
    int (*stopped)(void); /* NULL, or asked between batches whether to go on (0) */
} ZeroShot;

/* A question with one of its choices. */
typedef struct Likelihood {
    int question, choice, n_tokens; /* of the continuation */
    double log_likelihood;          /* nats */
    bool greedy;                    /* each token was the likeliest */
} Likelihood;

typedef struct ZeroShotScore {
    int n, truncated;                /* questions; texts that were cut */
    double acc, acc_error;           /* the likeliest choice is right, the first of equals; standard error */
    double acc_norm, acc_norm_error; /* by log-likelihood per character of the choice */
    double chance, majority;         /* accuracy of guessing, and of always naming the most frequent place */
    double perplexity;               /* exp of the mean of -log-likelihood; of cloze questions, whose acc is greedy */
} ZeroShotScore;

/* likelihoods [q->n_choices], in the order of the questions and their choices. All texts are encoded and checked before
 * the first is computed. 1 when it was stopped, -1 on error, which names file and line: a continuation without tokens
 * of its own, a text beyond the context. All ranks call it alike (ranks.h), and each computes its share: a text
 * has its numbers whatever stands beside it. */
int zero_shot(const ZeroShot *z, const Questions *q, Likelihood *likelihoods, int *truncated, Err *err);

ZeroShotScore zero_shot_score(const Questions *q, const Likelihood *likelihoods);

#endif
