/* The text of an answer, read as calls: the same whole or byte by byte, and wherever it is cut. */
#include "server/api/completions/calls.h"

#include "tests/support/test.h"

#include <string.h>

#define CALL(name, arguments) "<tool_call>\n{\"name\": \"" name "\", \"arguments\": " arguments "}\n</tool_call>"

/* content|name(arguments)|name(arguments) */
static void show(const Calls *c, Buffer *out) {
    buffer_append(out, c->content.data, c->content.n);
    for (int i = 0; i < c->n; i++) {
        const Call *call = &c->items[i];
        buffer_print(out, "|%.*s(%.*s)", (int)call->name.n, call->name.data, (int)call->arguments.n,
                     call->arguments.data ? call->arguments.data : "");
    }
    buffer_append(out, "", 1);
}

static void check(const CallStyle *style, const char *prefix, const char *text, size_t n, const char *wanted) {
    for (int whole = 0; whole < 2; whole++) {
        size_t step = whole ? n + 1 : 1;
        Calls c;
        Buffer out = {0};
        calls_open(&c, style, prefix);
        for (size_t i = 0; i < n; i += step) calls_read(&c, text, i, false);
        calls_read(&c, text, n, true);
        show(&c, &out);
        CHECK_MSG(!strcmp(out.data, wanted), "\"%.*s\" by %zu: %s, not %s", (int)n, text, step, out.data, wanted);
        buffer_free(&out);
        calls_free(&c);
    }
}

TEST(calls_are_read) {
    static const struct {
        const CallStyle *style;
        const char *prefix, *text, *wanted;
    } cases[] = {
        {&call_style_tags, NULL, "", ""},
        {&call_style_tags, NULL, "Hello <tool <<tool_call", "Hello <tool <<tool_call"},
        {&call_style_tags, NULL, CALL("wait", "{}"), "|wait({})"},
        {&call_style_tags, NULL, "a\n\n" CALL("f", "{\"x\": \"}\\\"{\", \"y\": [{}]}") "\n" CALL("g", "{}"),
         "a\n\n|f({\"x\": \"}\\\"{\", \"y\": [{}]})|g({})"},
        {&call_style_tags, NULL, CALL("wait", "{}") "<|im_end|>", "<|im_end|>|wait({})"},
        {&call_style_tags, "So: ", "So: " CALL("wait", "{}"), "So: |wait({})"},
        {&call_style_json, NULL, "{\"name\": \"f\", \"parameters\": {\"a\": 1}}", "|f({\"a\": 1})"},
        {&call_style_json, NULL, "{\"nam\" {\"name\": \"f\"", "{\"nam\" {\"name\": \"f\""},
        {&call_style_json, NULL, " {\"name\": \"f\"", " {\"name\": \"f\""},
    };
    for (size_t i = 0; i < COUNTOF(cases); i++)
        check(cases[i].style, cases[i].prefix, cases[i].text, strlen(cases[i].text), cases[i].wanted);
}

TEST(calls_that_are_cut) {
    static const char text[] = "a" CALL("f", "{\"x\": 1}") "\n" CALL("g", "{}");
    static const struct {
        const char *end, *wanted;
    } cases[] = {{"a<tool_", "a<tool_"},
                 {"{\"name\": \"f", "a<tool_call>\n{\"name\": \"f"},
                 {"\"f\"", "a|f()"},
                 {"{\"x\": ", "a|f({\"x\": )"},
                 {"1}}", "a|f({\"x\": 1})"},
                 {"</tool_call>\n<tool_call>\n{\"name\": \"g", "a|f({\"x\": 1})"},
                 {"\"g\", \"arg", "a|f({\"x\": 1})|g()"}};
    for (size_t i = 0; i < COUNTOF(cases); i++) {
        const char *at = strstr(text, cases[i].end);
        REQUIRE(at);
        check(&call_style_tags, NULL, text, (size_t)(at - text) + strlen(cases[i].end), cases[i].wanted);
    }
}

/* What is sent at any moments adds up to the whole, and a name is told once, before its arguments. */
TEST(calls_are_told_in_pieces) {
    static const char text[] = "a" CALL("f", "{\"x\": 1}") "\n" CALL("g", "{}");
    Calls c;
    Buffer content = {0}, arguments[2] = {{0}, {0}};
    int told[2] = {0, 0};
    calls_open(&c, &call_style_tags, NULL);
    for (size_t n = 0; n < sizeof text; n++) {
        calls_read(&c, text, n, n + 1 == sizeof text);
        if (!calls_have_news(&c)) continue;
        buffer_append(&content, c.content.data + c.content_sent, c.content.n - c.content_sent);
        for (int i = 0; i < c.n; i++) {
            const Call *call = &c.items[i];
            told[i] += !call->told;
            if (call->arguments.n > call->sent)
                buffer_append(&arguments[i], call->arguments.data + call->sent, call->arguments.n - call->sent);
        }
        calls_mark_sent(&c);
        CHECK(!calls_have_news(&c));
    }
    CHECK(told[0] == 1 && told[1] == 1 && content.n == 1);
    CHECK(arguments[0].n == 8 && !memcmp(arguments[0].data, "{\"x\": 1}", 8) && arguments[1].n == 2);
    buffer_free(&content);
    buffer_free(&arguments[0]);
    buffer_free(&arguments[1]);
    calls_free(&c);
}
