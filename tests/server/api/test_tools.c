/* Chats that call functions: the same calls by every way, conversations that go on with them, what is refused. */
#include "base/buffer.h"
#include "base/memory.h"
#include "model/kind.h"
#include "tests/server/api/test_tools.h"
#include "tests/support/checkpoints.h"
#include "tests/support/http_client.h"
#include "tests/support/models.h"

#include <stdlib.h>
#include <string.h>

enum { CALL_TOKEN = TEST_PIECES }; /* <tool_call>, which is text as others are */

/* SMALL, with room for tools. */
static const char *model(void) {
    static char *made;
    if (made) return made;
    Config c = test_config(attention_kind_find("symmetric"));
    c.vocab_size = TEST_VOCAB;
    c.hidden_size = 32;
    c.n_layers = 2;
    c.n_heads = c.n_kv_heads = 2;
    c.head_dim = 16;
    c.max_positions = 4096;
    c.mlp.width = 64;
    c.bos_token_id = c.eos_token_id = TEST_EOS;
    c.noise.scope = NOISE_HEAD;
    const char *parent = test_dir();
    const char *path = test_text("%s/tools", parent);
    if (!test_checkpoint_write_as(path, &c, DTYPE_F32, 1)) return NULL;
    test_add_token(path, CALL_TOKEN, "<tool_call>");
    char *text = test_read_file(test_text("%s/tokenizer.json", path), NULL);
    cJSON *tokenizer = cJSON_Parse(text), *added = cJSON_GetObjectItem(tokenizer, "added_tokens");
    cJSON_ReplaceItemInObject(cJSON_GetArrayItem(added, cJSON_GetArraySize(added) - 1), "special", cJSON_CreateFalse());
    free(text);
    text = cJSON_PrintUnformatted(tokenizer);
    test_write_text(path, "tokenizer.json", text);
    free(text);
    cJSON_Delete(tokenizer);
    return made = xstrdup(path);
}

bool tools_start(Daemon *d, const char *template) {
    return daemon_start_at(d, model(), test_text("--chat-template %s", template));
}

/* ---- by every way ---- */

#define TOOLS                                                                                                          \
    "\"tools\":[{\"type\":\"function\",\"function\":{\"name\":\"weather\",\"parameters\":{\"type\":\"object\","        \
    "\"properties\":{"                                                                                                 \
    "\"city\":{\"enum\":[\"Oslo\",\"Rome\"]},\"days\":{\"type\":\"integer\",\"minimum\":1,\"maximum\":9}},"            \
    "\"required\":[\"city\"]}}},"                                                                                      \
    "{\"type\":\"function\",\"function\":{\"name\":\"wait\"}}]"
#define ASK "{\"messages\":[{\"role\":\"user\",\"content\":\"Rain?\"}],\"noise_seed\":5," TOOLS
/* Some text, then calls. */
#define CALLS ASK ",\"logit_bias\":{\"300\":4.5},\"temperature\":0.9"
#define CALLING CALLS ",\"max_tokens\":120"

static Answer ask(const Daemon *d, const char *path, const char *body, const char *more) {
    Buffer b = {0};
    buffer_print(&b, "%s%s}%c", body, more, 0);
    Answer a = http_post(d, path, b.data);
    CHECK_MSG(a.status == 200, "%s: %s", b.data, a.body);
    buffer_free(&b);
    return a;
}

/* An answer of "auto" by a seed that has text and then calls to the end. */
static int seed_that_calls(const Daemon *d, Answer *found) {
    for (int seed = 0; seed < 200; seed++) {
        Answer a = ask(d, "/v1/chat/completions", CALLING, test_text(",\"seed\":%d", seed));
        bool calls = !strcmp(json_text(a.json, "choices.0.finish_reason"), "tool_calls") &&
                     json_text(a.json, "choices.0.message.content");
        *found = a;
        if (calls && cJSON_GetArraySize(json_at(a.json, "choices.0.message.tool_calls")) > 1) return seed;
    }
    test_fail(__FILE__, __LINE__, "no seed calls");
    *found = (Answer){0};
    return -1;
}

/* The deltas of a stream put together, as clients do; calls as id name arguments. */
static char *joined(const char *body, bool from) {
    Events e = events_parse(body);
    Buffer content = {0}, calls[8] = {{0}};
    CHECK(e.done && !e.malformed);
    for (int i = 0; i < e.n; i++) {
        const cJSON *delta = json_at(e.data[i], "choices.0.delta"), *call;
        const char *text = json_text(delta, "content");
        if (text) buffer_text(&content, text);
        cJSON_ArrayForEach(call, json_at(delta, "tool_calls")) {
            Buffer *b = &calls[(int)json_number(call, "index") % 8];
            CHECK_MSG(from || !json_text(call, "id") == (b->n > 0), "an id comes first, and once");
            if (json_text(call, "id"))
                buffer_print(b, "|%s %s ", json_text(call, "id"), json_text(call, "function.name"));
            buffer_text(b, json_text(call, "function.arguments"));
        }
    }
    for (int i = 0; i < 8; i++) {
        buffer_append(&content, calls[i].data, calls[i].n);
        buffer_free(&calls[i]);
    }
    buffer_append(&content, "", 1);
    events_free(&e);
    return content.data;
}

static char *whole(const Answer *a) {
    const char *content = json_text(a->json, "choices.0.message.content");
    const cJSON *call;
    Buffer b = {0};
    buffer_text(&b, content ? content : "");
    cJSON_ArrayForEach(call, json_at(a->json, "choices.0.message.tool_calls"))
        buffer_print(&b, "|%s %s %s", json_text(call, "id"), json_text(call, "function.name"),
                     json_text(call, "function.arguments"));
    buffer_append(&b, "", 1);
    return b.data;
}

TEST(tools_by_every_way_the_same) {
    Daemon d;
    Answer a;
    REQUIRE(tools_start(&d, "qwen2.5"));
    int seed = seed_that_calls(&d, &a);
    REQUIRE(seed >= 0);
    char *right = whole(&a);
    static const char *const ways[] = {"", ",\"logprobs\":true", ",\"n\":2", ",\"stop\":[\"never\"]",
                                       ",\"return_token_ids\":true"};
    for (size_t i = 0; i < COUNTOF(ways); i++) {
        Answer again = ask(&d, "/v1/chat/completions", CALLING, test_text(",\"seed\":%d%s", seed, ways[i]));
        char *text = whole(&again);
        CHECK_MSG(!strcmp(text, right), "%s: %s\nnot %s", ways[i], text, right);
        free(text);
    }
    for (int from = 0; from < 60; from += 7) {
        Answer stream = ask(&d, "/v1/chat/completions", CALLING,
                            test_text(",\"seed\":%d,\"stream\":true,\"stream_from\":%d", seed, from));
        char *text = joined(stream.body, from > 0);
        size_t n = strlen(text);
        if (from == 0) CHECK_MSG(!strcmp(text, right), "streamed: %s\nnot %s", text, right);
        /* What an id has been told of is not told again: what comes is at the end. */
        CHECK_MSG(n <= strlen(right) && (strchr(text, '|') || !strcmp(right + strlen(right) - n, text)),
                  "from %d: %s\nof %s", from, text, right);
        free(text);
    }
    free(right);
    daemon_stop(&d);
}

TEST(tools_calls_are_replayed) {
    Daemon d;
    Answer a;
    REQUIRE(tools_start(&d, "qwen2.5"));
    int seed = seed_that_calls(&d, &a);
    REQUIRE(seed >= 0);
    Answer stream = ask(&d, "/v1/chat/completions", CALLING, test_text(",\"seed\":%d,\"stream\":true", seed));
    Events e = events_parse(stream.body);
    Buffer b[2] = {{0}, {0}};
    buffer_print(&b[0], "{\"request\":" CALLING "},\"response\":%s}%c", a.body, 0);
    buffer_text(&b[1], "{\"request\":" CALLING "},\"response\":[");
    for (int i = 0; i < e.n; i++) {
        char *event = cJSON_PrintUnformatted(e.data[i]);
        buffer_print(&b[1], "%s%s", i ? "," : "", event);
        free(event);
    }
    buffer_print(&b[1], "]}%c", 0);
    for (int i = 0; i < 2; i++) {
        Answer replay = http_post(&d, "/v1/replay", b[i].data);
        CHECK_MSG(cJSON_IsTrue(json_at(replay.json, "identical")), "%s", replay.body);
        char *city = strstr(b[i].data, "\\\"days");
        if (i == 0 && city) city[3] = 'D';
        replay = http_post(&d, "/v1/replay", b[i].data);
        CHECK_MSG(!(i == 0 && city) || cJSON_IsFalse(json_at(replay.json, "identical")), "%s", replay.body);
        buffer_free(&b[i]);
    }
    events_free(&e);
    daemon_stop(&d);
}

/* Wherever a call is cut: in its name, behind it, in its arguments. */
TEST(tools_calls_that_were_cut_are_replayed) {
    Daemon d;
    Answer whole;
    REQUIRE(tools_start(&d, "qwen2.5"));
    int seed = seed_that_calls(&d, &whole), tokens = (int)json_number(whole.json, "usage.completion_tokens"), bare = 0;
    REQUIRE(seed >= 0);
    for (int most = 1; most < tokens; most += 3) {
        Buffer b = {0};
        const char *more = test_text(",\"seed\":%d,\"max_tokens\":%d", seed, most);
        Answer a = ask(&d, "/v1/chat/completions", CALLS, more);
        const char *arguments = json_text(a.json, "choices.0.message.tool_calls.0.function.arguments");
        bare += arguments && !*arguments;
        buffer_print(&b, "{\"request\":" CALLS "%s},\"response\":%s}%c", more, a.body, 0);
        Answer replay = http_post(&d, "/v1/replay", b.data);
        CHECK_MSG(cJSON_IsTrue(json_at(replay.json, "identical")), "%d tokens: %s", most, replay.body);
        buffer_free(&b);
    }
    CHECK_MSG(bare > 0, "none of %d was cut between name and arguments", tokens);
    daemon_stop(&d);
}

TEST(tools_choice_and_number) {
    Daemon d;
    REQUIRE(tools_start(&d, "qwen2.5"));
    for (int seed = 0; seed < 24; seed++) {
        Answer a =
            ask(&d, "/v1/chat/completions", CALLING, test_text(",\"seed\":%d,\"parallel_tool_calls\":false", seed));
        CHECK(cJSON_GetArraySize(json_at(a.json, "choices.0.message.tool_calls")) <= 1);
        a = ask(&d, "/v1/chat/completions", CALLING, test_text(",\"seed\":%d,\"tool_choice\":\"none\"", seed));
        CHECK(!json_at(a.json, "choices.0.message.tool_calls") && json_text(a.json, "choices.0.message.content"));
        CHECK(strcmp(json_text(a.json, "choices.0.finish_reason"), "tool_calls") != 0);
        a = ask(
            &d, "/v1/chat/completions", CALLING,
            test_text(",\"seed\":%d,\"tool_choice\":{\"type\":\"function\",\"function\":{\"name\":\"wait\"}}", seed));
        const cJSON *calls = json_at(a.json, "choices.0.message.tool_calls");
        CHECK(cJSON_GetArraySize(calls) == 1 && !strcmp(json_text(calls, "0.function.name"), "wait"));
        CHECK(!strcmp(json_text(a.json, "choices.0.finish_reason"), "tool_calls"));
        a = ask(&d, "/v1/chat/completions", ASK,
                test_text(",\"seed\":%d,\"tool_choice\":\"required\",\"max_tokens\":%d", seed, 2 * seed));
    }
    /* Ids are the request's: another turn of a conversation with the same seed has others. */
    Answer a = ask(&d, "/v1/chat/completions", ASK, ",\"seed\":1,\"tool_choice\":\"required\"");
    Answer b = ask(&d, "/v1/chat/completions",
                   "{\"messages\":[{\"role\":\"user\",\"content\":\"Snow?\"}],\"noise_seed\":5," TOOLS,
                   ",\"seed\":1,\"tool_choice\":\"required\"");
    CHECK(strcmp(json_text(a.json, "choices.0.message.tool_calls.0.id"),
                 json_text(b.json, "choices.0.message.tool_calls.0.id")) != 0);
    daemon_stop(&d);
}

/* ---- conversations ---- */

/* The message that the daemon answered with, which has no content, and what the tool says to it. */
static void check_next_turn(const char *template, const char *call, const char *answer, const char *tools) {
    Daemon d;
    REQUIRE(tools_start(&d, template));
    Answer a = ask(&d, "/v1/chat/completions", ASK,
                   ",\"seed\":1,\"tool_choice\":\"required\",\"parallel_tool_calls\":false,\"max_tokens\":200");
    char *message = json_raw(a.json, "choices.0.message");
    const char *id = json_text(a.json, "choices.0.message.tool_calls.0.id");
    Buffer b = {0};
    buffer_print(&b,
                 "{\"messages\":[{\"role\":\"user\",\"content\":\"Rain?\"},%s,{\"role\":\"tool\",\"tool_call_id\":\"%"
                 "s\",\"content\":\"{\\\"rain\\\":1}\"}]," TOOLS "}%c",
                 message, id, 0);
    Answer written = http_post(&d, "/apply-template", b.data);
    const char *prompt = json_text(written.json, "prompt");
    CHECK_MSG(prompt && strstr(prompt, call) && strstr(prompt, answer) && strstr(prompt, tools) &&
                  !strstr(prompt, "None"),
              "%s: %s", template, written.body);
    b.n -= 2;
    buffer_print(&b, ",\"max_tokens\":5}%c", 0);
    Answer next = http_post(&d, "/v1/chat/completions", b.data);
    CHECK_MSG(next.status == 200, "%s", next.body);
    buffer_free(&b);
    free(message);
    daemon_stop(&d);
}

TEST(tools_answers_come_back) {
    static const char call[] = "<tool_call>\n{\"name\": \"",
                      answer[] = "<tool_response>\n{\"rain\":1}\n</tool_response>",
                      tools[] = "<tools>\n{\"type\": \"function\"";
    check_next_turn("qwen2.5", call, answer, tools);
    check_next_turn("qwen3", call, answer, tools);
    check_next_turn("llama-3.1", "\"name\": \"", "rain", "\"function\"");
}

TEST(tools_ids_repeat_by_what_is_reported) {
    Daemon d;
    REQUIRE(tools_start(&d, "qwen2.5"));
    static const char told[] = "{\"messages\":[{\"role\":\"user\",\"content\":\"Rain?\"}]," TOOLS,
                      more[] = ",\"seed\":1,\"noise_scale\":0,\"tool_choice\":\"required\",\"max_tokens\":200";
    Answer a = ask(&d, "/v1/chat/completions", ASK, more), b = ask(&d, "/v1/chat/completions", told, more);
    CHECK(cJSON_IsNull(json_at(a.json, "choices.0.noise_seed")));
    char *was = json_raw(a.json, "choices.0.message.tool_calls"),
         *is = json_raw(b.json, "choices.0.message.tool_calls");
    CHECK_MSG(was && is && !strcmp(was, is), "%s\n%s", a.body, b.body);
    free(was);
    free(is);
    daemon_stop(&d);
}

/* ---- refusals ---- */

#define MESSAGES "{\"messages\":[{\"role\":\"user\",\"content\":\"?\"}],"
#define F(inside) MESSAGES "\"tools\":[{\"type\":\"function\",\"function\":{" inside "}}]}"

TEST(tools_are_128_at_most) {
    Daemon d;
    REQUIRE(daemon_start_at(&d, model(), "--chat-template chatml"));
    for (int n = 128; n < 130; n++) {
        Buffer b = {0};
        buffer_text(&b, MESSAGES "\"tool_choice\":\"none\",\"max_tokens\":1,\"tools\":[");
        for (int i = 0; i < n; i++)
            buffer_print(&b, "%s{\"type\":\"function\",\"function\":{\"name\":\"f%d\"}}", i ? "," : "", i);
        buffer_print(&b, "]}%c", 0);
        check_bodies(&d, "/v1/chat/completions", &(Bad){b.data, n > 128 ? 400 : 200, n > 128 ? "tools" : ""}, 1);
        buffer_free(&b);
    }
    daemon_stop(&d);
}

TEST(tools_refusals_name_the_place) {
    static const Bad bad[] = {
        {MESSAGES "\"tools\":7}", 400, "tools"},
        {MESSAGES "\"tools\":[7]}", 400, "tools[0].type"},
        {MESSAGES "\"tools\":[{\"type\":\"web_search\"}]}", 400, "tools[0].type"},
        {MESSAGES "\"tools\":[{\"type\":\"function\"}]}", 400, "tools[0].function"},
        {F("\"name\":\"a b\""), 400, "tools[0].function.name"},
        {F("\"description\":\"x\""), 400, "tools[0].function.name"},
        {F("\"name\":\"a\",\"description\":7"), 400, "tools[0].function.description"},
        {F("\"name\":\"a\",\"bogus\":7"), 400, "tools[0].function.bogus"},
        {F("\"name\":\"a\",\"strict\":\"yes\""), 400, "tools[0].function.strict"},
        {F("\"name\":\"a\",\"parameters\":{\"type\":\"object\",\"properties\":{\"x\":{\"not\":{}}}}"), 400,
         "tools[0].function.parameters.properties.x.not"},
        {F("\"name\":\"a\",\"parameters\":{\"type\":\"array\"}"), 400, "tools[0].function.parameters.type"},
        {F("\"name\":\"a\",\"parameters\":7"), 400, "tools[0].function.parameters"},
        {MESSAGES "\"tools\":[{\"type\":\"function\",\"function\":{\"name\":\"a\"}},{\"type\":\"function\","
                  "\"function\":{\"name\":\"a\"}}]}",
         400, "tools[1].function.name"},
        {MESSAGES TOOLS ",\"tool_choice\":\"maybe\"}", 400, "tool_choice"},
        {MESSAGES TOOLS ",\"tool_choice\":{\"type\":\"function\",\"function\":{\"name\":\"wait\"},\"bar\":2}}", 400,
         "tool_choice.bar"},
        {MESSAGES TOOLS ",\"tool_choice\":{\"type\":\"function\",\"function\":{\"name\":\"wait\",\"foo\":1}}}", 400,
         "tool_choice.function.foo"},
        {MESSAGES TOOLS ",\"tool_choice\":{\"type\":\"function\",\"function\":{\"name\":\"other\"}}}", 400,
         "tool_choice.function.name"},
        {MESSAGES TOOLS ",\"tool_choice\":{\"type\":\"allowed_tools\"}}", 400, "tool_choice"},
        {MESSAGES "\"tool_choice\":\"required\"}", 400, "tool_choice"},
        {MESSAGES TOOLS ",\"parallel_tool_calls\":1}", 400, "parallel_tool_calls"},
        {MESSAGES TOOLS ",\"response_format\":{\"type\":\"json_object\"}}", 400, "response_format"},
        {MESSAGES TOOLS ",\"choice\":[\"a\"]}", 400, "choice"},
        {MESSAGES TOOLS ",\"allowed_token_ids\":[5]}", 400, "allowed_token_ids"},
        {MESSAGES "\"functions\":[{\"name\":\"a\"}]}", 400, "functions"},
        {MESSAGES "\"function_call\":{\"name\":\"a\"}}", 400, "function_call"},
        {MESSAGES TOOLS ",\"tool_choice\":\"none\",\"response_format\":{\"type\":\"json_object\"},\"max_tokens\":2}",
         200, ""},
        {MESSAGES "\"tools\":[],\"tool_choice\":\"auto\",\"max_tokens\":2}", 200, ""},
        {MESSAGES "\"tools\":null,\"tool_choice\":null,\"max_tokens\":2}", 200, ""},
    };
    Daemon d;
    REQUIRE(tools_start(&d, "llama-3.1"));
    check_bodies(&d, "/v1/chat/completions", bad, COUNTOF(bad));
    daemon_stop(&d);
    REQUIRE(tools_start(&d, "chatml"));
    static const Bad without[] = {{MESSAGES TOOLS "}", 400, "tools"},
                                  {MESSAGES TOOLS ",\"tool_choice\":\"none\",\"max_tokens\":2}", 200, ""}};
    check_bodies(&d, "/v1/chat/completions", without, COUNTOF(without));
    static const Bad responses[] = {
        {"{\"input\":\"?\",\"tools\":[{\"type\":\"function\",\"name\":\"a\"}]}", 400, "tools"},
        {"{\"input\":\"?\",\"tool_choice\":\"required\"}", 400, "tool_choice"}};
    check_bodies(&d, "/v1/responses", responses, COUNTOF(responses));
    daemon_stop(&d);
}
