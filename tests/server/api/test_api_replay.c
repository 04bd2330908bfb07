/* POST /v1/replay: a previous answer is repeated from its request and its seeds, and every difference is told. */
#include "base/buffer.h"
#include "base/err.h"
#include "base/memory.h"
#include "server/api/previous.h"
#include "tests/support/http_client.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static Answer replay(const Daemon *d, const char *request, const char *response) {
    Buffer b = {0};
    buffer_print(&b, "{\"request\":%s,\"response\":%s}%c", request, response, 0);
    Answer a = http_post(d, "/v1/replay", b.data);
    buffer_free(&b);
    return a;
}

static void check_identical(const Daemon *d, const char *path, const char *request, int n) {
    Answer first = http_post(d, path, request);
    CHECK_MSG(first.status == 200, "%s", first.body);
    Answer a = replay(d, request, first.body);
    CHECK_MSG(a.status == 200 && cJSON_IsTrue(json_at(a.json, "identical")), "%s: %s", request, a.body);
    CHECK(cJSON_GetArraySize(json_at(a.json, "choices")) == n);
    CHECK(cJSON_IsNull(json_at(a.json, "choices.0.first_difference")));
    CHECK(json_same(a.json, "choices.0.finish_reason", first.json, "choices.0.finish_reason"));
    CHECK(json_same(a.json, "choices.0.seed", first.json, "choices.0.seed"));
    CHECK(json_same(a.json, "choices.0.noise_seed", first.json, "choices.0.noise_seed"));
    CHECK(cJSON_GetArraySize(json_at(a.json, "fingerprint.differs_in")) == 0);
    CHECK(json_same(a.json, "fingerprint.now", first.json, "system_fingerprint"));
    CHECK(json_same(a.json, "fingerprint.former", first.json, "system_fingerprint"));
}

/* The events of a stream as a JSON array, byte for byte, the last `less` of them left out. */
static char *event_array(const char *body, int less) {
    static const char front[] = "data: {";
    Buffer b = {0};
    int n = text_count(body, front);
    CHECK(n > 0 && strstr(body, "[DONE]"));
    for (int i = 0; i < MAX(1, n - less); i++) { /* a slow client gets few */
        body = strstr(body, front) + strlen(front) - 1;
        buffer_print(&b, "%c%.*s", i ? ',' : '[', (int)(strchr(body, '\n') - body), body);
    }
    buffer_print(&b, "]%c", 0);
    return b.data;
}

static void check_stream(const Daemon *d, const char *path, const char *request, int less) {
    Answer first = http_post(d, path, request);
    char *events = event_array(first.body, less);
    Answer a = replay(d, request, events);
    CHECK_MSG(a.status == 200 && cJSON_IsTrue(json_at(a.json, "identical")), "%s, %s: %s", request, events, a.body);
    free(events);
}

/* A text with a NUL is no JSON that is read here. */
#define NO_NUL "\"logit_bias\":{\"189\":-100}"

TEST(replay_is_identical) {
    Daemon d;
    REQUIRE(daemon_start(&d, CHECKPOINT_SMALL, "--chat-template plain"));
    static const struct {
        const char *request;
        int n;
    } completions[] = {
        {"{" NO_NUL ",\"prompt\":\"The river\",\"max_tokens\":24}", 1}, /* all seeds are drawn */
        {"{" NO_NUL
         ",\"prompt\":\"The river\",\"n\":4,\"seed\":-9,\"max_tokens\":24,\"stop\":[\"e\",\"zz\"],\"logprobs\":2}",
         4},
        {"{" NO_NUL ",\"prompt\":\"The river\",\"n\":2,\"best_of\":6,\"max_tokens\":24,\"temperature\":1.5}", 2},
        {"{" NO_NUL
         ",\"prompt\":[\"The river\",\"A \\u00e9\"],\"n\":2,\"echo\":true,\"noise_prompt_seed\":3,\"diversity\":true}",
         4},
        {"{" NO_NUL ",\"prompt\":[[1,2],[3]],\"noise_seed\":[7,8],\"temperature\":0,\"max_tokens\":9}", 2},
        {"{" NO_NUL
         ",\"prompt\":\"x\",\"noise_scale\":0,\"max_tokens\":40,\"return_token_ids\":true,\"prompt_logprobs\":1}",
         1},
        {"{" NO_NUL ",\"prompt\":\"x\",\"choice\":[\"yes\",\"no\",\"not\"],\"n\":8}", 8},
        {"{" NO_NUL ",\"prompt\":\"x\",\"max_tokens\":0}", 1},
    };
    for (size_t i = 0; i < COUNTOF(completions); i++)
        check_identical(&d, "/v1/completions", completions[i].request, completions[i].n);
    check_identical(
        &d, "/v1/chat/completions",
        "{" NO_NUL ",\"messages\":[{\"role\":\"user\",\"content\":\"The river\"}],\"n\":2,\"max_tokens\":24}", 2);
    for (int less = 0; less < 4; less++)
        check_stream(&d, "/v1/completions",
                     "{" NO_NUL ",\"prompt\":\"The river\",\"stream\":true,\"max_tokens\":24,\"ignore_eos\":true}",
                     less);
    check_stream(&d, "/v1/completions",
                 "{" NO_NUL ",\"prompt\":\"The river\",\"stream\":true,\"n\":3,\"max_tokens\":24,\"stream_options\":"
                 "{\"include_usage\":true},\"diversity\":true,\"echo\":true}",
                 0);
    check_stream(&d, "/v1/completions",
                 "{" NO_NUL ",\"prompt\":\"The river\",\"stream\":true,\"stream_from\":5,\"seed\":4,\"max_tokens\":24}",
                 0);
    check_stream(
        &d, "/v1/chat/completions",
        "{" NO_NUL
        ",\"messages\":[{\"role\":\"user\",\"content\":\"The river\"}],\"stream\":true,\"n\":2,\"max_tokens\":24}",
        0);
    daemon_stop(&d);
    REQUIRE(daemon_start(&d, CHECKPOINT_QUIET, NULL));
    check_identical(&d, "/v1/completions", "{" NO_NUL ",\"prompt\":\"The river\",\"n\":2,\"max_tokens\":24}", 2);
    daemon_stop(&d);
}

/* An answer that a deadline cut is repeated as far as it goes. */
TEST(replay_of_what_a_deadline_cut) {
    Daemon d;
    static const char request[] =
        "{" NO_NUL ",\"prompt\":\"The river\",\"max_tokens\":1000,\"deadline_ms\":%d,\"ignore_eos\":true}";
    REQUIRE(daemon_start(&d, CHECKPOINT_SLOW, NULL));
    const char *body = test_text(request, 20);
    Answer first = http_post(&d, "/v1/completions", body);
    CHECK_MSG(cJSON_IsTrue(json_at(first.json, "choices.0.deadline")), "%s", first.body);
    Answer a = replay(&d, body, first.body);
    CHECK_MSG(a.status == 200 && cJSON_IsTrue(json_at(a.json, "identical")), "%s", a.body);
    CHECK(json_number(a.json, "usage.completion_tokens") == 1000);
    daemon_stop(&d);
}

/* One byte, one seed, the finish, the fingerprint: each is told. */
TEST(replay_tells_differences) {
    static const char request[] =
        "{\"prompt\":\"The river\",\"n\":2,\"max_tokens\":60,\"ignore_eos\":true,\"seed\":1," NO_NUL "}";
    Daemon d;
    REQUIRE(daemon_start(&d, CHECKPOINT_SMALL, NULL));
    Answer first = http_post(&d, "/v1/completions", request);
    cJSON *text = (cJSON *)json_at(first.json, "choices.1.text"),
          *seed = (cJSON *)json_at(first.json, "choices.0.seed");
    REQUIRE(text && seed && strlen(text->valuestring) > 30);
    size_t at = 20;
    while (text->valuestring[at] < 'a' || text->valuestring[at] > 'y') at++;
    text->valuestring[at]++;
    char *body = cJSON_PrintUnformatted(first.json);
    Answer a = replay(&d, request, body);
    CHECK_MSG(a.status == 200 && cJSON_IsFalse(json_at(a.json, "identical")), "%s", a.body);
    CHECK(cJSON_IsTrue(json_at(a.json, "choices.0.identical")) &&
          cJSON_IsFalse(json_at(a.json, "choices.1.identical")));
    CHECK(json_number(a.json, "choices.1.first_difference.byte") == (double)at);
    const char *previous = json_text(a.json, "choices.1.first_difference.former"),
               *now = json_text(a.json, "choices.1.first_difference.now");
    CHECK_MSG(previous && now && strstr(text->valuestring, previous) && strcmp(previous, now), "%s", a.body);
    text->valuestring[at]--;
    CHECK(now && strstr(text->valuestring, now));
    free(body);
    cJSON_SetNumberValue(seed, 2);
    body = cJSON_PrintUnformatted(first.json);
    a = replay(&d, request, body);
    CHECK(cJSON_IsFalse(json_at(a.json, "choices.0.identical")) &&
          cJSON_IsTrue(json_at(a.json, "choices.1.identical")));
    free(body);
    cJSON_SetNumberValue(seed, 1);
    cJSON_SetValuestring((cJSON *)json_at(first.json, "choices.0.finish_reason"), "stop");
    cJSON_SetValuestring((cJSON *)json_at(first.json, "system_fingerprint"), "0123456789ab-9.9-amx");
    body = cJSON_PrintUnformatted(first.json);
    a = replay(&d, request, body);
    CHECK_MSG(cJSON_IsFalse(json_at(a.json, "identical")) &&
                  cJSON_IsNull(json_at(a.json, "choices.0.first_difference")),
              "%s", a.body);
    CHECK(!strcmp(json_text(a.json, "choices.0.former_finish_reason"), "stop"));
    CHECK(!strcmp(json_text(a.json, "choices.0.finish_reason"), "length"));
    CHECK(!strcmp(json_text(a.json, "fingerprint.differs_in.0"), "checkpoint"));
    CHECK(!strcmp(json_text(a.json, "fingerprint.differs_in.1"), "version"));
    free(body);
    daemon_stop(&d);
}

/* Of an answer that was sent from its sixth token on, the last byte differs: what is shown ends where the text does. */
TEST(replay_tells_a_difference_at_the_end) {
    static const char request[] =
        "{\"prompt\":\"The river\",\"stream\":true,\"stream_from\":5,\"max_tokens\":60,\"ignore_eos\":true,"
        "\"seed\":1,\"noise_seed\":2," NO_NUL "}";
    Daemon d;
    REQUIRE(daemon_start(&d, CHECKPOINT_SMALL, NULL));
    Answer first = http_post(&d, "/v1/completions", request);
    Events events = events_parse(first.body);
    char *text = events_text(&events, 0);
    size_t n = strlen(text);
    REQUIRE(n > 20);
    char last = text[n - 1];
    text[n - 1] = '!';
    cJSON *choice = cJSON_CreateObject();
    cJSON_AddNumberToObject(choice, "index", 0);
    cJSON_AddNumberToObject(choice, "seed", 1);
    cJSON_AddNumberToObject(choice, "noise_seed", 2);
    cJSON_AddStringToObject(choice, "finish_reason", "length");
    cJSON_AddStringToObject(choice, "text", text);
    char *printed = cJSON_PrintUnformatted(choice);
    Buffer response = {0};
    buffer_print(&response, "{\"choices\":[%s]}%c", printed, 0);
    Answer a = replay(&d, request, response.data);
    text[n - 1] = last;
    const char *now = json_text(a.json, "choices.0.first_difference.now");
    CHECK_MSG(json_number(a.json, "choices.0.first_difference.byte") == (double)n - 1, "%s", a.body);
    CHECK_MSG(now && *now && strlen(now) <= n && !strcmp(now, text + n - strlen(now)), "%s: %s", text, a.body);
    buffer_free(&response);
    free(printed);
    cJSON_Delete(choice);
    events_free(&events);
    free(text);
    daemon_stop(&d);
}

#define RESPONSE "\"response\":{\"choices\":[{\"index\":0,\"text\":\"y\",\"seed\":1,\"finish_reason\":\"stop\"}]}"
#define REQUEST "\"request\":{\"prompt\":\"x\"}"
static const Bad bad[] = {
    {"{}", 400, "request"},
    {"{" RESPONSE "}", 400, "request"},
    {"{\"request\":1," RESPONSE "}", 400, "request"},
    {"{\"request\":[]," RESPONSE "}", 400, "request"},
    {"{\"request\":{\"prompt\":[]}," RESPONSE "}", 400, "request.prompt"},
    {"{\"request\":{\"promt\":\"x\"}," RESPONSE "}", 400, "request.promt"},
    {"{\"request\":{\"prompt\":\"x\",\"n\":0}," RESPONSE "}", 400, "request.n"},
    {"{\"request\":{\"prompt\":\"x\",\"n\":65}," RESPONSE "}", 400, "request.n"},
    {"{\"request\":{\"prompt\":\"x\",\"n\":2147483647}," RESPONSE "}", 400, "request.n"},
    {"{\"request\":{\"prompt\":\"x\",\"temperature\":3}," RESPONSE "}", 400, "request.temperature"},
    {"{\"request\":{\"prompt\":\"x\",\"max_tokens\":5000}," RESPONSE "}", 400, "request.max_tokens"},
    {"{\"request\":{\"prompt\":\"x\",\"model\":\"other\"}," RESPONSE "}", 404, "request.model"},
    {"{\"request\":{\"messages\":[]}," RESPONSE "}", 400, "request.messages"},
    {"{\"request\":{\"request\":{}}," RESPONSE "}", 400, "request.request"},
    {"{" REQUEST "}", 400, "response"},
    {"{" REQUEST ",\"response\":1}", 400, "response"},
    {"{" REQUEST ",\"response\":[]}", 400, "response"},
    {"{" REQUEST ",\"response\":{}}", 400, "response"},
    {"{" REQUEST ",\"response\":[1]}", 400, "response"},
    {"{" REQUEST ",\"response\":{\"error\":{}}}", 400, "response"},
    {"{" REQUEST ",\"response\":{\"choices\":[]}}", 400, "response"},
    {"{" REQUEST ",\"response\":{\"choices\":[1]}}", 400, "response"},
    {"{" REQUEST ",\"response\":{\"choices\":[{\"index\":1,\"text\":\"y\",\"seed\":1}]}}", 400, "response"},
    {"{" REQUEST ",\"response\":{\"choices\":[{\"index\":-1,\"text\":\"y\",\"seed\":1}]}}", 400, "response"},
    {"{" REQUEST ",\"response\":{\"choices\":[{\"index\":0,\"text\":\"y\"}]}}", 400, "response"},
    {"{" REQUEST ",\"response\":{\"choices\":[{\"index\":0,\"seed\":1}]}}", 400, "response.choices[0].text"},
    {"{" REQUEST ",\"response\":{\"choices\":[{\"index\":0,\"text\":1,\"seed\":1}]}}", 400, "response.choices[0].text"},
    {"{" REQUEST ",\"response\":{\"choices\":[{\"index\":0,\"message\":{\"content\":1},\"seed\":1}]}}", 400,
     "response.choices[0].message.content"},
    {"{" REQUEST ",\"response\":{\"choices\":[{\"index\":0,\"text\":\"y\",\"seed\":-1}]}}", 400,
     "response.choices[0].seed"},
    {"{" REQUEST ",\"response\":{\"choices\":[{\"index\":0,\"text\":\"y\",\"seed\":1,\"noise_seed\":0.5}]}}", 400,
     "response.choices[0].noise_seed"},
    {"{" REQUEST ",\"response\":{\"choices\":[{\"index\":0,\"text\":\"y\",\"seed\":1,\"finish_reason\":\"abort\"}]}}",
     400, "response.choices[0].finish_reason"},
    {"{\"request\":{\"prompt\":\"x\",\"n\":2}," RESPONSE "}", 400, "response"},
    {"{" REQUEST "," RESPONSE ",\"seed\":1}", 400, "seed"},
};

TEST(replay_bounds) {
    Daemon d;
    REQUIRE(daemon_start(&d, CHECKPOINT_SMALL, "--chat-template plain"));
    check_bodies(&d, "/v1/replay", bad, COUNTOF(bad));
    Answer a = http_post(&d, "/v1/replay", "{" REQUEST "," RESPONSE "}");
    CHECK_MSG(a.status == 200 && cJSON_IsNull(json_at(a.json, "fingerprint.former")), "%s", a.body);
    a = replay(&d, "{\"prompt\":\"x\",\"n\":2}", "{\"choices\":[{\"index\":2}]}");
    CHECK_MSG(strstr(a.body, "a choice of the response has the index 2, the request's are 0 to 1"), "%s", a.body);
    daemon_stop(&d);
}

/* What ended with its calls is whole, and so is the last of them; what the length cut goes on. */
TEST(replay_reads_calls) {
    static const char form[] =
        "{\"choices\":[{\"index\":0,\"seed\":1,\"finish_reason\":\"%s\",\"message\":{\"content\":\"a\",\"tool_calls\":["
        "{\"function\":{\"name\":\"f\",\"arguments\":\"{}\"}},{\"function\":{\"name\":\"g\",\"arguments\":\"{}\"}}]}}]"
        "}";
    static const CallStyle style = {.mark = "<", .open = "(", .middle = ":", .close = ")", .between = "+"};
    static const struct {
        const char *finish, *text;
        bool partial;
    } cases[] = {{"tool_calls", "a<(f:{})+<(g:{})", false}, {"length", "a<(f:{})+<(g:{}", true}};
    for (size_t i = 0; i < COUNTOF(cases); i++) {
        ApiError e;
        cJSON *json = cJSON_Parse(test_text(form, cases[i].finish));
        PreviousAnswer *p = previous_read(json, 1, &style, &e);
        REQUIRE(p);
        const PreviousChoice *c = p->choices;
        CHECK_MSG(c->text.n == strlen(cases[i].text) && !memcmp(c->text.data, cases[i].text, c->text.n), "%.*s",
                  (int)c->text.n, c->text.data);
        CHECK(c->partial == cases[i].partial && c->n_calls == 2);
        previous_free(p);
        cJSON_Delete(json);
    }
}

static void check_around(const char *text, size_t at, const char *expected) {
    Buffer b = {0};
    previous_put_around(&b, NULL, text, strlen(text), at);
    buffer_append(&b, "", 1);
    CHECK_MSG(!strcmp(b.data, expected), "%s, not %s", b.data, expected);
    buffer_free(&b);
}

static void check_parts(const char *previous, const char *now, const char *expected) {
    Buffer b = {0};
    previous_put_parts(&b, NULL, previous, now);
    buffer_append(&b, "", 1);
    CHECK_MSG(!strcmp(b.data, expected), "%s, not %s", b.data, expected);
    buffer_free(&b);
}

TEST(replay_snippets) {
    check_around("", 0, "\"\"");
    check_around("abc", 3, "\"abc\"");
    check_around("0123456789abcdefghij", 18, "\"23456789abcdefghij\"");
    check_around("0123456789abcdefghijklmnopqrstuvwxyz", 1, "\"0123456789abcdefghijklmno\"");
    check_around("\xC3\xA9 23456789abcdefg", 17, "\"\xC3\xA9 23456789abcdefg\""); /* begins in the middle of it */
    check_parts("a-1-x", "a-1-x", "[]");
    check_parts("a-1-x-mistral-nemo", "a-1-x-mistral-nemo", "[]");
    check_parts("a-1-x", "b-1-x", "[\"checkpoint\"]");
    check_parts("a-1-x", "a-2-x", "[\"version\"]");
    check_parts("a-1-x", "a-1-y", "[\"arithmetic\"]");
    check_parts("a-1-x-llama-2", "a-1-x-llama-3", "[\"template\"]");
    check_parts("a-1-blas-Haswell-0.3.21", "a-1-blas-Haswell-0.3.21", "[]");
    check_parts("a-1-blas-Haswell-0.3.21", "a-1-blas-Zen-0.3.21", "[\"arithmetic\"]");
    check_parts("a-1-blas-Haswell-0.3.21", "a-1-common", "[\"arithmetic\"]");
    check_parts("a-1-blas-Haswell-0.3.21-llama-2", "a-1-blas-Haswell-0.3.29-llama-2", "[\"arithmetic\"]");
    check_parts("a-1-blas-Haswell-0.3.21-llama-2", "a-1-common-llama-3", "[\"arithmetic\",\"template\"]");
    check_parts("a-1-blas-Haswell", "a-1-blas", "[\"arithmetic\"]");
    check_parts("fp_ollama", "a-1-y", "[\"checkpoint\",\"version\",\"arithmetic\"]");
    check_parts("", "a-1-y-z", "[\"checkpoint\",\"version\",\"arithmetic\",\"template\"]");
}
