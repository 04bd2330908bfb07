#include "base/err.h"
#include "base/json/json_reader.h"
#include "server/api/chat/chat.h"
#include "server/api/completions/request_draft.h"
#include "server/api/responses/responses.h"

#include <limits.h>
#include <string.h>

/* ---- input ---- */

static int input_fail(ApiError *e, int i, const char *what, const char *why) {
    char name[96];
    snprintf(name, sizeof name, "input[%d]%.60s", i, what);
    return api_fail(e, 400, NULL, name, "%s %s", name, why);
}

/* Parts of text become those of a chat's message. */
static cJSON *content_of(const cJSON *content, int i, Buffer *ignored, ApiError *e) {
    /* annotations and logprobs are of a former answer */
    static const char *const known[] = {"type", "text", "annotations", "logprobs", NULL};
    char name[64];
    snprintf(name, sizeof name, "input[%d].content", i);
    cJSON *parts = cJSON_IsArray(content) ? cJSON_CreateArray() : cJSON_Duplicate(content, true);
    const cJSON *part;
    if (cJSON_IsArray(content)) cJSON_ArrayForEach(part, content) {
            const char *type = cJSON_GetStringValue(json_field(part, "type"));
            const char *text = cJSON_GetStringValue(json_field(part, "text"));
            cJSON *copy = cJSON_CreateObject();
            if (!type || !text || !(!strcmp(type, "input_text") || !strcmp(type, "output_text"))) {
                cJSON_Delete(copy);
                cJSON_Delete(parts);
                input_fail(e, i, ".content", "may hold parts {\"type\":\"input_text\",\"text\":...} only");
                return NULL;
            }
            if (fields_check_members(part, name, known, ignored, e)) {
                cJSON_Delete(copy);
                cJSON_Delete(parts);
                return NULL;
            }
            cJSON_AddStringToObject(copy, "type", "text");
            cJSON_AddStringToObject(copy, "text", text);
            if (!copy) { /* the others would stand for all */
                cJSON_Delete(parts);
                parts = NULL;
                break;
            }
            cJSON_AddItemToArray(parts, copy);
        }
    if (!parts) api_no_memory(e);
    return parts;
}

/* One message, of the client's or out of a former answer's `output`. */
static int add_item(cJSON *messages, const cJSON *item, int i, Buffer *ignored, ApiError *e) {
    static const char *const known[] = {"type", "role", "content", "id", "status", "phase", NULL};
    char name[64];
    const char *type = cJSON_GetStringValue(json_field(item, "type"));
    if (!cJSON_IsObject(item) || (type && strcmp(type, "message")) || !json_field(item, "content"))
        return input_fail(e, i, "", "is not supported: an item is a message with role and content");
    snprintf(name, sizeof name, "input[%d]", i);
    if (fields_check_members(item, name, known, ignored, e)) return -1;
    cJSON *content = content_of(json_field(item, "content"), i, ignored, e), *message = cJSON_CreateObject();
    if (!content || !message) {
        cJSON_Delete(content);
        cJSON_Delete(message);
        return content ? api_no_memory(e) : -1;
    }
    cJSON_AddItemToObjectCS(message, "role", cJSON_Duplicate(json_field(item, "role"), true));
    cJSON_AddItemToObjectCS(message, "content", content);
    cJSON_AddItemToArray(messages, message);
    return 0;
}

static int add_text(cJSON *messages, const char *role, const char *text, ApiError *e) {
    cJSON *message = cJSON_CreateObject();
    if (!cJSON_AddStringToObject(message, "role", role) || !cJSON_AddStringToObject(message, "content", text)) {
        cJSON_Delete(message);
        return api_no_memory(e);
    }
    cJSON_AddItemToArray(messages, message);
    return 0;
}

static int add_input(cJSON *messages, const cJSON *input, Buffer *ignored, ApiError *e) {
    int i = 0, rc = 0;
    if (!input) return api_fail(e, 400, NULL, "input", "input is missing");
    if (cJSON_IsString(input)) return add_text(messages, "user", input->valuestring, e);
    if (!cJSON_IsArray(input) || !input->child)
        return api_fail(e, 400, NULL, "input", "input must be a string or an array of messages");
    for (const cJSON *item = input->child; item && rc == 0; item = item->next)
        rc = add_item(messages, item, i++, ignored, e);
    return rc;
}

/* Messages are counted from the instructions on: an error names those of the input. */
static void name_input(ApiError *e, bool instructed) {
    int i;
    char rest[64] = "", name[96], message[sizeof e->message];
    size_t n = strlen(e->param);
    if (!strcmp(e->param, "messages")) strcpy(e->param, "input");
    if (sscanf(e->param, "messages[%d]%63s", &i, rest) < 1) return;
    snprintf(name, sizeof name, i < instructed ? "instructions" : "input[%d]%s", i - instructed, rest);
    if (!strncmp(e->message, e->param, n)) {
        snprintf(message, sizeof message, "%s%.400s", name, e->message + n);
        memcpy(e->message, message, sizeof message);
    }
    memcpy(e->param, name, sizeof name);
}

static int read_responses(void *out, const void *context, ApiError *e) {
    RequestDraft *d = out;
    CompletionRequest *r = &d->request;
    if (d->previous_response_id)
        return api_fail(e, 400, NULL, "previous_response_id",
                        "previous_response_id is not supported: nothing is stored, send the conversation in input");
    if (r->stream_from > 0 && !r->stream)
        return api_fail(e, 400, NULL, "stream_from", "stream_from is %d, but stream is false: a response is sent whole",
                        r->stream_from);
    cJSON *messages = cJSON_CreateArray();
    if (!messages) return api_no_memory(e);
    int rc = d->instructions ? add_text(messages, "system", d->instructions, e) : 0;
    if (rc == 0) rc = add_input(messages, d->input, d->ignored, e);
    if (rc == 0) {
        d->messages = messages;
        rc = chat_fields.finish(d, context, e);
        if (rc) name_input(e, d->instructions != NULL);
    }
    cJSON_Delete(messages);
    r->form = &response_responses;
    r->n = r->best_of = 1;
    return rc;
}

/* ---- the table ---- */

static const Type item = {
    .kind = TYPE_MAP, .of = {&api_text_type}, .schema = "{\"$ref\":\"#/components/schemas/InputItem\"}"};
static const Type items = {.kind = TYPE_ARRAY, .low = 1, .limit = "--max-messages", .of = {&item}};
static const Type input = {.kind = TYPE_ONE_OF, .of = {&api_text_type, &items}};

#define NEUTRAL(field, values, why)                                                                                    \
    { .name = field, .kind = FIELD_NEUTRAL, .neutral = values, .absent = "none", .help = why }
#define ABSENT(field)                                                                                                  \
    { .name = field, .kind = FIELD_NONE }
static const Field rows[] = {
    {DRAFT_FIELD(input, FIELD_OTHER), .type = &input, .absent = "required",
     .help = "What the user says; or messages, those of former answers among them, whose content is a string or parts "
             "`{\"type\":\"input_text\",\"text\":...}`."},
    {DRAFT_FIELD(instructions, FIELD_TEXT), .absent = "none", .help = "The system message in front of `input`."},
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
    NEUTRAL("include", "[[]]", "There is no more to tell."),
    NEUTRAL("max_tool_calls", NULL, "No tool is called."),
    NEUTRAL("parallel_tool_calls", "[true,false]", "No tool is called."),
    NEUTRAL("reasoning", NULL, "For models that take it."),
    NEUTRAL("prompt", "[]", "No template of a prompt is stored."),
    NEUTRAL("store", "[true,false]", "Nothing is stored, and what would need it is refused."),
    NEUTRAL("stream_options", "[{},{\"include_obfuscation\":false}]", "There is no more to choose."),
    {FORM_FIELD("text", api_text_format_read, &api_text_format_type),
     .help = "`format` is as `response_format`, with what that has in `json_schema` beside `type`: "
             "`{\"format\":{\"type\":\"json_schema\",\"name\":...,\"schema\":...}}`. `verbosity` says nothing more."},
    NEUTRAL("tool_choice", "[\"none\",\"auto\"]", "No tool is called."),
    NEUTRAL("tools", "[[]]", "No tool is called."),
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
