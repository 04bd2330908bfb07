#include "server/form/calls.h"

#include "base/json/json_reader.h"
#include "server/form/schema.h"

#include <string.h>

const CallStyle call_style_tags = {.mark = "<tool_call>",
                                   .open = "\n{\"name\": \"",
                                   .middle = "\", \"arguments\": ",
                                   .close = "}\n</tool_call>",
                                   .between = "\n"};
const CallStyle call_style_json = {
    .mark = "{\"name\": \"", .open = "", .middle = "\", \"parameters\": ", .close = "}", .alone = true};

/* ---- one call ---- */

static int arguments_of(SchemaReader *r, const cJSON *parameters, const SchemaPath *path) {
    SchemaPath here = {path, "type", 0};
    if (!parameters) return json_node_object(r->form, &r->json, GRAPH_EMPTY);
    if (cJSON_IsObject(parameters) && !parameters->child) return r->json.object;
    if (cJSON_IsObject(parameters) && !json_is_text(json_field(parameters, "type"), "object"))
        return schema_fail(r, &here, "must be \"object\", not %s", show_json(json_field(parameters, "type")).text);
    return schema_root(r, parameters, path);
}

/* Behind the mark; -1 with the error filled. */
static int call_of(SchemaReader *r, const CallStyle *s, const CallTool *tools, int n, int only) {
    Form *f = r->form;
    int all = GRAPH_NEVER;
    for (int i = n - 1; i >= 0; i--) {
        SchemaPath at = {NULL, NULL, i}, function = {&at, "function", 0}, path = {&function, "parameters", 0};
        r->left = tools[i].left;
        int arguments = arguments_of(r, tools[i].parameters, &path);
        if (arguments < 0) return -1;
        if (only >= 0 && only != i) continue;
        int rest = graph_then(f, graph_string(f, s->middle), graph_then(f, arguments, graph_string(f, s->close)));
        all = graph_either(f, graph_then(f, graph_string(f, tools[i].name), rest), all);
    }
    return graph_then(f, graph_string(f, s->open), all);
}

/* ---- text that is watched ---- */

static int one(Form *f, char byte) { return graph_range(f, (uint32_t)byte, (uint32_t)byte); }

/* Any text up to the mark, behind which comes `call`: states[i] is where the first i bytes of the mark stand. */
static int text_with_calls(Form *f, const CallStyle *s, int call) {
    enum { MOST = 32 };
    Range letters[MOST];
    int states[MOST], n = (int)strlen(s->mark);
    BUG_ON(n > MOST);
    for (int i = 0; i < n; i++) {
        states[i] = i ? graph_name(f) : GRAPH_NEVER;
        letters[i] = (Range){(uint32_t)s->mark[i], (uint32_t)s->mark[i]};
    }
    int any = graph_repeat(f, graph_class(f, NULL, 0, true), 0, GRAPH_ENDLESS);
    int start = s->alone ? any : (states[0] = graph_name(f)), first = GRAPH_NEVER;
    for (int i = n - 1; i >= 0; i--) {
        Range stay[2] = {letters[i], letters[0]};
        int other = graph_class(f, stay, s->alone || i == 0 ? 1 : 2, true);
        int on = graph_then(f, one(f, s->mark[i]), i + 1 < n ? states[i + 1] : call);
        int node = graph_either(f, GRAPH_EMPTY, graph_either(f, on, graph_then(f, other, start)));
        if (!s->alone && i > 0) node = graph_either(f, node, graph_then(f, one(f, s->mark[0]), states[1]));
        if (i == 0) first = node;
        if (states[i] != GRAPH_NEVER) graph_define(f, states[i], node);
    }
    return first;
}

/* ---- an answer ---- */

static int answer_of(SchemaReader *r, const CallStyle *s, const CallTool *tools, int n, CallRule rule) {
    Form *f = r->form;
    int call = call_of(r, s, tools, n, rule.only);
    if (call < 0) return -1;
    int mark = graph_string(f, s->mark), calls = call;
    if (rule.several && s->between) {
        int again = graph_then(f, graph_string(f, s->between), graph_then(f, mark, call));
        calls = graph_then(f, call, graph_repeat(f, again, 0, GRAPH_ENDLESS));
    }
    return rule.text ? text_with_calls(f, s, calls) : graph_then(f, mark, calls);
}

Form *form_of_calls(const CallStyle *style, const CallTool *tools, int n, CallRule rule, FormError *e) {
    SchemaReader r;
    if (schema_open(&r, e)) return NULL;
    return schema_close(&r, answer_of(&r, style, tools, n, rule));
}
