#include "base/err.h"
#include "base/json/json_reader.h"
#include "base/json_write.h"
#include "server/api/chat/chat.h"
#include "server/api/chat/tools.h"
#include "server/api/completions/request_draft.h"
#include "server/api/responses/input.h"
#include "server/api/responses/responses.h"

#include <limits.h>
#include <string.h>

static void put_said(Buffer *b, const char *name, const cJSON *value, const char *absent) {
    if (json_is_null(value))
        json_put_raw(b, name, absent, strlen(absent));
    else
        json_put_item(b, name, value);
}

/* What the answer tells again: members of an object. */
static int keep_said(RequestDraft *d, ApiError *e) {
    Buffer said = {0};
    json_put_text(&said, "instructions", d->instructions);
    json_put_bool(&said, "parallel_tool_calls", d->parallel_tool_calls);
    put_said(&said, "tool_choice", d->tool_choice, "\"auto\"");
    put_said(&said, "tools", d->tools, "[]");
    d->request.said = json_try_text(&said);
    return d->request.said ? 0 : api_no_memory(e);
}

static int read_responses(void *out, const void *context, ApiError *e) {
    RequestDraft *d = out;
    CompletionRequest *r = &d->request;
    ResponseInput chat = {0};
    if (d->previous_response_id)
        return api_fail(e, 400, NULL, "previous_response_id",
                        "previous_response_id is not supported: nothing is stored, send the conversation in input");
    if (r->stream_from > 0 && !r->stream)
        return api_fail(e, 400, NULL, "stream_from", "stream_from is %d, but stream is false: a response is sent whole",
                        r->stream_from);
    int most = ((const ApiContext *)context)->limits.messages;
    int rc = keep_said(d, e) || response_input_open(&chat, d, most, e) ? -1 : 0;
    if (rc == 0) {
        d->messages = chat.messages;
        d->tools = chat.tools;
        d->tool_choice = chat.choice;
        rc = chat_fields.finish(d, context, e);
        if (rc) response_input_name(&chat, e);
    }
    response_input_free(&chat);
    r->form = &response_responses;
    r->n = r->best_of = 1;
    return rc;
}

/* ---- the table ---- */

static const Type item = {
    .kind = TYPE_MAP, .of = {&api_text_type}, .schema = "{\"$ref\":\"#/components/schemas/InputItem\"}"};
static const Type items = {.kind = TYPE_ARRAY, .low = 1, .limit = "--max-messages", .of = {&item}};
static const Type tool = {
    .kind = TYPE_MAP, .of = {&api_text_type}, .schema = "{\"$ref\":\"#/components/schemas/ResponseTool\"}"};
static const Type tools = {.kind = TYPE_ARRAY, .high = TOOLS_MOST, .of = {&tool}};
static const Type choice_word = {.kind = TYPE_STRING, .schema = "{\"enum\":[\"none\",\"auto\",\"required\"]}"};
static const Type choice_tool = {
    .kind = TYPE_MAP,
    .of = {&api_text_type},
    .schema = "{\"type\":\"object\",\"properties\":{\"type\":{\"const\":\"function\"},\"name\":{\"type\":\"string\"}},"
              "\"required\":[\"type\",\"name\"],\"additionalProperties\":false}"};
static const Type tool_choice = {.kind = TYPE_ONE_OF, .of = {&choice_word, &choice_tool}};
static const Type input = {.kind = TYPE_ONE_OF, .of = {&api_text_type, &items}};

#define NEUTRAL(field, values, why)                                                                                    \
    { .name = field, .kind = FIELD_NEUTRAL, .neutral = values, .absent = "none", .help = why }
#define ABSENT(field)                                                                                                  \
    { .name = field, .kind = FIELD_NONE }
static const Field rows[] = {
    {DRAFT_FIELD(input, FIELD_OTHER), .type = &input, .absent = "required",
     .help = "What the user says; or messages, those of former answers among them, whose content is a string or parts "
             "`{\"type\":\"input_text\",\"text\":...}`, items `function_call`, and `function_call_output` with its "
             "`call_id` and `output`."},
    {DRAFT_FIELD(instructions, FIELD_TEXT), .absent = "none",
     .help = "The system message in front of `input`, one of `--max-messages`."},
    {.name = "max_output_tokens",
     .kind = FIELD_INT,
     .offset = offsetof(RequestDraft, request.max_tokens),
     .low = -1,
     .high = INT_MAX,
     .fallback = API_ABSENT,
     .absent = "-1",
     .help = "Tokens to generate at most; -1: as many as the context holds."},
    {DRAFT_FIELD(previous_response_id, FIELD_TEXT), .absent = "none", .help = "Refused: nothing is stored."},
    NEUTRAL("background", "[false]", "Nothing is computed without a connection."),
    NEUTRAL("conversation", "[]", "Nothing is stored."),
    NEUTRAL("include", "[[],[\"reasoning.encrypted_content\"]]", "There is no more to tell, and no reasoning."),
    NEUTRAL("max_tool_calls", NULL, "Of a server's own tools, of which there are none."),
    NEUTRAL("reasoning", NULL, "For models that take it."),
    NEUTRAL("prompt", "[]", "No template of a prompt is stored."),
    NEUTRAL("store", "[true,false]", "Nothing is stored, and what would need it is refused."),
    NEUTRAL("stream_options", "[{},{\"include_obfuscation\":false}]", "There is no more to choose."),
    {FORM_FIELD("text", api_text_format_read, &api_text_format_type),
     .help = "`format` is as `response_format`, with what that has in `json_schema` beside `type`: "
             "`{\"format\":{\"type\":\"json_schema\",\"name\":...,\"schema\":...}}`. `verbosity` says nothing more."},
    {DRAFT_FIELD(tool_choice, FIELD_OTHER), .type = &tool_choice, .absent = "`auto`",
     .help = "As in `/v1/chat/completions`; one tool is `{\"type\":\"function\",\"name\":...}`."},
    {DRAFT_FIELD(tools, FIELD_OTHER), .type = &tools, .absent = "none",
     .help = "As in `/v1/chat/completions`, with what those have in `function` beside `type`. Those of OpenAI's own "
             "(`namespace`, `web_search`, …) may be among them; the model is not told of them, and so it calls none."},
    NEUTRAL("top_logprobs", "[0]", "No token's logprobs are told."),
    NEUTRAL("truncation", "[\"disabled\"]", "No input is shortened."),
    ABSENT("messages"),
    ABSENT("n"),
    ABSENT("best_of"),
    ABSENT("diversity"),
    ABSENT("logprobs"),
    ABSENT("prompt_logprobs"),
    ABSENT("return_token_ids"),
    ABSENT("max_tokens"),
    ABSENT("max_completion_tokens"),
    ABSENT("n_predict"),
    ABSENT("echo"),
};

const FieldList responses_fields = {.rows = rows, .n = COUNTOF(rows), .also = &chat_fields, .finish = read_responses};
