#include "server/api/completions/score.h"

#include "base/json_write.h"
#include "base/err.h"
#include "base/fixed_math.h"
#include "base/memory.h"
#include "server/api/answer.h"
#include "server/api/completions/request_draft.h"
#include "server/api/completions/response.h"

#include <limits.h>
#include <math.h>
#include <stdlib.h>

/* ---- the request ---- */

static const Type ids = {.kind = TYPE_ARRAY, .low = 1, .of = {&api_id_type}};
static const Type continuation = {.kind = TYPE_ONE_OF, .of = {&api_text_type, &ids}};
static const Type continuations = {.kind = TYPE_ARRAY, .low = 1, .limit = "--max-prompts", .of = {&continuation}};

static const Field rows[] = {
    {DRAFT_FIELD(model, FIELD_TEXT), .absent = "the one served",
     .help = "The served model's name or an `--alias` of it; 404 otherwise."},
    {DRAFT_FIELD(prompt, FIELD_OTHER), .type = &api_prompt_type, .absent = "the token that starts a document",
     .help = "What the continuations continue: one text, as a string or as token ids, as in `/v1/completions`."},
    {DRAFT_FIELD(continuations, FIELD_OTHER), .type = &continuations, .absent = "required",
     .help = "What is scored. Each is tokenised by itself, so one that continues a text of words begins with a space."},
    {DRAFT_FIELD(add_special_tokens, FIELD_BOOL), .fallback = true,
     .help = "Put the BOS token in front of the prompt where the tokenizer does."},
    {REQUEST_FIELD(deadline_ms, FIELD_INT), .low = 1, .high = INT_MAX, .absent = "`--stream-seconds` alone",
     .help = "As in `/v1/completions`. What is not scored by then has `logprob` null."},
    {REQUEST_FIELD(logprobs, FIELD_INT), .high = 20, .help = "Alternatives to list for every token."},
    {REQUEST_FIELD(noise_scale, FIELD_FLOAT), .high = 8, .fallback = -1, .absent = "`--noise-scale`",
     .help = "Factor on every sigma. 0 turns the noise off."},
    {.name = "noise_seed",
     .kind = FIELD_OTHER,
     .read = api_noise_seed_read,
     .type = &api_seeds_type,
     .absent = "`--noise-seed`, else drawn",
     .help =
         "Noise seed of the prompt and of every continuation, or an array (at most `--max-n`): every continuation is "
         "scored under each, and `likeliest` says under which it is the most probable."},
    {.name = "noise_component",
     .kind = FIELD_OTHER,
     .read = api_noise_component_read,
     .type = &api_components_type,
     .absent = "the noise seed's",
     .help =
         "Of a model whose sequences have one: the component, or an array of them as of noise seeds. Of two arrays, "
         "which are of one length, a seed goes with the component in its place."},
    {DRAFT_FIELD(user, FIELD_TEXT), .absent = "none", .help = "At most 256 bytes. Accepted and ignored."},
};

/* The noise of the continuations, under which each is a choice: n of them, seeds and components in pairs. */
static int settle_noise(RequestDraft *d, const ApiContext *ctx, int n, ApiError *e) {
    CompletionRequest *r = &d->request;
    size_t total = (size_t)r->n_prompts * (size_t)n;
    uint64_t *seeds = try_calloc(total, sizeof *seeds);
    int *components = r->noise_components ? try_calloc(total, sizeof *components) : NULL;
    if (!seeds || (r->noise_components && !components)) {
        free(seeds);
        free(components);
        return api_no_memory(e);
    }
    api_default_noise(ctx, r->seed, &r->noise_seed, &r->noise_scale);
    uint64_t one = r->noise_seed.given ? r->noise_seed.value : answer_draw_seed();
    for (size_t i = 0; i < total; i++) {
        size_t k = i % (size_t)n;
        seeds[i] = r->noise_seeds ? r->noise_seeds[d->n_noise_seeds > 1 ? k : 0] : one;
        if (components) components[i] = r->noise_components[r->n_noise_components > 1 ? k : 0];
    }
    free(r->noise_seeds);
    free(r->noise_components);
    r->noise_seeds = seeds;
    r->noise_components = components;
    d->n_noise_seeds = (int)total;
    r->n_noise_components = components ? (int)total : 0;
    r->n = n;
    return 0;
}

static int read_noise(RequestDraft *d, const ApiContext *ctx, ApiError *e) {
    const CompletionRequest *r = &d->request;
    int seeds = d->n_noise_seeds, components = r->n_noise_components, n = MAX(1, MAX(seeds, components));
    const char *field = seeds == n ? "noise_seed" : "noise_component";
    if (r->noise_seeds && seeds == 0) return api_fail(e, 400, NULL, "noise_seed", "noise_seed is an empty array");
    if (seeds > 1 && components > 1 && seeds != components)
        return api_fail(e, 400, NULL, "noise_component", "noise_component has %d components, noise_seed %d seeds",
                        components, seeds);
    if (n > ctx->limits.n)
        return api_fail(e, 400, NULL, field,
                        "the continuations are to be scored under %d seeds or components, the limit is %d", n,
                        ctx->limits.n);
    if (n * r->n_prompts > ctx->limits.queue)
        return api_fail(e, 400, NULL, field,
                        "%d continuations under %d seeds or components are %d, the server's queue holds %d "
                        "(--max-queue)",
                        r->n_prompts, n, n * r->n_prompts, ctx->limits.queue);
    return settle_noise(d, ctx, n, e);
}

/* Makes a completion of it. */
static int read_score(void *out, const void *context, ApiError *e) {
    RequestDraft *d = out;
    CompletionRequest *r = &d->request;
    r->form = &response_score;
    r->n = 1;
    r->echo = true;
    if (!d->continuations) return api_fail(e, 400, NULL, "continuations", "continuations is missing");
    if (api_prompt_read(context, d->prompt, d->add_special_tokens, &r->prompts, &r->n_prompts, e)) return -1;
    if (cJSON_IsArray(d->prompt) && r->n_prompts > 1)
        return api_fail(e, 400, NULL, "prompt", "prompt has %d prompts, continuations have one", r->n_prompts);
    if (api_prompt_continue(context, d->continuations, &r->prompts, &r->n_prompts, e)) return -1;
    return read_noise(d, context, e);
}

const FieldList score_fields = {.rows = rows, .n = COUNTOF(rows), .finish = read_score};

/* ---- the answer ---- */

/* NAN where not all of it is scored. */
static double logprob_of(const Choice *c) {
    const Job *job = c->job;
    double sum = c->n_scored == job->n_prompt ? 0 : (double)NAN;
    for (int i = job->score_from; i < c->n_scored; i++) sum += (double)job->prompt_scores[i].logprob;
    return sum;
}

static void print_choice(Buffer *b, const ResponseHead *head, const Choice *c, int index, Part part) {
    const Job *job = c->job;
    bool greedy = true, whole = c->n_scored == job->n_prompt;
    (void)part;
    for (int i = job->score_from; i < job->n_prompt && whole; i++)
        greedy = greedy && job->prompt_scores[i].logprob == job->prompt_scores[i].top[0].logprob;
    json_open(b, NULL, '{');
    json_put_int(b, "index", index);
    response_choice_text(b, "text", c);
    json_put_float(b, "logprob", (float)logprob_of(c));
    if (whole)
        json_put_bool(b, "is_greedy", greedy);
    else
        json_put_null(b, "is_greedy");
    response_logprobs(b, c, choice_settled_slots(c));
    if (!whole) json_put_bool(b, "deadline", true);
    answer_put_noise(b, head->api->config, &job->noise);
    json_close(b, '}');
}

/* The choice of those of one continuation under which it is the most probable, and of each the share p_i / sum p: the
 * probability that its noise wrote the text, were all as likely beforehand. */
static void print_likeliest_of(Buffer *b, const ResponseHead *head, const Choice *choices, int n, int index) {
    double total = 0, most = -INFINITY;
    int best = 0;
    for (int i = 0; i < n; i++) {
        double logprob = logprob_of(&choices[i]);
        if (isnan(logprob)) {
            json_put_null(b, NULL);
            return;
        }
        if (logprob > most) most = logprob, best = i;
    }
    for (int i = 0; i < n; i++) total += fixed_exp(logprob_of(&choices[i]) - most);
    json_open(b, NULL, '{');
    json_put_int(b, "index", index + best);
    answer_put_noise(b, head->api->config, &choices[best].job->noise);
    json_open(b, "shares", '[');
    for (int i = 0; i < n; i++) json_put_float(b, NULL, (float)(fixed_exp(logprob_of(&choices[i]) - most) / total));
    json_close(b, ']');
    json_close(b, '}');
}

static void print_likeliest(Buffer *b, const ResponseHead *head, const Choice *first, const Choice *choices, int n) {
    int each = head->request->n;
    (void)first;
    if (each == 1) return;
    json_open(b, "likeliest", '[');
    for (int i = 0; i < n; i += each) print_likeliest_of(b, head, choices + i, each, i);
    json_close(b, ']');
}

const ResponseForm response_score = {
    .id = "score", .object = "score", .event = "score", .choice = print_choice, .more = print_likeliest};
