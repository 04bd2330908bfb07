#include "trainer/tasks/zero_shot.h"

#include "base/fixed_math.h"
#include "base/memory.h"
#include "base/utf8.h"
#include "model/sampler.h"
#include "trainer/ranks/ranks.h"
#include "trainer/tasks/scores.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { ROWS = 512 }; /* computed together, unless one text is longer */

/* All texts: that of likelihood k is tokens first[k] .. first[k + 1] - 1. */
typedef struct Encoded {
    TokenList tokens;
    size_t *first; /* [n + 1] */
    int n;
} Encoded;

static int encode(const ZeroShot *z, const char *text, size_t n, TokenList *out, Err *err) {
    const Checkpoint *c = z->checkpoint;
    int start = tokenizer_bos(c->tokenizer);
    if (start < 0 && n == 0)
        start = c->model.cfg.bos_token_id >= 0 ? c->model.cfg.bos_token_id : c->model.cfg.eos_token_id;
    if (start >= 0)
        token_list_push(out, start);
    else if (n == 0)
        return err_set(err, "the query is empty, and the model has no token to start a document with");
    return tokenizer_encode(c->tokenizer, text, n, true, out, err);
}

/* Tokens of context, delimiter and continuation; *n_context of them are the context's. */
static int encode_choice(const ZeroShot *z, const char *before, const char *after, TokenList *whole, size_t *n_context,
                         Err *err) {
    static const char blanks[] = " \t\n\r\v\f";
    size_t n = strlen(before) + strlen(z->delimiter), n_whole = n + strlen(after);
    char *text = xmalloc(n_whole + 1);
    TokenList context = {0};
    snprintf(text, n_whole + 1, "%s%s%s", before, z->delimiter, after);
    while (n > 0 && strchr(blanks, text[n - 1])) n--;
    int rc = encode(z, text, n, &context, err);
    *n_context = context.n;
    /* An empty query has its start in both; the daemon gives a text none that does not ask for one. */
    if (rc == 0 && n == 0) token_list_push(whole, context.ids[0]);
    if (rc == 0)
        rc = n ? encode(z, text, n_whole, whole, err)
               : tokenizer_encode(z->checkpoint->tokenizer, text, n_whole, true, whole, err);
    token_list_free(&context);
    free(text);
    return rc;
}

/* Appends a text, its first tokens cut where they have no room. */
static int add_text(const ZeroShot *z, Encoded *e, const TokenList *whole, size_t n_context, Likelihood *l,
                    int *truncated, Err *err) {
    size_t most = (size_t)z->checkpoint->model.cfg.max_positions, cut = whole->n > most ? whole->n - most : 0;
    if (whole->n <= n_context) return err_set(err, "the continuation has no tokens of its own");
    if (cut && !z->truncate)
        return err_set(err, "%zu tokens, max_position_embeddings is %zu (--truncate cuts the first)", whole->n, most);
    if (cut >= n_context)
        return err_set(err, "the continuation has %zu tokens, max_position_embeddings is %zu", whole->n - n_context,
                       most);
    *truncated += cut > 0;
    l->n_tokens = (int)(whole->n - n_context);
    for (size_t i = cut; i < whole->n; i++) token_list_push(&e->tokens, whole->ids[i]);
    e->first[++e->n] = e->tokens.n;
    return 0;
}

static int add_choice(const ZeroShot *z, const Questions *q, Encoded *e, Likelihood *l, int *truncated, Err *err) {
    const Question *item = &q->items[l->question];
    TokenList whole = {0};
    size_t n_context;
    Err why;
    int rc = encode_choice(z, question_context(item, l->choice), question_continuation(item, l->choice), &whole,
                           &n_context, &why);
    if (rc == 0) rc = add_text(z, e, &whole, n_context, l, truncated, &why);
    if (rc) err_set(err, "%s:%d: %.400s", q->path, item->line, why.msg);
    token_list_free(&whole);
    return rc;
}

static int encode_all(const ZeroShot *z, const Questions *q, Encoded *e, Likelihood *likelihoods, int *truncated,
                      Err *err) {
    Likelihood *l = likelihoods;
    e->first = xcalloc((size_t)q->n_choices + 1, sizeof *e->first);
    for (int i = 0; i < q->n; i++)
        for (int c = 0; c < q->items[i].n_choices; c++, l++) {
            *l = (Likelihood){.question = i, .choice = c};
            if (add_choice(z, q, e, l, truncated, err)) return -1;
        }
    return 0;
}

static void add_token(Likelihood *l, const float *logits, int vocab, int id) {
    TokenLogprob best;
    float logprob;
    token_logprobs(logits, vocab, id, &logprob, &best, 1);
    l->log_likelihood += (double)logprob;
    l->greedy &= best.id == id;
}

/* Texts k, k + 1, ... before `last` of up to ROWS tokens side by side; where it stops. */
static int compute_some(const ZeroShot *z, const Encoded *e, int k, int last, Likelihood *likelihoods, Tape *tape) {
    int end = k + 1, n_want = 0;
    while (end < last && e->first[end + 1] - e->first[k] <= ROWS) end++;
    size_t n = e->first[end] - e->first[k];
    tape_reset(tape);
    Segment *segments = tape_alloc(tape, (size_t)(end - k) * sizeof *segments);
    int *want = tape_alloc(tape, n * sizeof *want);
    const int *ids = e->tokens.ids + e->first[k];
    for (int i = k; i < end; i++) {
        int row0 = (int)(e->first[i] - e->first[k]), rows = (int)(e->first[i + 1] - e->first[i]);
        segments[i - k] = (Segment){.row0 = row0, .n = rows, .noise = z->noise};
        for (int t = rows - likelihoods[i].n_tokens; t < rows; t++) want[n_want++] = row0 + t - 1;
    }
    Batch batch = {
        .tokens = ids, .n = (int)n, .segments = segments, .n_segments = end - k, .want = want, .n_want = n_want};
    const Mat *logits = model_forward(&z->checkpoint->model, tape, &batch, NULL);
    const float *row = logits->x;
    for (int i = k; i < end; i++) {
        likelihoods[i].greedy = true;
        for (int t = 0; t < likelihoods[i].n_tokens; t++, row += logits->d, want++)
            add_token(&likelihoods[i], row, logits->d, ids[*want + 1]);
    }
    return end;
}

static int check_finite(const Questions *q, const Likelihood *l, Err *err) {
    for (int k = 0; k < q->n_choices; k++)
        if (!isfinite(l[k].log_likelihood))
            return err_set(err, "%s:%d: the log-likelihood of choice %d is %g", q->path, q->items[l[k].question].line,
                           l[k].choice, l[k].log_likelihood);
    return 0;
}

int zero_shot(const ZeroShot *z, const Questions *q, Likelihood *likelihoods, int *truncated, Err *err) {
    Encoded e = {0};
    Tape tape;
    *truncated = 0;
    TaskKind task = z->checkpoint->model.cfg.task;
    if (task != TASK_TEXT_GENERATION)
        return err_set(err, "task is %s: such a network predicts no next token", task_names[task]);
    if (!z->checkpoint->model.cfg.causal)
        return err_set(err, "causal is false: such a network sees the continuation, which it would be asked for");
    int rc = encode_all(z, q, &e, likelihoods, truncated, err);
    int64_t *starts = ranks_starts(rc ? 0 : e.n), end = starts[ranks->rank + 1];
    tape_init(&tape, false);
    for (int k = (int)starts[ranks->rank]; k < end && rc == 0;) {
        k = compute_some(z, &e, k, (int)end, likelihoods, &tape);
        if (z->stopped && z->stopped()) rc = 1;
    }
    if (rc >= 0) rc = ranks_most(rc);
    if (rc == 0) ranks_collect(likelihoods, sizeof *likelihoods, starts);
    tape_free(&tape);
    free(starts);
    token_list_free(&e.tokens);
    free(e.first);
    return rc ? rc : check_finite(q, likelihoods, err);
}

/* The first of the likeliest among n choices; by_length: per character. */
static int best_choice(const Question *q, const Likelihood *l, bool by_length) {
    int best = 0;
    double highest = -INFINITY;
    for (int c = 0; c < q->n_choices; c++) {
        const char *text = question_continuation(q, c);
        double characters = (double)utf8_count(text, strlen(text));
        double value = by_length ? l[c].log_likelihood / characters : l[c].log_likelihood;
        if (value > highest) {
            best = c;
            highest = value;
        }
    }
    return best;
}

ZeroShotScore zero_shot_score(const Questions *q, const Likelihood *l) {
    ZeroShotScore s = {.n = q->n};
    double *right = xcalloc(2 * (size_t)q->n, sizeof *right), *right_norm = right + q->n, nats = 0;
    int gold[CHOICES_MOST] = {0}; /* how often it is which choice */
    for (int i = 0; i < q->n; i++) {
        const Question *item = &q->items[i];
        right[i] = q->cloze ? l->greedy : best_choice(item, l, false) == item->gold;
        right_norm[i] = best_choice(item, l, true) == item->gold;
        s.chance += 1.0 / item->n_choices / q->n;
        gold[item->gold]++;
        nats -= l->log_likelihood;
        l += item->n_choices;
    }
    for (size_t k = 0; k < COUNTOF(gold); k++) s.majority = MAX(s.majority, (double)gold[k] / q->n);
    Spread plain = score_spread(right, q->n), norm = score_spread(right_norm, q->n);
    s.acc = plain.mean;
    s.acc_error = plain.deviation / sqrt(q->n);
    s.acc_norm = norm.mean;
    s.acc_norm_error = norm.deviation / sqrt(q->n);
    s.perplexity = fixed_exp(nats / q->n);
    free(right);
    return s;
}
