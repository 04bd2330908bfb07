/* llama-server's dialect: the same tokens as on OpenAI's routes, said in another way. */
#include "base/err.h"
#include "server/api/llama/llama.h"
#include "tests/support/http_client.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define P "{\"prompt\":\"The mill\",\"seed\":1,\"ignore_eos\":true,"

#define TWELVE "1,2,3,4,5,6,7,8,9,10,11,12"

static Answer ask(const Daemon *d, const char *path, const char *body) {
    Answer a = http_post(d, path, body);
    CHECK_MSG(a.status == 200, "%s: %d %s", body, a.status, a.body);
    return a;
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
    CHECK(json_says(theirs.json, "stop_type", "limit") && json_says(theirs.json, "prompt", "The mill"));
    CHECK(cJSON_IsTrue(json_at(theirs.json, "stop")) && cJSON_IsFalse(json_at(theirs.json, "truncated")));
    CHECK(json_number(theirs.json, "generation_settings.n_predict") == 9);
    CHECK(json_number(theirs.json, "generation_settings.seed") == 1);
    CHECK(json_number(theirs.json, "timings.predicted_n") == 9 && json_number(theirs.json, "timings.prompt_ms") > 0);
    CHECK(json_number(theirs.json, "timings.prompt_n") + json_number(theirs.json, "tokens_cached") ==
          json_number(theirs.json, "tokens_evaluated"));
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
    CHECK(json_says(whole.json, "content", text) && n_tokens == 12);
    CHECK(json_same(e.data[e.n - 1], "generation_settings.seed", whole.json, "generation_settings.seed"));
    events_free(&e);
    daemon_stop(&d);
}

/* However fast they come. */
TEST(llama_stream_has_an_event_for_each_token) {
    Daemon d;
    REQUIRE(daemon_start(&d, CHECKPOINT_SMALL, "--context 512"));
    Answer a = ask(&d, "/completion",
                   P "\"n_predict\":400,\"n_probs\":1,\"n\":2,\"stream\":true,\"stop\":[\"never said here\"],"
                     "\"skip_special_tokens\":false,\"allowed_token_ids\":[66,67,68,69]}");
    Events e = events_parse(a.body);
    REQUIRE(!e.malformed && e.n == 802);
    for (int i = 0; i < e.n; i++) {
        bool last = cJSON_IsTrue(json_at(e.data[i], "stop"));
        CHECK(cJSON_GetArraySize(json_at(e.data[i], "tokens")) == !last);
        CHECK(cJSON_GetArraySize(json_at(e.data[i], "completion_probabilities")) == !last);
    }
    events_free(&e);
    daemon_stop(&d);
}

TEST(llama_says_why_it_ends) {
    Daemon d;
    REQUIRE(daemon_start(&d, CHECKPOINT_SMALL, NULL));
    Answer a = ask(&d, "/completion", P "\"n_predict\":5}");
    char *start = json_raw(a.json, "content");
    Answer word = ask(&d, "/completion", test_text(P "\"n_predict\":40,\"stop\":[\"never said here\",%s]}", start));
    CHECK_MSG(json_says(word.json, "stop_type", "word") && json_says(word.json, "content", ""), "%s", word.body);
    CHECK(json_same(word.json, "stopping_word", a.json, "content"));
    CHECK(json_says(word.json, "generation_settings.stop.0", "never said here") &&
          json_same(word.json, "generation_settings.stop.1", a.json, "content"));
    free(start);
    Answer end = ask(&d, "/completion", "{\"prompt\":\"a\",\"n_predict\":3,\"logit_bias\":[[0,100]]}");
    CHECK_MSG(json_says(end.json, "stop_type", "eos") && json_says(end.json, "stopping_word", ""), "%s", end.body);
    Answer full = ask(&d, "/completion", P "\"n_predict\":-1}"), unsaid = ask(&d, "/completion", P "\"n\":1}");
    CHECK_MSG(cJSON_IsTrue(json_at(full.json, "truncated")) && json_says(full.json, "stop_type", "limit"), "%s",
              full.body);
    CHECK(json_same(full.json, "content", unsaid.json, "content"));
    CHECK_MSG(json_number(full.json, "tokens_evaluated") + json_number(full.json, "tokens_predicted") ==
                  json_number(full.json, "generation_settings.n_ctx"),
              "%s", full.body);
    daemon_stop(&d);
}

/* Of what the filters leave, beside the model's own: the same tokens, and probabilities that add up to 1. */
TEST(llama_post_sampling_probs) {
    Daemon d;
    REQUIRE(daemon_start(&d, CHECKPOINT_SMALL, NULL));
    for (int greedy = 0; greedy <= 1; greedy++) {
        const char *how = greedy ? "\"temperature\":0" : "\"temperature\":0.7,\"top_k\":3";
        Answer a = ask(&d, "/completion", test_text(P "\"n_predict\":6,\"n_probs\":5,%s}", how)),
               b = ask(&d, "/completion",
                       test_text(P "\"n_predict\":6,\"n_probs\":5,\"post_sampling_probs\":true,%s}", how));
        CHECK(json_same(a.json, "content", b.json, "content"));
        for (int i = 0; i < 6; i++) {
            char path[96];
            double sum = 0, logs[5], probs[5], own = -1;
            snprintf(path, sizeof path, "completion_probabilities.%d.prob", i);
            double prob = json_number(b.json, path);
            for (int k = 0; k < 5; k++) {
                snprintf(path, sizeof path, "completion_probabilities.%d.top_logprobs.%d.logprob", i, k);
                logs[k] = json_number(a.json, path);
                snprintf(path, sizeof path, "completion_probabilities.%d.top_probs.%d.prob", i, k);
                sum += probs[k] = json_number(b.json, path);
                if (fabs(probs[k] - prob) < 1e-6) own = prob;
                CHECK_MSG(k < (greedy ? 1 : 3) ? probs[k] > 0 : probs[k] == 0, "%d: %g", k, probs[k]);
            }
            CHECK_MSG(fabs(sum - 1) < 1e-5 && own > 0, "%s", b.body);
            CHECK_MSG(greedy || fabs(log(probs[0] / probs[2]) - (logs[0] - logs[2]) / 0.7) < 1e-4, "%s", b.body);
        }
    }
    static const Bad bad[] = {
        {"{\"post_sampling_probs\":true,\"regex\":\"a\"}", 400, "post_sampling_probs"},
        {"{\"post_sampling_probs\":true,\"n\":1,\"best_of\":2}", 400, "post_sampling_probs"},
        {"{\"post_sampling_probs\":1}", 400, "post_sampling_probs"},
    };
    check_bodies(&d, "/completion", bad, COUNTOF(bad));
    daemon_stop(&d);
}

/* What goes beyond the context is cut off, and a prompt that fills it is answered with one token. */
TEST(llama_n_predict_fits_the_context) {
    Daemon d;
    REQUIRE(daemon_start(&d, CHECKPOINT_SMALL, "--context 24"));
    Answer beyond = ask(&d, "/completion", P "\"n_predict\":100000}"),
           all = ask(&d, "/completion", P "\"n_predict\":-1}");
    CHECK(json_same(beyond.json, "content", all.json, "content") && cJSON_IsTrue(json_at(beyond.json, "truncated")));
    CHECK(json_number(beyond.json, "generation_settings.n_predict") == json_number(beyond.json, "tokens_predicted"));
    int left = 24 - (int)json_number(all.json, "tokens_evaluated");
    CHECK(left > 1 && json_number(all.json, "tokens_predicted") == left);
    Answer short_of = ask(&d, "/completion", test_text(P "\"n_predict\":%d}", left - 1));
    CHECK_MSG(cJSON_IsFalse(json_at(short_of.json, "truncated")), "%s", short_of.body);
    Answer full = ask(&d, "/completion", "{\"prompt\":[" TWELVE "," TWELVE "],\"n_predict\":9,\"ignore_eos\":true}");
    CHECK_MSG(json_number(full.json, "tokens_predicted") == 1 && cJSON_IsTrue(json_at(full.json, "truncated")), "%s",
              full.body);
    static const Bad bad[] = {
        {"{\"prompt\":[" TWELVE "," TWELVE ",1],\"n_predict\":9}", 400, "prompt"},
        {"{\"prompt\":[" TWELVE "," TWELVE "],\"choice\":[\"Q\",\"The river\"]}", 400,
         "max_tokens"}, /* no part of one */
    };
    check_bodies(&d, "/completion", bad, COUNTOF(bad));
    daemon_stop(&d);
}

TEST(llama_response_fields) {
    Daemon d;
    REQUIRE(daemon_start(&d, CHECKPOINT_SMALL, NULL));
    Answer all = ask(&d, "/completion", P "\"n_predict\":5,\"n_probs\":1}");
    Answer some = ask(&d, "/completion",
                      P "\"n_predict\":5,\"n_probs\":1,\"response_fields\":[\"generation_settings/n_predict\","
                        "\"no/such\",\"content/no\",\"completion_probabilities\",\"content\",\"stop\"]}");
    CHECK_MSG(cJSON_GetArraySize(some.json) == 4, "%s", some.body);
    const cJSON *first = some.json->child;
    CHECK(!strcmp(first->string, "generation_settings/n_predict") && first->valuedouble == 5);
    CHECK(json_same(some.json, "content", all.json, "content") && cJSON_IsTrue(json_at(some.json, "stop")));
    CHECK(json_same(some.json, "completion_probabilities", all.json, "completion_probabilities"));
    all = ask(&d, "/completion", P "\"n_predict\":5,\"response_fields\":[]}");
    CHECK(json_at(all.json, "timings"));
    some = ask(&d, "/completion", P "\"n_predict\":5,\"stream\":true,\"response_fields\":[\"stop_type\"]}");
    Events e = events_parse(some.body);
    REQUIRE(!e.malformed && e.n > 1);
    CHECK(cJSON_GetArraySize(e.data[e.n - 1]) == 1 && json_says(e.data[e.n - 1], "stop_type", "limit"));
    CHECK(json_text(e.data[0], "content"));
    events_free(&e);
    static const Bad bad[] = {{"{\"response_fields\":\"content\"}", 400, "response_fields"},
                              {"{\"response_fields\":[\"\"]}", 400, "response_fields"},
                              {"{\"response_fields\":[3]}", 400, "response_fields"},
                              {"{\"response_fields\":[\"stop\",\"content\",\"stop\"]}", 400, "response_fields"}};
    check_bodies(&d, "/completion", bad, COUNTOF(bad));
    check_bodies(&d, "/infill", bad, 1);
    daemon_stop(&d);
}

/* What strings spell of JSON is none of it. */
TEST(llama_pick) {
    static const char object[] = "{\"a\":\"}\\\",{\",\"b\":{\"c\":[{},[1,\"]\"]],\"d\":-0.5},\"e\":{},\"f\":null}";
    static const struct {
        const char *names, *picked;
    } cases[] = {{"f\0b/d\0a\0", "{\"f\":null,\"b/d\":-0.5,\"a\":\"}\\\",{\"}"},
                 {"b/c\0e\0", "{\"b/c\":[{},[1,\"]\"]],\"e\":{}}"},
                 {"b/x\0e/x\0a/x\0x\0aa\0b/\0", "{}"}};
    for (size_t i = 0; i < COUNTOF(cases); i++) {
        Buffer b = {0};
        llama_pick(&b, object, cases[i].names);
        buffer_append(&b, "", 1);
        CHECK_MSG(!strcmp(b.data, cases[i].picked), "%s", b.data);
        buffer_free(&b);
    }
}

TEST(llama_several_prompts_are_an_array) {
    Daemon d;
    REQUIRE(daemon_start(&d, CHECKPOINT_SMALL, NULL));
    Answer a = ask(&d, "/completion", "{\"prompt\":[\"a\",[1,2]],\"n_predict\":2}");
    CHECK(cJSON_IsArray(a.json) && cJSON_GetArraySize(a.json) == 2);
    CHECK(json_number(a.json, "1.index") == 1 && json_number(a.json, "1.tokens_evaluated") == 2);
    CHECK(cJSON_GetArraySize(json_at(a.json, "0.tokens")) == 0);
    static const Bad bad[] = {
        {"{\"echo\":true}", 400, "echo"},           {"{\"logprobs\":1}", 400, "logprobs"},
        {"{\"diversity\":true}", 400, "diversity"}, {"{\"stream\":true,\"stream_options\":{}}", 400, "stream_options"},
        {"{\"n_predict\":-3}", 400, "n_predict"},   {"{\"return_tokens\":1}", 400, "return_tokens"},
        {"{\"prompt\":[]}", 400, "prompt"},
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
    int fd = raw_completion(&d, "{\"max_tokens\":60000,\"ignore_eos\":true,\"stream\":true}");
    REQUIRE(raw_expect(fd, "data: "));
    Answer busy = http_get(&d, "/slots");
    CHECK(cJSON_IsTrue(json_at(busy.json, "0.is_processing")) && cJSON_IsFalse(json_at(busy.json, "1.is_processing")));
    close(fd);
    daemon_stop(&d);
    REQUIRE(daemon_start(&d, CHECKPOINT_SMALL, "--no-slots"));
    Answer none = http_get(&d, "/slots");
    answer_check_error(&none, 501, "", "--no-slots");
    props = http_get(&d, "/props");
    CHECK(cJSON_IsFalse(json_at(props.json, "endpoint_slots")));
    daemon_stop(&d);
}
