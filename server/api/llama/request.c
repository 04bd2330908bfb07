#include "base/err.h"
#include "base/json/json_reader.h"
#include "base/memory.h"
#include "server/api/completions/request_draft.h"
#include "server/api/llama/llama.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>

enum { NAMES = 64, NAME_BYTES = 128 };

static const Type name = {.kind = TYPE_STRING, .low = 1, .high = NAME_BYTES};
static const Type names = {.kind = TYPE_ARRAY, .high = NAMES, .of = {&name}};

static bool is_among(const char *list, const char *wanted) {
    while (*list && strcmp(list, wanted) != 0) list += strlen(list) + 1;
    return *list;
}

/* No name: the whole answer. */
static int read_response_fields(const FieldReader *r, const cJSON *item) {
    CompletionRequest *request = &((RequestDraft *)r->out)->request;
    const cJSON *element;
    size_t n = 0;
    if (!cJSON_IsArray(item)) return field_fail(r, item, "an array of strings");
    if (cJSON_GetArraySize(item) > NAMES)
        return api_fail(r->error, 400, NULL, r->name, "%s has %d names, the limit is %d", r->name,
                        cJSON_GetArraySize(item), NAMES);
    if (!item->child) return 0;
    char *list = request->response_fields = try_calloc((size_t)cJSON_GetArraySize(item) * (NAME_BYTES + 1) + 1, 1);
    if (!list) return api_no_memory(r->error);
    cJSON_ArrayForEach(element, item) {
        size_t length = cJSON_IsString(element) ? strlen(element->valuestring) : 0;
        if (length == 0 || length > NAME_BYTES) return field_fail(r, element, "names of 1 to 128 bytes");
        if (is_among(list, element->valuestring))
            return api_fail(r->error, 400, NULL, r->name, "%s has \"%s\" twice", r->name,
                            show_text(element->valuestring, length).text);
        memcpy(list + n, element->valuestring, length);
        n += length + 1;
    }
    return 0;
}

#define ABSENT(field)                                                                                                  \
    { .name = field, .kind = FIELD_NONE }
static const Field rows[] = {
    {DRAFT_FIELD(n_predict, FIELD_INT), .low = -1, .high = INT_MAX, .fallback = API_ABSENT, .absent = "-1",
     .help = "Tokens to generate at most, and no more than the context holds with the prompt; -1: as many as that."},
    {REQUEST_FIELD(max_tokens, FIELD_INT), .low = -1, .high = INT_MAX, .fallback = API_ABSENT, .absent = "`n_predict`",
     .help = "The same as `n_predict`."},
    {REQUEST_FIELD(post_sampling_probs, FIELD_BOOL),
     .help = "With `n_probs`: `prob` and `top_probs` have the probabilities that the token was drawn by, behind all "
             "filters, in place of the model's own `logprob` and `top_logprobs`; what a filter dropped has 0. Neither "
             "with a form nor with `best_of`."},
    {.name = "response_fields",
     .kind = FIELD_OTHER,
     .read = read_response_fields,
     .type = &names,
     .absent = "all",
     .help = "The answer, and a stream's last event, has only these fields; `generation_settings/seed` is the field "
             "`seed` of `generation_settings`, by this name. What an answer does not have is left out."},
    {REQUEST_FIELD(return_token_ids, FIELD_BOOL), .help = "The same as `return_tokens`."},
    {.name = "return_tokens",
     .kind = FIELD_BOOL,
     .offset = offsetof(RequestDraft, return_tokens),
     .help = "`tokens` of an answer that is no stream has their ids. A stream's events always do."},
    {REQUEST_FIELD(timings_per_token, FIELD_BOOL), .help = "Every event of a stream has `timings`."},
    ABSENT("diversity"),
    ABSENT("echo"),
    ABSENT("logprobs"),
    ABSENT("prompt_logprobs"),
    ABSENT("stream_options"),
};

static int read_prompts(void *out, const void *context, ApiError *e) {
    RequestDraft *d = out;
    CompletionRequest *r = &d->request;
    if (completion_fields.finish(d, context, e)) return -1;
    r->form = &response_llama;
    if (r->post_sampling_probs && (r->walk || r->best_of > r->n))
        return api_fail(e, 400, NULL, "post_sampling_probs", "post_sampling_probs does not go with %s",
                        r->walk ? d->form_field : "best_of");
    d->default_tokens = -1;
    d->fits_context = true;
    r->return_token_ids = r->return_token_ids || d->return_tokens || r->stream;
    return 0;
}

const FieldList llama_fields = {.rows = rows, .n = COUNTOF(rows), .also = &completion_fields, .finish = read_prompts};
