#include "server/api/completions/score.h"

#include "base/json_write.h"
#include "base/err.h"
#include "server/api/answer.h"
#include "server/api/completions/request_draft.h"
#include "server/api/completions/response.h"

#include <limits.h>
#include <math.h>

/* ---- the request ---- */

static const Type ids = {.kind = TYPE_ARRAY, .low = 1, .of = {&api_id_type}};
static const Type continuation = {.kind = TYPE_ONE_OF, .of = {&api_text_type, &ids}};
static const Type continuations = {.kind = TYPE_ARRAY, .low = 1, .limit = "--max-prompts", .of = {&continuation}};

static const Field rows[] = {
    {DRAFT_FIELD(model, FIELD_TEXT), .absent = "the one served",
     .help = "Must be the served model's name; 404 otherwise."},
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
    {REQUEST_FIELD(noise_seed, FIELD_SEED), .absent = "`--noise-seed`, else drawn",
     .help = "Noise seed of the prompt and of every continuation."},
    {DRAFT_FIELD(user, FIELD_TEXT), .absent = "none", .help = "At most 256 bytes. Looked at by nobody."},
};

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
    return api_prompt_continue(context, d->continuations, &r->prompts, &r->n_prompts, e);
}

const FieldList score_fields = {.rows = rows, .n = COUNTOF(rows), .finish = read_score};

/* ---- the answer ---- */

static void print_choice(Buffer *b, const ResponseHead *head, const Choice *c, int index, Part part) {
    const Job *job = c->job;
    double sum = 0;
    bool greedy = true, whole = c->n_scored == job->n_prompt;
    (void)part;
    for (int i = job->score_from; i < job->n_prompt && whole; i++) {
        const JobToken *token = &job->prompt_scores[i];
        sum += (double)token->logprob;
        greedy = greedy && token->logprob == token->top[0].logprob;
    }
    json_open(b, NULL, '{');
    json_put_int(b, "index", index);
    response_choice_text(b, "text", c);
    json_put_float(b, "logprob", whole ? (float)sum : NAN);
    if (whole)
        json_put_bool(b, "is_greedy", greedy);
    else
        json_put_null(b, "is_greedy");
    response_logprobs(b, c, choice_settled_slots(c));
    if (!whole) json_put_bool(b, "deadline", true);
    answer_put_noise(b, head->api->config, &job->noise);
    json_close(b, '}');
}

const ResponseForm response_score = {.id = "score", .object = "score", .event = "score", .choice = print_choice};
