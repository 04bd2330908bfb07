#include "server/api/completions/completion.h"

#include "server/api/completions/request_job.h"
#include "base/json_write.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/memory.h"
#include "server/api/completions/diversity.h"
#include "server/api/completions/response.h"

#include <stdlib.h>
#include <string.h>

typedef struct Completion {
    const AnswerContext *ctx;
    CompletionRequest request;
    ChoiceRules rules;
    ResponseHead head;
    Choice *choices; /* [n_choices] of prompt index * best_of + i */
    int n_choices;
    FormScratch *scratch; /* of the rules, owned */
    bool accepted;        /* by the engine */
    bool ended;           /* all choices are, and the rest takes long to write */
    int n_counted;        /* generated tokens that the metrics have */
} Completion;

/* One number repeats everything: the counters of noise and sampling differ, so that under one key they share nothing.
 */
static void settle_seeds(CompletionRequest *r) {
    if (!r->seed.given) r->seed = (OptionalSeed){.given = true, .value = answer_draw_seed()};
    if (!r->noise_seed.given) r->noise_seed = r->seed;
}

static int generated_tokens(const Completion *c) {
    int n = 0;
    for (int i = 0; i < c->n_choices; i++) n += c->choices[i].n_read;
    return n;
}

static Usage usage_of(const Completion *c) {
    const CompletionRequest *r = &c->request;
    Usage u = {.completion_tokens = generated_tokens(c)};
    for (int p = 0; p < r->n_prompts; p++) {
        u.prompt_tokens += r->prompts[p].n;
        u.cached_tokens += job_progress(c->choices[p * r->best_of].job).cached_tokens;
    }
    return u;
}

/* Makes all jobs and hands them to the engine, or fails; what there is then belongs to c in either case. */
static int open_choices(Completion *c, const Requester *requester, ApiError *e) {
    const CompletionRequest *r = &c->request;
    int n = r->n_prompts * r->best_of, rc = 0;
    Job **jobs = try_calloc((size_t)n, sizeof *jobs);
    c->choices = try_calloc((size_t)n, sizeof *c->choices);
    if (!jobs || !c->choices) rc = api_no_memory(e);
    while (rc == 0 && c->n_choices < n) {
        int i = c->n_choices;
        Job *job = jobs[i] = request_job_new(r, c->ctx->api, i / r->best_of, i % r->best_of, requester);
        if (!job) {
            rc = api_no_memory(e);
            break;
        }
        c->n_choices++;
        if (choice_open(&c->choices[i], job, &c->rules, r->prompts[i / r->best_of].n_hidden)) rc = api_no_memory(e);
    }
    if (rc == 0) rc = answer_submit(c->ctx, jobs, n, "max_tokens", e);
    free(jobs);
    return rc;
}

static void free_completion(void *self);

/* Takes over what *r owns, on failure too. */
static Completion *start(const AnswerContext *ctx, CompletionRequest *r, const Requester *requester, ApiError *e) {
    Completion *c = try_calloc(1, sizeof *c);
    if (!c) {
        api_request_free(r);
        api_no_memory(e);
        return NULL;
    }
    *c = (Completion){.ctx = ctx, .request = *r};
    *r = (CompletionRequest){0};
    r = &c->request;
    settle_seeds(r);
    response_head_init(&c->head, r, ctx->api);
    c->rules = (ChoiceRules){
        .tokenizer = ctx->api->tokenizer,
        .stop = &r->stop,
        .prefix = r->prefix,
        .style = r->style,
        .previous = r->previous,
        .min_tokens = r->min_tokens,
        .echo = r->echo,
        .logprobs = r->logprobs >= 0,
        .only_scored = r->prompts[0].score_from > 0,
        .from = r->stream_from,
        .n_top = r->logprobs,
        .prompt_top = r->prompt_logprobs,
        .token_ids = r->return_token_ids,
        .one_by_one = r->form->each_token,
        .tokens_as_ids = r->return_tokens_as_token_ids,
        .answer_spaced = r->choice_spaced,
        .keep_stop = r->include_stop_str_in_output,
        .special = !r->skip_special_tokens,
    };
    if (r->walk && r->stop.n > 0) c->rules.scratch = c->scratch = form_scratch_new();
    bool begun = c->scratch || !(r->walk && r->stop.n > 0);
    if (begun ? open_choices(c, requester, e) : api_no_memory(e)) {
        free_completion(c);
        return NULL;
    }
    c->accepted = true;
    metrics_count(ctx->metrics, COUNT_PROMPT_TOKENS, (uint64_t)usage_of(c).prompt_tokens);
    metrics_observe(ctx->metrics, SIZE_CHOICES, r->n);
    return c;
}

/* How a choice went, when nothing more will come of it. */
static void count_choice(Metrics *m, const Choice *c) {
    const Job *job = c->job;
    JobProgress p = job_progress(c->job);
    answer_count_end(m, c->finish);
    if (p.started > 0) {
        metrics_count(m, COUNT_PREFIX_QUERIES, (uint64_t)job->n_prompt);
        metrics_count(m, COUNT_PREFIX_HITS, (uint64_t)p.cached_tokens);
    }
    metrics_observe(m, SIZE_PROMPT, job->n_prompt);
    metrics_observe(m, SIZE_MAX_TOKENS, job->max_tokens);
    if (c->finish != FINISH_STOP && c->finish != FINISH_LENGTH && c->finish != FINISH_DEADLINE) return;
    metrics_observe(m, SIZE_GENERATED, c->n_read);
    metrics_observe(m, TIME_WHOLE, now_seconds() - p.submitted);
    if (p.first_token == 0) return;
    metrics_observe(m, TIME_PREFILL, p.first_token - p.started);
    metrics_observe(m, TIME_DECODE, p.last_token - p.first_token);
    metrics_observe(m, TIME_INFERENCE, p.last_token - p.started);
}

static AnswerSummary summary(const void *self) {
    const Completion *c = self;
    AnswerSummary s = ANSWER_NO_JOB;
    Usage u = usage_of(c);
    s.prompt_tokens = u.prompt_tokens;
    s.completion_tokens = u.completion_tokens;
    s.fingerprint = c->request.fingerprint;
    for (int i = 0; i < c->n_choices; i++) {
        Job *job = c->choices[i].job;
        JobProgress p = job_progress(job);
        s.most_completion_tokens += job->max_tokens;
        answer_add_job(&s, c->ctx->api->config, job, &p, c->choices[i].finish);
    }
    return s;
}

static void free_completion(void *self) {
    Completion *c = self;
    for (int i = 0; i < c->n_choices && c->accepted; i++) count_choice(c->ctx->metrics, &c->choices[i]);
    for (int i = 0; i < c->n_choices; i++) choice_close(&c->choices[i]);
    free(c->choices);
    form_scratch_free(c->scratch);
    api_request_free(&c->request);
    free(c);
}

/* The `wanted` choices of best[0..n) with the highest mean log-probability go to the front, best first; ties keep
 * their order. */
static void rank(Choice **best, int n, int wanted) {
    for (int k = 0; k < wanted; k++) {
        int top = k;
        for (int i = k + 1; i < n; i++)
            if (choice_mean_logprob(best[i]) > choice_mean_logprob(best[top])) top = i;
        Choice *t = best[top];
        memmove(best + k + 1, best + k, (size_t)(top - k) * sizeof *best);
        best[k] = t;
    }
}

/* Those of prompt p, the answer's first. NULL when memory runs out. */
static Choice **order_choices(const Completion *c, int p) {
    const CompletionRequest *r = &c->request;
    Choice **order = try_calloc((size_t)r->best_of, sizeof *order);
    for (int i = 0; i < r->best_of && order; i++) order[i] = &c->choices[p * r->best_of + i];
    if (order && r->best_of > r->n) rank(order, r->best_of, r->n);
    return order;
}

static void put_diversity(const Completion *c, Buffer *out) {
    const CompletionRequest *r = &c->request;
    if (!r->diversity) return;
    json_open(out, "diversity", '[');
    for (int p = 0; p < r->n_prompts; p++) {
        Choice **order = order_choices(c, p);
        if (order)
            diversity_print(out, order, r->n);
        else
            out->failed = true;
        free(order);
    }
    json_close(out, ']');
}

/* Returns the first. */
static const Choice *print_choices(const Completion *c, Buffer *out) {
    const CompletionRequest *r = &c->request;
    const Choice *first = c->choices;
    for (int p = 0; p < r->n_prompts; p++) {
        Choice **order = order_choices(c, p);
        if (!order) out->failed = true;
        if (order && p == 0) first = order[0];
        for (int i = 0; i < r->n && order; i++) r->form->choice(out, &c->head, order[i], p * r->n + i, PART_WHOLE);
        free(order);
    }
    return first;
}

static void print_whole(Completion *c, Buffer *out) {
    const CompletionRequest *r = &c->request;
    const ResponseForm *form = r->form;
    Usage u = usage_of(c);
    if (form->events) {
        bool several = r->n_prompts * r->n > 1;
        if (several) json_open(out, NULL, '[');
        print_choices(c, out);
        if (several) json_close(out, ']');
        return;
    }
    response_open(out, &c->head, false);
    const Choice *first = print_choices(c, out);
    json_close(out, ']');
    put_diversity(c, out);
    if (form->more) form->more(out, &c->head, first, c->choices, c->n_choices);
    response_close(out, &u, false);
}

static void print_event(Completion *c, Buffer *out, int i, Part part) {
    const ResponseForm *form = c->request.form;
    if (form->events) {
        c->choices[i].events_sent += form->events(out, &c->head, &c->choices[i], i, part);
        return;
    }
    buffer_text(out, "data: ");
    response_open(out, &c->head, true);
    form->choice(out, &c->head, &c->choices[i], i, part);
    bool counted = c->request.include_usage && c->request.continuous_usage_stats;
    Usage u = counted ? usage_of(c) : (Usage){0};
    json_close(out, ']');
    response_close(out, counted ? &u : NULL, c->request.include_usage);
    buffer_text(out, "\n\n");
}

static void print_events(Completion *c, Buffer *out, int i) {
    Choice *choice = &c->choices[i];
    if (!choice_has_news(choice)) return;
    if (c->request.form->begins && !choice->begun) print_event(c, out, i, PART_BEGIN);
    if (c->request.form->ends) {
        if (choice_has_text(choice)) print_event(c, out, i, PART_TEXT);
        if (choice->finish != FINISH_NONE) print_event(c, out, i, PART_END);
    } else {
        print_event(c, out, i, PART_NEWS);
    }
    choice_mark_sent(choice);
}

static void print_end(Completion *c, Buffer *out) {
    if (c->request.form->events) return;
    if (c->request.include_usage || c->request.diversity) {
        Usage u = usage_of(c);
        buffer_text(out, "data: ");
        response_open(out, &c->head, true);
        json_close(out, ']');
        put_diversity(c, out);
        response_close(out, c->request.include_usage ? &u : NULL, false);
        buffer_text(out, "\n\n");
    }
    buffer_text(out, "data: [DONE]\n\n");
}

static bool fail(Completion *c, Buffer *out, int *status, const ApiError *e) {
    bool stream = c->request.stream;
    *status = stream ? 200 : e->status;
    if (stream) buffer_text(out, c->request.form->names_events ? "event: error\ndata: " : "data: ");
    api_error_print(out, e);
    if (stream) buffer_text(out, c->request.form->events ? "\n\n" : "\n\ndata: [DONE]\n\n");
    return true;
}

/* A complete answer of so many values, or the end of a stream with diversity. */
static bool is_large(const Completion *c) {
    enum { MANY = 1024 }; /* values of all tokens together: below a millisecond */
    const CompletionRequest *r = &c->request;
    int64_t values = 0;
    if (r->stream && !r->diversity) return false;
    for (int i = 0; i < c->n_choices; i++) {
        const Job *job = c->choices[i].job;
        values += (int64_t)(job->max_tokens + (job->score_prompt ? job->n_prompt : 0)) * (2 + MAX(job->n_top, -1));
    }
    return values > MANY;
}

/* False when the answer goes on. */
static bool print_news(Completion *c, Buffer *out, int *status) {
    enum { ENOUGH = 1 << 16 };
    ApiError e;
    bool done = true, cut = false;
    for (int i = 0; i < c->n_choices; i++) {
        Choice *choice = &c->choices[i];
        int n_read;
        do {
            n_read = choice->n_read;
            choice_advance(choice);
            if (choice->text.text.failed) return out->failed = true;
            if (answer_gave_up(choice->job, choice->finish, &e)) return fail(c, out, status, &e);
            if (c->request.stream && choice->finish != FINISH_CANCELLED) print_events(c, out, i);
            if (c->request.stream && out->n > ENOUGH) return false; /* it is polled again when that is sent */
        } while (c->rules.one_by_one && choice->n_read > n_read);
        cut = cut || choice->finish == FINISH_CANCELLED;
        done = done && choice->finish != FINISH_NONE;
    }
    if (cut || (!done && atomic_load(c->ctx->cut))) {
        answer_shutting_down(&e);
        return fail(c, out, status, &e);
    }
    if (!done) return false;
    if (!c->ended && is_large(c)) return c->ended = true, false; /* is_long from now on */
    *status = 200;
    if (c->request.stream)
        print_end(c, out);
    else
        print_whole(c, out);
    return true;
}

static bool streams(const void *self) { return ((const Completion *)self)->request.stream; }

static bool is_long(const void *self) { return ((const Completion *)self)->ended; }

static bool poll(void *self, Buffer *out, int *status) {
    Completion *c = self;
    size_t whole = out->n;
    bool done = print_news(c, out, status);
    if (out->failed) { /* part of an object or of an event is of no use */
        out->n = whole;
        *status = 503;
        done = true;
    }
    int generated = generated_tokens(c);
    metrics_count(c->ctx->metrics, COUNT_GENERATED_TOKENS, (uint64_t)(generated - c->n_counted));
    c->n_counted = generated;
    return done;
}

static void *start_completion(const AnswerKind *kind, const AnswerContext *ctx, const FieldList *fields,
                              const char *body, size_t n, const Requester *requester, Buffer *ignored, ApiError *e) {
    CompletionRequest r;
    (void)kind;
    if (api_request_parse(&r, ctx->api, fields, body, n, ignored, e)) return NULL;
    return start(ctx, &r, requester, e);
}

const AnswerKind completion_answer = {.start = start_completion,
                                      .poll = poll,
                                      .is_long = is_long,
                                      .streams = streams,
                                      .summary = summary,
                                      .free = free_completion};
