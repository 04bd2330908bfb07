/* Calls that a chat has to make: every one is of a tool, with arguments that are valid by its schema, whatever is
 * drawn. */
#include "base/buffer.h"
#include "tests/server/api/test_tools.h"
#include "tests/support/http_client.h"
#include "tests/support/json_schema.h"

#include <string.h>

static const char *const schemas[] = {
    "{\"type\":\"object\",\"properties\":{\"city\":{\"type\":\"string\",\"maxLength\":6}},\"required\":[\"city\"]}",
    "{\"type\":\"object\",\"properties\":{\"n\":{\"type\":\"integer\",\"minimum\":-3,\"maximum\":120}},\"required\":["
    "\"n\"]}",
    "{\"type\":\"object\",\"properties\":{\"unit\":{\"enum\":[\"C\",\"F\",7,null]}},\"required\":[\"unit\"]}",
    "{\"type\":\"object\",\"properties\":{\"a\":{\"type\":\"boolean\"},\"b\":{\"type\":\"boolean\"}}}",
    "{\"type\":\"object\",\"properties\":{\"xs\":{\"type\":\"array\",\"items\":{\"type\":\"boolean\"},\"minItems\":1,"
    "\"maxItems\":3}},\"required\":[\"xs\"]}",
    "{\"type\":\"object\",\"properties\":{\"to\":{\"type\":\"object\",\"properties\":{\"x\":{\"const\":1}},"
    "\"required\":[\"x\"]}},\"required\":[\"to\"]}",
    "{\"type\":\"object\",\"properties\":{\"v\":{\"anyOf\":[{\"type\":\"null\"},{\"type\":\"integer\",\"minimum\":5,"
    "\"maximum\":9}]}},\"required\":[\"v\"]}",
    "{\"type\":\"object\",\"properties\":{\"t\":{\"type\":\"number\",\"minimum\":0,\"maximum\":1}},\"required\":[\"t\"]"
    "}",
    "{\"type\":\"object\",\"properties\":{\"s\":{\"type\":\"string\",\"minLength\":2,\"maxLength\":3}},\"required\":["
    "\"s\"]}",
    "{\"type\":\"object\",\"properties\":{}}",
    "{\"type\":\"object\",\"properties\":{\"q\\\"\\u00fc\":{\"type\":\"null\"}},\"required\":[\"q\\\"\\u00fc\"]}",
    "{\"type\":\"object\",\"properties\":{\"p\":{\"type\":\"array\",\"items\":{\"enum\":[\"x\",\"y\"]},\"maxItems\":2},"
    "\"k\":{\"type\":\"boolean\"}},\"required\":[\"k\"]}",
};

typedef struct Seen {
    int answers, calls, cut;
} Seen;

static void check_call(const cJSON *call, const char *name, const cJSON *schema) {
    const char *arguments = json_text(call, "function.arguments"), *id = json_text(call, "id");
    cJSON *value = arguments ? cJSON_Parse(arguments) : NULL;
    char why[256] = "no JSON";
    CHECK_MSG(value && schema_check(schema, schema, value, why), "%s: %s", arguments, why);
    CHECK(!strcmp(json_text(call, "function.name"), name) && !strcmp(json_text(call, "type"), "function"));
    CHECK(id && !strncmp(id, "call_", 5) && strlen(id) == 29);
    cJSON_Delete(value);
}

static void check_choice(const cJSON *choice, const char *name, const cJSON *schema, Seen *seen) {
    const char *finish = json_text(choice, "finish_reason");
    const cJSON *calls = json_at(choice, "message.tool_calls"), *call;
    seen->answers++;
    seen->cut += !strcmp(finish, "length");
    if (!strcmp(finish, "length")) return;
    CHECK(!strcmp(finish, "tool_calls") && cJSON_IsNull(json_at(choice, "message.content")));
    CHECK(cJSON_GetArraySize(calls) > 0);
    cJSON_ArrayForEach(call, calls) {
        seen->calls++;
        check_call(call, name, schema);
    }
}

enum { ANSWERS = SANITIZED ? 2 : 8 }; /* of each schema */

static Seen force(const char *template, const char *how) {
    Seen seen = {0};
    Daemon d;
    if (!tools_start(&d, template)) return seen;
    for (size_t i = 0; i < COUNTOF(schemas); i++) {
        Buffer body = {0};
        cJSON *schema = cJSON_Parse(schemas[i]);
        const char *name = test_text("tool-%zu", i);
        buffer_print(&body,
                     "{\"messages\":[{\"role\":\"user\",\"content\":\"?\"}],\"tools\":[{\"type\":\"function\","
                     "\"function\":{\"name\":\"%s\",",
                     name);
        buffer_print(&body, "\"description\":\"d\",\"parameters\":%s}}],\"tool_choice\":", schemas[i]);
        buffer_print(&body, how, name);
        buffer_print(&body, ",\"n\":%d,\"temperature\":1.5,\"max_tokens\":250,\"seed\":%zu}%c", ANSWERS, i, 0);
        Answer a = http_post(&d, "/v1/chat/completions", body.data);
        const cJSON *choice;
        CHECK_MSG(a.status == 200, "%s: %s", body.data, a.body);
        cJSON_ArrayForEach(choice, json_at(a.json, "choices")) check_choice(choice, name, schema, &seen);
        buffer_free(&body);
        cJSON_Delete(schema);
    }
    daemon_stop(&d);
    return seen;
}

TEST(tools_forced_calls_are_valid) {
    static const char named[] = "{\"type\":\"function\",\"function\":{\"name\":\"%s\"}}";
    const Seen seen[] = {force("qwen2.5", named), force("qwen2.5", "\"required\""), force("llama-3.1", named),
                         force("llama-3.1", "\"required\"")};
    int answers = 0;
    for (size_t i = 0; i < COUNTOF(seen); i++) {
        answers += seen[i].answers - seen[i].cut;
        CHECK_MSG(seen[i].answers == ANSWERS * (int)COUNTOF(schemas), "%d", seen[i].answers);
        CHECK_MSG(i == 1 ? seen[i].calls > 0 : seen[i].calls == seen[i].answers - seen[i].cut, "%d calls in %d answers",
                  seen[i].calls, seen[i].answers);
    }
    printf("  %d calls ended by themselves\n", answers);
    int all = 4 * ANSWERS * (int)COUNTOF(schemas);
    CHECK_MSG(2 * answers > all, "%d of %d answers ended by themselves", answers, all);
}
