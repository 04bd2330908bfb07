/* `choice`: the answer is one of some strings, and its log-probabilities are those among the tokens that could come. */
#include "base/buffer.h"
#include "base/err.h"
#include "base/memory.h"
#include "tests/support/checkpoints.h"
#include "tests/support/http_client.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static Answer complete(const Daemon *d, const char *json) { return http_post(d, "/v1/completions", json); }

static bool among(const char *text, const char *const *strings, size_t n) {
    for (size_t i = 0; i < n; i++)
        if (text && !strcmp(text, strings[i])) return true;
    return false;
}

static const char *const colours[] = {" red", " green", " blue", " blueish grey", "\xC3\xA9\xF0\x9F\x8E\x88"};
#define COLOURS "\"choice\":[\" red\",\" green\",\" blue\",\" blueish grey\",\"\\u00e9\\ud83c\\udf88\"]"

TEST(choice_is_one_of_the_strings) {
    Daemon d;
    REQUIRE(daemon_start(&d, CHECKPOINT_SMALL, "--chat-template plain"));
    static const char form[] = "{\"prompt\":\"The river is\"," COLOURS ",\"n\":32,\"seed\":1,\"noise_seed\":2%s}";
    int different = 0;
    Answer a = complete(&d, test_text(form, ""));
    CHECK_MSG(a.status == 200, "%s", a.body);
    for (int i = 0; i < 32; i++) {
        CHECK_MSG(among(answer_text(&a, i), colours, COUNTOF(colours)), "\"%s\"", answer_text(&a, i));
        CHECK(!strcmp(json_text(a.json, test_text("choices.%d.finish_reason", i)), "stop"));
        different += strcmp(answer_text(&a, i), answer_text(&a, 0)) != 0;
    }
    CHECK(different > 0);
    /* Alone, with other settings that change nothing, in a list, in a stream. */
    Answer b = complete(&d, "{\"prompt\":\"The river is\"," COLOURS ",\"seed\":1,\"noise_seed\":2,\"max_tokens\":100}");
    CHECK(!strcmp(answer_text(&b, 0), answer_text(&a, 0)));
    b = complete(&d,
                 "{\"prompt\":[\"x\",\"The river is\"]," COLOURS ",\"n\":2,\"seed\":1,\"noise_seed\":2,\"echo\":true}");
    CHECK(!strncmp(answer_text(&b, 2), "The river is", 12) && !strcmp(answer_text(&b, 2) + 12, answer_text(&a, 0)));
    CHECK(!strcmp(answer_text(&b, 3) + 12, answer_text(&a, 1)));
    b = complete(&d, test_text(form, ",\"stream\":true,\"logprobs\":2"));
    Events events = events_parse(b.body);
    CHECK(events.done && !events.malformed);
    for (int i = 0; i < 32; i++) {
        char *text = events_text(&events, i);
        CHECK(!strcmp(text, answer_text(&a, i)) && !strcmp(events_finish(&events, i), "stop"));
        free(text);
    }
    events_free(&events);
    a = http_post(&d, "/v1/chat/completions",
                  "{\"messages\":[{\"role\":\"user\",\"content\":\"?\"}]," COLOURS ",\"n\":4,\"logprobs\":true,"
                  "\"top_logprobs\":20}");
    for (int i = 0; i < 4; i++) {
        CHECK_MSG(among(json_text(a.json, test_text("choices.%d.message.content", i)), colours, COUNTOF(colours)), "%s",
                  a.body);
    }
    CHECK(cJSON_GetArraySize(json_at(a.json, "choices.0.logprobs.content.0.top_logprobs")) <= (int)COUNTOF(colours));
    /* What ends a turn of this template is part of a string that has it. */
    a = http_post(&d, "/v1/chat/completions",
                  "{\"messages\":[{\"role\":\"user\",\"content\":\"?\"}],\"choice\":[\"yes\\nuser: no\"]}");
    CHECK_MSG(!strcmp(json_text(a.json, "choices.0.message.content"), "yes\nuser: no"), "%s", a.body);
    daemon_stop(&d);
}

/* ---- probabilities ---- */

/* The model's own log-probability of `id` behind the prompt and ids. */
static double scored(const Daemon *d, const char *ids, int id) {
    Answer a = complete(
        d,
        test_text("{\"prompt\":[1,2,3%s,%d],\"max_tokens\":0,\"echo\":true,\"logprobs\":0,\"noise_seed\":7}", ids, id));
    int n = cJSON_GetArraySize(json_at(a.json, "choices.0.logprobs.token_logprobs"));
    const char *path = test_text("choices.0.logprobs.token_logprobs.%d", n - 1);
    double lp = json_number(a.json, path);
    CHECK_MSG(isfinite(lp), "%s", a.body);
    return lp;
}

/* "Z", "Q", "QZ", "QQ": two tokens to begin with; behind Q two more, or the end. */
TEST(choice_probabilities_are_among_the_allowed) {
    Daemon d;
    REQUIRE(daemon_start(&d, CHECKPOINT_SMALL, NULL));
    int z = token_of(&d, "Z"), q = token_of(&d, "Q");
    const char *behind_q = test_text(",%d", q);
    double lz = scored(&d, "", z), lq = scored(&d, "", q);
    double first = lq - log(exp(lz) + exp(lq));
    double more[] = {scored(&d, behind_q, TEST_EOS), scored(&d, behind_q, z), scored(&d, behind_q, q)};
    double all = log(exp(more[0]) + exp(more[1]) + exp(more[2]));
    for (int ends = 0; ends < 2; ends++) {
        Answer a = complete(
            &d, test_text("{\"prompt\":[1,2,3],\"choice\":[\"Z\",\"QZ\",\"Q\",\"QQ\"],\"logprobs\":5,\"noise_seed\":7,"
                          "\"temperature\":0,\"logit_bias\":{%s}}",
                          test_text(ends ? "\"%d\":50,\"0\":100" : "\"%d\":50", q)));
        const char *text = answer_text(&a, 0), *wanted = ends ? "Q" : "QQ";
        double second = more[ends ? 0 : 2] - all;
        CHECK_MSG(!strcmp(text, wanted), "\"%s\", not \"%s\": %s", text, wanted, a.body);
        CHECK(fabs(json_number(a.json, "choices.0.logprobs.token_logprobs.0") - first) < 1e-4);
        CHECK_MSG(fabs(json_number(a.json, "choices.0.logprobs.token_logprobs.1") - second) < 1e-4, "%s", a.body);
        /* No alternatives but those that could come: two, then three, and their probabilities add up. */
        for (int slot = 0; slot < 2; slot++) {
            const cJSON *top = json_at(a.json, test_text("choices.0.logprobs.top_logprobs.%d", slot)), *p;
            double sum = 0;
            CHECK_MSG(cJSON_GetArraySize(top) == 2 + slot, "%s", a.body);
            cJSON_ArrayForEach(p, top) sum += exp(p->valuedouble);
            CHECK(fabs(sum - 1) < 1e-5);
        }
        CHECK(json_number(a.json, "usage.completion_tokens") == 2);
        CHECK(!strcmp(json_text(a.json, "choices.0.finish_reason"), "stop"));
    }
    daemon_stop(&d);
}

/* The one string there is has probability 1, however long. */
TEST(choice_of_one) {
    Daemon d;
    REQUIRE(daemon_start(&d, CHECKPOINT_SMALL, NULL));
    Answer a = complete(&d, "{\"prompt\":\"x\",\"choice\":[\"Every token of this is certain.\"],\"logprobs\":3,"
                            "\"logit_bias\":{\"0\":100}}");
    const cJSON *lp;
    CHECK_MSG(!strcmp(answer_text(&a, 0), "Every token of this is certain."), "%s", a.body);
    cJSON_ArrayForEach(lp, json_at(a.json, "choices.0.logprobs.token_logprobs")) CHECK(lp->valuedouble == 0);
    daemon_stop(&d);
}

/* In a chat: behind "Q" comes another, or the token that ends a text. */
TEST(choice_alternatives_of_a_chat) {
    Daemon d;
    REQUIRE(daemon_start(&d, CHECKPOINT_SMALL, "--chat-template plain"));
    Answer a = http_post(&d, "/v1/chat/completions",
                         "{\"messages\":[{\"role\":\"user\",\"content\":\"?\"}],\"choice\":[\"Q\",\"QQ\"],"
                         "\"logprobs\":true,\"top_logprobs\":5,\"seed\":1,\"noise_seed\":2}");
    const cJSON *top = json_at(a.json, "choices.0.logprobs.content.1.top_logprobs"), *p;
    double sum = 0;
    cJSON_ArrayForEach(p, top) sum += exp(json_number(p, "logprob"));
    CHECK_MSG(cJSON_GetArraySize(top) == 2 && fabs(sum - 1) < 1e-5, "%s", a.body);
    daemon_stop(&d);
}

/* ---- bounds ---- */

/* {"prompt":"x","choice":[n strings of `length` bytes, all different]} */
static char *many(int n, int length) {
    Buffer b = {0};
    buffer_text(&b, "{\"prompt\":\"x\",\"choice\":[");
    for (int i = 0; i < n; i++) {
        buffer_print(&b, "%s\"%03d", i ? "," : "", i);
        for (int k = 3; k < length; k++) buffer_text(&b, "x");
        buffer_text(&b, "\"");
    }
    buffer_text(&b, "]}");
    buffer_append(&b, "", 1);
    return b.data;
}

static const Bad bad[] = {
    {"{\"choice\":[]}", 400, "choice"},
    {"{\"choice\":\"yes\"}", 400, "choice"},
    {"{\"choice\":{\"yes\":1}}", 400, "choice"},
    {"{\"choice\":1}", 400, "choice"},
    {"{\"choice\":[1]}", 400, "choice"},
    {"{\"choice\":[null]}", 400, "choice"},
    {"{\"choice\":[\"yes\",[\"no\"]]}", 400, "choice"},
    {"{\"choice\":[\"yes\",\"\"]}", 400, "choice"},
    {"{\"choice\":[\"yes\",\"no\",\"yes\"]}", 400, "choice"},
    {"{\"choice\":[\"yes\",\"\\u0000\"]}", 400, ""},
    {"{\"choice\":[\"yes\",\"no\"],\"stop\":\"e\"}", 400, "stop"},
    {"{\"choice\":[\"yes\",\"no\"],\"stop_token_ids\":[1]}", 400, "stop_token_ids"},
    {"{\"choice\":[\"yes\",\"no\"],\"ignore_eos\":true}", 400, "ignore_eos"},
    {"{\"choice\":[\"yes\",\"no\"],\"min_tokens\":1}", 400, "min_tokens"},
    {"{\"choice\":[\"yes\",\"no\"],\"include_stop_str_in_output\":true}", 400, "include_stop_str_in_output"},
    {"{\"choice\":[\"yes\",\"no\"],\"max_tokens\":0}", 400, "max_tokens"},
    {"{\"choice\":[\"yes\",\"a whole sentence\"],\"max_tokens\":3}", 400, "max_tokens"},
    {"{\"choice\":[\"a whole sentence\"],\"max_completion_tokens\":3}", 400, "max_tokens"},
};

TEST(choice_bounds) {
    Daemon d;
    REQUIRE(daemon_start(&d, CHECKPOINT_SMALL, NULL));
    check_bodies(&d, "/v1/completions", bad, COUNTOF(bad));
    static const struct {
        int n, length, status;
    } sizes[] = {{256, 256, 200}, {257, 3, 400}, {1, 257, 400}, {256, 3, 200}};
    for (size_t i = 0; i < COUNTOF(sizes); i++) {
        char *body = many(sizes[i].n, sizes[i].length);
        Answer a = complete(&d, body);
        CHECK_MSG(a.status == sizes[i].status, "%d of %d: %s", sizes[i].n, sizes[i].length, a.body);
        if (a.status == 200) CHECK(strlen(answer_text(&a, 0)) == (size_t)sizes[i].length);
        free(body);
    }
    /* Neutral values of what does not go with it. */
    Answer a = complete(&d, "{\"prompt\":\"x\",\"choice\":[\"yes\",\"no\"],\"stop\":[],\"stop_token_ids\":[],"
                            "\"ignore_eos\":false,\"min_tokens\":0,\"max_tokens\":-1}");
    CHECK_MSG(a.status == 200, "%s", a.body);
    daemon_stop(&d);
}

/* ---- other tokenizers ---- */

/* A small checkpoint of which dir/name has `from` replaced. */
static const char *edited(const char *name, const char *from, const char *to) {
    const char *dir = test_dir();
    if (!test_checkpoint_write(dir, CHECKPOINT_SMALL, 1)) return dir;
    const char *path = test_text("%s/%s", dir, name);
    char *text = test_read_file(path, NULL), *at = text ? strstr(text, from) : NULL;
    Buffer b = {0};
    CHECK_MSG(at != NULL, "no %s in %s", from, path);
    if (at) {
        buffer_append(&b, text, (size_t)(at - text));
        buffer_print(&b, "%s%s%c", to, at + strlen(from), 0);
        test_write_text(dir, name, b.data);
    }
    buffer_free(&b);
    free(text);
    return dir;
}

/* says: the text that is answered, or why there is none; NULL for any. */
static int status_of(const char *dir, const char *body, const char *says) {
    Daemon d;
    if (!daemon_start_at(&d, dir, NULL)) return 0;
    Answer a = complete(&d, body);
    int status = a.status;
    if (status != 200) answer_check_error(&a, 400, "choice", body);
    const char *said = status == 200 ? answer_text(&a, 0) : json_text(a.json, "error.message");
    CHECK_MSG(!says || (said && !strcmp(said, says)), "%s", a.body);
    daemon_stop(&d);
    return status;
}

/* Where the tokenizer puts a space in front of every text, the answer lacks it nevertheless. */
TEST(choice_behind_a_space_of_the_tokenizer) {
    const char *dir = edited("tokenizer.json", "\"add_prefix_space\": false", "\"add_prefix_space\": true");
    CHECK(status_of(dir, "{\"prompt\":\"x\",\"choice\":[\"yes\"]}", "yes") == 200);
    CHECK(status_of(dir, "{\"prompt\":\"x\",\"choice\":[\" yes\"]}", " yes") == 200);
    CHECK(status_of(dir, "{\"prompt\":\"x\",\"choice\":[\"yes\",\" no\"]}", NULL) == 400);
    CHECK(
        status_of(dir, "{\"prompt\":\"x\",\"choice\":[\"yes\",\" yes\"]}",
                  "the tokenizer puts a space in front of some choices, but not of \" yes\": begin all of them with a "
                  "space, or none") == 400);
    CHECK(status_of(dir, "{\"prompt\":\"x\",\"choice\":[\"yes\",\"no\",\"yes\"]}", "choice has \"yes\" twice") == 400);
}

/* A tokenizer that brings marks into their order writes them in no other, of as many bytes though it is. */
TEST(choice_that_the_tokenizer_changes) {
    const char *dir = edited("tokenizer.json", "\"normalizer\": null", "\"normalizer\": {\"type\": \"NFC\"}");
    CHECK(status_of(dir, "{\"prompt\":\"x\",\"choice\":[\"q\\u0323\\u0307\"]}", "q\xCC\xA3\xCC\x87") == 200);
    CHECK(status_of(dir, "{\"prompt\":\"x\",\"choice\":[\"q\\u0307\\u0323\"]}",
                    "the model cannot write \"q\xCC\x87\xCC\xA3\": the tokenizer changes it") == 400);
}

/* Without a token that ends a text nobody can tell "yes" from the beginning of "yesterday". */
TEST(choice_without_an_end) {
    const char *dir = edited("config.json", "\"eos_token_id\": 0", "\"eos_token_id\": null");
    CHECK(status_of(dir, "{\"prompt\":\"x\",\"choice\":[\"ZZ\",\"Z\"]}",
                    "a choice of 1 tokens begins one of 2, and the model has no token that ends a text") == 400);
    CHECK(status_of(dir, "{\"prompt\":\"x\",\"choice\":[\"ZQ\",\"Q\"]}", NULL) == 200);
}

/* What ends every text can be no part of one: here Q, 49. */
TEST(choice_with_an_end) {
    const char *dir = edited("config.json", "\"eos_token_id\": 0", "\"eos_token_id\": 49");
    CHECK(status_of(dir, "{\"prompt\":\"x\",\"choice\":[\"Z\",\"ZQ\"]}", NULL) == 400);
    CHECK(status_of(dir, "{\"prompt\":\"x\",\"choice\":[\"ZZ\"]}", "ZZ") == 200);
}
