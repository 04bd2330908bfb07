#include "server/engine/constrained.h"

#include "base/err.h"
#include "base/memory.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

int constrained_scratch_init(ConstrainedScratch *s, int vocab) {
    *s = (ConstrainedScratch){.form = form_scratch_new(), .ids = try_malloc((size_t)vocab * sizeof *s->ids)};
    return s->form && s->ids ? 0 : -1;
}

void constrained_scratch_free(ConstrainedScratch *s) {
    form_scratch_free(s->form);
    free(s->ids);
    *s = (ConstrainedScratch){0};
}

/* One draw, on its way. */
typedef struct Draw {
    const Job *job;
    const float *logits;
    int vocab, n_history;
    const int *history;
    bool banned;
    SampleScratch *sampling;
    ConstrainedScratch *own;
} Draw;

static int attempt(const Draw *d, int number, const float *logits, const float *within) {
    const Job *job = d->job;
    return sample_again(&job->sampling, (Attempt){number, within}, logits, d->vocab, d->history, job->n_prompt,
                        d->n_history, job->ends, d->banned ? job->n_ends : 0, d->sampling);
}

static bool may_come(const Draw *d, int id) {
    const Job *job = d->job;
    if (job_is_end(job, id)) return form_may_end(job->walk);
    return vocabulary_test(job->vocabulary, job->walk, id, d->own->form);
}

/* Into sampling->masked: the number of tokens that may come, or CONSTRAINED_TOO_LONG. */
static int mask(const Draw *d, int64_t *visits) {
    const Job *job = d->job;
    int *ids = d->own->ids, n = 0, found = vocabulary_mask(job->vocabulary, job->walk, d->own->form, ids, visits);
    if (found < 0) return CONSTRAINED_TOO_LONG;
    for (int i = 0; i < found; i++)
        if (!job_is_end(job, ids[i])) ids[n++] = ids[i];
    float *masked = d->sampling->masked;
    mask_logits(d->logits, d->vocab, ids, n, d->sampling);
    for (int i = 0; i < job->n_ends && form_may_end(job->walk) && !d->banned; i++, n++)
        masked[job->ends[i]] = d->logits[job->ends[i]];
    return n;
}

/* The first token of a few that may come; CONSTRAINED_NONE when there was none. */
static int try_some(const Draw *d) {
    float *masked = d->sampling->masked;
    for (int a = 0; a < CONSTRAINED_ATTEMPTS; a++) {
        int id = attempt(d, a, d->logits, a ? masked : NULL);
        if (id < 0 || may_come(d, id)) return id;
        if (a == 0) memcpy(masked, d->logits, (size_t)d->vocab * sizeof *masked);
        masked[id] = -INFINITY;
    }
    return CONSTRAINED_NONE;
}

int constrained_draw(const Job *job, const float *logits, int vocab, const int *history, int n_history, bool banned,
                     SampleScratch *sampling, ConstrainedScratch *own, const float **scored, int64_t *visits) {
    const Draw d = {job, logits, vocab, n_history, history, banned, sampling, own};
    const float *masked = *scored = sampling->masked;
    int id = try_some(&d);
    *visits = 0;
    if (id >= 0 && job->n_top < 0) return id;
    int n = mask(&d, visits);
    if (n <= 0) return n < 0 ? n : CONSTRAINED_NONE;
    if (id < 0) id = attempt(&d, CONSTRAINED_ATTEMPTS, logits, masked);
    if (id < 0) id = attempt(&d, CONSTRAINED_ATTEMPTS, masked, NULL); /* the filters leave none of them */
    return id;
}

bool constrained_take(const Job *job, int id, ConstrainedScratch *own) {
    BUG_ON(!vocabulary_take(job->vocabulary, job->walk, id, own->form));
    return form_is_over(job->walk);
}
