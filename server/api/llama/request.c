#include "base/err.h"
#include "server/api/completions/request_draft.h"
#include "server/api/llama/llama.h"

#include <limits.h>

#define ABSENT(field)                                                                                                  \
    { .name = field, .kind = FIELD_NONE }
static const Field rows[] = {
    {DRAFT_FIELD(n_predict, FIELD_INT), .low = -1, .high = INT_MAX, .fallback = API_ABSENT, .absent = "-1",
     .help = "Tokens to generate at most; -1: as many as the context holds."},
    {REQUEST_FIELD(max_tokens, FIELD_INT), .low = -1, .high = INT_MAX, .fallback = API_ABSENT, .absent = "`n_predict`",
     .help = "The same as `n_predict`."},
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
    d->default_tokens = -1;
    r->return_token_ids = r->return_token_ids || d->return_tokens || r->stream;
    return 0;
}

const FieldList llama_fields = {.rows = rows, .n = COUNTOF(rows), .also = &completion_fields, .finish = read_prompts};
