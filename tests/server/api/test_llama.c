/* llama-server's dialect: the same tokens as on OpenAI's routes, said in another way. */
#include "base/err.h"
#include "tests/support/http_client.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define P "{\"prompt\":\"The mill\",\"seed\":1,\"ignore_eos\":true,"

static Answer ask(const Daemon *d, const char *path, const char *body) {
    Answer a = http_post(d, path, body);
    CHECK_MSG(a.status == 200, "%s: %d %s", body, a.status, a.body);
    return a;
}

static bool is(const cJSON *json, const char *path, const char *text) {
    const char *value = json_text(json, path);
    return value && !strcmp(value, text);
}

TEST(llama_completion_is_the_same_text) {
    Daemon d;
    REQUIRE(daemon_start(&d, CHECKPOINT_SMALL, NULL));
    Answer theirs = ask(&d, "/completion", P "\"n_predict\":9,\"n_probs\":2,\"return_tokens\":true}");
    Answer ours = ask(&d, "/v1/completions", P "\"max_tokens\":9,\"logprobs\":2,\"return_token_ids\":true}");
    CHECK(json_same(theirs.json, "content", ours.json, "choices.0.text"));
    CHECK(json_same(theirs.json, "tokens", ours.json, "choices.0.token_ids"));
    CHECK(json_same(theirs.json, "noise_seed", ours.json, "choices.0.noise_seed"));
    CHECK(json_same(theirs.json, "tokens_evaluated", ours.json, "usage.prompt_tokens"));
    CHECK(
        json_same(theirs.json, "completion_probabilities.8.logprob", ours.json, "choices.0.logprobs.token_logprobs.8"));
    CHECK(json_same(theirs.json, "completion_probabilities.8.id", theirs.json, "tokens.8"));
    CHECK(cJSON_GetArraySize(json_at(theirs.json, "completion_probabilities")) == 9);
    CHECK(cJSON_GetArraySize(json_at(theirs.json, "completion_probabilities.0.top_logprobs")) == 2);
    CHECK(is(theirs.json, "stop_type", "limit") && is(theirs.json, "prompt", "The mill"));
    CHECK(cJSON_IsTrue(json_at(theirs.json, "stop")) && cJSON_IsFalse(json_at(theirs.json, "truncated")));
    CHECK(json_number(theirs.json, "generation_settings.n_predict") == 9);
    CHECK(json_number(theirs.json, "generation_settings.seed") == 1);
    CHECK(json_number(theirs.json, "timings.predicted_n") == 9 && json_number(theirs.json, "timings.prompt_ms") > 0);
    CHECK(json_number(theirs.json, "timings.prompt_n") + json_number(theirs.json, "tokens_cached") ==
          json_number(theirs.json, "tokens_evaluated"));
    answer_free(&theirs);
    answer_free(&ours);
    daemon_stop(&d);
}

/* Behind "Q" comes another, or the token that ends a text. */
TEST(llama_alternatives_of_a_choice) {
    Daemon d;
    REQUIRE(daemon_start(&d, CHECKPOINT_SMALL, NULL));
    Answer a = ask(&d, "/completion", "{\"prompt\":\"x\",\"choice\":[\"Q\",\"QQ\"],\"n_probs\":5,\"seed\":1}");
    const cJSON *top = json_at(a.json, "completion_probabilities.1.top_logprobs"), *p;
    double sum = 0;
    cJSON_ArrayForEach(p, top) sum += exp(json_number(p, "logprob"));
    CHECK_MSG(cJSON_GetArraySize(top) == 2 && fabs(sum - 1) < 1e-5, "%s", a.body);
    answer_free(&a);
    daemon_stop(&d);
}

TEST(llama_template_bad_requests) {
#define MESSAGES "\"messages\":[{\"role\":\"user\",\"content\":\"?\"}]"
    static const Bad bad[] = {
        {"{}", 400, "messages"},
        {"{" MESSAGES ",\"model\":\"other\"}", 404, "model"},
        {"{" MESSAGES ",\"prompt\":\"x\"}", 400, "prompt"},
        {"{" MESSAGES ",\"temperature\":9}", 400, "temperature"},
        {"{" MESSAGES ",\"model\":\"tiny\"}", 200, ""},
    };
    Daemon d;
    REQUIRE(daemon_start(&d, CHECKPOINT_SMALL, "--chat-template plain"));
    check_bodies(&d, "/apply-template", bad, COUNTOF(bad));
    daemon_stop(&d);
}

/* The events' pieces are the whole text, and the last event is the whole answer but for it. */
TEST(llama_stream) {
    Daemon d;
    REQUIRE(daemon_start(&d, CHECKPOINT_SMALL, NULL));
    Answer whole = ask(&d, "/completion", P "\"n_predict\":12,\"return_tokens\":true}");
    Answer a = ask(&d, "/completion", P "\"n_predict\":12,\"stream\":true,\"timings_per_token\":true}");
    Events e = events_parse(a.body);
    char text[1024] = "";
    int n_tokens = 0;
    REQUIRE(!e.malformed && e.n > 1 && !e.done);
    for (int i = 0; i < e.n; i++) {
        const char *content = json_text(e.data[i], "content");
        bool last = i == e.n - 1;
        REQUIRE(content && strlen(text) + strlen(content) < sizeof text);
        strcat(text, content);
        n_tokens += cJSON_GetArraySize(json_at(e.data[i], "tokens"));
        CHECK(cJSON_IsTrue(json_at(e.data[i], "stop")) == last && json_at(e.data[i], "timings"));
        CHECK(!json_at(e.data[i], "stop_type") == !last && (!last || !*content));
    }
    CHECK(is(whole.json, "content", text) && n_tokens == 12);
    CHECK(json_same(e.data[e.n - 1], "generation_settings.seed", whole.json, "generation_settings.seed"));
    events_free(&e);
    answer_free(&whole);
    answer_free(&a);
    daemon_stop(&d);
}

TEST(llama_says_why_it_ends) {
    Daemon d;
    REQUIRE(daemon_start(&d, CHECKPOINT_SMALL, NULL));
    Answer a = ask(&d, "/completion", P "\"n_predict\":5}");
    char *start = json_raw(a.json, "content"), body[512];
    snprintf(body, sizeof body, P "\"n_predict\":40,\"stop\":[\"never said here\",%s]}", start);
    Answer word = ask(&d, "/completion", body);
    CHECK_MSG(is(word.json, "stop_type", "word") && is(word.json, "content", ""), "%s", word.body);
    CHECK(json_same(word.json, "stopping_word", a.json, "content"));
    free(start);
    Answer end = ask(&d, "/completion", "{\"prompt\":\"a\",\"n_predict\":3,\"logit_bias\":[[0,100]]}");
    CHECK_MSG(is(end.json, "stop_type", "eos") && is(end.json, "stopping_word", ""), "%s", end.body);
    Answer full = ask(&d, "/completion", P "\"n_predict\":-1}"), unsaid = ask(&d, "/completion", P "\"n\":1}");
    CHECK_MSG(cJSON_IsTrue(json_at(full.json, "truncated")) && is(full.json, "stop_type", "limit"), "%s", full.body);
    CHECK(json_same(full.json, "content", unsaid.json, "content"));
    answer_free(&a);
    answer_free(&word);
    answer_free(&end);
    answer_free(&full);
    answer_free(&unsaid);
    daemon_stop(&d);
}

TEST(llama_several_prompts_are_an_array) {
    Daemon d;
    REQUIRE(daemon_start(&d, CHECKPOINT_SMALL, NULL));
    Answer a = ask(&d, "/completion", "{\"prompt\":[\"a\",[1,2]],\"n_predict\":2}");
    CHECK(cJSON_IsArray(a.json) && cJSON_GetArraySize(a.json) == 2);
    CHECK(json_number(a.json, "1.index") == 1 && json_number(a.json, "1.tokens_evaluated") == 2);
    CHECK(cJSON_GetArraySize(json_at(a.json, "0.tokens")) == 0);
    answer_free(&a);
    static const Bad bad[] = {
        {"{\"echo\":true}", 400, "echo"},           {"{\"logprobs\":1}", 400, "logprobs"},
        {"{\"diversity\":true}", 400, "diversity"}, {"{\"stream\":true,\"stream_options\":{}}", 400, "stream_options"},
        {"{\"n_predict\":-3}", 400, "n_predict"},   {"{\"return_tokens\":1}", 400, "return_tokens"},
        {"{\"prompt\":[]}", 400, "prompt"},         {"{\"post_sampling_probs\":true}", 400, "post_sampling_probs"},
    };
    check_bodies(&d, "/completion", bad, COUNTOF(bad));
    daemon_stop(&d);
}

TEST(llama_slots) {
    Daemon d;
    REQUIRE(daemon_start(&d, CHECKPOINT_SLOW, "--max-batch 3"));
    Answer idle = http_get(&d, "/slots"), props = http_get(&d, "/props");
    CHECK(cJSON_GetArraySize(idle.json) == 3 && json_number(props.json, "total_slots") == 3);
    CHECK(cJSON_IsTrue(json_at(props.json, "endpoint_slots")) && cJSON_IsFalse(json_at(idle.json, "0.is_processing")));
    CHECK(json_same(idle.json, "2.params", props.json, "default_generation_settings.params"));
    int fd = raw_completion(&d, "{\"max_tokens\":4000,\"ignore_eos\":true,\"stream\":true}");
    REQUIRE(raw_expect(fd, "data: ", 20));
    Answer busy = http_get(&d, "/slots");
    CHECK(cJSON_IsTrue(json_at(busy.json, "0.is_processing")) && cJSON_IsFalse(json_at(busy.json, "1.is_processing")));
    close(fd);
    answer_free(&idle);
    answer_free(&props);
    answer_free(&busy);
    daemon_stop(&d);
    REQUIRE(daemon_start(&d, CHECKPOINT_SMALL, "--no-slots"));
    Answer none = http_get(&d, "/slots");
    answer_check_error(&none, 501, "", "--no-slots");
    answer_free(&none);
    props = http_get(&d, "/props");
    CHECK(cJSON_IsFalse(json_at(props.json, "endpoint_slots")));
    answer_free(&props);
    daemon_stop(&d);
}
