#include "server/api/chat/messages.h"

#include "base/err.h"
#include "base/json/json_reader.h"
#include "base/memory.h"
#include "weights/chat.h"

#include <stdlib.h>
#include <string.h>

/* ---- one message ---- */

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

/* ---- all of them ---- */

/* What there is then is read_free's. */
static int read_all(Reading *reading, const RequestDraft *d, const ApiContext *ctx, ApiError *e) {
    *reading = (Reading){.error = e, .ignored = d->ignored};
    if (!d->messages) return api_fail(e, 400, NULL, "messages", "messages is missing");
    if (!cJSON_IsArray(d->messages)) return api_fail(e, 400, NULL, "messages", "messages must be an array of messages");
    int n = cJSON_GetArraySize(d->messages);
    if (n == 0) return api_fail(e, 400, NULL, "messages", "messages must not be an empty array");
    if (n > ctx->limits.messages)
        return api_fail(e, 400, NULL, "messages", "messages has %d messages, the limit is %d", n, ctx->limits.messages);
    if (!ctx->chat->form) return api_fail(e, 400, "no_chat_template", "messages", "%s", ctx->chat->why);
    if (d->date_string && !ctx->chat->form->dated)
        return api_fail(e, 400, NULL, "chat_template_kwargs.date_string",
                        "chat_template_kwargs.date_string: the template %s writes no date", ctx->chat->form->name);
    reading->messages = try_calloc((size_t)n, sizeof *reading->messages);
    if (!reading->messages) return api_no_memory(e);
    int rc = 0;
    for (const cJSON *object = d->messages->child; object && rc == 0; object = object->next) {
        rc = read_message(reading, object);
        reading->n++;
    }
    return rc;
}

static void read_free(Reading *reading) {
    for (int i = 0; i < reading->n; i++) free((char *)reading->messages[i].content);
    free(reading->messages);
}

/* Fields that are about the last message, which is the assistant's. */
static int check_last(const Reading *reading, const RequestDraft *d) {
    const char *field = d->continue_final_message ? "continue_final_message" : d->chat_echo ? "echo" : NULL;
    if (field && reading->messages[reading->n - 1].role != CHAT_ASSISTANT)
        return api_fail(reading->error, 400, NULL, field, "%s: the last message is not the assistant's", field);
    if (d->continue_final_message && d->opening == DRAFT_OPENED)
        return api_fail(reading->error, 400, NULL, "add_generation_prompt",
                        "add_generation_prompt opens a new answer, continue_final_message goes on with the last one");
    return 0;
}

static ChatWords words_of(const RequestDraft *d, const ApiContext *ctx) {
    ChatWords words = ctx->chat->words;
    words.date = d->date_string;
    words.think = d->enable_thinking;
    words.end = d->continue_final_message ? CHAT_UNFINISHED : d->opening == DRAFT_CLOSED ? CHAT_CLOSED : CHAT_OPENED;
    return words;
}

static int write_fail(const Reading *reading, const ChatFault *fault, const Err *err) {
    if (fault->why) return message_fail(reading, fault->message, "role", fault->why);
    return api_fail(reading->error, 400, NULL, "messages", "%s", err->msg);
}

static int encode(const Reading *reading, RequestDraft *d, const ApiContext *ctx) {
    CompletionRequest *r = &d->request;
    TokenList list = {0};
    ChatFault fault;
    Err err;
    ChatWords words = words_of(d, ctx);
    r->prompts = try_calloc(1, sizeof *r->prompts);
    if (!r->prompts) return api_no_memory(reading->error);
    r->n_prompts = 1;
    int rc = chat_encode(ctx->chat, &words, reading->messages, reading->n, d->parse_special, ctx->tokenizer, &list,
                         &fault, &err);
    *r->prompts = (Prompt){.ids = list.ids, .n = (int)list.n};
    if (rc) return write_fail(reading, &fault, &err);
    return list.n ? 0 : api_fail(reading->error, 400, NULL, "messages", "the conversation has no token");
}

static int keep_prefix(const Reading *reading, RequestDraft *d) {
    if (!d->chat_echo) return 0;
    d->request.prefix = try_strdup(reading->messages[reading->n - 1].content);
    return d->request.prefix ? 0 : api_no_memory(reading->error);
}

int messages_prompt(RequestDraft *d, const ApiContext *ctx, ApiError *e) {
    Reading reading;
    bool bad = read_all(&reading, d, ctx, e) || check_last(&reading, d) || encode(&reading, d, ctx) ||
               keep_prefix(&reading, d);
    read_free(&reading);
    return bad ? -1 : 0;
}

int messages_text(const RequestDraft *d, const ApiContext *ctx, Buffer *out, ApiError *e) {
    Reading reading;
    ChatFault fault;
    Err err;
    ChatWords words = words_of(d, ctx);
    int rc = read_all(&reading, d, ctx, e) || check_last(&reading, d) ? -1 : 0;
    if (rc == 0 && chat_write(ctx->chat, &words, reading.messages, reading.n, out, &fault, &err))
        rc = write_fail(&reading, &fault, &err);
    read_free(&reading);
    return rc;
}
