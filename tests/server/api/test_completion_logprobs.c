/* Log-probabilities as clients get them: scoring equals decoding, and the arrays keep their rules. */
#include "base/err.h"
#include "base/json_write.h"
#include "server/api/completions/response.h"
#include "server/engine/job.h"
#include "tests/support/http_client.h"

#include <stdlib.h>
#include <string.h>

static Answer complete(const Daemon *d, const char *json) { return http_post(d, "/v1/completions", json); }

/* lm-evaluation-harness: echo, logprobs, one token; the arrays cover the prompt and exactly one slot more. */
TEST(completion_scores_equal_decoding) {
    Daemon d;
    REQUIRE(daemon_start(&d, CHECKPOINT_SMALL, NULL));
    Answer decoded = complete(&d, "{\"prompt\":\"The miller\",\"max_tokens\":24,\"ignore_eos\":true,\"logprobs\":5,"
                                  "\"seed\":4,\"noise_seed\":5,\"return_token_ids\":true,\"echo\":true}");
    CHECK_MSG(decoded.status == 200, "%s", decoded.body);
    Answer prompt = http_post(&d, "/tokenize", "{\"prompt\":\"The miller\"}");
    char *ids = json_raw(decoded.json, "choices.0.token_ids"), *front = json_raw(prompt.json, "tokens");
    REQUIRE(ids && front);
    front[strlen(front) - 1] = 0; /* joins the two arrays */
    const char *request = test_text(
        "{\"prompt\":[%s,%s],\"max_tokens\":%%d,\"echo\":true,\"logprobs\":5,\"noise_seed\":5,\"temperature\":0}",
        front, ids + 1);
    int n = cJSON_GetArraySize(json_at(prompt.json, "tokens")) + 24;
    for (int more = 0; more < 2; more++) {
        const char *body = test_text(more ? "%s" : "%s", request);
        char *at = strstr(body, "%d");
        *at++ = (char)('0' + more);
        *at = ' ';
        Answer scored = complete(&d, body);
        CHECK_MSG(scored.status == 200, "%s", scored.body);
        CHECK(cJSON_GetArraySize(json_at(scored.json, "choices.0.logprobs.tokens")) == n + more);
        CHECK(cJSON_GetArraySize(json_at(scored.json, "choices.0.logprobs.top_logprobs")) == n + more);
        CHECK(cJSON_IsNull(json_at(scored.json, "choices.0.logprobs.token_logprobs.0")));
        CHECK(cJSON_IsNull(json_at(scored.json, "choices.0.logprobs.top_logprobs.0")));
        CHECK(json_number(scored.json, "choices.0.logprobs.text_offset.0") == 0);
        for (int i = 1; i < n; i++) {
            static const char *const arrays[] = {"token_logprobs", "top_logprobs", "tokens", "text_offset"};
            for (size_t k = 0; k < COUNTOF(arrays); k++) {
                const char *path = test_text("choices.0.logprobs.%s.%d", arrays[k], i);
                CHECK_MSG(json_same(decoded.json, path, scored.json, path), "%s", path);
            }
        }
        CHECK(!strncmp(answer_text(&scored, 0), answer_text(&decoded, 0), strlen(answer_text(&decoded, 0))));
    }
    free(ids);
    free(front);
    daemon_stop(&d);
}

static void check_offsets(const Answer *a, int prompt_chars) {
    const cJSON *offsets = json_at(a->json, "choices.0.logprobs.text_offset");
    const cJSON *offset;
    const char *text = answer_text(a, 0);
    double last = prompt_chars;
    int chars = 0;
    for (const char *p = text; *p; p++) chars += (*p & 0xC0) != 0x80;
    cJSON_ArrayForEach(offset, offsets) {
        CHECK(offset->valuedouble >= last && offset->valuedouble <= chars);
        last = offset->valuedouble;
    }
}

TEST(completion_logprob_arrays) {
    Daemon d;
    REQUIRE(daemon_start(&d, CHECKPOINT_SMALL, NULL));
    for (int k = 0; k <= 20; k += 5) {
        Answer a = complete(
            &d,
            test_text("{\"prompt\":\"caf\xC3\xA9\",\"max_tokens\":40,\"ignore_eos\":true,\"seed\":%d,\"logprobs\":%d}",
                      k, k));
        CHECK_MSG(a.status == 200, "%s", a.body);
        check_offsets(&a, 0);
        for (int i = 0; i < 40; i++) {
            const cJSON *top = json_at(a.json, test_text("choices.0.logprobs.top_logprobs.%d", i));
            int n = cJSON_GetArraySize(top);
            CHECK(n >= MAX(k, 1) && n <= k + 1);
            const cJSON *own =
                cJSON_GetObjectItemCaseSensitive(top, json_text(a.json, test_text("choices.0.logprobs.tokens.%d", i)));
            CHECK(cJSON_IsNumber(own) &&
                  own->valuedouble == json_number(a.json, test_text("choices.0.logprobs.token_logprobs.%d", i)));
            for (const cJSON *t = top->child; k > 0 && t && t->next && t->next->next; t = t->next)
                CHECK(t->valuedouble >= t->next->valuedouble);
        }
    }
    Answer a =
        complete(&d, "{\"prompt\":\"caf\xC3\xA9 \xF0\x9F\x8C\x8A!\",\"max_tokens\":0,\"echo\":true,\"logprobs\":1}");
    CHECK(!strcmp(answer_text(&a, 0), "caf\xC3\xA9 \xF0\x9F\x8C\x8A!"));
    check_offsets(&a, 0);
    /* A byte that is no text by itself is spelled out. */
    a = complete(&d, "{\"prompt\":[100,101],\"max_tokens\":0,\"echo\":true,\"logprobs\":0}");
    const char *token = json_text(a.json, "choices.0.logprobs.tokens.0");
    CHECK_MSG(token && !strncmp(token, "bytes:\\x", 8), "%s", a.body);
    daemon_stop(&d);
}

/* The most probable of all that were computed, best first: by the mean of their tokens' log-probabilities. */
TEST(completion_best_of_are_the_most_probable) {
    enum { ALL = 8, BEST = 4 };
    static const char form[] = "{\"prompt\":\"The miller\",\"max_tokens\":10,\"ignore_eos\":true,\"logprobs\":0,"
                               "\"seed\":4,\"noise_seed\":5,\"n\":%d,\"best_of\":%d}";
    Daemon d;
    double mean[ALL] = {0};
    REQUIRE(daemon_start(&d, CHECKPOINT_SMALL, NULL));
    Answer all = complete(&d, test_text(form, ALL, ALL));
    Answer best = complete(&d, test_text(form, BEST, ALL));
    CHECK_MSG(all.status == 200 && best.status == 200, "%s", best.body);
    for (int i = 0; i < ALL; i++) {
        const cJSON *token;
        cJSON_ArrayForEach(token, json_at(all.json, test_text("choices.%d.logprobs.token_logprobs", i))) mean[i] +=
            token->valuedouble / 10;
    }
    for (int k = 0; k < BEST; k++) {
        int next = 0;
        for (int i = 1; i < ALL; i++)
            if (mean[i] > mean[next]) next = i;
        CHECK_MSG(!strcmp(answer_text(&best, k), answer_text(&all, next)), "choice %d is not choice %d of all: %s", k,
                  next, best.body);
        mean[next] = -1e9;
    }
    daemon_stop(&d);
}

/* What a deadline has left without a score has none. */
TEST(completion_prompt_logprobs_as_far_as_they_go) {
    static const int prompt[] = {5, 6, 7, 8};
    static const char expected[] =
        "{\"prompt_logprobs\":[null,{\"6\":{\"logprob\":-1.0,\"rank\":null,\"decoded_token\":"
        "\"token_id:6\"}},null,null]}";
    Job *job = job_new(prompt, COUNTOF(prompt), 0, 0, true);
    REQUIRE(job);
    for (size_t i = 1; i < COUNTOF(prompt); i++) job->prompt_scores[i] = (JobToken){.id = prompt[i], .logprob = -1};
    const ChoiceRules rules = {.prompt_top = 0, .tokens_as_ids = true};
    const Choice c = {.job = job, .rules = &rules, .n_scored = 2};
    Buffer b = {0};
    json_open(&b, NULL, '{');
    response_prompt_logprobs(&b, &c);
    json_close(&b, '}');
    CHECK_MSG(b.n == strlen(expected) && !memcmp(b.data, expected, b.n), "%.*s", (int)b.n, b.data);
    buffer_free(&b);
    job_release(job);
}
