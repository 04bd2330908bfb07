/* POST /v1/responses whose answer may call: the calls of a chat, in OpenAI's other protocol. */
#include "base/buffer.h"
#include "base/err.h"
#include "tests/server/api/test_tools.h"
#include "tests/support/http_client.h"

#include <stdlib.h>
#include <string.h>

#define WEATHER                                                                                                        \
    "\"name\":\"weather\",\"description\":\"of a day\",\"parameters\":{\"type\":\"object\",\"properties\":{"           \
    "\"city\":{\"enum\":[\"Oslo\",\"Rome\"]},\"days\":{\"type\":\"integer\",\"minimum\":1,\"maximum\":9}},"            \
    "\"required\":[\"city\"]}"
#define WAIT "\"name\":\"wait\",\"strict\":false"
#define TOOLS(open, close)                                                                                             \
    "\"tools\":[{\"type\":\"function\"," open WEATHER close "},{\"type\":\"function\"," open WAIT close "}]"
/* Some text, then calls. */
#define DRAWN "\"noise_seed\":5,\"logit_bias\":{\"300\":4.5},\"temperature\":0.9,"
#define CHAT "{" DRAWN TOOLS("\"function\":{", "}") ","
#define RESPONSE "{" DRAWN TOOLS("", "") ","

static Answer ask(const Daemon *d, const char *path, const char *body) {
    Answer a = http_post(d, path, body);
    CHECK_MSG(a.status == 200, "%s: %s", body, a.body);
    return a;
}

/* An answer as one text: what it says, then "|id name arguments" for each call. */
static char *told_chat(const cJSON *answer) {
    const char *content = json_text(answer, "choices.0.message.content");
    const cJSON *call;
    Buffer b = {0};
    buffer_text(&b, content ? content : "");
    cJSON_ArrayForEach(call, json_at(answer, "choices.0.message.tool_calls"))
        buffer_print(&b, "|%s %s %s", json_text(call, "id"), json_text(call, "function.name"),
                     json_text(call, "function.arguments"));
    buffer_append(&b, "", 1);
    return b.data;
}

static char *told_response(const cJSON *response) {
    const cJSON *item, *output = json_at(response, "output");
    Buffer b = {0};
    cJSON_ArrayForEach(item, output) {
        bool message = json_says(item, "type", "message");
        CHECK(message ? item == output->child : json_says(item, "type", "function_call"));
        if (message)
            buffer_text(&b, json_text(item, "content.0.text"));
        else
            buffer_print(&b, "|%s %s %s", json_text(item, "call_id"), json_text(item, "name"),
                         json_text(item, "arguments"));
    }
    buffer_append(&b, "", 1);
    return b.data;
}

/* Where a chat's content is null there is no message. Of a cut answer the text is whole in front of calls, and a call
 * whose arguments are. */
static void check_items(const cJSON *response, const cJSON *chat, int *cut_calls) {
    const cJSON *item, *content = json_at(chat, "choices.0.message.content");
    bool cut = json_says(chat, "choices.0.finish_reason", "length");
    int n = cJSON_GetArraySize(json_at(response, "output"));
    CHECK(n == cJSON_GetArraySize(json_at(chat, "choices.0.message.tool_calls")) + !cJSON_IsNull(content));
    CHECK(json_says(response, "status", cut ? "incomplete" : "completed"));
    cJSON_ArrayForEach(item, json_at(response, "output")) {
        cJSON *arguments = cJSON_Parse(json_text(item, "arguments") ? json_text(item, "arguments") : "");
        bool whole = json_says(item, "type", "message") ? !cut || item->next : arguments != NULL;
        CHECK_MSG(json_says(item, "status", whole ? "completed" : "incomplete"), "%s", json_text(item, "arguments"));
        *cut_calls += cut && !whole && json_says(item, "type", "function_call");
        CHECK(cut || whole);
        cJSON_Delete(arguments);
    }
}

TEST(responses_call_as_chats_do) {
    static const char *const choices[][2] = {
        {"", ""},
        {"\"tool_choice\":\"none\",", "\"tool_choice\":\"none\","},
        {"\"tool_choice\":\"required\",", "\"tool_choice\":\"required\","},
        {"\"parallel_tool_calls\":false,", "\"parallel_tool_calls\":false,"},
        {"\"tool_choice\":{\"type\":\"function\",\"function\":{\"name\":\"wait\"}},",
         "\"tool_choice\":{\"type\":\"function\",\"name\":\"wait\"},"},
    };
    Daemon d;
    int mute = 0, both = 0, several = 0, texts = 0, cut = 0;
    REQUIRE(tools_start(&d, "qwen2.5"));
    for (int seed = 0; seed < 30; seed++) {
        const char *const *choice = choices[seed % (int)COUNTOF(choices)];
        char body[2048];
        snprintf(body, sizeof body,
                 CHAT "%s\"messages\":[{\"role\":\"user\",\"content\":\"Rain?\"}],\"max_tokens\":%d,\"seed\":%d}",
                 choice[0], 40 + 4 * seed, seed);
        Answer a = ask(&d, "/v1/chat/completions", body);
        snprintf(body, sizeof body, RESPONSE "%s\"input\":\"Rain?\",\"max_output_tokens\":%d,\"seed\":%d}", choice[1],
                 40 + 4 * seed, seed);
        Answer b = ask(&d, "/v1/responses", body);
        char *wanted = told_chat(a.json), *told = told_response(b.json);
        CHECK_MSG(!strcmp(wanted, told), "%s: %s\nnot %s", body, told, wanted);
        check_items(b.json, a.json, &cut);
        CHECK(json_says(b.json, "tools.1.name", "wait") && json_at(b.json, "tool_choice"));
        CHECK(cJSON_IsFalse(json_at(b.json, "parallel_tool_calls")) == (seed % (int)COUNTOF(choices) == 3));
        int calls = cJSON_GetArraySize(json_at(a.json, "choices.0.message.tool_calls"));
        bool says = json_text(a.json, "choices.0.message.content") != NULL;
        mute += calls && !says;
        both += calls && says;
        several += calls > 1;
        texts += !calls;
        free(wanted);
        free(told);
    }
    CHECK_MSG(mute && both && several && texts && cut, "%d mute, %d with text, %d several, %d none, %d cut", mute, both,
              several, texts, cut);
    daemon_stop(&d);
}

enum { ITEMS = 16 };

/* What a client keeps of an item: its text or arguments, the kinds of its events, and what it was in the last one. */
typedef struct Item {
    Buffer text;
    char kinds[8]; /* added, part added, deltas, text done, part quit, ended */
    const cJSON *ended;
} Item;

static char kind_of(const char *type) {
    static const char *const kinds[][2] = {
        {"a", "response.output_item.added"}, {"p", "response.content_part.added"},
        {"d", "response.output_text.delta"}, {"d", "response.function_call_arguments.delta"},
        {"t", "response.output_text.done"},  {"t", "response.function_call_arguments.done"},
        {"q", "response.content_part.done"}, {"e", "response.output_item.done"}};
    for (size_t i = 0; i < COUNTOF(kinds); i++)
        if (!strcmp(type, kinds[i][1])) return kinds[i][0][0];
    return '?';
}

/* One event; an item begins when those before it have ended. */
static void follow(const cJSON *event, Item items[ITEMS], int *n) {
    const char *type = json_text(event, "type"), *id = json_text(event, "item_id");
    int at = (int)json_number(event, "output_index");
    char kind = kind_of(type);
    *n += kind == 'a';
    REQUIRE(at == *n - 1 && at < ITEMS && (at == 0 || items[at - 1].ended));
    Item *item = &items[at];
    size_t k = strlen(item->kinds);
    if (k == 0 || kind != 'd' || item->kinds[k - 1] != 'd') item->kinds[k < 7 ? k : 6] = kind;
    CHECK(!item->ended && (kind != 'a' || json_says(event, "item.status", "in_progress")));
    if (kind == 'd') buffer_text(&item->text, json_text(event, "delta"));
    if (kind == 't') {
        const char *text = json_text(event, strstr(type, "text") ? "text" : "arguments");
        const char *had = item->text.n ? (buffer_append(&item->text, "", 1), item->text.data) : "";
        CHECK_MSG(strlen(had) <= strlen(text) && !strcmp(text + strlen(text) - strlen(had), had), "%s, not %s", text,
                  had);
    }
    if (kind == 'e') item->ended = json_at(event, "item");
    CHECK(id || json_at(event, "item"));
}

/* All items of the last event's response have begun, come and ended; how many are calls. `later`: the stream began
 * behind the beginning; *bytes of text and arguments came. */
static int check_events(const Events *e, const cJSON *response, bool later, size_t *bytes) {
    Item items[ITEMS] = {0};
    int begun = 0, calls = 0;
    for (int i = 0; i < e->n; i++) {
        CHECK(json_number(e->data[i], "sequence_number") == i);
        if (json_at(e->data[i], "output_index")) follow(e->data[i], items, &begun);
    }
    CHECK(json_says(e->data[e->n - 1], "type",
                    json_says(response, "status", "completed") ? "response.completed" : "response.incomplete"));
    CHECK_MSG(begun == cJSON_GetArraySize(json_at(response, "output")), "%d items", begun);
    for (int i = 0; i < begun; i++) {
        const cJSON *whole = cJSON_GetArrayItem(json_at(response, "output"), i);
        bool call = json_says(whole, "type", "function_call");
        const char *text = json_text(whole, call ? "arguments" : "content.0.text"), *kinds = items[i].kinds;
        bool all = later || strlen(text) == (items[i].text.n ? items[i].text.n - 1 : 0);
        CHECK_MSG(all && (!strcmp(kinds, call ? "adte" : "apdtqe") ||
                          ((later || !*text) && !strcmp(kinds, call ? "ate" : "aptqe"))),
                  "%s: %s", kinds, text);
        CHECK(cJSON_Compare(items[i].ended, whole, true));
        *bytes += items[i].text.n;
        calls += call;
        buffer_free(&items[i].text);
    }
    return calls;
}

/* How many calls the answers of these seeds have. */
static int check_streams(const char *template, const char *choice, int seeds) {
    Daemon d;
    int calls = 0;
    size_t later = 0, bytes = 0;
    if (!tools_start(&d, template)) return 0;
    for (int seed = 0; seed < seeds; seed++) {
        char body[2048];
        int n = snprintf(body, sizeof body, RESPONSE "%s\"input\":\"Rain?\",\"max_output_tokens\":%d,\"seed\":%d}",
                         choice, 30 + 10 * seed, seed);
        Answer whole = ask(&d, "/v1/responses", body);
        char *wanted = told_response(whole.json);
        for (int from = 0; from <= 2 * seed; from += MAX(1, 2 * seed)) {
            snprintf(body + n - 1, sizeof body - (size_t)n, ",\"stream\":true,\"stream_from\":%d}", from);
            Answer a = ask(&d, "/v1/responses", body);
            Events e = events_parse_named(a.body);
            const cJSON *last = json_at(e.data[e.n - 1], "response");
            char *told = told_response(last);
            CHECK_MSG(!strcmp(wanted, told), "from %d: %s\nnot %s", from, told, wanted);
            calls += check_events(&e, last, from > 0, from > 0 ? &later : &bytes);
            free(told);
            events_free(&e);
        }
        free(wanted);
    }
    CHECK_MSG(later > 0 && bytes > later, "%zu and %zu bytes", later, bytes);
    daemon_stop(&d);
    return calls;
}

TEST(responses_stream_calls) {
    CHECK(check_streams("qwen2.5", "", 16) > 8);
    CHECK(check_streams("llama-3.1", "\"tool_choice\":\"required\",", 6) > 3);
}

/* A former answer's items and what their functions gave are the messages that a chat has for them. */
TEST(responses_calls_come_back) {
#define CALL(id, arguments)                                                                                            \
    "{\"type\":\"function_call\",\"id\":\"fc-1\",\"status\":\"completed\",\"call_id\":\"" id                           \
    "\",\"name\":\"weather\",\"arguments\":\"" arguments "\"}"
#define TOOL_CALL(id, arguments)                                                                                       \
    "{\"id\":\"" id "\",\"type\":\"function\",\"function\":{\"name\":\"weather\",\"arguments\":\"" arguments "\"}}"
#define OSLO "{\\\"city\\\":\\\"Oslo\\\"}"
#define ROME "{\\\"city\\\":\\\"Rome\\\"}"
    static const char *const cases[][2] = {
        {CALL("a", OSLO) "," CALL("b",
                                  ROME) ",{\"type\":\"function_call_output\",\"call_id\":\"a\",\"output\":\"Rain\"},"
                                        "{\"type\":\"function_call_output\",\"call_id\":\"b\",\"output\":[{"
                                        "\"type\":\"input_text\",\"text\":\"Sun\"}]}",
         "{\"role\":\"assistant\",\"content\":null,\"tool_calls\":[" TOOL_CALL("a", OSLO) "," TOOL_CALL(
             "b", ROME) "]},{\"role\":\"tool\",\"tool_call_id\":\"a\",\"content\":\"Rain\"},"
                        "{\"role\":\"tool\",\"tool_call_id\":\"b\",\"content\":\"Sun\"}"},
        {"{\"type\":\"message\",\"role\":\"assistant\",\"content\":[{\"type\":\"output_text\",\"text\":\"Let me "
         "see\"}]}," CALL("a", OSLO) ",{\"type\":\"function_call_output\",\"call_id\":\"a\",\"output\":\"\"}",
         "{\"role\":\"assistant\",\"content\":\"Let me see\",\"tool_calls\":[" TOOL_CALL(
             "a", OSLO) "]},{\"role\":\"tool\",\"tool_call_id\":\"a\",\"content\":\"\"}"},
    };
    Daemon d;
    REQUIRE(tools_start(&d, "qwen2.5"));
    for (size_t i = 0; i < COUNTOF(cases); i++) {
        Answer a = ask(
            &d, "/v1/responses",
            test_text(RESPONSE "\"instructions\":\"Be brief\",\"input\":[{\"role\":\"user\",\"content\":\"Rain?\"},%s],"
                               "\"max_output_tokens\":20,\"seed\":1}",
                      cases[i][0]));
        Answer b =
            ask(&d, "/v1/chat/completions",
                test_text(CHAT
                          "\"messages\":[{\"role\":\"system\",\"content\":\"Be brief\"},{\"role\":\"user\",\"content\":"
                          "\"Rain?\"},%s],\"max_tokens\":20,\"seed\":1}",
                          cases[i][1]));
        char *told = told_response(a.json), *wanted = told_chat(b.json);
        CHECK_MSG(!strcmp(told, wanted), "%s\nnot %s", told, wanted);
        CHECK(json_same(a.json, "usage.input_tokens", b.json, "usage.prompt_tokens"));
        free(told);
        free(wanted);
    }
    daemon_stop(&d);
}

TEST(responses_tools_refusals_name_the_place) {
    static const Bad bad[] = {
        {"{\"input\":\"a\",\"tools\":7}", 400, "tools"},
        {"{\"input\":\"a\",\"tools\":[{\"type\":\"search\"}]}", 400, "tools[0].type"},
        {"{\"input\":\"a\",\"tools\":[7]}", 400, "tools[0].type"},
        {"{\"input\":\"a\",\"tools\":[{\"type\":\"function\"}]}", 400, "tools[0].name"},
        {"{\"input\":\"a\",\"tools\":[{\"type\":\"function\",\"function\":{\"name\":\"b\"}}]}", 400,
         "tools[0].function"},
        {"{\"input\":\"a\",\"tools\":[{\"type\":\"function\",\"name\":\"b\"},{\"type\":\"function\",\"name\":\"b\"}]}",
         400, "tools[1].name"},
        {"{\"input\":\"a\",\"tools\":[{\"type\":\"function\",\"name\":\"b\",\"parameters\":{\"type\":\"object\","
         "\"properties\":{\"c\":{\"not\":{}}}}}]}",
         400, "tools[0].parameters.properties.c.not"},
        {"{\"input\":\"a\",\"tools\":[{\"type\":\"web_search\"},{\"type\":\"function\",\"name\":\"b\"},"
         "{\"type\":\"namespace\",\"name\":\"n\",\"tools\":[]},{\"type\":\"function\",\"name\":\"b c\"}]}",
         400, "tools[3].name"},
        {"{\"input\":\"a\",\"tools\":[{\"type\":\"web_search\"}],\"tool_choice\":\"required\"}", 400, "tool_choice"},
        {"{\"input\":\"a\",\"tool_choice\":\"required\"}", 400, "tool_choice"},
        {"{\"input\":\"a\",\"tool_choice\":7}", 400, "tool_choice"},
        {"{\"input\":\"a\",\"tool_choice\":\"any\"}", 400, "tool_choice"},
        {"{\"input\":[{\"type\":\"item_reference\",\"id\":\"msg-1\"}]}", 400, "input[0]"},
        {"{\"input\":\"a\",\"tools\":[{\"type\":\"function\",\"name\":\"b\"}],\"tool_choice\":{\"type\":\"function\","
         "\"name\":\"c\"}}",
         400, "tool_choice.name"},
        {"{\"input\":\"a\",\"tools\":[{\"type\":\"function\",\"name\":\"b\"}],\"tool_choice\":{\"type\":\"function\","
         "\"function\":{\"name\":\"b\"}}}",
         400, "tool_choice"},
        {"{\"input\":\"a\",\"tools\":[{\"type\":\"function\",\"name\":\"b\"}],\"text\":{\"format\":{\"type\":\"json_"
         "object\"}}}",
         400, "text.format"},
        {"{\"input\":[{\"type\":\"function_call\",\"name\":\"b\",\"arguments\":\"{}\"}]}", 400, "input[0].call_id"},
        {"{\"input\":[{\"type\":\"function_call\",\"call_id\":\"1\",\"arguments\":\"{}\"}]}", 400, "input[0].name"},
        {"{\"input\":[{\"type\":\"function_call\",\"call_id\":\"1\",\"name\":\"b\",\"arguments\":{}}]}", 400,
         "input[0].arguments"},
        {"{\"input\":[{\"type\":\"function_call\",\"call_id\":\"1\",\"name\":\"b\",\"arguments\":\"\",\"x\":1}]}", 400,
         "input[0].x"},
        {"{\"input\":[{\"type\":\"function_call_output\",\"output\":\"\"}]}", 400, "input[0].call_id"},
        {"{\"input\":[{\"type\":\"function_call_output\",\"call_id\":\"1\",\"output\":7}]}", 400, "input[0].output"},
        {"{\"input\":[{\"type\":\"function_call_output\",\"call_id\":\"1\",\"output\":[{\"type\":\"input_image\"}]}]}",
         400, "input[0].output"},
        {"{\"input\":[{\"type\":\"function_call\",\"call_id\":\"1\",\"name\":\"b\",\"arguments\":\"{}\"},"
         "{\"type\":\"function_call\",\"call_id\":\"2\",\"name\":\"b\",\"arguments\":\"{}\"},{\"role\":\"\","
         "\"content\":\"x\"}]}",
         400, "input[2].role"},
    };
    Daemon d;
    REQUIRE(tools_start(&d, "qwen2.5"));
    check_bodies(&d, "/v1/responses", bad, COUNTOF(bad));
    daemon_stop(&d);
    /* Calls of one message count as items. */
    static const Bad many[] = {
        {"{\"input\":[" CALL("a", "{}") "," CALL("b", "{}") "," CALL("c", "{}") "],\"max_output_tokens\":1}", 400,
         "input"},
        {"{\"input\":[" CALL("a", "{}") "," CALL("b", "{}") "],\"max_output_tokens\":1}", 200, ""},
    };
    REQUIRE(daemon_start(&d, CHECKPOINT_SMALL, "--chat-template qwen2.5 --max-messages 2"));
    check_bodies(&d, "/v1/responses", many, COUNTOF(many));
    daemon_stop(&d);
    static const Bad unwritten[] = {{"{\"input\":[" CALL("a", "{}") "]}", 400, "input[0]"}};
    REQUIRE(tools_start(&d, "chatml"));
    check_bodies(&d, "/v1/responses", unwritten, COUNTOF(unwritten));
    daemon_stop(&d);
}

/* What ended the answer, shown behind the last call, is no item. */
TEST(responses_calls_are_the_last_items) {
    Daemon d;
    REQUIRE(tools_start(&d, "qwen2.5"));
    Answer a = ask(&d, "/v1/responses",
                   RESPONSE "\"input\":\"Rain?\",\"tool_choice\":\"required\",\"include_stop_str_in_output\":true,"
                            "\"skip_special_tokens\":false,\"max_output_tokens\":300,\"seed\":1,\"stream\":true}");
    Events e = events_parse_named(a.body);
    const cJSON *last = json_at(e.data[e.n - 1], "response");
    size_t bytes = 0;
    CHECK(check_events(&e, last, false, &bytes) > 0 && json_says(last, "status", "completed"));
    CHECK(json_says(last, "output.0.type", "function_call"));
    events_free(&e);
    daemon_stop(&d);
}
