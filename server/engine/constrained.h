/* constrained: the next token of a job whose text keeps to a form (docs/spec.md 6). The token is drawn as always and
 * its bytes are tried; one that may not come is left out, and drawn again. Where CONSTRAINED_ATTEMPTS in a row may not
 * come, or the filters leave none, all tokens that may come are found by the trie of the vocabulary. */
#ifndef NOISED_CONSTRAINED_H
#define NOISED_CONSTRAINED_H

#include "server/engine/job.h"

enum { CONSTRAINED_ATTEMPTS = 4 };
enum { CONSTRAINED_NONE = -1, CONSTRAINED_TOO_LONG = -2 };

/* What each thread of the team has. */
typedef struct ConstrainedScratch {
    FormScratch *form;
    int *ids; /* [V] tokens that may come */
} ConstrainedScratch;

int constrained_scratch_init(ConstrainedScratch *s, int vocab); /* -1 when memory runs out */
void constrained_scratch_free(ConstrainedScratch *s);

/* The token at position n_history, and in *scored, where the job has log-probabilities, the logits among which it was
 * drawn, those of the others being -INFINITY: in sampling->masked. CONSTRAINED_NONE: no token may come;
 * CONSTRAINED_TOO_LONG: to find out takes too long (vocabulary.h). `banned`: the tokens that end a text are. *visits:
 * what it took, as vocabulary_mask counts. */
int constrained_draw(const Job *job, const float *logits, int vocab, const int *history, int n_history, bool banned,
                     SampleScratch *sampling, ConstrainedScratch *own, const float **scored, int64_t *visits);

/* Goes on behind the token, which is none that ends the text; true when nothing may follow. */
bool constrained_take(const Job *job, int id, ConstrainedScratch *own);

#endif
