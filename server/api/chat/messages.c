#include "server/api/chat/messages.h"

#include "base/err.h"
#include "base/json/json_reader.h"
#include "base/memory.h"
#include "base/text.h"
#include "server/api/chat/tools.h"
#include "weights/chat.h"

#include <stdlib.h>
#include <string.h>

/* ---- one message ---- */

/* `what` names a field of message i, "" the message itself. */
static int message_fail(ApiError *e, int i, const char *what, const char *why) {
    char name[80];
    snprintf(name, sizeof name, "messages[%d]%s%.40s", i, *what ? "." : "", what);
    return api_fail(e, 400, NULL, name, "%s %s", name, why);
}

/* A member that a part of type text may not have, or NULL. cache_control says what Anthropic's servers keep. */
static const cJSON *odd_member(const cJSON *part) {
    static const char *const known[] = {"type", "text", "cache_control", NULL};
    const cJSON *item;
    cJSON_ArrayForEach(item, part) if (!cJSON_IsNull(item) && !text_is_in(item->string, known)) return item;
    return NULL;
}

/* A string, or parts of type text. Nothing where tools are called. */
static int check_content(const cJSON *content, bool calls, int i, ApiError *e) {
    const cJSON *part;
    if (cJSON_IsString(content) || (calls && json_is_null(content))) return 0;
    if (!cJSON_IsArray(content))
        return message_fail(e, i, "content", "must be a string or an array of parts of type text");
    for (part = content->child; part; part = part->next)
        if (!json_is_text(json_field(part, "type"), "text") || !cJSON_IsString(json_field(part, "text")) ||
            odd_member(part))
            return message_fail(e, i, "content", "may hold parts {\"type\":\"text\",\"text\":...} only");
    return 0;
}

static int check_message(const cJSON *message, int i, ApiError *e) {
    if (!cJSON_IsObject(message)) return message_fail(e, i, "", "must be an object");
    const cJSON *role = json_field(message, "role"), *calls = json_field(message, "tool_calls"), *call;
    if (!cJSON_IsString(role) || !*role->valuestring) return message_fail(e, i, "role", "must be a string");
    if (!json_is_null(calls) && !cJSON_IsArray(calls)) return message_fail(e, i, "tool_calls", "must be an array");
    for (call = calls ? calls->child : NULL; call; call = call->next)
        if (!cJSON_IsObject(call)) return message_fail(e, i, "tool_calls", "may hold objects only");
    return check_content(json_field(message, "content"), cJSON_IsArray(calls) && calls->child, i, e);
}

/* ---- all of them ---- */

static int check_messages(const RequestDraft *d, const ApiContext *ctx, ApiError *e) {
    int i = 0, n = cJSON_GetArraySize(d->messages);
    const cJSON *message;
    if (!d->messages) return api_fail(e, 400, NULL, "messages", "messages is missing");
    if (!cJSON_IsArray(d->messages)) return api_fail(e, 400, NULL, "messages", "messages must be an array of messages");
    if (n == 0) return api_fail(e, 400, NULL, "messages", "messages must not be an empty array");
    if (n > ctx->limits.messages)
        return api_fail(e, 400, NULL, "messages", "messages has %d messages, the limit is %d", n, ctx->limits.messages);
    for (message = d->messages->child; message; message = message->next)
        if (check_message(message, i++, e)) return -1;
    return 0;
}

static const cJSON *last_message(const RequestDraft *d) { return d->messages->child->prev; }

/* Fields that are about the last message, which is the assistant's. */
static int check_last(const RequestDraft *d, ApiError *e) {
    const char *field = d->continue_final_message ? "continue_final_message" : d->chat_echo ? "echo" : NULL;
    const cJSON *last = last_message(d);
    if (field && !json_is_text(json_field(last, "role"), "assistant"))
        return api_fail(e, 400, NULL, field, "%s: the last message is not the assistant's", field);
    if (field && json_is_null(json_field(last, "content")))
        return api_fail(e, 400, NULL, field, "%s: the last message has no content", field);
    if (d->continue_final_message && d->opening == DRAFT_OPENED)
        return api_fail(e, 400, NULL, "add_generation_prompt",
                        "add_generation_prompt opens a new answer, continue_final_message goes on with the last one");
    return 0;
}

/* A call that the template does not write leaves nothing of a message without content. */
static int check_calls(const RequestDraft *d, const ApiContext *ctx, ApiError *e) {
    int i = 0;
    for (const cJSON *message = d->messages->child; message && !ctx->chat->writes_calls; message = message->next, i++)
        if (json_is_null(json_field(message, "content")))
            return message_fail(e, i, "content", "is missing, and the chat template writes no tool_calls");
    return 0;
}

/* What the template is given besides does not stand in for what the request says in fields of its own. */
static int check_variables(const RequestDraft *d, ApiError *e) {
    static const char *const own[] = {"messages", "tools", "documents", "add_generation_prompt"};
    for (size_t i = 0; i < COUNTOF(own); i++)
        if (json_field(d->chat_template_kwargs, own[i])) {
            char name[64];
            snprintf(name, sizeof name, "chat_template_kwargs.%s", own[i]);
            return api_fail(e, 400, NULL, name, "%s cannot be given here", name);
        }
    return 0;
}

/* The request for the model's template. */
static int settle(const RequestDraft *d, const ApiContext *ctx, ChatRequest *r, ApiError *e) {
    if (check_messages(d, ctx, e)) return -1;
    if (!ctx->chat->program) return api_fail(e, 400, "no_chat_template", "messages", "%s", ctx->chat->why);
    *r = (ChatRequest){.messages = d->messages, .variables = d->chat_template_kwargs};
    r->end = d->continue_final_message ? CHAT_UNFINISHED : d->opening == DRAFT_CLOSED ? CHAT_CLOSED : CHAT_OPENED;
    return check_last(d, e) || check_calls(d, ctx, e) || check_variables(d, e) || tools_check(d, ctx, &r->tools, e) ? -1
                                                                                                                    : 0;
}

static int encode(RequestDraft *d, const ApiContext *ctx, const ChatRequest *request, ApiError *e) {
    CompletionRequest *r = &d->request;
    TokenList list = {0};
    Err err;
    r->prompts = try_calloc(1, sizeof *r->prompts);
    if (!r->prompts) return api_no_memory(e);
    r->n_prompts = 1;
    int rc = chat_encode(ctx->chat, request, d->parse_special, ctx->tokenizer, &list, &err);
    *r->prompts = (Prompt){.ids = list.ids, .n = (int)list.n};
    if (rc) return api_fail(e, 400, NULL, "messages", "%s", err.msg);
    return list.n ? 0 : api_fail(e, 400, NULL, "messages", "the conversation has no token");
}

/* The last message's content, its parts as lines. */
static int keep_prefix(RequestDraft *d, ApiError *e) {
    const cJSON *content = json_field(last_message(d), "content"), *part;
    Buffer text = {0};
    if (!d->chat_echo) return 0;
    if (cJSON_IsString(content)) buffer_text(&text, content->valuestring);
    cJSON_ArrayForEach(part, content) {
        if (part != content->child) buffer_text(&text, "\n");
        buffer_text(&text, json_field(part, "text")->valuestring);
    }
    buffer_append(&text, "", 1);
    d->request.prefix = text.data;
    return text.failed ? api_no_memory(e) : 0;
}

int messages_prompt(RequestDraft *d, const ApiContext *ctx, ApiError *e) {
    ChatRequest request;
    return settle(d, ctx, &request, e) || tools_form(d, ctx, request.tools, e) || encode(d, ctx, &request, e) ||
                   keep_prefix(d, e)
               ? -1
               : 0;
}

int messages_text(const RequestDraft *d, const ApiContext *ctx, Buffer *out, ApiError *e) {
    ChatRequest request;
    Err err;
    if (settle(d, ctx, &request, e)) return -1;
    return chat_write(ctx->chat, &request, out, &err) ? api_fail(e, 400, NULL, "messages", "%s", err.msg) : 0;
}
