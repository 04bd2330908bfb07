/* POST /v1/responses: the same answer as a chat, told by OpenAI's other protocol. */
#include "base/buffer.h"
#include "base/err.h"
#include "tests/support/http_client.h"

#include <stdlib.h>
#include <signal.h>
#include <string.h>
#include <unistd.h>

#define REST "\"seed\":3,\"ignore_eos\":true"

/* What is asked with instructions, a string, parts and a former answer is a chat of these messages. */
TEST(responses_are_chats) {
    static const struct {
        const char *response, *chat;
    } cases[] = {
        {"\"input\":\"The river\"", "{\"role\":\"user\",\"content\":\"The river\"}"},
        {"\"instructions\":\"Be brief.\",\"input\":\"The "
         "river\",\"store\":true,\"text\":{\"format\":{\"type\":\"text\"},\"verbosity\":\"medium\"},\"prompt\":null,"
         "\"top_logprobs\":0",
         "{\"role\":\"system\",\"content\":\"Be brief.\"},{\"role\":\"user\",\"content\":\"The river\"}"},
        {"\"input\":[{\"role\":\"user\",\"content\":[{\"type\":\"input_text\",\"text\":\"The\"},"
         "{\"type\":\"input_text\",\"text\":\"river\"}]},"
         "{\"type\":\"message\",\"id\":\"msg-1\",\"status\":\"completed\",\"role\":\"assistant\",\"content\":"
         "[{\"type\":\"output_text\",\"text\":\"runs\",\"annotations\":[],\"logprobs\":[]}]},"
         "{\"role\":\"user\",\"content\":\"Where?\"}]",
         "{\"role\":\"user\",\"content\":\"The\\nriver\"},{\"role\":\"assistant\",\"content\":\"runs\"},"
         "{\"role\":\"user\",\"content\":\"Where?\"}"},
    };
    Daemon d;
    REQUIRE(daemon_start(&d, CHECKPOINT_SMALL, "--chat-template plain"));
    for (size_t i = 0; i < COUNTOF(cases); i++) {
        Answer a =
            http_post(&d, "/v1/responses", test_text("{%s,\"max_output_tokens\":9," REST "}", cases[i].response));
        Answer b = http_post(&d, "/v1/chat/completions",
                             test_text("{\"messages\":[%s],\"max_tokens\":9," REST "}", cases[i].chat));
        CHECK_MSG(a.status == 200, "%s", a.body);
        CHECK(json_same(a.json, "output.0.content.0.text", b.json, "choices.0.message.content"));
        CHECK(json_same(a.json, "usage.input_tokens", b.json, "usage.prompt_tokens"));
        CHECK(json_same(a.json, "noise_seed", b.json, "choices.0.noise_seed"));
        CHECK(json_same(a.json, "system_fingerprint", b.json, "system_fingerprint"));
        CHECK(json_number(a.json, "usage.total_tokens") == json_number(a.json, "usage.input_tokens") + 9);
        CHECK(json_says(a.json, "output.0.type", "message") && json_says(a.json, "output.0.role", "assistant"));
        CHECK(json_says(a.json, "object", "response") && json_says(a.json, "status", "incomplete"));
        CHECK(json_says(a.json, "incomplete_details.reason", "max_output_tokens"));
        CHECK(json_number(a.json, "usage.output_tokens") == 9 && !strncmp(json_text(a.json, "id"), "resp-", 5));
    }
    Answer other = http_post(&d, "/v1/responses", "{\"input\":\"a\",\"if_fingerprint\":\"a chat's\"}");
    const char *chats = strstr(other.body, "-plain");
    CHECK_MSG(other.status == 409 && chats, "%s", other.body);
    Answer ended = http_post(&d, "/v1/responses", "{\"input\":\"a\",\"logit_bias\":[[0,100]]}");
    CHECK_MSG(json_says(ended.json, "status", "completed") && cJSON_IsNull(json_at(ended.json, "incomplete_details")),
              "%s", ended.body);
    daemon_stop(&d);
}

/* The three formats of "text" are those of a chat's "response_format", and so are their answers. */
TEST(responses_keep_to_a_format) {
#define SCHEMA "{\"type\":\"object\",\"properties\":{\"a\":{\"enum\":[1,2]}},\"required\":[\"a\"]}"
#define NAMED "\"name\":\"b\",\"strict\":true,\"description\":null,\"schema\":" SCHEMA
    static const char *const cases[][2] = {
        {"{\"type\":\"text\"}", "{\"type\":\"text\"}"},
        {"{\"type\":\"json_object\"}", "{\"type\":\"json_object\"}"},
        {"{\"type\":\"json_schema\"," NAMED "}", "{\"type\":\"json_schema\",\"json_schema\":{" NAMED "}}"},
    };
    Daemon d;
    REQUIRE(daemon_start(&d, CHECKPOINT_SMALL, "--chat-template plain"));
    for (size_t i = 0; i < COUNTOF(cases); i++) {
        Answer a = http_post(
            &d, "/v1/responses",
            test_text(
                "{\"input\":\"The\",\"text\":{\"format\":%s,\"verbosity\":null},\"max_output_tokens\":40,\"seed\":3}",
                cases[i][0]));
        Answer b = http_post(
            &d, "/v1/chat/completions",
            test_text(
                "{\"messages\":[{\"role\":\"user\",\"content\":\"The\"}],\"response_format\":%s,\"max_tokens\":40,"
                "\"seed\":3}",
                cases[i][1]));
        CHECK_MSG(a.status == 200 && b.status == 200, "%s %s", a.body, b.body);
        const char *text = json_text(a.json, "output.0.content.0.text");
        CHECK(json_same(a.json, "output.0.content.0.text", b.json, "choices.0.message.content"));
        CHECK_MSG(text && (text[0] == '{') == (i > 0), "%s", a.body);
        if (i == 2) {
            cJSON *object = cJSON_Parse(text);
            CHECK_MSG(json_number(object, "a") == 1 || json_number(object, "a") == 2, "%s", text);
            cJSON_Delete(object);
        }
    }
    daemon_stop(&d);
#undef NAMED
#undef SCHEMA
}

TEST(responses_stream) {
    static const char body[] = "{\"input\":\"The river\",\"max_output_tokens\":200," REST "%s}";
    static const char *const first[] = {"response.created", "response.in_progress", "response.output_item.added",
                                        "response.content_part.added"};
    static const char *const last[] = {"response.output_text.done", "response.content_part.done",
                                       "response.output_item.done", "response.incomplete"};
    Daemon d;
    REQUIRE(daemon_start(&d, CHECKPOINT_SLOW, "--chat-template plain"));
    Answer whole = http_post(&d, "/v1/responses", test_text(body, ""));
    Answer a = http_post(&d, "/v1/responses", test_text(body, ",\"stream\":true"));
    Events e = events_parse_named(a.body);
    Buffer text = {0};
    REQUIRE(!e.malformed && e.n > 9); /* of the text more than one */
    for (int i = 0; i < e.n; i++) {
        const char *type = i < 4 ? first[i] : i >= e.n - 4 ? last[i - e.n + 4] : "response.output_text.delta";
        CHECK_MSG(json_says(e.data[i], "type", type) && json_number(e.data[i], "sequence_number") == i, "%d: %s", i,
                  a.body);
        if (json_text(e.data[i], "delta")) buffer_text(&text, json_text(e.data[i], "delta"));
    }
    buffer_append(&text, "", 1);
    CHECK(json_says(whole.json, "output.0.content.0.text", text.data));
    CHECK(json_says(e.data[e.n - 4], "text", text.data) &&
          json_says(e.data[e.n - 2], "item.content.0.text", text.data));
    CHECK(json_same(e.data[e.n - 1], "response.output.0.content", whole.json, "output.0.content"));
    CHECK(json_same(e.data[e.n - 1], "response.id", e.data[0], "response.id"));
    CHECK(json_same(e.data[2], "item.id", e.data[e.n - 2], "item.id"));
    CHECK(json_same(e.data[4], "item_id", e.data[2], "item.id"));
    CHECK(json_same(e.data[e.n - 1], "response.usage.output_tokens", whole.json, "usage.output_tokens"));
    buffer_free(&text);
    events_free(&e);
    daemon_stop(&d);
}

/* An error is an event with a name too. */
TEST(responses_stream_that_fails) {
    static const char body[] = "{\"input\":\"The river\",\"stream\":true,\"ignore_eos\":true}";
    Daemon d;
    char request[256];
    REQUIRE(daemon_start(&d, CHECKPOINT_SLOW, "--chat-template plain --drain-seconds 0"));
    int fd = raw_connect(&d), n = snprintf(request, sizeof request,
                                           "POST /v1/responses HTTP/1.1\r\nHost: localhost\r\nContent-Length: %zu\r\n"
                                           "\r\n%s",
                                           strlen(body), body);
    CHECK(raw_send(fd, request, (size_t)n) && raw_expect(fd, "response.output_text.delta"));
    kill(d.pid, SIGTERM);
    CHECK(raw_expect(fd, "event: error\ndata: {\"error\":{"));
    close(fd);
    CHECK(daemon_stop(&d) == 0);
}

TEST(responses_bad_requests) {
    static const Bad bad[] = {
        {"{}", 400, "input"},
        {"{\"input\":[]}", 400, "input"},
        {"{\"input\":7}", 400, "input"},
        {"{\"input\":[7]}", 400, "input[0]"},
        {"{\"input\":[{\"type\":\"reasoning\",\"summary\":[]}]}", 400, "input[0]"},
        {"{\"input\":[{\"role\":\"user\",\"content\":\"a\"},{\"role\":\"user\",\"content\":[{\"type\":\"input_image\"}]"
         "}]}",
         400, "input[1].content"},
        {"{\"instructions\":\"x\",\"input\":[{\"role\":\"\",\"content\":\"a\"}]}", 400, "input[0].role"},
        {"{\"input\":\"a\",\"stream_from\":1}", 400, "stream_from"},
        {"{\"input\":[{\"role\":\"user\",\"content\":7}]}", 400, "input[0].content"},
        {"{\"input\":[{\"role\":\"user\",\"content\":[{\"type\":\"input_text\",\"text\":\"a\",\"image_url\":\"b\"}]}]}",
         400, "input[0].content.image_url"},
        {"{\"input\":[{\"role\":\"user\",\"content\":\"a\",\"mood\":1}]}", 400, "input[0].mood"},
        {"{\"input\":\"a\",\"previous_response_id\":\"resp-1\"}", 400, "previous_response_id"},
        {"{\"input\":\"a\",\"text\":\"b\"}", 400, "text"},
        {"{\"input\":\"a\",\"text\":{\"formats\":{}}}", 400, "text.formats"},
        {"{\"input\":\"a\",\"text\":{\"verbosity\":\"loud\"}}", 400, "text.verbosity"},
        {"{\"input\":\"a\",\"text\":{\"format\":\"json\"}}", 400, "text.format.type"},
        {"{\"input\":\"a\",\"text\":{\"format\":{\"type\":\"xml\"}}}", 400, "text.format.type"},
        {"{\"input\":\"a\",\"text\":{\"format\":{\"type\":\"text\",\"schema\":{}}}}", 400, "text.format.schema"},
        {"{\"input\":\"a\",\"text\":{\"format\":{\"type\":\"json_object\",\"schema\":{}}}}", 400, "text.format.schema"},
        {"{\"input\":\"a\",\"text\":{\"format\":{\"type\":\"json_schema\",\"name\":\"b\"}}}", 400,
         "text.format.schema"},
        {"{\"input\":\"a\",\"text\":{\"format\":{\"type\":\"json_schema\",\"json_schema\":{}}}}", 400,
         "text.format.json_schema"},
        {"{\"input\":\"a\",\"text\":{\"format\":{\"type\":\"json_schema\",\"schema\":{\"type\":\"odd\"}}}}", 400,
         "text.format.schema.type"},
        {"{\"input\":\"a\",\"text\":{\"format\":{\"type\":\"json_object\"}},\"regex\":\"b\"}", 400, "regex"},
        {"{\"input\":\"a\",\"n\":2}", 400, "n"},
        {"{\"input\":\"a\",\"messages\":[]}", 400, "messages"},
        {"{\"input\":\"a\",\"background\":true}", 400, "background"},
        {"{\"input\":\"a\",\"max_output_tokens\":-2}", 400, "max_output_tokens"},
        {"{\"input\":\"a\",\"model\":\"other\"}", 404, "model"},
    };
    Daemon d;
    REQUIRE(daemon_start(&d, CHECKPOINT_SMALL, "--chat-template plain"));
    check_bodies(&d, "/v1/responses", bad, COUNTOF(bad));
    daemon_stop(&d);
}
