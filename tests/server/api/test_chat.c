/* POST /v1/chat/completions against the real daemon. */
#include "base/json_write.h"
#include "base/buffer.h"
#include "base/err.h"
#include "base/memory.h"
#include "base/text.h"
#include "tests/support/checkpoints.h"
#include "tests/support/http_client.h"

#include <stdlib.h>
#include <string.h>

#define HELLO "\"messages\":[{\"role\":\"user\",\"content\":\"The river\"}]"

static Answer chat(const Daemon *d, const char *json) { return http_post(d, "/v1/chat/completions", json); }

TEST(chat_object) {
    Daemon d;
    REQUIRE(daemon_start(&d, CHECKPOINT_SMALL, "--chat-template plain"));
    Answer a =
        chat(&d, "{\"model\":\"tiny\"," HELLO ",\"max_tokens\":8,\"seed\":1,\"noise_seed\":2,\"ignore_eos\":true}");
    CHECK_MSG(a.status == 200, "%d: %s", a.status, a.body);
    CHECK(!strcmp(json_text(a.json, "object"), "chat.completion"));
    CHECK(!strncmp(json_text(a.json, "id"), "chatcmpl-", 9));
    CHECK(!strcmp(json_text(a.json, "choices.0.message.role"), "assistant"));
    CHECK(json_text(a.json, "choices.0.message.content") && cJSON_IsNull(json_at(a.json, "choices.0.message.refusal")));
    CHECK(cJSON_IsNull(json_at(a.json, "choices.0.logprobs")));
    CHECK(!strcmp(json_text(a.json, "choices.0.finish_reason"), "length"));
    CHECK(json_number(a.json, "choices.0.seed") == 1 && json_number(a.json, "choices.0.noise_seed") == 2);
    CHECK(json_number(a.json, "usage.completion_tokens") == 8);
    daemon_stop(&d);
}

/* The same request again, the same prompt without a chat, and a stream: all say the same. */
TEST(chat_is_a_completion_of_the_rendered_text) {
    static const char rest[] = "\"max_tokens\":24,\"seed\":5,\"noise_seed\":6,\"ignore_eos\":true,\"n\":2}";
    Daemon d;
    char request[1024];
    REQUIRE(daemon_start(&d, CHECKPOINT_SMALL, "--chat-template plain"));
    snprintf(request, sizeof request,
             "{\"messages\":[{\"role\":\"developer\",\"content\":\"Count.\"},"
             "{\"role\":\"user\",\"content\":[{\"type\":\"text\",\"text\":\"stones\"},"
             "{\"type\":\"text\",\"text\":\"words\"}],\"name\":null},"
             "{\"role\":\"assistant\",\"content\":\"one\",\"refusal\":null,\"tool_calls\":[]},"
             "{\"role\":\"user\",\"content\":\"\"}],%s",
             rest);
    Answer a = chat(&d, request), b = chat(&d, request);
    CHECK_MSG(a.status == 200, "%s", a.body);
    CHECK(json_same(a.json, "choices", b.json, "choices"));
    snprintf(request, sizeof request,
             "{\"prompt\":\"system: Count.\\nuser: stones\\nwords\\nassistant: one\\nuser: \\nassistant:\",%s", rest);
    b = http_post(&d, "/v1/completions", request);
    for (int i = 0; i < 2; i++) {
        const char *path = test_text("choices.%d.message.content", i);
        CHECK(json_text(a.json, path) && !strcmp(json_text(a.json, path), answer_text(&b, i)));
    }
    CHECK(json_same(a.json, "usage.prompt_tokens", b.json, "usage.prompt_tokens"));
    daemon_stop(&d);
}

TEST(chat_stream) {
    static const char form[] = "{" HELLO ",\"max_tokens\":300,\"seed\":5,\"noise_seed\":6,\"ignore_eos\":true,"
                               "\"logprobs\":true,\"top_logprobs\":2,\"stream\":%s}";
    Daemon d;
    REQUIRE(daemon_start(&d, CHECKPOINT_SMALL, "--chat-template plain"));
    Answer whole = chat(&d, test_text(form, "false"));
    Answer a = chat(&d, test_text(form, "true"));
    Events events = events_parse(a.body);
    REQUIRE(whole.status == 200 && events.n > 0 && events.done && !events.malformed);
    Buffer text = {0};
    cJSON *logprobs = cJSON_CreateArray();
    for (int i = 0; i < events.n; i++) {
        cJSON *entry, *next;
        CHECK(!strcmp(json_text(events.data[i], "object"), "chat.completion.chunk"));
        CHECK(!!json_text(events.data[i], "choices.0.delta.role") == (i == 0));
        CHECK((json_text(events.data[i], "choices.0.finish_reason") != NULL) == (i == events.n - 1));
        const char *piece = json_text(events.data[i], "choices.0.delta.content");
        bool frame =
            i == 0 || i == events.n - 1; /* a reader that takes text where finish_reason is null has all of it */
        CHECK(frame == !piece);
        int scored = cJSON_GetArraySize(json_at(events.data[i], "choices.0.logprobs.content"));
        CHECK((scored == 0) == frame);
        CHECK(cJSON_IsNull(json_at(events.data[i], "choices.0.logprobs")) == (i == events.n - 1));
        if (frame) continue;
        buffer_text(&text, piece);
        cJSON *content = (cJSON *)json_at(events.data[i], "choices.0.logprobs.content");
        for (entry = content->child; entry; entry = next) {
            next = entry->next;
            cJSON_AddItemToArray(logprobs, cJSON_DetachItemViaPointer(content, entry));
        }
    }
    buffer_append(&text, "", 1);
    CHECK(!strcmp(text.data, json_text(whole.json, "choices.0.message.content")));
    char *sent = cJSON_PrintUnformatted(logprobs), *plain = json_raw(whole.json, "choices.0.logprobs.content");
    CHECK_MSG(!strcmp(sent, plain), "%s\n%s", sent, plain);
    free(sent);
    free(plain);
    cJSON_Delete(logprobs);
    buffer_free(&text);
    events_free(&events);
    daemon_stop(&d);
}

TEST(chat_logprobs) {
    Daemon d;
    REQUIRE(daemon_start(&d, CHECKPOINT_SMALL, "--chat-template plain"));
    Answer a = chat(&d, "{" HELLO ",\"max_tokens\":6,\"seed\":5,\"ignore_eos\":true,\"logprobs\":true,"
                        "\"top_logprobs\":3,\"temperature\":0}");
    const cJSON *slot, *content = json_at(a.json, "choices.0.logprobs.content");
    REQUIRE(cJSON_GetArraySize(content) == 6);
    cJSON_ArrayForEach(slot, content) {
        CHECK(cJSON_GetArraySize(json_at(slot, "top_logprobs")) == 3);
        CHECK(json_text(slot, "token") && cJSON_IsArray(json_at(slot, "bytes")));
        CHECK(json_same(slot, "logprob", slot, "top_logprobs.0.logprob")); /* greedy */
        CHECK(json_same(slot, "bytes", slot, "top_logprobs.0.bytes"));
    }
    a = chat(&d, "{" HELLO ",\"max_tokens\":2,\"ignore_eos\":true,\"logprobs\":true}");
    CHECK(cJSON_GetArraySize(json_at(a.json, "choices.0.logprobs.content.0.top_logprobs")) == 0);
    daemon_stop(&d);
}

TEST(chat_tokens_are_those_of_its_prompt) {
    static const char *const more[] = {
        "", ",\"add_generation_prompt\":false", ",\"parse_special\":true",
        ",{\"role\":\"assistant\",\"content\":\"ran\"}],\"continue_final_message\":true,\"temperature\":0.5,\"n\":1"};
    static const char turn[] = "{\"role\":\"user\",\"content\":\"The <|endoftext|> river\"}";
    Daemon d;
    REQUIRE(daemon_start(&d, CHECKPOINT_SMALL, "--chat-template plain"));
    for (size_t i = 0; i < COUNTOF(more); i++) {
        const char *fields = test_text("\"messages\":[%s%s%s", turn, strchr(more[i], ']') ? "" : "]", more[i]);
        Answer tokens = http_post(&d, "/tokenize", test_text("{%s}", fields));
        Answer a = chat(&d, test_text("{%s,\"max_tokens\":1,\"return_token_ids\":true}", fields));
        CHECK_MSG(tokens.status == 200 && json_same(tokens.json, "tokens", a.json, "choices.0.prompt_token_ids"), "%s",
                  tokens.body);
        CHECK(json_same(tokens.json, "count", a.json, "usage.prompt_tokens"));
    }
    static const Bad wrong[] = {{"{" HELLO ",\"prompt\":\"a\"}", 400, "messages"},
                                {"{" HELLO ",\"text\":\"a\"}", 400, "text"},
                                {"{" HELLO ",\"model\":\"b\"}", 404, "model"},
                                {"{\"messages\":[]}", 400, "messages"},
                                {"{\"messages\":null}", 400, "prompt"}};
    check_bodies(&d, "/tokenize", wrong, COUNTOF(wrong));
    Answer a = http_post(&d, "/tokenize", "{" HELLO ",\"prompt\":null,\"content\":null,\"with_pieces\":true}");
    CHECK_MSG(a.status == 200 && json_at(a.json, "tokens.0.piece"), "%s", a.body);
    daemon_stop(&d);
}

/* As vLLM's: beside the choices. Here each choice has a prompt of its own, by its noise. */
TEST(chat_prompt_logprobs) {
    Daemon d;
    REQUIRE(daemon_start(&d, CHECKPOINT_SMALL, "--chat-template plain"));
    Answer a = chat(&d, "{" HELLO ",\"max_tokens\":1,\"n\":2,\"noise_seed\":[5,6],\"prompt_logprobs\":1}");
    Answer second = chat(&d, "{" HELLO ",\"max_tokens\":1,\"noise_seed\":6,\"prompt_logprobs\":1}");
    REQUIRE(a.status == 200 && second.status == 200);
    CHECK(cJSON_GetArraySize(json_at(a.json, "prompt_logprobs")) == json_number(a.json, "usage.prompt_tokens"));
    CHECK(!json_at(a.json, "choices.0.prompt_logprobs") && !json_at(second.json, "choices.0.prompt_logprobs"));
    CHECK(json_same(a.json, "choices.1.prompt_logprobs", second.json, "prompt_logprobs"));
    char *first = json_raw(a.json, "prompt_logprobs"), *other = json_raw(second.json, "prompt_logprobs");
    CHECK(first && other && strcmp(first, other) != 0);
    free(first);
    free(other);
    a = chat(&d, "{" HELLO ",\"max_tokens\":1}");
    CHECK(cJSON_IsNull(json_at(a.json, "prompt_logprobs")));
    daemon_stop(&d);
}

TEST(chat_lengths) {
    Daemon d;
    REQUIRE(daemon_start(&d, CHECKPOINT_SMALL, "--chat-template plain"));
    /* Nothing said: to the end of the context, of which the last token needs no position. */
    Answer a = chat(&d, "{" HELLO ",\"ignore_eos\":true,\"noise_scale\":0}");
    CHECK_MSG(json_number(a.json, "usage.total_tokens") == 513, "%s", a.body);
    a = chat(&d, "{" HELLO ",\"ignore_eos\":true,\"max_completion_tokens\":3}");
    CHECK(json_number(a.json, "usage.completion_tokens") == 3);
    a = chat(&d, "{" HELLO ",\"max_tokens\":0}");
    CHECK_MSG(a.status == 200 && !strcmp(json_text(a.json, "choices.0.message.content"), ""), "%s", a.body);
    daemon_stop(&d);
}

/* ---- messages that go on ---- */

#define BEGUN                                                                                                          \
    "\"messages\":[{\"role\":\"user\",\"content\":\"The river\"},{\"role\":\"assistant\",\"content\":\"is \"}]"

/* As the completion of the text that /apply-template writes. */
TEST(chat_goes_on_with_the_last_message) {
    static const char *const how[] = {"\"continue_final_message\":true",
                                      "\"continue_final_message\":true,\"add_generation_prompt\":false",
                                      "\"add_generation_prompt\":false", "\"add_generation_prompt\":true"};
    static const char *const ends[] = {"\nassistant: is ", "\nassistant: is ", "\nassistant: is \n", "\nassistant:"};
    static const char rest[] = ",\"max_tokens\":12,\"seed\":5,\"ignore_eos\":true,\"n\":2}";
    Daemon d;
    char body[512];
    REQUIRE(daemon_start(&d, CHECKPOINT_SMALL, "--chat-template plain"));
    for (size_t i = 0; i < COUNTOF(how); i++) {
        snprintf(body, sizeof body, "{" BEGUN ",%s%s", how[i], rest);
        Answer a = chat(&d, body), written = http_post(&d, "/apply-template", body);
        const char *text = json_text(written.json, "prompt");
        REQUIRE(a.status == 200 && written.status == 200 && text);
        CHECK_MSG(text_ends(text, ends[i]), "%s", text);
        char *prompt = json_raw(written.json, "prompt");
        snprintf(body, sizeof body, "{\"prompt\":%s%s", prompt, rest);
        Answer b = http_post(&d, "/v1/completions", body);
        CHECK(json_same(a.json, "choices.1.message.content", b.json, "choices.1.text"));
        free(prompt);
    }
    daemon_stop(&d);
}

/* Streamed too; what is in front is neither counted nor looked at for stop strings. */
TEST(chat_echoes_the_last_message) {
    static const char body[] = "{" BEGUN ",\"continue_final_message\":true,\"max_tokens\":12,\"seed\":5,\"ignore_eos\":"
                               "true,\"stop\":\"is \"%s}";
    Daemon d;
    REQUIRE(daemon_start(&d, CHECKPOINT_SMALL, "--chat-template plain"));
    Answer plain = chat(&d, test_text(body, ""));
    Answer a = chat(&d, test_text(body, ",\"echo\":true"));
    Answer streamed = chat(&d, test_text(body, ",\"echo\":true,\"stream\":true"));
    REQUIRE(plain.status == 200 && a.status == 200);
    const char *whole = test_text("is %s", json_text(plain.json, "choices.0.message.content"));
    CHECK_MSG(!strcmp(json_text(a.json, "choices.0.message.content"), whole), "%s\n%s", plain.body, a.body);
    CHECK(json_same(a.json, "usage.completion_tokens", plain.json, "usage.completion_tokens"));
    Events e = events_parse(streamed.body);
    char *text = events_text(&e, 0);
    CHECK_MSG(!strcmp(text, whole), "%s", streamed.body);
    free(text);
    events_free(&e);
    daemon_stop(&d);
}

/* ---- bad input ---- */

TEST(chat_bad_requests) {
    static const Bad bad[] = {
        {"{}", 400, "messages"},
        {"{\"messages\":[]}", 400, "messages"},
        {"{\"messages\":\"Hi\"}", 400, "messages"},
        {"{\"messages\":[\"Hi\"]}", 400, "messages[0]"},
        {"{\"messages\":[{\"content\":\"x\"}]}", 400, "messages[0].role"},
        {"{\"messages\":[{\"role\":\"user\"}]}", 400, "messages[0].content"},
        {"{\"messages\":[{\"role\":\"user\",\"content\":null}]}", 400, "messages[0].content"},
        {"{\"messages\":[{\"role\":\"user\",\"content\":7}]}", 400, "messages[0].content"},
        {"{\"messages\":[{\"role\":\"user\",\"content\":[{\"type\":\"text\"}]}]}", 400, "messages[0].content"},
        {"{\"messages\":[{\"role\":\"user\",\"content\":[{\"type\":\"image_url\",\"image_url\":{\"url\":\"x\"}}]}]}",
         400, "messages[0].content"},
        {"{\"messages\":[{\"role\":\"\",\"content\":\"a\"}]}", 400, "messages[0].role"},
        {"{\"messages\":[{\"role\":3,\"content\":\"a\"}]}", 400, "messages[0].role"},
        {"{\"messages\":[{\"role\":\"user\",\"content\":\"a\",\"tool_calls\":[1]}]}", 400, "messages[0].tool_calls"},
        {"{\"messages\":[{\"role\":\"assistant\",\"tool_calls\":[]}]}", 400, "messages[0].content"},
        {"{\"messages\":[{\"role\":\"assistant\",\"content\":null,\"tool_calls\":[{}]}]}", 400, "messages[0].content"},
        {"{" HELLO ",\"prompt\":\"x\"}", 400, "prompt"},
        {"{" HELLO ",\"echo\":true}", 400, "echo"},
        {"{" HELLO ",\"echo\":1}", 400, "echo"},
        {"{" HELLO ",\"continue_final_message\":true}", 400, "continue_final_message"},
        {"{" BEGUN ",\"continue_final_message\":true,\"add_generation_prompt\":true}", 400, "add_generation_prompt"},
        {"{" HELLO ",\"add_generation_prompt\":1}", 400, "add_generation_prompt"},
        {"{" HELLO ",\"suffix\":\"x\"}", 400, "suffix"},
        {"{" HELLO ",\"logprobs\":2}", 400, "logprobs"},
        {"{" HELLO ",\"top_logprobs\":2}", 400, "top_logprobs"},
        {"{" HELLO ",\"logprobs\":true,\"top_logprobs\":21}", 400, "top_logprobs"},
        {"{" HELLO ",\"logprobs\":true,\"top_logprobs\":-1}", 400, "top_logprobs"},
        {"{" HELLO ",\"max_tokens\":3,\"max_completion_tokens\":4}", 400, "max_completion_tokens"},
        {"{" HELLO ",\"max_completion_tokens\":-2}", 400, "max_completion_tokens"},
        {"{" HELLO ",\"n_probs\":2}", 400, "n_probs"},
        {"{" HELLO ",\"add_special_tokens\":true}", 400, "add_special_tokens"},
        {"{" HELLO ",\"max_tokens\":4000}", 400, "max_tokens"},
        {"{" HELLO ",\"tools\":[{\"type\":\"function\"}]}", 400, "tools[0].function"},
        {"{" HELLO ",\"tools\":[{\"type\":\"function\",\"function\":{\"name\":\"f\"}}]}", 400, "tools"},
        {"{" HELLO ",\"tool_choice\":\"required\"}", 400, "tool_choice"},
        {"{" HELLO ",\"functions\":[{}]}", 400, "functions"},
        {"{" HELLO ",\"response_format\":{\"type\":\"xml\"}}", 400, "response_format.type"},
        {"{" HELLO ",\"modalities\":[\"text\",\"audio\"]}", 400, "modalities"},
        {"{" HELLO ",\"store\":true}", 400, "store"},
        {"{" HELLO ",\"nonsense\":1}", 400, "nonsense"},
        {"{" HELLO ",\"temperature\":3}", 400, "temperature"},
        {"{" HELLO ",\"chat_template_kwargs\":[]}", 400, "chat_template_kwargs"},
        {"{" HELLO ",\"chat_template_kwargs\":{\"messages\":[]}}", 400, "chat_template_kwargs.messages"},
        {"{" HELLO ",\"chat_template_kwargs\":{\"tools\":[]}}", 400, "chat_template_kwargs.tools"},
        {"{" HELLO ",\"model\":\"other\"}", 404, "model"},
    };
    Daemon d;
    REQUIRE(daemon_start(&d, CHECKPOINT_SMALL, "--chat-template chatml"));
    for (size_t i = 0; i < COUNTOF(bad); i++) {
        Answer a = chat(&d, bad[i].body);
        answer_check_error(&a, bad[i].status, bad[i].param, bad[i].body);
    }
    Answer a = chat(&d, "{" HELLO ",\"max_tokens\":1,\"tools\":[],\"tool_choice\":\"none\",\"functions\":null,"
                        "\"response_format\":{\"type\":\"text\"},\"parallel_tool_calls\":false,\"store\":false,"
                        "\"modalities\":[\"text\"],\"service_tier\":\"auto\",\"metadata\":{},\"function_call\":"
                        "\"none\",\"top_logprobs\":0,\"audio\":null}");
    CHECK_MSG(a.status == 200, "%s", a.body);
    static const char named[] = "{\"seed\":1,\"max_tokens\":4,\"messages\":[{\"role\":\"user\",\"content\":\"Hi\"%s}]}";
    Answer told[2];
    for (int i = 0; i < 2; i++) {
        told[i] = chat(&d, test_text(named, i ? ",\"name\":\"me\"" : ""));
    }
    CHECK_MSG(json_same(told[0].json, "choices", told[1].json, "choices"), "%s", told[1].body);
    daemon_stop(&d);
}

/* A conversation of n messages of `bytes` bytes each; malloc'ed. */
static char *long_chat(int n, size_t bytes, const char *more) {
    Buffer b = {0};
    char *content = xmalloc(bytes);
    memset(content, 'x', bytes);
    buffer_print(&b, "{\"max_tokens\":1%s,\"messages\":[", more);
    for (int i = 0; i < n; i++) {
        buffer_print(&b, "%s{\"role\":\"user\",\"content\":", i ? "," : "");
        json_put_bytes(&b, NULL, content, bytes);
        buffer_text(&b, "}");
    }
    buffer_append(&b, "]}", 3);
    free(content);
    return b.data;
}

static void check_long(const Daemon *d, int n, size_t bytes, int status, const char *param) {
    char *body = long_chat(n, bytes, ""), what[64];
    snprintf(what, sizeof what, "%d messages of %zu bytes", n, bytes);
    Answer a = chat(d, body);
    answer_check_error(&a, status, param, what);
    free(body);
}

TEST(chat_limits) {
    Daemon d;
    REQUIRE(daemon_start(&d, CHECKPOINT_SMALL, "--chat-template plain"));
    check_long(&d, 1024, 1, 400, "messages"); /* as many as may be, but more than the context */
    check_long(&d, 1025, 1, 400, "messages");
    check_long(&d, 10000, 1, 413, "");
    check_long(&d, 1, 262144, 413, "");
    check_long(&d, 1, 262000, 400, "messages");
    daemon_stop(&d);
    REQUIRE(daemon_start(&d, CHECKPOINT_SMALL, "--chat-template plain --max-body 1000000 --max-messages 2"));
    check_long(&d, 10000, 1, 400, "");
    check_long(&d, 3, 1, 400, "messages");
    char *body = long_chat(2, 1, "");
    Answer a = chat(&d, body);
    CHECK_MSG(a.status == 200, "%s", a.body);
    free(body);
    daemon_stop(&d);
}

/* Where the operator lets them through, 10,000 messages are an answer too. */
TEST(chat_of_many_messages) {
    static const char *const names[] = {"plain", "chatml", "llama-3.1", "qwen3", "gemma-3"};
    for (size_t i = 0; i < COUNTOF(names); i++) {
        Daemon d;
        REQUIRE(daemon_start(
            &d, CHECKPOINT_SMALL,
            test_text("--chat-template %s --max-body 1000000 --max-messages 10000 --max-json-values 100000",
                      names[i])));
        bool turns = !strcmp(names[i], "gemma-3");
        check_long(&d, 10000, 1, 400, "messages");
        check_long(&d, 10001, 1, 400, "messages");
        char *body = long_chat(10000, 1, ",\"truncate_prompt_tokens\":100");
        Answer a = chat(&d, body);
        CHECK_MSG(turns || json_number(a.json, "usage.prompt_tokens") == 100, "%s: %s", names[i], a.body);
        free(body);
        daemon_stop(&d);
    }
}
