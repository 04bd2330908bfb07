/* A lenient server's tools: what of their schemas cannot be kept is left aside by name, in either protocol. */
#include "base/buffer.h"
#include "tests/server/api/test_tools.h"
#include "tests/support/http_client.h"

#include <stdlib.h>
#include <string.h>

/* What the form lets through has some 75 bytes at most, with all the blanks that it lets stand. */
#define PARAMETERS                                                                                                     \
    "\"name\":\"add\",\"parameters\":{\"type\":\"object\",\"required\":[\"n\"],\"minProperties\":1,\"properties\":{"   \
    "\"n\":{\"type\":\"integer\",\"minimum\":2,\"maximum\":7,\"multipleOf\":1}}}"
#define CHAT(strict)                                                                                                   \
    "{\"messages\":[{\"role\":\"user\",\"content\":\"a\"}],\"max_tokens\":120,\"tool_choice\":\"required\",\"tools\":" \
    "["                                                                                                                \
    "{\"type\":\"function\",\"function\":{" PARAMETERS strict "}}]}"
#define RESPONSE(strict)                                                                                               \
    "{\"input\":\"a\",\"max_output_tokens\":120,\"tool_choice\":\"required\",\"tools\":[{\"type\":\"web_search\"},"    \
    "{\"type\":\"function\"," PARAMETERS strict "}]}"
#define LEFT "tools.add.parameters.minProperties, tools.add.parameters.properties.n.multipleOf"

static void check_call(const Answer *a, const char *path) {
    cJSON *answer = cJSON_Parse(a->body);
    const char *text = json_text(answer, path);
    cJSON *arguments = cJSON_Parse(text);
    double n = cJSON_GetNumberValue(cJSON_GetObjectItem(arguments, "n"));
    CHECK_MSG(cJSON_GetArraySize(arguments) == 1 && n >= 2 && n <= 7, "%s", a->body);
    cJSON_Delete(arguments);
    cJSON_Delete(answer);
}

TEST(tools_leave_keywords_aside) {
    static const struct {
        const char *path, *body, *arguments; /* NULL: refused */
    } cases[] = {
        {"/v1/chat/completions", CHAT(""), "choices.0.message.tool_calls.0.function.arguments"},
        {"/v1/chat/completions", CHAT(",\"strict\":false"), "choices.0.message.tool_calls.0.function.arguments"},
        {"/v1/chat/completions", CHAT(",\"strict\":true"), NULL},
        {"/v1/responses", RESPONSE(",\"strict\":null"), "output.0.arguments"},
        {"/v1/responses", RESPONSE(",\"strict\":true"), NULL},
    };
    Daemon d;
    REQUIRE(tools_start(&d, "qwen2.5 --lenient"));
    for (size_t i = 0; i < COUNTOF(cases); i++) {
        Answer a = http_post(&d, cases[i].path, cases[i].body);
        char *ignored = answer_header(&a, "x-noised-ignored");
        if (cases[i].arguments) {
            CHECK_MSG(a.status == 200 && ignored && !strcmp(ignored, LEFT), "%s: %s", cases[i].body, a.headers);
            check_call(&a, cases[i].arguments);
        } else {
            CHECK_MSG(a.status == 400 && strstr(a.body, "parameters.minProperties"), "%s: %s", cases[i].body, a.body);
        }
        free(ignored);
    }
    daemon_stop(&d);
}

/* Some hundred at most: what one schema costs is bounded. */
TEST(tools_leave_so_many_keywords_aside) {
    Daemon d;
    REQUIRE(tools_start(&d, "qwen2.5 --lenient"));
    for (int n = 256; n <= 257; n++) {
        Buffer body = {0};
        buffer_text(&body,
                    "{\"messages\":[{\"role\":\"user\",\"content\":\"a\"}],\"max_tokens\":1,\"tools\":[{\"type\":"
                    "\"function\",\"function\":{\"name\":\"f\",\"parameters\":{\"type\":\"object\"");
        for (int i = 0; i < n; i++) buffer_print(&body, ",\"k%d\":%d", i, i);
        buffer_append(&body, "}}}]}", 6);
        Answer a = http_post(&d, "/v1/chat/completions", body.data);
        CHECK_MSG(a.status == (n == 256 ? 200 : 400), "%d: %s", n, a.body);
        buffer_free(&body);
    }
    daemon_stop(&d);
}
