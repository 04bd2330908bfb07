/* Fields that say what an answer may be: every answer keeps to them, by whatever way it is asked for. */
#include "base/buffer.h"
#include "base/err.h"
#include "base/memory.h"
#include "tests/support/forms.h"
#include "tests/support/http_client.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define PERSON                                                                                                         \
    "{\"type\":\"object\",\"properties\":{\"name\":{\"type\":\"string\",\"maxLength\":6},\"age\":{\"type\":"           \
    "\"integer\",\"minimum\":0,\"maximum\":150}},\"required\":[\"name\",\"age\"]}"
#define PLATE "[A-Z]{2}-[0-9]{3}(é|ü)"

static const struct {
    const char *fields;
    char kind; /* s: a schema, r: an expression, g: a grammar */
    const char *form;
} cases[] = {
    {"\"json_schema\":" PERSON, 's', PERSON},
    {"\"guided_json\":" PERSON, 's', PERSON},
    {"\"structured_outputs\":{\"json\":" PERSON "}", 's', PERSON},
    {"\"response_format\":{\"type\":\"json_schema\",\"json_schema\":{\"name\":\"p\",\"strict\":true,\"schema\":" PERSON
     "}}",
     's', PERSON},
    {"\"response_format\":{\"type\":\"json_object\"}", 's', "{\"type\":\"object\"}"},
    {"\"response_format\":{\"type\":\"json_object\",\"schema\":" PERSON "}", 's', PERSON},
    {"\"guided_json\":\"{\\\"const\\\":42}\"", 's', "{\"const\":42}"},
    {"\"structured_outputs\":{\"json_object\":true}", 's', "{\"type\":\"object\"}"},
    {"\"regex\":\"" PLATE "\"", 'r', PLATE},
    {"\"guided_regex\":\"" PLATE "\"", 'r', PLATE},
    {"\"structured_outputs\":{\"regex\":\"" PLATE "\"}", 'r', PLATE},
    {"\"grammar\":\"root ::= (\\\"- \\\" [a-z]{1,4} \\\"\\\\n\\\"){1,3}\"", 'g',
     "root ::= (\"- \" [a-z]{1,4} \"\\n\"){1,3}"},
    {"\"guided_grammar\":\"root ::= \\\"a\\\" | \\\"b\\\" root\"", 'g', "root ::= \"a\" | \"b\" root"},
    {"\"structured_outputs\":{\"grammar\":\"root ::= \\\"a\\\" | \\\"b\\\" root\"}", 'g',
     "root ::= \"a\" | \"b\" root"},
};

static Form *form_of_case(size_t i) {
    FormError e;
    const char *text = cases[i].form;
    size_t n = strlen(text);
    Form *f = cases[i].kind == 's'   ? form_of_schema_text(text, &e)
              : cases[i].kind == 'r' ? form_of_regex(text, n, &e)
                                     : form_of_grammar(text, n, &e);
    CHECK_MSG(f != NULL, "%s: %s", text, f ? "" : e.message);
    return f;
}

/* A text that stopped is whole, one that was cut begins one. */
static void check_kept(Form *f, const char *text, const char *finish, const char *what) {
    Taken taken = form_takes(f, text, strlen(text));
    bool stopped = finish && !strcmp(finish, "stop");
    CHECK_MSG(stopped ? taken == TAKEN_WHOLE : taken != TAKEN_NOT, "%s: \"%s\" ends by %s", what, text,
              finish ? finish : "?");
}

TEST(form_is_kept_by_every_field) {
    Daemon d;
    REQUIRE(daemon_start(&d, CHECKPOINT_SMALL, "--chat-template plain"));
    for (size_t i = 0; i < COUNTOF(cases); i++) {
        Form *f = form_of_case(i);
        for (int chat = 0; chat < 2 && f; chat++) {
            int stopped = 0;
            const char *body =
                test_text("{%s,%s,\"n\":8,\"max_tokens\":60,\"temperature\":1.5,\"seed\":%zu}",
                          chat ? "\"messages\":[{\"role\":\"user\",\"content\":\"?\"}]" : "\"prompt\":\"The\"",
                          cases[i].fields, i);
            Answer a = http_post(&d, chat ? "/v1/chat/completions" : "/v1/completions", body);
            CHECK_MSG(a.status == 200, "%s: %s", body, a.body);
            for (int k = 0; k < 8 && a.status == 200; k++) {
                const char *text =
                    json_text(a.json, test_text(chat ? "choices.%d.message.content" : "choices.%d.text", k));
                const char *finish = json_text(a.json, test_text("choices.%d.finish_reason", k));
                check_kept(f, text, finish, cases[i].fields);
                stopped += !strcmp(finish, "stop");
            }
            CHECK_MSG(stopped > 0 || strstr(cases[i].form, "object"), "%s: none ended", body);
        }
        form_release(f);
    }
    daemon_stop(&d);
}

static char *text_of(const Daemon *d, const char *more) {
    Buffer b = {0};
    buffer_print(&b, "{\"prompt\":\"The\",\"json_schema\":%s,\"max_tokens\":50,\"seed\":9,\"noise_seed\":3%s}%c",
                 PERSON, more, 0);
    Answer a = http_post(d, "/v1/completions", b.data);
    CHECK_MSG(a.status == 200, "%s: %s", b.data, a.body);
    bool stream = strstr(more, "\"stream\":true") != NULL;
    Events events = events_parse(stream ? a.body : "");
    char *text = stream ? events_text(&events, 0) : strdup(answer_text(&a, 0));
    events_free(&events);
    buffer_free(&b);
    return text;
}

/* The token drawn is a function of seed, position and attempt: nothing else that is asked for changes it. */
TEST(form_draws_the_same_by_every_way) {
    static const char *const ways[] = {
        "",         ",\"stream\":true",      ",\"logprobs\":3",        ",\"stream\":true,\"logprobs\":0",
        ",\"n\":3", ",\"stop\":[\"never\"]", ",\"prompt_logprobs\":1", ",\"return_token_ids\":true"};
    Daemon d;
    REQUIRE(daemon_start(&d, CHECKPOINT_SMALL, NULL));
    char *first = text_of(&d, "");
    CHECK(strlen(first) > 10);
    for (size_t i = 1; i < COUNTOF(ways); i++) {
        char *text = text_of(&d, ways[i]);
        CHECK_MSG(!strcmp(text, first), "%s: %s, not %s", ways[i], text, first);
        free(text);
    }
    char *echoed = text_of(&d, ",\"echo\":true"), *rest = text_of(&d, ",\"stream\":true,\"stream_from\":2");
    CHECK(!strncmp(echoed, "The", 3) && !strcmp(echoed + 3, first));
    CHECK_MSG(strlen(rest) < strlen(first) && !strcmp(first + strlen(first) - strlen(rest), rest), "%s", rest);
    free(echoed);
    free(rest);
    free(first);
    daemon_stop(&d);
}

TEST(form_is_replayed) {
    Daemon d;
    REQUIRE(daemon_start(&d, CHECKPOINT_SMALL, NULL));
    static const char request[] = "{\"prompt\":\"x\",\"regex\":\"[a-z]{3,9}( [A-Z]+)?\",\"n\":3,\"max_tokens\":20}";
    Answer a = http_post(&d, "/v1/completions", request);
    Buffer b = {0};
    buffer_print(&b, "{\"request\":%s,\"response\":%s}%c", request, a.body, 0);
    Answer again = http_post(&d, "/v1/replay", b.data);
    CHECK_MSG(cJSON_IsTrue(json_at(again.json, "identical")), "%s", again.body);
    buffer_free(&b);
    a = http_post(&d, "/v1/replay", "{\"request\":{\"prompt\":\"x\",\"regex\":\"(\"},\"response\":{}}");
    answer_check_error(&a, 400, "request.regex", "replay");
    daemon_stop(&d);
}

/* Probabilities are those among the tokens that may come. */
TEST(form_probabilities_are_among_the_legal) {
    Daemon d;
    REQUIRE(daemon_start(&d, CHECKPOINT_SMALL, NULL));
    Answer a =
        http_post(&d, "/v1/completions", "{\"prompt\":\"x\",\"regex\":\"[QZ]{4}\",\"logprobs\":5,\"temperature\":2}");
    CHECK_MSG(a.status == 200, "%s", a.body);
    int n = cJSON_GetArraySize(json_at(a.json, "choices.0.logprobs.top_logprobs"));
    CHECK(n > 0 && n <= 4);
    for (int i = 0; i < n; i++) {
        const cJSON *p;
        double sum = 0;
        cJSON_ArrayForEach(p, json_at(a.json, test_text("choices.0.logprobs.top_logprobs.%d", i))) {
            sum += exp(p->valuedouble);
            CHECK_MSG(strspn(p->string, "QZ") == strlen(p->string), "%s", p->string);
        }
        CHECK_MSG(fabs(sum - 1) < 1e-4, "token %d: %.6g", i, sum);
    }
    /* Greedy: the most probable of them. */
    a = http_post(&d, "/v1/completions", "{\"prompt\":\"x\",\"regex\":\"[QZ]{4}\",\"logprobs\":1,\"temperature\":0}");
    const cJSON *top = json_at(a.json, "choices.0.logprobs.top_logprobs.0");
    CHECK(top && top->child && json_number(a.json, "choices.0.logprobs.token_logprobs.0") == top->child->valuedouble);
    daemon_stop(&d);
}

/* A stop string ends a text where the form may end in front of it, and nowhere else. */
TEST(form_and_stop_strings) {
    static const struct {
        const char *fields, *text, *finish; /* text NULL: any */
    } cases_of_stop[] = {
        {"\"regex\":\"abc\",\"stop\":\"b\"", "abc", "stop"},
        {"\"regex\":\"ab?c?d?\",\"stop\":\"b\",\"logit_bias\":{\"b\":100,\"ab\":100,\"abcd\":100}", "a", "stop"},
        {"\"regex\":\"(ab){4}(ab)*\",\"stop\":\"ba\",\"max_tokens\":30,\"ignore_eos\":true", NULL, "length"},
        {"\"regex\":\"(ab){4}(ab)*\",\"stop\":\"ab\",\"max_tokens\":30,\"ignore_eos\":true", "abababab", "stop"},
        {"\"regex\":\"(ab){4}(ab)*\",\"stop\":\"ab\",\"max_tokens\":30,\"ignore_eos\":true,"
         "\"include_stop_str_in_output\":true",
         "abababab", "stop"},
        /* what can only end does, whatever is to come first */
        {"\"regex\":\"\"", "", "stop"},
        {"\"regex\":\"\",\"ignore_eos\":true", "", "stop"},
        {"\"grammar\":\"root ::= \\\"\\\"\",\"min_tokens\":3", "", "stop"},
    };
    Daemon d;
    REQUIRE(daemon_start(&d, CHECKPOINT_SMALL, NULL));
    for (size_t i = 0; i < COUNTOF(cases_of_stop); i++) {
        for (int echo = 0; echo < 2; echo++) {
            const char *body =
                test_text("{\"prompt\":\"bab\",%s%s}", cases_of_stop[i].fields, echo ? ",\"echo\":true" : "");
            Answer a = http_post(&d, "/v1/completions", body);
            const char *text = answer_text(&a, 0) + (echo ? 3 : 0), *wanted = cases_of_stop[i].text;
            CHECK_MSG(a.status == 200 && (!wanted || !strcmp(text, wanted)), "%s: %s", body, a.body);
            CHECK_MSG(a.status == 200 && !strcmp(json_text(a.json, "choices.0.finish_reason"), cases_of_stop[i].finish),
                      "%s: %s", body, a.body);
        }
    }
    daemon_stop(&d);
}

/* No end before so many tokens, and one that is sure to come right behind them. */
TEST(form_and_min_tokens) {
    Daemon d;
    REQUIRE(daemon_start(&d, CHECKPOINT_SMALL, NULL));
    Answer a = http_post(&d, "/v1/completions",
                         "{\"prompt\":\"The\",\"regex\":\"[ab]*\",\"min_tokens\":3,\"max_tokens\":9,\"temperature\":0,"
                         "\"logit_bias\":{\"0\":100},\"return_token_ids\":true}");
    CHECK_MSG(json_number(a.json, "usage.completion_tokens") == 4 && json_number(a.json, "choices.0.token_ids.3") == 0,
              "%s", a.body);
    daemon_stop(&d);
}

static const Bad bad[] = {
    {"{\"regex\":\"a(?=b)\"}", 400, "regex"},
    {"{\"regex\":[1]}", 400, "regex"},
    {"{\"grammar\":\"root ::= \"}", 200, ""},
    {"{\"grammar\":\"\"}", 200, ""},
    {"{\"grammar\":\"root ::= x\"}", 400, "grammar"},
    {"{\"guided_grammar\":\"start: NUMBER\"}", 400, "guided_grammar"},
    {"{\"json_schema\":{\"properties\":{\"a\":{\"not\":{}}}}}", 400, "json_schema.properties.a.not"},
    {"{\"guided_json\":\"{\\\"anyOf\\\":[{\\\"if\\\":{}}]}\"}", 400, "guided_json.anyOf[0].if"},
    {"{\"guided_json\":\"{\"}", 400, "guided_json"},
    {"{\"json_schema\":3}", 400, "json_schema"},
    {"{\"response_format\":\"json\"}", 400, "response_format"},
    {"{\"response_format\":{}}", 400, "response_format.type"},
    {"{\"response_format\":{\"type\":\"xml\"}}", 400, "response_format.type"},
    {"{\"response_format\":{\"type\":\"text\"}}", 200, ""},
    {"{\"response_format\":{\"type\":\"text\",\"schema\":{}}}", 400, "response_format.schema"},
    {"{\"response_format\":{\"type\":\"json_object\",\"type schema\":1}}", 400, "response_format.type schema"},
    {"{\"response_format\":{\"type\":\"json_schema\"}}", 400, "response_format.json_schema"},
    {"{\"response_format\":{\"type\":\"json_schema\",\"json_schema\":{}}}", 400, "response_format.json_schema.schema"},
    {"{\"response_format\":{\"type\":\"json_schema\",\"json_schema\":{\"schema\":{\"items\":{\"uniqueItems\":true}}}}}",
     400, "response_format.json_schema.schema.items.uniqueItems"},
    {"{\"response_format\":{\"type\":\"json_object\",\"json_schema\":{}}}", 400, "response_format.json_schema"},
    {"{\"structured_outputs\":{\"xml\":1}}", 400, "structured_outputs.xml"},
    {"{\"structured_outputs\":{\"regex\":\"(\"}}", 400, "structured_outputs.regex"},
    {"{\"structured_outputs\":{\"json_object\":1}}", 400, "structured_outputs.json_object"},
    {"{\"structured_outputs\":{\"choice\":[]}}", 400, "structured_outputs.choice"},
    {"{\"structured_outputs\":{\"json_object\":false},\"regex\":\"a\"}", 200, ""},
    {"{\"regex\":\"a\",\"choice\":[\"a\"]}", 400, "choice"},
    {"{\"structured_outputs\":{\"regex\":\"a\",\"json\":{}}}", 400, "structured_outputs.json"},
    {"{\"response_format\":{\"type\":\"json_object\"},\"grammar\":\"root ::= \\\"a\\\"\"}", 400, "grammar"},
    {"{\"regex\":\"((a{0,100}){0,100}b?){0,100}(((((a*)*)*)*)*)*\",\"max_tokens\":5}", 400, "regex"},
};

TEST(form_refusals_name_the_place) {
    Daemon d;
    REQUIRE(daemon_start(&d, CHECKPOINT_SMALL, NULL));
    check_bodies(&d, "/v1/completions", bad, COUNTOF(bad));
    Answer a = http_post(&d, "/v1/completions", "{\"regex\":\"a\",\"guided_choice\":[\"a\"]}");
    CHECK_MSG(strstr(a.body, "regex and guided_choice both"), "%s", a.body);
    a = http_post(&d, "/v1/completions", "{\"guided_choice\":[\"a\",\"a\"]}");
    CHECK_MSG(strstr(a.body, "guided_choice has \\\"a\\\" twice"), "%s", a.body);
    a = http_post(&d, "/v1/completions", "{\"guided_choice\":[]}");
    CHECK_MSG(strstr(a.body, "guided_choice has 0 strings"), "%s", a.body);
    daemon_stop(&d);
}

/* Made to cost: what it ends is its own answer, and the fault is the request's. */
TEST(form_that_takes_too_long_is_a_400) {
    Daemon d;
    REQUIRE(daemon_start(&d, CHECKPOINT_SMALL, NULL));
    Answer a =
        http_post(&d, "/v1/completions",
                  "{\"regex\":\"(.*[^b]){200}x\",\"logprobs\":1,\"max_tokens\":200,\"temperature\":2,\"seed\":1}");
    CHECK_MSG(a.status == 400 && strstr(a.body, "the form takes too long"), "%d %s", a.status, a.body);
    a = http_get(&d, "/metrics"); /* what failed counts as that, and its time among none that were answered */
    CHECK_MSG(strstr(a.body, "\nnoised_choices_total{finish=\"error\"} 1\n") &&
                  strstr(a.body, "\nnoised_end_to_end_seconds_count 0\n"),
              "%s", a.body);
    daemon_stop(&d);
}
