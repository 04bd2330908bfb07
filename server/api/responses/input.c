#include "server/api/responses/input.h"

#include "base/err.h"
#include "base/json/json_reader.h"
#include "base/memory.h"
#include "base/text.h"

#include <stdlib.h>
#include <string.h>

static int item_fail(ApiError *e, int i, const char *what, const char *why) {
    char name[96];
    snprintf(name, sizeof name, "input[%d]%.60s", i, what);
    return api_fail(e, 400, NULL, name, "%s %s", name, why);
}

static bool put_text(cJSON *object, const char *key, const char *text) {
    return cJSON_AddStringToObject(object, key, text) != NULL;
}

static bool put_copy(cJSON *object, const char *key, const cJSON *value) {
    cJSON *copy = cJSON_Duplicate(value, true);
    if (cJSON_AddItemToObject(object, key, copy)) return true;
    cJSON_Delete(copy);
    return false;
}

/* ---- texts ---- */

static cJSON *part_of(const cJSON *part, const char *name, Buffer *ignored, ApiError *e) {
    /* annotations and logprobs are of a former answer */
    static const char *const known[] = {"type", "text", "annotations", "logprobs", NULL};
    const char *text = cJSON_GetStringValue(json_field(part, "text"));
    const cJSON *type = json_field(part, "type");
    if (!text || !(json_is_text(type, "input_text") || json_is_text(type, "output_text"))) {
        api_fail(e, 400, NULL, name, "%s may hold parts {\"type\":\"input_text\",\"text\":...} only", name);
        return NULL;
    }
    if (fields_check_members(part, name, known, ignored, e)) return NULL;
    cJSON *copy = cJSON_CreateObject();
    if (put_text(copy, "type", "text") && put_text(copy, "text", text)) return copy;
    cJSON_Delete(copy);
    api_no_memory(e);
    return NULL;
}

/* Member `key` of item i; parts of text become those of a chat's message. */
static cJSON *content_of(const cJSON *item, const char *key, int i, Buffer *ignored, ApiError *e) {
    char name[64];
    const cJSON *content = json_field(item, key), *part;
    snprintf(name, sizeof name, "input[%d].%.20s", i, key);
    cJSON *made = cJSON_IsArray(content) ? cJSON_CreateArray() : cJSON_Duplicate(content, true);
    if (!made) api_no_memory(e);
    if (!made || !cJSON_IsArray(content)) return made;
    cJSON_ArrayForEach(part, content) {
        cJSON *copy = part_of(part, name, ignored, e);
        if (!copy) {
            cJSON_Delete(made);
            return NULL;
        }
        cJSON_AddItemToArray(made, copy);
    }
    return made;
}

/* ---- messages ---- */

/* Takes `content` over, which may be NULL: then the error is told already. */
static cJSON *add_message(ResponseInput *c, const cJSON *role, cJSON *content, int item, ApiError *e) {
    if (!content) return NULL;
    cJSON *message = cJSON_CreateObject();
    bool whole = message && (!role || put_copy(message, "role", role));
    if (!whole || !cJSON_AddItemToObject(message, "content", content)) {
        cJSON_Delete(content);
        cJSON_Delete(message);
        api_no_memory(e);
        return NULL;
    }
    cJSON_AddItemToArray(c->messages, message);
    c->items[c->n++] = item;
    return message;
}

static int add_text(ResponseInput *c, const char *role, const char *text, int item, ApiError *e) {
    cJSON *content = cJSON_CreateString(text);
    cJSON named = {.type = cJSON_String, .valuestring = (char *)(uintptr_t)role};
    if (!content) return api_no_memory(e);
    return add_message(c, &named, content, item, e) ? 0 : -1;
}

static int check_text(const cJSON *item, const char *member, int i, ApiError *e) {
    char name[32];
    snprintf(name, sizeof name, ".%.20s", member);
    return cJSON_IsString(json_field(item, member)) ? 0 : item_fail(e, i, name, "must be a string");
}

/* A call of the last message, if that is the assistant's, else of one without content. */
static int add_call(ResponseInput *c, const cJSON *item, int i, ApiError *e) {
    static const cJSON assistant = {.type = cJSON_String, .valuestring = "assistant"};
    if (check_text(item, "call_id", i, e) || check_text(item, "name", i, e) || check_text(item, "arguments", i, e))
        return -1;
    cJSON *last = c->n ? c->messages->child->prev : NULL;
    if (!last || !json_is_text(json_field(last, "role"), "assistant")) {
        cJSON *nothing = cJSON_CreateNull();
        if (!nothing) return api_no_memory(e);
        last = add_message(c, &assistant, nothing, i, e);
        if (!last) return -1;
    }
    cJSON *calls = cJSON_GetObjectItem(last, "tool_calls"), *call = cJSON_CreateObject();
    if (!calls) calls = cJSON_AddArrayToObject(last, "tool_calls");
    cJSON *function = cJSON_AddObjectToObject(call, "function");
    bool whole = calls && put_copy(call, "id", json_field(item, "call_id")) && put_text(call, "type", "function") &&
                 put_copy(function, "name", json_field(item, "name")) &&
                 put_copy(function, "arguments", json_field(item, "arguments"));
    if (whole) return cJSON_AddItemToArray(calls, call), 0;
    cJSON_Delete(call);
    return api_no_memory(e);
}

static int add_output(ResponseInput *c, const cJSON *item, int i, Buffer *ignored, ApiError *e) {
    static const cJSON tool = {.type = cJSON_String, .valuestring = "tool"};
    const cJSON *output = json_field(item, "output");
    if (check_text(item, "call_id", i, e)) return -1;
    if (!cJSON_IsString(output) && !cJSON_IsArray(output))
        return item_fail(e, i, ".output", "must be a string or an array of parts");
    cJSON *message = add_message(c, &tool, content_of(item, "output", i, ignored, e), i, e);
    if (!message) return -1;
    return put_copy(message, "tool_call_id", json_field(item, "call_id")) ? 0 : api_no_memory(e);
}

/* Of the client's, or out of a former answer's `output`. */
static int add_item(ResponseInput *c, const cJSON *item, int i, Buffer *ignored, ApiError *e) {
    static const char *const of_message[] = {"type", "role", "content", "id", "status", "phase", NULL},
                             *const of_call[] = {"type", "id", "call_id", "name", "arguments", "status", NULL},
                             *const of_output[] = {"type", "id", "call_id", "output", "status", NULL};
    const cJSON *type = json_field(item, "type");
    bool calls = json_is_text(type, "function_call"), answers = json_is_text(type, "function_call_output");
    bool says = (json_is_null(type) || json_is_text(type, "message")) && json_field(item, "content");
    char name[64];
    if (json_is_text(type, "item_reference"))
        return item_fail(e, i, "",
                         "refers to an item, but nothing is stored: send the item itself, as clients do whose request "
                         "says store: false");
    if (!cJSON_IsObject(item) || !(calls || answers || says))
        return item_fail(e, i, "",
                         "is not supported: an item is a message with role and content, a function_call or a "
                         "function_call_output");
    snprintf(name, sizeof name, "input[%d]", i);
    if (fields_check_members(item, name, calls ? of_call : answers ? of_output : of_message, ignored, e)) return -1;
    if (calls) return add_call(c, item, i, e);
    if (answers) return add_output(c, item, i, ignored, e);
    return add_message(c, json_field(item, "role"), content_of(item, "content", i, ignored, e), i, e) ? 0 : -1;
}

static int add_input(ResponseInput *c, const RequestDraft *d, int most, ApiError *e) {
    const cJSON *input = d->input, *item;
    int i = 0;
    if (!input) return api_fail(e, 400, NULL, "input", "input is missing");
    if (cJSON_IsString(input)) return add_text(c, "user", input->valuestring, 0, e);
    if (!cJSON_IsArray(input) || !input->child)
        return api_fail(e, 400, NULL, "input", "input must be a string or an array of messages");
    int n = cJSON_GetArraySize(input), room = most - (d->instructions != NULL);
    if (n > room) return api_fail(e, 400, NULL, "input", "input has %d items, the limit is %d", n, room);
    cJSON_ArrayForEach(item, input) if (add_item(c, item, i++, d->ignored, e)) return -1;
    return 0;
}

/* ---- tools: what a chat has in `function` stands beside the type here ---- */

/* `name` says which one it is. */
static cJSON *function_of(const cJSON *item, const char *const *members, const char *name, Buffer *ignored,
                          ApiError *e) {
    if (fields_check_members(item, name, members, ignored, e)) return NULL;
    cJSON *made = cJSON_CreateObject(), *function = NULL;
    bool whole = put_text(made, "type", "function") && (function = cJSON_AddObjectToObject(made, "function"));
    for (const char *const *m = members + 1; *m && whole; m++)
        if (!json_is_null(json_field(item, *m))) whole = put_copy(function, *m, json_field(item, *m));
    if (whole) return made;
    cJSON_Delete(made);
    api_no_memory(e);
    return NULL;
}

/* What OpenAI's server runs itself, and what its own clients run there beside functions. No model here is told of them,
 * so none calls them; Codex always sends some. */
static bool is_left_out(const cJSON *tool) {
    static const char *const types[] = {"code_interpreter", "computer_use_preview", "custom", "file_search",
                                        "image_generation", "local_shell",          "mcp",    "namespace",
                                        "web_search",       "web_search_preview",   NULL};
    const char *type = cJSON_GetStringValue(json_field(tool, "type"));
    return type && text_is_in(type, types);
}

static int add_tools(ResponseInput *c, const cJSON *tools, Buffer *ignored, ApiError *e) {
    static const char *const members[] = {"type", "name", "description", "parameters", "strict", NULL};
    const cJSON *tool;
    int i = 0;
    if (json_is_null(tools)) return 0;
    if (!cJSON_IsArray(tools)) return api_fail(e, 400, NULL, "tools", "tools must be an array of tools");
    if (!(c->tools = cJSON_CreateArray())) return api_no_memory(e);
    c->asked_tools = tools;
    cJSON_ArrayForEach(tool, tools) {
        char name[64], inner[80];
        snprintf(name, sizeof name, "tools[%d]", i++);
        snprintf(inner, sizeof inner, "%s.type", name);
        if (is_left_out(tool)) continue;
        if (!json_is_text(json_field(tool, "type"), "function"))
            return api_fail(e, 400, NULL, inner, "%s must be \"function\", not %s", inner,
                            show_json(json_field(tool, "type")).text);
        cJSON *made = function_of(tool, members, name, ignored, e);
        if (!made) return -1;
        cJSON_AddItemToArray(c->tools, made);
    }
    return 0;
}

static int add_choice(ResponseInput *c, const cJSON *choice, Buffer *ignored, ApiError *e) {
    static const char *const members[] = {"type", "name", NULL};
    bool named = json_is_text(json_field(choice, "type"), "function") && cJSON_IsString(json_field(choice, "name"));
    if (json_is_null(choice)) return 0;
    bool word = json_is_text(choice, "none") || json_is_text(choice, "auto") || json_is_text(choice, "required");
    if (!word && !named)
        return api_fail(e, 400, NULL, "tool_choice",
                        "tool_choice must be \"none\", \"auto\", \"required\" or {\"type\":\"function\",\"name\":...}, "
                        "not %s",
                        show_json(choice).text);
    if (named)
        c->choice = function_of(choice, members, "tool_choice", ignored, e);
    else if (!(c->choice = cJSON_Duplicate(choice, true)))
        api_no_memory(e);
    return c->choice ? 0 : -1;
}

/* ---- all of it ---- */

int response_input_open(ResponseInput *c, const RequestDraft *d, int most, ApiError *e) {
    size_t messages = (size_t)(cJSON_IsArray(d->input) ? cJSON_GetArraySize(d->input) : 1) + 1;
    *c = (ResponseInput){.messages = cJSON_CreateArray(), .items = try_calloc(messages, sizeof *c->items)};
    if (!c->messages || !c->items) return api_no_memory(e);
    if (d->instructions && add_text(c, "system", d->instructions, -1, e)) return -1;
    return add_input(c, d, most, e) || add_tools(c, d->tools, d->ignored, e) ||
                   add_choice(c, d->tool_choice, d->ignored, e)
               ? -1
               : 0;
}

void response_input_free(ResponseInput *c) {
    cJSON_Delete(c->messages);
    cJSON_Delete(c->tools);
    cJSON_Delete(c->choice);
    free(c->items);
    *c = (ResponseInput){0};
}

/* e is about `name` and not about its first n characters, which param and message begin with. */
static void rename_param(ApiError *e, size_t n, const char *name) {
    char param[sizeof e->param], message[sizeof e->message];
    snprintf(param, sizeof param, "%s%s", name, e->param + n);
    snprintf(message, sizeof message, "%s%s", name, e->message + n);
    if (!strncmp(e->message, e->param, n)) memcpy(e->message, message, sizeof message);
    memcpy(e->param, param, sizeof param);
}

/* The place of function i among the tools that were asked for. */
static int place_of_tool(const ResponseInput *c, int i) {
    const cJSON *tool;
    int at = 0;
    cJSON_ArrayForEach(tool, c->asked_tools) {
        if (!is_left_out(tool) && i-- == 0) break;
        at++;
    }
    return at;
}

void response_input_name(const ResponseInput *c, ApiError *e) {
    char name[32];
    int i, at = 0;
    if (!strcmp(e->param, "messages")) rename_param(e, strlen("messages"), "input");
    if (sscanf(e->param, "messages[%d]%n", &i, &at) == 1 && at && i < c->n) {
        snprintf(name, sizeof name, c->items[i] < 0 ? "instructions" : "input[%d]", c->items[i]);
        if (cJSON_IsNull(json_field(cJSON_GetArrayItem(c->messages, i), "content")))
            api_fail(e, 400, NULL, name, "%s is a call, but the chat template writes none", name);
        else
            rename_param(e, (size_t)at, name);
    }
    at = 0;
    if (sscanf(e->param, "tools[%d].function%n", &i, &at) == 1 && at) {
        snprintf(name, sizeof name, "tools[%d]", place_of_tool(c, i));
        rename_param(e, (size_t)at, name);
    }
    if (!strncmp(e->param, "tool_choice.function", strlen("tool_choice.function")))
        rename_param(e, strlen("tool_choice.function"), "tool_choice");
}
