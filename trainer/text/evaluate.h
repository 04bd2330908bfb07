/* evaluate: the loss on held-out text, computed by the serving path (nothing recorded, serving kernels, no cache but
 * the same bits as with one), so that the number is about the very code that serves. */
#ifndef NOISED_EVALUATE_H
#define NOISED_EVALUATE_H

#include "base/err.h"
#include "model/transformer.h"
#include "trainer/text/corpus.h"

typedef struct Evaluation {
    double nats;   /* summed over tokens; of sequences with components, unless the noise names one, -log mean_z p */
    size_t tokens; /* predicted: all of the span but the first, unless sampled or stopped; those masked, of a fill-mask
                      model, whose masks are the same whenever it is evaluated */
    /* Of components, else 0, in nats: how unlike each other their shares are in the mean over windows, and how much of
     * that a window tells of its own: H(mean_w p(z | w)), and that less mean_w H(p(z | w)). */
    double entropy, information;
    bool complete; /* false when it was cut short */
} Evaluation;

/* What sees an evaluation: called before each part of it, when `done` of `parts` are computed; not 0 cuts it short. */
typedef struct EvaluationWatch {
    int (*part)(void *self, int64_t done, int64_t parts);
    void *self;
} EvaluationWatch;

/* Windows of `length` tokens (0: max_positions) and their successors, side by side; the last may be shorter. At most
 * max_windows of them, evenly spaced (0 = all). `noise` applies to every window: stream 0, the same seed. `watch`
 * may be NULL. */
int evaluate(const Model *m, TokenSpan span, int length, size_t max_windows, NoiseKey noise,
             const EvaluationWatch *watch, Evaluation *out, Err *err);

/* All windows, by all ranks, who call it alike (ranks.h): each computes its share, and all get what one would have. */
int evaluate_on_ranks(const Model *m, TokenSpan span, int length, NoiseKey noise, Evaluation *out, Err *err);

#endif
