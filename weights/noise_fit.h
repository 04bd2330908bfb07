/* noise_fit: noise for a network that was trained without any: one sigma a head, span sequence (docs/spec.md 4), as
 * much of it as turns the next-token distributions by a given number of nats.
 *
 *     sigma_h = r rms(q_h)      q_h the queries of head h as they enter the scores, over all rows of the windows
 *     mean over windows w and rows of KL(plain || seed w) = budget
 *
 * The noise is added to queries, so one r for all heads is the same strength for each: the code that a seed adds is as
 * long as r of a query. Sigma itself would not be: a network with q a and k / a in place of q and k is the same
 * network, and one sigma acts a times less on it. An equal share of the KL for each head would have no bound where a
 * head hardly matters.
 *
 * Windows have NOISE_FIT_LENGTH tokens, or max_positions, and start evenly spaced over the text, the first at its
 * beginning and the last at length tokens before its end; window w has noise seed w. Where a tokenizer wants a token in
 * front of every text, each window begins with it, as prompts do. The forward passes are those that serve, so the same
 * bytes come out on all machines of one arithmetic (model_arithmetic). */
#ifndef NOISED_NOISE_FIT_H
#define NOISED_NOISE_FIT_H

#include "base/err.h"
#include "model/transformer.h"

enum { NOISE_FIT_WINDOWS = 32, NOISE_FIT_LENGTH = 256 };

typedef struct NoiseFit {
    double strength;        /* r */
    double nats;            /* the mean KL, within 0.5% of the budget */
    double least, greatest; /* of a window */
    int length;             /* tokens of a window */
} NoiseFit;

/* m has gaussian noise of scope head and span sequence, whose sigmas, [heads] for each layer, are written; all its
 * other weights are bound. tokens[n] of a text; bos or -1. Fails when the text is shorter than a window, and when the
 * budget is not met by any strength up to 64, where nothing of the queries is left. */
int noise_fit(Model *m, const int *tokens, size_t n, int bos, double budget, NoiseFit *out, Err *err);

#endif
