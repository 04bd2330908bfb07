#include "server/api/completions/request_draft.h"

#include "base/err.h"
#include "base/json/json_reader.h"
#include "base/memory.h"
#include "base/random.h"
#include "model/shape.h"
#include "server/api/completions/diversity.h"
#include "server/engine/engine.h"

#include <stdlib.h>
#include <string.h>

/* ---- rules between fields ---- */

/* Several names of one number: those that are given must agree. */
typedef struct Name {
    const char *name;
    double value, absent;
} Name;

static int settle(const Name *names, int n, double *value, ApiError *e) {
    const Name *first = NULL;
    for (const Name *x = names; x < names + n; x++) {
        if (x->value == x->absent) continue;
        if (first && x->value != first->value)
            return api_fail(e, 400, NULL, x->name, "%s is %.10g, but %s is %.10g: they mean the same", x->name,
                            x->value, first->name, first->value);
        if (!first) first = x;
    }
    if (first) *value = first->value;
    return 0;
}

static int settle_names(RequestDraft *d, const Generation *g, ApiError *e) {
    CompletionRequest *r = &d->request;
    double tokens = r->trie ? r->trie->longest : d->default_tokens;
    double penalty = g->values[GENERATION_REPETITION], window = -1, logprobs = -1;
    const Name lengths[] = {{"max_tokens", r->max_tokens, API_ABSENT},
                            {"max_completion_tokens", d->max_completion_tokens, API_ABSENT},
                            {"n_predict", d->n_predict, API_ABSENT}};
    const Name penalties[] = {{"repetition_penalty", (double)r->sampling.repetition_penalty, 0},
                              {"repeat_penalty", (double)d->repeat_penalty, 0}};
    const Name windows[] = {{"repeat_last_n", d->repeat_last_n, -1},
                            {"repetition_penalty_range", d->repetition_penalty_range, 0}};
    const Name alternatives[] = {{"logprobs", r->logprobs, -1}, {"n_probs", d->n_probs, 0}};
    if (settle(lengths, COUNTOF(lengths), &tokens, e) || settle(penalties, COUNTOF(penalties), &penalty, e) ||
        settle(windows, COUNTOF(windows), &window, e) || settle(alternatives, COUNTOF(alternatives), &logprobs, e))
        return -1;
    r->max_tokens = (int)tokens;
    r->sampling.repetition_penalty = window == 0 ? 1 : (float)penalty;
    r->sampling.repetition_window = window > 0 ? (int)window : 0;
    r->logprobs = (int)logprobs;
    return 0;
}

static int check_counts(const RequestDraft *d, const ApiLimits *limits, ApiError *e) {
    const CompletionRequest *r = &d->request;
    if (r->n > limits->n) return api_fail(e, 400, NULL, "n", "n is %d, the limit is %d", r->n, limits->n);
    if (r->best_of > limits->n)
        return api_fail(e, 400, NULL, "best_of", "best_of is %d, the limit is %d", r->best_of, limits->n);
    if (r->best_of < r->n)
        return api_fail(e, 400, NULL, "best_of", "best_of is %d, it must be at least n = %d", r->best_of, r->n);
    if (r->best_of > r->n && r->stream)
        return api_fail(e, 400, NULL, "best_of", "best_of cannot be streamed: the best are known at the end only");
    if (r->best_of > r->n && r->noise_seeds)
        return api_fail(e, 400, NULL, "noise_seed", "an array of noise seeds names the choices, best_of picks them");
    if (r->best_of * r->n_prompts > limits->queue)
        return api_fail(e, 400, NULL, r->n_prompts > 1 ? "prompt" : "n",
                        "%d prompts of %d choices are %d, the server's queue holds %d (--max-queue)", r->n_prompts,
                        r->best_of, r->best_of * r->n_prompts, limits->queue);
    if (r->stream_from > 0 && r->best_of * r->n_prompts > 1)
        return api_fail(e, 400, NULL, "stream_from", "stream_from needs a single choice, there are %d",
                        r->best_of * r->n_prompts);
    if (r->best_of > r->n && d->each_component)
        return api_fail(e, 400, NULL, "noise_component",
                        "an array of noise components names the choices, best_of picks them");
    if (d->each_component && r->n_noise_components != r->n * r->n_prompts)
        return api_fail(e, 400, NULL, "noise_component", "noise_component has %d components, the answer has %d choices",
                        r->n_noise_components, r->n * r->n_prompts);
    if (r->noise_seeds && d->n_noise_seeds != r->n * r->n_prompts)
        return api_fail(e, 400, NULL, "noise_seed", "noise_seed has %d seeds, the answer has %d choices",
                        d->n_noise_seeds, r->n * r->n_prompts);
    return 0;
}

/* Room for all results of the request is taken when it comes, before a single token is computed. */
static int check_results(const CompletionRequest *r, ApiError *e) {
    enum { MOST_TOKENS = 1 << 20, MOST_ALTERNATIVES = 1 << 22 };
    int64_t tokens = 0; /* at most queue * 2^31 */
    for (int i = 0; i < r->n_prompts; i++)
        tokens += (int64_t)r->best_of * (r->max_tokens + (api_scores_prompt(r) ? r->prompts[i].n : 0));
    if (tokens > MOST_TOKENS)
        return api_fail(e, 400, NULL, r->max_tokens ? "max_tokens" : "prompt",
                        "the request's choices have up to %lld tokens, the limit is %d", (long long)tokens,
                        MOST_TOKENS);
    int64_t answered = (int64_t)r->n_prompts * r->n * r->max_tokens;
    if (r->diversity && answered > DIVERSITY_TOKENS)
        return api_fail(e, 400, NULL, "diversity",
                        "the answer's choices have up to %lld tokens, the limit with diversity is %d",
                        (long long)answered, DIVERSITY_TOKENS);
    int top = MAX(r->logprobs, r->prompt_logprobs);
    if (top > 0 && tokens * top > MOST_ALTERNATIVES)
        return api_fail(
            e, 400, NULL, r->logprobs == top ? "logprobs" : "prompt_logprobs",
            "the request's choices have up to %lld tokens with %d alternatives each, the limit is %d in all",
            (long long)tokens, top, MOST_ALTERNATIVES);
    return 0;
}

/* What max_tokens -1 means: the prompts of a request have it in common. */
static int room(const CompletionRequest *r, int max_positions) {
    int least = max_positions;
    for (int i = 0; i < r->n_prompts; i++) least = MIN(least, max_positions - r->prompts[i].n + 1);
    return MAX(least, 0);
}

static int check_lengths(RequestDraft *d, int max_positions, ApiError *e) {
    CompletionRequest *r = &d->request;
    const char *name = d->input ? "max_output_tokens" : "max_tokens"; /* as /v1/responses calls it */
    if (r->trie && r->max_tokens >= 0 && r->max_tokens < r->trie->longest)
        return api_fail(e, 400, NULL, name, "%s is %d, the longest choice has %d tokens", name, r->max_tokens,
                        r->trie->longest);
    if (r->trie) r->max_tokens = r->trie->longest;
    int fits = room(r, max_positions);
    if (d->fits_context && fits > 1) fits--;
    if (r->max_tokens < 0 || (d->fits_context && !r->trie && r->max_tokens > fits)) r->max_tokens = fits;
    if (r->stream_from > r->max_tokens)
        return api_fail(e, 400, NULL, "stream_from", "stream_from is %d, %s only %d", r->stream_from, name,
                        r->max_tokens);
    if (r->min_tokens > r->max_tokens)
        return api_fail(e, 400, NULL, "min_tokens", "min_tokens is %d, %s only %d", r->min_tokens, name, r->max_tokens);
    for (int i = 0; i < r->n_prompts; i++)
        if (job_positions(r->prompts[i].n, r->max_tokens) > max_positions)
            return api_fail(e, 400, "context_length_exceeded",
                            r->prompts[i].n <= max_positions ? name
                            : d->input                       ? "input"
                            : d->messages                    ? "messages"
                                                             : "prompt",
                            "the request exceeds the available context size: %d tokens of prompt and %s %d need "
                            "%lld positions, there are %d",
                            r->prompts[i].n, name, r->max_tokens,
                            (long long)job_positions(r->prompts[i].n, r->max_tokens), max_positions);
    return 0;
}

static int read_prompts(RequestDraft *d, const ApiContext *ctx, const FieldList *fields, ApiError *e) {
    if (fields->finish(d, ctx, e)) return -1;
    int most = d->truncate_prompt_tokens < 0 ? ctx->config->max_positions : d->truncate_prompt_tokens;
    bool right = d->truncation_side && !strcmp(d->truncation_side, "right");
    if (d->truncation_side && !right && strcmp(d->truncation_side, "left"))
        return api_fail(e, 400, NULL, "truncation_side", "truncation_side is \"%.32s\", it must be left or right",
                        d->truncation_side);
    for (Prompt *p = d->request.prompts; p < d->request.prompts + d->request.n_prompts && most > 0; p++)
        if (right)
            p->n = MIN(p->n, most);
        else
            api_prompt_keep_last(p, most);
    return 0;
}

static int check_fingerprint(RequestDraft *d, const ApiContext *ctx, ApiError *e) {
    bool chat = d->messages || d->input;
    const char *fingerprint = chat ? ctx->chat_fingerprint : ctx->fingerprint;
    d->request.fingerprint = fingerprint;
    if (!d->if_fingerprint || !strcmp(d->if_fingerprint, fingerprint)) return 0;
    return api_fail(e, 409, "another_fingerprint", "if_fingerprint",
                    "if_fingerprint is \"%.100s\", what answers here is \"%s\": its bytes may be others",
                    d->if_fingerprint, fingerprint);
}

static int check(RequestDraft *d, const ApiContext *ctx, const FieldList *fields, ApiError *e) {
    CompletionRequest *r = &d->request;
    if (api_check_model(d->model, &ctx->models, e)) return -1;
    if (check_fingerprint(d, ctx, e)) return -1;
    if (api_check_user(d->user, e)) return -1;
    api_take_defaults(d, ctx->generation);
    if (d->stream_options && !r->stream)
        return api_fail(e, 400, NULL, "stream_options", "stream_options is only allowed with stream: true");
    if (r->prompt_logprobs >= 0 && r->stream)
        return api_fail(e, 400, NULL, "prompt_logprobs", "prompt_logprobs cannot be streamed");
    if (api_choice_check(r, e) || read_prompts(d, ctx, fields, e) || api_masks_check(d, ctx->config, e) ||
        api_choice_check_ends(r, ctx, e))
        return -1;
    if (settle_names(d, ctx->generation, e)) return -1;
    if (r->best_of == 0) r->best_of = r->n;
    r->sampling.top_k = MAX(r->sampling.top_k, 0);
    api_default_noise(ctx, r->seed, &r->noise_seed, &r->noise_scale);
    if (!r->seed.given && ctx->defaults.seed >= 0)
        r->seed = (OptionalSeed){.given = true, .value = (uint64_t)ctx->defaults.seed};
    bool bad =
        check_counts(d, &ctx->limits, e) || check_lengths(d, ctx->config->max_positions, e) || check_results(r, e);
    return bad ? -1 : 0;
}

/* Comes before the fields: some cannot even be read without what only a model that generates has. */
static int check_task(const Config *c, ApiError *e) {
    if (config_generates(c)) return 0;
    return api_fail(e, 400, "wrong_task", NULL, "the model's task is %s: it generates no text", task_names[c->task]);
}

/* The fields of a request inside a request are request.n and so on. */
static void name_inner(ApiError *e) {
    char name[sizeof e->param];
    if (!*e->param || !strncmp(e->param, "request", 7) || !strncmp(e->param, "response", 8)) return;
    snprintf(name, sizeof name, "request.%.80s", e->param);
    memcpy(e->param, name, sizeof name);
}

int api_request_parse(CompletionRequest *r, const ApiContext *ctx, const FieldList *fields, const char *body, size_t n,
                      Buffer *ignored, ApiError *e) {
    RequestDraft draft = {.ignored = ctx->lenient ? ignored : NULL};
    cJSON *root = fields_parse_body(body, n, ctx->limits.json_depth, ctx->limits.json_values, e);
    if (!root) return -1;
    FieldReader reader = {.out = &draft, .context = ctx, .error = e, .ignored = draft.ignored};
    bool bad = check_task(ctx->config, e) || fields_read(&reader, root, fields) || check(&draft, ctx, fields, e);
    int rc = bad ? -1 : 0;
    if (rc && draft.response && !json_field(root, e->param)) name_inner(e);
    cJSON_Delete(root);
    *r = draft.request;
    if (rc) api_request_free(r);
    return rc;
}

void api_request_free(CompletionRequest *r) {
    for (int i = 0; i < r->n_prompts; i++) free(r->prompts[i].ids);
    free(r->prompts);
    free((void *)r->sampling.bias);
    trie_release(r->trie);
    free(r->prefix);
    free(r->said);
    free(r->response_fields);
    form_walk_free(r->walk);
    free(r->stop_ids);
    free(r->allowed_ids);
    bad_words_release(r->bad_words);
    free(r->seeds);
    free(r->noise_seeds);
    free(r->noise_components);
    previous_free(r->previous);
    stop_set_free(&r->stop);
    *r = (CompletionRequest){0};
}
