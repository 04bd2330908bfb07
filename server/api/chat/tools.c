#include "server/api/chat/tools.h"

#include "base/json/json_reader.h"

#include <string.h>

/* ---- how the template writes calls ---- */

const CallStyle *tools_style(const Chat *chat) {
    static const CallStyle *const known[] = {&call_style_tags, &call_style_json};
    static const char talk[] =
        "[{\"role\":\"user\",\"content\":\"?\"},{\"role\":\"assistant\",\"content\":\"\",\"tool_calls\":[{\"id\":"
        "\"call00000\",\"type\":\"function\",\"function\":{\"name\":\"NAME\",\"arguments\":{\"KEY\":\"VALUE\"}}}]}]";
    static const char tool[] =
        "[{\"type\":\"function\",\"function\":{\"name\":\"NAME\",\"description\":\"?\",\"parameters\":"
        "{\"type\":\"object\",\"properties\":{\"KEY\":{\"type\":\"string\"}}}}}]";
    const CallStyle *found = NULL;
    Buffer written = {0}, wanted = {0};
    Err err;
    if (!chat->program || !chat->takes_tools) return NULL;
    cJSON *messages = cJSON_Parse(talk), *tools = cJSON_Parse(tool);
    const ChatRequest request = {.messages = messages, .tools = tools, .end = CHAT_CLOSED};
    bool bad = !messages || !tools || chat_write(chat, &request, &written, &err) != 0;
    for (size_t i = 0; i < COUNTOF(known) && !bad && !found; i++) {
        const CallStyle *s = known[i];
        wanted.n = 0;
        buffer_print(&wanted, "%s%sNAME%s{\"KEY\": \"VALUE\"}%s", s->mark, s->open, s->middle, s->close);
        if (!wanted.failed && memmem(written.data, written.n, wanted.data, wanted.n)) found = s;
    }
    buffer_free(&wanted);
    buffer_free(&written);
    cJSON_Delete(messages);
    cJSON_Delete(tools);
    return found;
}

/* ---- "tools" ---- */

static int tool_fail(ApiError *e, int i, const char *member, const char *what, const cJSON *item) {
    char name[96];
    snprintf(name, sizeof name, "tools[%d]%s%.60s", i, *member ? "." : "", member);
    return api_fail(e, 400, NULL, name, "%s %s, not %s", name, what, show_json(item).text);
}

static bool is_name(const cJSON *item) {
    static const char letters[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-";
    const char *name = cJSON_GetStringValue(item);
    size_t n = name ? strlen(name) : 0;
    return n >= 1 && n <= 64 && strspn(name, letters) == n;
}

static const cJSON *name_of(const cJSON *tool) { return json_field(json_field(tool, "function"), "name"); }

/* cache_control says what Anthropic's servers keep. */
static const char *const of_tool[] = {"type", "function", "cache_control", NULL};

static int check_tool(const RequestDraft *d, const cJSON *tool, int i, ApiError *e) {
    const cJSON *function = json_field(tool, "function"), *text = json_field(function, "description");
    const cJSON *strict = json_field(function, "strict"), *parameters = json_field(function, "parameters");
    if (!json_is_text(json_field(tool, "type"), "function"))
        return tool_fail(e, i, "type", "must be \"function\"", json_field(tool, "type"));
    if (!cJSON_IsObject(function)) return tool_fail(e, i, "function", "must be an object", function);
    if (!is_name(name_of(tool)))
        return tool_fail(e, i, "function.name", "must be 1 to 64 letters, digits, _ and -", name_of(tool));
    if (!json_is_null(text) && !cJSON_IsString(text))
        return tool_fail(e, i, "function.description", "must be a string", text);
    if (!json_is_null(parameters) && !cJSON_IsObject(parameters))
        return tool_fail(e, i, "function.parameters", "must be a schema of an object", parameters);
    if (!json_is_null(strict) && !cJSON_IsBool(strict))
        return tool_fail(e, i, "function.strict", "must be true or false", strict);
    for (const cJSON *other = d->tools->child; other != tool; other = other->next)
        if (cJSON_Compare(name_of(other), name_of(tool), true))
            return tool_fail(e, i, "function.name", "must be no other tool's", name_of(tool));
    static const char *const of_function[] = {"name", "description", "parameters", "strict", NULL};
    char name[48], inner[64];
    snprintf(name, sizeof name, "tools[%d]", i);
    snprintf(inner, sizeof inner, "%s.function", name);
    bool bad = fields_check_members(tool, name, of_tool, d->ignored, e) ||
               fields_check_members(function, inner, of_function, d->ignored, e);
    return bad ? -1 : 0;
}

static int check_all(const RequestDraft *d, ApiError *e) {
    const cJSON *tool;
    int i = 0, n = cJSON_GetArraySize(d->tools);
    if (json_is_null(d->tools)) return 0;
    if (!cJSON_IsArray(d->tools)) return api_fail(e, 400, NULL, "tools", "tools must be an array of tools");
    if (n > TOOLS_MOST) return api_fail(e, 400, NULL, "tools", "tools has %d tools, the limit is %d", n, TOOLS_MOST);
    cJSON_ArrayForEach(tool, d->tools) if (check_tool(d, tool, i++, e)) return -1;
    return 0;
}

/* ---- "tool_choice" ---- */

static int place_of(const cJSON *tools, const char *name) {
    const cJSON *tool;
    int i = 0;
    cJSON_ArrayForEach(tool, tools) {
        if (json_is_text(name_of(tool), name)) return i;
        i++;
    }
    return -1;
}

static int read_choice(const RequestDraft *d, CallRule *rule, ApiError *e) {
    const cJSON *choice = d->tool_choice;
    const char *name = cJSON_GetStringValue(name_of(choice));
    *rule = (CallRule){.several = d->parallel_tool_calls, .only = -1};
    rule->text = !choice || json_is_text(choice, "auto") || json_is_text(choice, "none");
    if (rule->text || json_is_text(choice, "required")) return 0;
    if (!name || !json_is_text(json_field(choice, "type"), "function"))
        return api_fail(e, 400, NULL, "tool_choice",
                        "tool_choice must be \"none\", \"auto\", \"required\" or {\"type\":\"function\",\"function\":{"
                        "\"name\":...}}, not %s",
                        show_json(choice).text);
    static const char *const of_chosen[] = {"name", NULL};
    static const char *const of_choice[] = {"type", "function", NULL};
    if (fields_check_members(choice, "tool_choice", of_choice, d->ignored, e) ||
        fields_check_members(json_field(choice, "function"), "tool_choice.function", of_chosen, d->ignored, e))
        return -1;
    rule->only = place_of(d->tools, name);
    rule->several = false;
    if (rule->only >= 0) return 0;
    return api_fail(e, 400, NULL, "tool_choice.function.name",
                    "tool_choice.function.name is \"%.64s\", which no tool has", name);
}

int tools_check(const RequestDraft *d, const ApiContext *ctx, const cJSON **told, ApiError *e) {
    CallRule rule;
    *told = NULL;
    if (check_all(d, e) || read_choice(d, &rule, e)) return -1;
    bool some = cJSON_IsArray(d->tools) && d->tools->child;
    if (!some && !rule.text) return api_fail(e, 400, NULL, "tool_choice", "tool_choice needs tools to choose from");
    if (!some || json_is_text(d->tool_choice, "none")) return 0;
    if (!ctx->call_style)
        return api_fail(e, 400, NULL, "tools", "tools: the template %s writes calls in no form that is known here",
                        ctx->chat->name);
    *told = d->tools;
    return 0;
}

/* ---- the form ---- */

/* What a lenient server does not keep of the schemas, by the names of their tools. */
static int leave_aside(const RequestDraft *d, const CallTool *tools, const Buffer *left, ApiError *e) {
    char name[224];
    if (left->failed) return api_no_memory(e);
    for (const char *path = left->data; path < left->data + left->n; path += strlen(path) + 1) {
        int tool, at = 0;
        bool named = sscanf(path, "[%d].function%n", &tool, &at) == 1;
        snprintf(name, sizeof name, "tools%s%s%s", named ? "." : "", named ? tools[tool].name : "", path + at);
        if (fields_leave_aside(d->ignored, name, e)) return -1;
    }
    return 0;
}

int tools_form(RequestDraft *d, const ApiContext *ctx, const cJSON *told, ApiError *e) {
    CallTool tools[TOOLS_MOST];
    CallRule rule;
    FormError why;
    Buffer left = {0};
    const cJSON *tool;
    int n = 0;
    if (!told) return 0;
    if (d->form_field[0])
        return api_fail(e, 400, NULL, d->form_field, "%s and tools both say what the answer may be: give one of them",
                        d->form_field);
    if (read_choice(d, &rule, e)) return -1;
    cJSON_ArrayForEach(tool, told) {
        const cJSON *function = json_field(tool, "function"), *parameters = json_field(function, "parameters");
        bool strict = !d->ignored || cJSON_IsTrue(json_field(function, "strict"));
        tools[n++] = (CallTool){.name = name_of(tool)->valuestring,
                                .parameters = json_is_null(parameters) ? NULL : parameters,
                                .left = strict ? NULL : &left};
    }
    snprintf(d->form_field, sizeof d->form_field, "tools");
    d->request.style = ctx->call_style;
    Form *form = form_of_calls(ctx->call_style, tools, n, rule, &why);
    int rc = api_take_form(d, ctx, "tools", form, &why, e) || leave_aside(d, tools, &left, e) ? -1 : 0;
    buffer_free(&left);
    return rc;
}
