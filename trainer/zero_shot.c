#include "trainer/zero_shot.h"

#include "base/memory.h"
#include "base/utf8.h"
#include "model/sampler.h"
#include "trainer/scores.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { ROWS = 512 }; /* computed together, unless one text is longer */

/* Texts side by side. */
typedef struct Group {
    TokenList tokens;
    Segment *segments;       /* [n] */
    Likelihood **likelihood; /* [n] */
    int *want;               /* rows that predict a token of a continuation */
    int n, n_want, capacity, want_capacity;
} Group;

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

/* Tokens of query, delimiter and choice; *n_context of them are the query's. */
static int encode_choice(const ZeroShot *z, const Question *q, const char *choice, TokenList *whole, size_t *n_context,
                         Err *err) {
    static const char blanks[] = " \t\n\r\v\f";
    size_t n = strlen(q->query) + strlen(z->delimiter), n_whole = n + strlen(choice);
    char *text = xmalloc(n_whole + 1);
    TokenList context = {0};
    snprintf(text, n_whole + 1, "%s%s%s", q->query, z->delimiter, choice);
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

/* Makes room for one text more, of n tokens. */
static void group_reserve(Group *g, int n) {
    if (g->n == g->capacity) {
        g->capacity = MAX(16, 2 * g->capacity);
        g->segments = xrealloc(g->segments, (size_t)g->capacity * sizeof *g->segments);
        g->likelihood = xrealloc(g->likelihood, (size_t)g->capacity * sizeof *g->likelihood);
    }
    if (g->n_want + n > g->want_capacity) {
        g->want_capacity = 2 * (g->n_want + n);
        g->want = xrealloc(g->want, (size_t)g->want_capacity * sizeof *g->want);
    }
}

static int group_add(const ZeroShot *z, Group *g, const TokenList *whole, size_t n_context, Likelihood *l,
                     int *truncated, Err *err) {
    size_t most = (size_t)z->checkpoint->model.cfg.max_positions, cut = whole->n > most ? whole->n - most : 0;
    if (whole->n <= n_context) return err_set(err, "the continuation has no tokens of its own");
    if (cut && !z->truncate)
        return err_set(err, "%zu tokens, max_position_embeddings is %zu (--truncate cuts the first)", whole->n, most);
    if (cut >= n_context)
        return err_set(err, "the continuation has %zu tokens, max_position_embeddings is %zu", whole->n - n_context,
                       most);
    *truncated += cut > 0;
    int n = (int)(whole->n - cut), row0 = (int)g->tokens.n;
    group_reserve(g, n);
    l->n_tokens = (int)(whole->n - n_context);
    g->likelihood[g->n] = l;
    g->segments[g->n++] = (Segment){.row0 = row0, .n = n, .noise = z->noise};
    for (size_t i = cut; i < whole->n; i++) token_list_push(&g->tokens, whole->ids[i]);
    for (int i = n - l->n_tokens; i < n; i++) g->want[g->n_want++] = row0 + i - 1;
    return 0;
}

static void group_compute(const ZeroShot *z, Group *g, Tape *tape) {
    const Model *m = &z->checkpoint->model;
    Batch batch = {.tokens = g->tokens.ids,
                   .n = (int)g->tokens.n,
                   .segments = g->segments,
                   .n_segments = g->n,
                   .want = g->want,
                   .n_want = g->n_want};
    tape_reset(tape);
    const Mat *logits = model_forward(m, tape, &batch, NULL);
    for (int s = 0, row = 0; s < g->n; s++) {
        Likelihood *l = g->likelihood[s];
        l->greedy = true;
        l->log_likelihood = 0;
        for (int i = 0; i < l->n_tokens; i++, row++) {
            TokenLogprob best;
            float logprob;
            int id = g->tokens.ids[g->want[row] + 1];
            token_logprobs(logits->x + (size_t)row * (size_t)logits->d, logits->d, id, &logprob, &best, 1);
            l->log_likelihood += (double)logprob;
            l->greedy &= best.id == id;
        }
    }
    g->tokens.n = 0;
    g->n = g->n_want = 0;
}

static int add_choice(const ZeroShot *z, const Questions *q, Group *g, Likelihood *l, int *truncated, Err *err) {
    const Question *item = &q->items[l->question];
    TokenList whole = {0};
    size_t n_context;
    Err why;
    int rc = encode_choice(z, item, item->choices[l->choice], &whole, &n_context, &why);
    if (rc == 0) rc = group_add(z, g, &whole, n_context, l, truncated, &why);
    if (rc) err_set(err, "%s:%d: %.400s", q->path, item->line, why.msg);
    token_list_free(&whole);
    return rc;
}

static int check_finite(const Questions *q, const Likelihood *l, Err *err) {
    for (int k = 0; k < q->n_choices; k++)
        if (!isfinite(l[k].log_likelihood))
            return err_set(err, "%s:%d: the log-likelihood of choice %d is %g", q->path, q->items[l[k].question].line,
                           l[k].choice, l[k].log_likelihood);
    return 0;
}

int zero_shot(const ZeroShot *z, const Questions *q, Likelihood *likelihoods, int *truncated, Err *err) {
    Group g = {0};
    Tape tape;
    int rc = 0, k = 0;
    *truncated = 0;
    TaskKind task = z->checkpoint->model.cfg.task;
    if (task != TASK_TEXT_GENERATION)
        return err_set(err, "task is %s: such a network predicts no next token", task_names[task]);
    if (!z->checkpoint->model.cfg.causal)
        return err_set(err, "causal is false: such a network sees the continuation, which it would be asked for");
    tape_init(&tape, false);
    for (int i = 0; i < q->n && rc == 0; i++) {
        for (int c = 0; c < q->items[i].n_choices && rc == 0; c++, k++) {
            likelihoods[k] = (Likelihood){.question = i, .choice = c};
            rc = add_choice(z, q, &g, &likelihoods[k], truncated, err);
            if (rc == 0 && g.tokens.n >= ROWS) group_compute(z, &g, &tape);
        }
        if (rc == 0 && z->stopped && z->stopped()) rc = 1;
    }
    if (rc == 0 && g.n) group_compute(z, &g, &tape);
    tape_free(&tape);
    token_list_free(&g.tokens);
    free(g.segments);
    free(g.likelihood);
    free(g.want);
    return rc ? rc : check_finite(q, likelihoods, err);
}

/* The first of the likeliest among n choices; by_length: per character. */
static int best_choice(const Question *q, const Likelihood *l, bool by_length) {
    int best = 0;
    double highest = -INFINITY;
    for (int c = 0; c < q->n_choices; c++) {
        double characters = (double)utf8_count(q->choices[c], strlen(q->choices[c]));
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
    s.perplexity = exp(nats / q->n);
    free(right);
    return s;
}
