#include "server/api/chat/replay.h"

#include "base/json_write.h"
#include "base/json/json_reader.h"
#include "base/memory.h"
#include "server/api/chat/chat.h"
#include "server/api/completions/request_draft.h"
#include "server/api/completions/response.h"

#include <stdlib.h>
#include <string.h>

/* ---- the request ---- */

/* Fields of a chat, or of a completion. */
static int read_request(const FieldReader *r, const cJSON *item) {
    RequestDraft *draft = r->out;
    if (!cJSON_IsObject(item)) return field_fail(r, item, "an object");
    draft->replayed = json_field(item, "messages") ? &chat_fields : &completion_fields;
    return fields_read(r, item, draft->replayed);
}

static int keep_response(const FieldReader *r, const cJSON *item) {
    RequestDraft *draft = r->out;
    if (!cJSON_IsObject(item) && !(cJSON_IsArray(item) && item->child))
        return field_fail(r, item, "an object or an array of objects");
    draft->response = item;
    return 0;
}

static const Type object = {.kind = TYPE_MAP, .of = {&api_text_type}, .schema = "{\"type\":\"object\"}"};
static const Type objects = {.kind = TYPE_ARRAY, .low = 1, .of = {&object}};
static const Type response = {.kind = TYPE_ONE_OF, .of = {&object, &objects}};

static const Field rows[] = {
    {.name = "request",
     .kind = FIELD_OTHER,
     .read = read_request,
     .type = &object,
     .absent = "required",
     .help = "What was sent to `/v1/completions` or, if it has `messages`, to `/v1/chat/completions`."},
    {.name = "response",
     .kind = FIELD_OTHER,
     .read = keep_response,
     .type = &response,
     .absent = "required",
     .help = "What was answered: the object, or an array of the events of the stream. Of each choice `index`, `seed`, "
             "`noise_seed`, `finish_reason` and the text count, and `system_fingerprint`; the rest may be left out."},
};

/* What the choices were computed with, in place of what the request says. */
static int take_seeds(RequestDraft *d, ApiError *e) {
    CompletionRequest *r = &d->request;
    int n = r->previous->n;
    free(r->noise_seeds);
    r->noise_seeds = try_calloc((size_t)n, sizeof *r->noise_seeds);
    r->seeds = try_calloc((size_t)n, sizeof *r->seeds);
    if (!r->noise_seeds || !r->seeds) return api_no_memory(e);
    for (int i = 0; i < n; i++) {
        r->seeds[i] = r->previous->choices[i].seed;
        r->noise_seeds[i] = r->previous->choices[i].noise_seed;
    }
    d->n_noise_seeds = n;
    return 0;
}

static int read_replay(void *out, const void *context, ApiError *e) {
    RequestDraft *d = out;
    CompletionRequest *r = &d->request;
    const ApiContext *ctx = context;
    if (!d->replayed) return api_fail(e, 400, NULL, "request", "request is missing");
    if (!d->response) return api_fail(e, 400, NULL, "response", "response is missing");
    if (d->replayed->finish(d, ctx, e)) return -1;
    /* Of what the request asks for, the text alone. */
    r->form = &response_replay;
    r->stream = r->diversity = r->return_token_ids = false;
    r->logprobs = r->prompt_logprobs = -1;
    d->n_probs = r->deadline_ms = 0;
    r->best_of = r->n;
    if (r->n > ctx->limits.n) return 0; /* which is refused with the other counts */
    r->previous = previous_read(d->response, r->n_prompts * r->n, r->style, e);
    return r->previous ? take_seeds(d, e) : -1;
}

const FieldList replay_fields = {.rows = rows, .n = COUNTOF(rows), .finish = read_replay};

/* ---- the answer ---- */

static int64_t difference(const Choice *c, const PreviousChoice *previous) {
    size_t n = c->text.settled - c->text_sent;
    return previous_difference(previous, n ? c->text.text.data + c->text_sent : "", n);
}

/* A deadline of the server's own may have cut it short. */
static bool is_identical(const Choice *c, const PreviousChoice *previous) {
    bool same_end = previous->partial || !strcmp(previous->finish, choice_finish_name(c));
    return difference(c, previous) < 0 && same_end && c->finish != FINISH_DEADLINE;
}

static void print_choice(Buffer *b, const ResponseHead *head, const Choice *c, int index, Part part) {
    const PreviousChoice *previous = &c->rules->previous->choices[index];
    int64_t at = difference(c, previous);
    (void)part;
    json_open(b, NULL, '{');
    json_put_int(b, "index", index);
    json_put_bool(b, "identical", is_identical(c, previous));
    if (at < 0) {
        json_put_null(b, "first_difference");
    } else {
        json_open(b, "first_difference", '{');
        json_put_int(b, "byte", at);
        previous_put_around(b, "former", previous->text.data, previous->text.n, (size_t)at);
        previous_put_around(b, "now", c->text.text.data + c->text_sent, c->text.settled - c->text_sent, (size_t)at);
        json_close(b, '}');
    }
    json_put_some(b, "former_finish_reason", previous->finish);
    response_choice_end(b, head, c, 0, part);
    json_close(b, '}');
}

static void print_whole(Buffer *b, const ResponseHead *head, const Choice *first, const Choice *choices, int n) {
    const PreviousAnswer *previous = first->rules->previous;
    bool identical = true;
    for (int i = 0; i < n; i++) identical = identical && is_identical(&choices[i], &previous->choices[i]);
    json_put_bool(b, "identical", identical);
    json_open(b, "fingerprint", '{');
    json_put_some(b, "former", previous->fingerprint);
    json_put_text(b, "now", head->request->fingerprint);
    previous_put_parts(b, "differs_in", *previous->fingerprint ? previous->fingerprint : head->request->fingerprint,
                       head->request->fingerprint);
    json_close(b, '}');
}

const ResponseForm response_replay = {
    .id = "replay", .object = "replay", .event = "replay", .choice = print_choice, .more = print_whole};
