#include "server/api/chat/chat.h"

#include "base/err.h"
#include "base/memory.h"
#include "base/json/json_reader.h"
#include "server/api/completions/request_draft.h"
#include "server/api/completions/response.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>

/* ---- messages ---- */

typedef struct Reading {
    ApiError *error;
    Buffer *ignored;       /* of a lenient server; else NULL */
    ChatMessage *messages; /* their contents are owned */
    int n;
} Reading;

/* `what` names a field of message i, "" the message itself. */
static int message_fail(const Reading *reading, int i, const char *what, const char *why) {
    char name[80];
    snprintf(name, sizeof name, "messages[%d]%s%.40s", i, *what ? "." : "", what);
    return api_fail(reading->error, 400, NULL, name, "%s %s", name, why);
}

static int read_role(const Reading *reading, const cJSON *item) {
    static const struct {
        const char *name;
        ChatRole role;
    } roles[] = {
        {"system", CHAT_SYSTEM}, {"developer", CHAT_SYSTEM}, {"user", CHAT_USER}, {"assistant", CHAT_ASSISTANT}};
    const char *name = cJSON_GetStringValue(item);
    for (size_t i = 0; i < COUNTOF(roles) && name; i++)
        if (!strcmp(name, roles[i].name)) {
            reading->messages[reading->n].role = roles[i].role;
            return 0;
        }
    if (name && (!strcmp(name, "tool") || !strcmp(name, "function")))
        return message_fail(reading, reading->n, "role", "is a tool's: no template here writes what tools answer");
    return message_fail(reading, reading->n, "role", "must be \"system\", \"developer\", \"user\" or \"assistant\"");
}

/* A string, or parts of type text, which are lines. */
static int read_content(const Reading *reading, const cJSON *item) {
    Buffer text = {0};
    const cJSON *part;
    if (!cJSON_IsString(item) && !cJSON_IsArray(item))
        return message_fail(reading, reading->n, "content", "must be a string or an array of parts of type text");
    if (cJSON_IsString(item)) buffer_text(&text, item->valuestring);
    cJSON_ArrayForEach(part, item) {
        const char *type = cJSON_GetStringValue(json_field(part, "type"));
        const char *line = cJSON_GetStringValue(json_field(part, "text"));
        if (!type || strcmp(type, "text") || !line || cJSON_GetArraySize(part) != 2) {
            buffer_free(&text);
            return message_fail(reading, reading->n, "content", "may hold parts {\"type\":\"text\",\"text\":...} only");
        }
        if (part != item->child) buffer_text(&text, "\n");
        buffer_text(&text, line);
    }
    buffer_append(&text, "", 1);
    if (text.failed) {
        buffer_free(&text);
        return api_no_memory(reading->error);
    }
    free((char *)reading->messages[reading->n].content); /* no key comes twice, but "content" may be cut short */
    reading->messages[reading->n].content = text.data;
    return 0;
}

/* What an answer of ours or of others carries besides, sent back as it came; and who speaks, which no template writes.
 */
static bool is_without_effect(const cJSON *item) {
    static const char *const names[] = {"refusal", "annotations", "audio", "function_call", "tool_calls", "name"};
    bool empty = cJSON_IsNull(item) || (cJSON_IsArray(item) && !item->child);
    if (cJSON_IsString(item) && !strcmp(item->string, "name")) return true;
    for (size_t i = 0; i < COUNTOF(names); i++)
        if (!strcmp(item->string, names[i])) return empty;
    return false;
}

static int read_more(const Reading *reading, const cJSON *item) {
    char name[128];
    if (is_without_effect(item)) return 0;
    if (!reading->ignored)
        return message_fail(reading, reading->n, item->string,
                            "is not supported: a message has role, content and name");
    snprintf(name, sizeof name, "messages[%d].%.100s", reading->n, item->string);
    return fields_leave_aside(reading->ignored, name, reading->error);
}

static int read_message(const Reading *reading, const cJSON *object) {
    const cJSON *item, *role = NULL, *content = NULL;
    if (!cJSON_IsObject(object)) return message_fail(reading, reading->n, "", "must be an object");
    cJSON_ArrayForEach(item, object) {
        if (!strcmp(item->string, "role"))
            role = item;
        else if (!strcmp(item->string, "content"))
            content = item;
        else if (read_more(reading, item))
            return -1;
    }
    return read_role(reading, role) || read_content(reading, content) ? -1 : 0;
}

static int encode(const Reading *reading, RequestDraft *d, const ApiContext *ctx) {
    CompletionRequest *r = &d->request;
    TokenList list = {0};
    ChatFault fault;
    Err err;
    ChatWords words = ctx->chat->words;
    words.date = d->date_string;
    words.think = d->enable_thinking;
    r->prompts = try_calloc(1, sizeof *r->prompts);
    if (!r->prompts) return api_no_memory(reading->error);
    r->n_prompts = 1;
    int rc = chat_encode(ctx->chat, &words, reading->messages, reading->n, d->parse_special, ctx->tokenizer, &list,
                         &fault, &err);
    *r->prompts = (Prompt){.ids = list.ids, .n = (int)list.n};
    if (rc && fault.why) return message_fail(reading, fault.message, "role", fault.why);
    if (rc) return api_fail(reading->error, 400, NULL, "messages", "%s", err.msg);
    return list.n ? 0 : api_fail(reading->error, 400, NULL, "messages", "the conversation has no token");
}

static int read_messages(RequestDraft *d, const ApiContext *ctx, ApiError *e) {
    const cJSON *object;
    if (!cJSON_IsArray(d->messages)) return api_fail(e, 400, NULL, "messages", "messages must be an array of messages");
    int n = cJSON_GetArraySize(d->messages), rc = 0;
    if (n == 0) return api_fail(e, 400, NULL, "messages", "messages must not be an empty array");
    if (n > ctx->limits.messages)
        return api_fail(e, 400, NULL, "messages", "messages has %d messages, the limit is %d", n, ctx->limits.messages);
    if (!ctx->chat->form) return api_fail(e, 400, "no_chat_template", "messages", "%s", ctx->chat->why);
    if (d->date_string && !ctx->chat->form->dated)
        return api_fail(e, 400, NULL, "chat_template_kwargs.date_string",
                        "chat_template_kwargs.date_string: the template %s writes no date", ctx->chat->form->name);
    Reading reading = {.error = e, .ignored = d->ignored, .messages = try_calloc((size_t)n, sizeof *reading.messages)};
    if (!reading.messages) return api_no_memory(e);
    for (object = d->messages->child; object && rc == 0; object = object->next) {
        rc = read_message(&reading, object);
        reading.n++;
    }
    if (rc == 0) rc = encode(&reading, d, ctx);
    for (int i = 0; i < reading.n; i++) free((char *)reading.messages[i].content);
    free(reading.messages);
    return rc;
}

/* ---- the table ---- */

static const Type message = {
    .kind = TYPE_MAP, .of = {&api_text_type}, .schema = "{\"$ref\":\"#/components/schemas/Message\"}"};
static const Type messages = {.kind = TYPE_ARRAY, .low = 1, .limit = "--max-messages", .of = {&message}};

#define NEUTRAL(field, values, why)                                                                                    \
    { .name = field, .kind = FIELD_NEUTRAL, .neutral = values, .absent = "none", .help = why }
static const Field template_kwargs[] = {
    {DRAFT_FIELD(date_string, FIELD_TEXT), .absent = "`26 Jul 2024`",
     .help = "What a template that writes a date (`llama-3.1`) calls today; others refuse it. Never the true date by "
             "itself, for the same request has the same prompt tomorrow."},
    {DRAFT_FIELD(enable_thinking, FIELD_BOOL), .fallback = true,
     .help = "False: a template that lets the model think first (`qwen3`) leaves it no place for that."},
};

static const Field rows[] = {
    {DRAFT_FIELD(messages, FIELD_OTHER), .type = &messages, .absent = "required",
     .help =
         "Objects of `role` (`system`, its other name `developer`, `user`, `assistant`) and `content`, a string or "
         "an array of parts `{\"type\":\"text\",\"text\":...}`, which are joined by newlines; `name` may be there, and "
         "no template writes it. Special tokens that a "
         "content spells out are text, so that nobody forges a turn, unless `parse_special` is true."},
    NEUTRAL("add_special_tokens", "[false]", "The template writes them."),
    {.name = "chat_template_kwargs",
     .kind = FIELD_OBJECT,
     .offset = offsetof(RequestDraft, chat_template_kwargs),
     .fields = &(const FieldList){.rows = template_kwargs, .n = COUNTOF(template_kwargs)},
     .absent = "none",
     .help = "What the template is given besides the messages."},
    {.name = "echo", .kind = FIELD_NONE},
    NEUTRAL("function_call", "[\"none\",\"auto\"]", "No model here calls functions."),
    NEUTRAL("functions", "[[]]", "No model here calls functions."),
    {.name = "logprobs",
     .kind = FIELD_BOOL,
     .offset = offsetof(RequestDraft, chat_logprobs),
     .help = "Log-probabilities of the tokens."},
    {REQUEST_FIELD(max_tokens, FIELD_INT), .low = -1, .high = INT_MAX, .fallback = API_ABSENT, .absent = "-1",
     .help = "Tokens to generate at most; -1: as many as the context holds."},
    NEUTRAL("modalities", "[[\"text\"]]", "Answers are texts."),
    {.name = "n_probs", .kind = FIELD_NONE},
    {DRAFT_FIELD(parse_special, FIELD_BOOL), .help = "Special tokens that a content spells out become their ids."},
    NEUTRAL("parallel_tool_calls", "[true,false]", "No model here calls functions."),
    {.name = "prompt", .kind = FIELD_NONE},
    {.name = "suffix", .kind = FIELD_NONE},
    NEUTRAL("tool_choice", "[\"none\",\"auto\"]", "No model here calls functions."),
    NEUTRAL("tools", "[[]]", "No model here calls functions."),
    {DRAFT_FIELD(top_logprobs, FIELD_INT), .high = 20, .fallback = -1, .absent = "none",
     .help = "So many alternatives for each token. Only with `logprobs: true`."},
};
#undef NEUTRAL

/* ---- from the fields to the prompt ---- */

/* What ends a turn ends the answer, as the end of text does; an answer out of a list ends by itself. */
static int add_ends(CompletionRequest *r, const ApiContext *ctx, ApiError *e) {
    const char *stop = ctx->chat->form->stop;
    int *ids = try_realloc(r->stop_ids, ((size_t)r->n_stop_ids + CHAT_ENDS) * sizeof *ids);
    if (!ids) return api_no_memory(e);
    r->stop_ids = ids;
    r->n_stop_ids += chat_ends(ctx->chat, ctx->tokenizer, ids + r->n_stop_ids);
    return stop && !r->trie && stop_set_add(&r->stop, stop) ? api_no_memory(e) : 0;
}

/* Makes the prompt out of the messages, and settles what these fields say in their own way. */
static int read_chat(void *out, const void *context, ApiError *e) {
    RequestDraft *d = out;
    CompletionRequest *r = &d->request;
    const ApiContext *ctx = context;
    r->form = &response_chat;
    d->default_tokens = -1;
    if (!d->messages) return api_fail(e, 400, NULL, "messages", "messages is missing");
    if (d->top_logprobs >= 0 && !d->chat_logprobs)
        return api_fail(e, 400, NULL, "top_logprobs", "top_logprobs is only allowed with logprobs: true");
    if (read_messages(d, ctx, e)) return -1;
    if (d->chat_logprobs) r->logprobs = MAX(d->top_logprobs, 0);
    return r->ignore_eos ? 0 : add_ends(r, ctx, e);
}

const FieldList chat_fields = {.rows = rows, .n = COUNTOF(rows), .also = &completion_fields, .finish = read_chat};
