/* POST /v1/completions against the real daemon: what a client gets to see of one request. */
#include "http_client.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static Answer complete(const Daemon *d, const char *json) { return http_post(d, "/v1/completions", json); }

/* The choice's text, "" when there is none. */
static const char *text_of(const Answer *a, int index) {
    char path[64];
    snprintf(path, sizeof path, "choices.%d.text", index);
    const char *text = json_text(a->json, path);
    return text ? text : "";
}

static bool same_json(const cJSON *a, const char *path_a, const cJSON *b, const char *path_b) {
    char *x = json_raw(a, path_a), *y = json_raw(b, path_b);
    bool same = x && y && !strcmp(x, y);
    if (!same) printf("  %s: %.300s\n  %s: %.300s\n", path_a, x ? x : "-", path_b, y ? y : "-");
    free(x);
    free(y);
    return same;
}

TEST(completion_object) {
    Daemon d;
    REQUIRE(daemon_start(&d, CHECKPOINT_SMALL, NULL));
    Answer a = complete(&d, "{\"model\":\"tiny\",\"prompt\":\"The river\",\"max_tokens\":8,\"seed\":1,\"noise_seed\":2,"
                            "\"ignore_eos\":true,\"return_token_ids\":true,\"user\":\"me\"}");
    CHECK_MSG(a.status == 200, "%d: %s", a.status, a.body);
    CHECK(!strcmp(json_text(a.json, "object"), "text_completion"));
    CHECK(!strncmp(json_text(a.json, "id"), "cmpl-", 5));
    CHECK(!strcmp(json_text(a.json, "model"), "tiny"));
    CHECK(json_number(a.json, "created") > 1.7e9);
    const char *fingerprint = json_text(a.json, "system_fingerprint");
    CHECK(fingerprint && strlen(fingerprint) > 14 && fingerprint[12] == '-' && strstr(fingerprint, NOISED_VERSION));
    CHECK(json_number(a.json, "usage.completion_tokens") == 8);
    CHECK(json_number(a.json, "usage.total_tokens") == json_number(a.json, "usage.prompt_tokens") + 8);
    CHECK(json_number(a.json, "choices.0.seed") == 1 && json_number(a.json, "choices.0.noise_seed") == 2);
    CHECK(json_number(a.json, "choices.0.index") == 0);
    CHECK(cJSON_IsNull(json_at(a.json, "choices.0.logprobs")));
    CHECK(!strcmp(json_text(a.json, "choices.0.finish_reason"), "length"));
    CHECK(cJSON_GetArraySize(json_at(a.json, "choices.0.token_ids")) == 8);
    char *type = answer_header(&a, "Content-Type");
    CHECK(type && !strcmp(type, "application/json"));
    free(type);
    answer_free(&a);
    daemon_stop(&d);
}

TEST(completion_seeds) {
    Daemon d;
    char request[512];
    REQUIRE(daemon_start(&d, CHECKPOINT_SMALL, NULL));
    static const char form[] = "{\"prompt\":\"The mill\",\"max_tokens\":40,\"ignore_eos\":true,\"seed\":%.0f,"
                               "\"noise_seed\":%.0f,\"noise_scale\":%g,\"n\":%d}";
    snprintf(request, sizeof request, form, 5.0, 6.0, 1.0, 1);
    Answer a = complete(&d, request), b = complete(&d, request);
    CHECK_MSG(a.status == 200, "%s", a.body);
    CHECK(!strcmp(text_of(&a, 0), text_of(&b, 0)));
    answer_free(&b);
    snprintf(request, sizeof request, form, 5.0, 7.0, 1.0, 1);
    b = complete(&d, request);
    CHECK(strcmp(text_of(&a, 0), text_of(&b, 0)) != 0);
    answer_free(&b);
    snprintf(request, sizeof request, form, 6.0, 6.0, 1.0, 1);
    b = complete(&d, request);
    CHECK(strcmp(text_of(&a, 0), text_of(&b, 0)) != 0);
    answer_free(&a);
    answer_free(&b);

    /* Without noise its seed is without effect. */
    snprintf(request, sizeof request, form, 5.0, 6.0, 0.0, 1);
    a = complete(&d, request);
    snprintf(request, sizeof request, form, 5.0, 9007199254740991.0, 0.0, 1);
    b = complete(&d, request);
    CHECK(!strcmp(text_of(&a, 0), text_of(&b, 0)));
    answer_free(&a);
    answer_free(&b);

    /* Every choice can be had again alone, by the seeds reported for it; it does not depend on n. */
    snprintf(request, sizeof request, form, 5.0, 6.0, 1.0, 4);
    a = complete(&d, request);
    CHECK(cJSON_GetArraySize(json_at(a.json, "choices")) == 4);
    for (int c = 0; c < 4; c++) {
        char path[64];
        snprintf(path, sizeof path, "choices.%d.seed", c);
        double seed = json_number(a.json, path);
        snprintf(path, sizeof path, "choices.%d.noise_seed", c);
        snprintf(request, sizeof request, form, seed, json_number(a.json, path), 1.0, 1);
        b = complete(&d, request);
        CHECK_MSG(!strcmp(text_of(&a, c), text_of(&b, 0)), "choice %d", c);
        CHECK(c == 0 || strcmp(text_of(&a, c), text_of(&a, 0)) != 0);
        answer_free(&b);
    }
    answer_free(&a);

    /* Seeds that were not given are drawn, reported, and good for a second time. */
    a = complete(&d, "{\"prompt\":\"The mill\",\"max_tokens\":40,\"ignore_eos\":true}");
    b = complete(&d, "{\"prompt\":\"The mill\",\"max_tokens\":40,\"ignore_eos\":true}");
    CHECK(json_number(a.json, "choices.0.seed") != json_number(b.json, "choices.0.seed"));
    CHECK(json_number(a.json, "choices.0.noise_seed") != json_number(b.json, "choices.0.noise_seed"));
    answer_free(&b);
    snprintf(request, sizeof request, form, json_number(a.json, "choices.0.seed"),
             json_number(a.json, "choices.0.noise_seed"), 1.0, 1);
    b = complete(&d, request);
    CHECK(!strcmp(text_of(&a, 0), text_of(&b, 0)));
    answer_free(&a);
    answer_free(&b);
    daemon_stop(&d);
}

TEST(completion_noise_seed_list) {
    Daemon d;
    REQUIRE(daemon_start(&d, CHECKPOINT_SMALL, NULL));
    Answer a = complete(&d, "{\"prompt\":[\"The mill\",\"The wheel\"],\"max_tokens\":20,\"seed\":3,\"n\":2,"
                            "\"noise_seed\":[11,12,13,14],\"ignore_eos\":true}");
    CHECK_MSG(a.status == 200, "%s", a.body);
    for (int c = 0; c < 4; c++) {
        char path[64];
        snprintf(path, sizeof path, "choices.%d.noise_seed", c);
        CHECK(json_number(a.json, path) == 11 + c);
    }
    Answer b =
        complete(&d, "{\"prompt\":\"The wheel\",\"max_tokens\":20,\"seed\":3,\"noise_seed\":13,\"ignore_eos\":true}");
    CHECK(!strcmp(text_of(&a, 2), text_of(&b, 0)));
    answer_free(&a);
    answer_free(&b);
    daemon_stop(&d);

    REQUIRE(daemon_start(&d, CHECKPOINT_QUIET, NULL));
    a = complete(&d, "{\"prompt\":\"The mill\",\"max_tokens\":4,\"noise_seed\":1}");
    CHECK(a.status == 200 && cJSON_IsNull(json_at(a.json, "choices.0.noise_seed")));
    answer_free(&a);
    daemon_stop(&d);
}

/* A list of prompts equals separate requests, whatever form they come in. */
TEST(completion_prompt_forms) {
    Daemon d;
    REQUIRE(daemon_start(&d, CHECKPOINT_SMALL, NULL));
    static const char rest[] = "\"max_tokens\":12,\"seed\":4,\"noise_seed\":4,\"ignore_eos\":true,\"temperature\":0.8";
    char request[1024];
    Answer ids = http_post(&d, "/tokenize", "{\"prompt\":\"The stones\"}");
    char *tokens = json_raw(ids.json, "tokens");
    snprintf(request, sizeof request, "{\"prompt\":[\"The river\",\"The stones\",%s],\"n\":2,%s}", tokens, rest);
    Answer all = complete(&d, request);
    CHECK_MSG(all.status == 200, "%s", all.body);
    static const char *const prompts[] = {"\"The river\"", "\"The stones\""};
    for (int p = 0; p < 3; p++) {
        snprintf(request, sizeof request, "{\"prompt\":%s,\"n\":2,%s}", p < 2 ? prompts[p] : tokens, rest);
        Answer one = complete(&d, request);
        CHECK(!strcmp(text_of(&all, 2 * p), text_of(&one, 0)) && !strcmp(text_of(&all, 2 * p + 1), text_of(&one, 1)));
        answer_free(&one);
    }
    CHECK(!strcmp(text_of(&all, 2), text_of(&all, 4)));
    double each = json_number(all.json, "usage.prompt_tokens");
    answer_free(&all);
    snprintf(request, sizeof request, "{\"prompt\":\"The river\",%s}", rest);
    Answer one = complete(&d, request);
    CHECK(each == json_number(one.json, "usage.prompt_tokens") + 2 * json_number(ids.json, "count"));
    answer_free(&one);

    /* Absent, null and empty prompts start a document. */
    snprintf(request, sizeof request, "{%s}", rest);
    Answer absent = complete(&d, request);
    snprintf(request, sizeof request, "{\"prompt\":[0],%s}", rest);
    Answer bos = complete(&d, request);
    snprintf(request, sizeof request, "{\"prompt\":\"\",%s}", rest);
    Answer empty = complete(&d, request);
    CHECK(absent.status == 200 && json_number(absent.json, "usage.prompt_tokens") == 1);
    CHECK(!strcmp(text_of(&absent, 0), text_of(&bos, 0)) && !strcmp(text_of(&absent, 0), text_of(&empty, 0)));
    answer_free(&absent);
    answer_free(&bos);
    answer_free(&empty);
    answer_free(&ids);
    free(tokens);
    daemon_stop(&d);
}

/* The streamed form of a request says the same as the plain one, byte for byte and array for array. */
static void check_stream(const Daemon *d, const char *fields, int n) {
    char request[2048];
    snprintf(request, sizeof request, "{%s}", fields);
    Answer plain = complete(d, request);
    snprintf(request, sizeof request, "{%s,\"stream\":true,\"stream_options\":{\"include_usage\":true}}", fields);
    Answer streamed = complete(d, request);
    CHECK_MSG(plain.status == 200 && streamed.status == 200, "%s: %s %s", fields, plain.body, streamed.body);
    Events e = events_parse(streamed.body);
    CHECK_MSG(e.done && !e.malformed && e.n > 1, "%s: %s", fields, streamed.body);
    for (int c = 0; c < n; c++) {
        static const char *const arrays[] = {"logprobs.tokens", "logprobs.token_logprobs", "logprobs.top_logprobs",
                                             "logprobs.text_offset", "token_ids"};
        char path[64];
        char *text = events_text(&e, c);
        CHECK_MSG(!strcmp(text, text_of(&plain, c)), "%s: choice %d: \"%s\" / \"%s\"", fields, c, text,
                  text_of(&plain, c));
        free(text);
        snprintf(path, sizeof path, "choices.%d.finish_reason", c);
        const char *finish = events_finish(&e, c);
        CHECK_MSG(finish && !strcmp(finish, json_text(plain.json, path)), "%s: choice %d", fields, c);
        for (size_t k = 0; k < COUNTOF(arrays); k++) {
            snprintf(path, sizeof path, "choices.%d.%s", c, arrays[k]);
            const cJSON *whole = json_at(plain.json, path);
            if (!whole) continue;
            cJSON *joined = cJSON_CreateArray();
            snprintf(path, sizeof path, "choices.0.%s", arrays[k]);
            for (int i = 0; i < e.n; i++) {
                const cJSON *item;
                if (json_number(e.data[i], "choices.0.index") != c) continue;
                cJSON_ArrayForEach(item, json_at(e.data[i], path))
                    cJSON_AddItemToArray(joined, cJSON_Duplicate(item, true));
            }
            CHECK_MSG(cJSON_Compare(whole, joined, true), "%s: choice %d: %s", fields, c, arrays[k]);
            cJSON_Delete(joined);
        }
    }
    CHECK(cJSON_GetArraySize(json_at(e.data[e.n - 1], "choices")) == 0);
    CHECK(same_json(e.data[e.n - 1], "usage.completion_tokens", plain.json, "usage.completion_tokens"));
    CHECK(same_json(e.data[e.n - 1], "usage.prompt_tokens", plain.json, "usage.prompt_tokens"));
    CHECK(cJSON_IsNull(json_at(e.data[0], "usage")));
    events_free(&e);
    answer_free(&plain);
    answer_free(&streamed);
}

TEST(completion_stream_equals_plain) {
    Daemon d;
    REQUIRE(daemon_start(&d, CHECKPOINT_SMALL, NULL));
    static const char seeds[] = "\"prompt\":\"The river\",\"seed\":8,\"noise_seed\":9";
    static const struct {
        const char *fields;
        int n;
    } cases[] = {
        {"\"max_tokens\":60,\"ignore_eos\":true", 1},
        {"\"max_tokens\":60,\"ignore_eos\":true,\"n\":5", 5},
        {"\"max_tokens\":60,\"n\":8,\"temperature\":1.5", 8}, /* some meet EOS */
        {"\"max_tokens\":60,\"ignore_eos\":true,\"echo\":true,\"n\":2", 2},
        {"\"max_tokens\":60,\"ignore_eos\":true,\"logprobs\":3,\"return_token_ids\":true", 1},
        {"\"max_tokens\":20,\"ignore_eos\":true,\"logprobs\":0,\"echo\":true,\"return_token_ids\":true,\"n\":2", 2},
        {"\"max_tokens\":100,\"ignore_eos\":true,\"n\":4,\"logprobs\":1,\"stop\":[\"e\",\"th\",\"\xC3\xA9\"]", 4},
        {"\"max_tokens\":100,\"n\":4,\"stop\":[\"aa\",\"ee\",\"oo\",\"ab\",\"xyz\",\" t\"],\"return_token_ids\":true",
         4},
        {"\"max_tokens\":50,\"min_tokens\":30,\"n\":4,\"stop\":\" \",\"logprobs\":2", 4},
        {"\"max_tokens\":0,\"echo\":true,\"logprobs\":2", 1},
        {"\"max_tokens\":0", 1},
        {"\"max_tokens\":1,\"stop_token_ids\":[1,2,3]", 1},
    };
    for (size_t i = 0; i < COUNTOF(cases); i++) {
        char fields[1024];
        snprintf(fields, sizeof fields, "%s,%s", seeds, cases[i].fields);
        check_stream(&d, fields, cases[i].n);
    }
    daemon_stop(&d);
}

/* The plain answer without stop strings, cut by hand, is the answer with them. */
TEST(completion_stop_strings) {
    Daemon d;
    REQUIRE(daemon_start(&d, CHECKPOINT_SMALL, NULL));
    static const char head[] = "{\"prompt\":\"The river\",\"max_tokens\":100,\"seed\":21,\"noise_seed\":2,"
                               "\"ignore_eos\":true";
    char request[1024];
    snprintf(request, sizeof request, "%s}", head);
    Answer whole = complete(&d, request);
    const char *text = text_of(&whole, 0);
    REQUIRE(strlen(text) > 40);
    for (size_t at = 8; at < 40; at += 4) {
        char stop[4] = {text[at], text[at + 1], text[at + 2], 0};
        if (strpbrk(stop, "\"\\\n\r\t") || (stop[0] & 0x80) || (stop[1] & 0x80) || (stop[2] & 0x80)) continue;
        snprintf(request, sizeof request, "%s,\"stop\":[\"never seen\",\"%s\"]}", head, stop);
        Answer cut = complete(&d, request);
        size_t want = (size_t)(strstr(text, stop) - text);
        CHECK_MSG(strlen(text_of(&cut, 0)) == want && !strncmp(text, text_of(&cut, 0), want), "stop \"%s\": %s", stop,
                  cut.body);
        CHECK(!strcmp(json_text(cut.json, "choices.0.finish_reason"), "stop"));
        CHECK(json_number(cut.json, "usage.completion_tokens") < 100);
        answer_free(&cut);
    }
    answer_free(&whole);
    daemon_stop(&d);
}

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
    char request[2048];
    snprintf(request, sizeof request,
             "{\"prompt\":[%s,%s],\"max_tokens\":%%d,\"echo\":true,\"logprobs\":5,\"noise_seed\":5,\"temperature\":0}",
             front, ids + 1);
    int n = cJSON_GetArraySize(json_at(prompt.json, "tokens")) + 24;
    for (int more = 0; more < 2; more++) {
        char body[2048];
        snprintf(body, sizeof body, more ? "%s" : "%s", request);
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
                char path[96];
                snprintf(path, sizeof path, "choices.0.logprobs.%s.%d", arrays[k], i);
                CHECK_MSG(same_json(decoded.json, path, scored.json, path), "%s", path);
            }
        }
        CHECK(!strncmp(text_of(&scored, 0), text_of(&decoded, 0), strlen(text_of(&decoded, 0))));
        answer_free(&scored);
    }
    free(ids);
    free(front);
    answer_free(&prompt);
    answer_free(&decoded);
    daemon_stop(&d);
}

static void check_offsets(const Answer *a, int prompt_chars) {
    const cJSON *offsets = json_at(a->json, "choices.0.logprobs.text_offset");
    const cJSON *offset;
    const char *text = text_of(a, 0);
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
        char request[512];
        snprintf(request, sizeof request,
                 "{\"prompt\":\"caf\xC3\xA9\",\"max_tokens\":40,\"ignore_eos\":true,\"seed\":%d,\"logprobs\":%d}", k,
                 k);
        Answer a = complete(&d, request);
        CHECK_MSG(a.status == 200, "%s", a.body);
        check_offsets(&a, 0);
        for (int i = 0; i < 40; i++) {
            char path[96];
            snprintf(path, sizeof path, "choices.0.logprobs.top_logprobs.%d", i);
            const cJSON *top = json_at(a.json, path);
            int n = cJSON_GetArraySize(top);
            CHECK(n >= MAX(k, 1) && n <= k + 1);
            snprintf(path, sizeof path, "choices.0.logprobs.tokens.%d", i);
            const cJSON *own = cJSON_GetObjectItemCaseSensitive(top, json_text(a.json, path));
            snprintf(path, sizeof path, "choices.0.logprobs.token_logprobs.%d", i);
            CHECK(cJSON_IsNumber(own) && own->valuedouble == json_number(a.json, path));
            for (const cJSON *t = top->child; k > 0 && t && t->next && t->next->next; t = t->next)
                CHECK(t->valuedouble >= t->next->valuedouble);
        }
        answer_free(&a);
    }
    Answer a =
        complete(&d, "{\"prompt\":\"caf\xC3\xA9 \xF0\x9F\x8C\x8A!\",\"max_tokens\":0,\"echo\":true,\"logprobs\":1}");
    CHECK(!strcmp(text_of(&a, 0), "caf\xC3\xA9 \xF0\x9F\x8C\x8A!"));
    check_offsets(&a, 0);
    answer_free(&a);
    /* A byte that is no text by itself is spelled out. */
    a = complete(&d, "{\"prompt\":[100,101],\"max_tokens\":0,\"echo\":true,\"logprobs\":0}");
    const char *token = json_text(a.json, "choices.0.logprobs.tokens.0");
    CHECK_MSG(token && !strncmp(token, "bytes:\\x", 8), "%s", a.body);
    answer_free(&a);
    daemon_stop(&d);
}

TEST(completion_small_rules) {
    Daemon d;
    REQUIRE(daemon_start(&d, CHECKPOINT_SMALL, NULL));
    Answer a = complete(&d, "{\"prompt\":\"x\",\"max_tokens\":30,\"logit_bias\":{\"0\":100},\"temperature\":0}");
    CHECK_MSG(!strcmp(text_of(&a, 0), "") && json_number(a.json, "usage.completion_tokens") == 1, "%s", a.body);
    CHECK(!strcmp(json_text(a.json, "choices.0.finish_reason"), "stop"));
    answer_free(&a);
    /* EOS takes its slot. */
    a = complete(&d, "{\"prompt\":\"x\",\"max_tokens\":1,\"echo\":true,\"logprobs\":1,\"logit_bias\":{\"0\":100},"
                     "\"temperature\":0}");
    int slots = cJSON_GetArraySize(json_at(a.json, "choices.0.logprobs.tokens"));
    CHECK(slots == json_number(a.json, "usage.prompt_tokens") + 1 && !strcmp(text_of(&a, 0), "x"));
    answer_free(&a);
    a = complete(&d, "{\"prompt\":\"x\",\"max_tokens\":9,\"min_tokens\":5,\"logit_bias\":{\"0\":100},\"temperature\":0,"
                     "\"return_token_ids\":true}");
    CHECK_MSG(json_number(a.json, "usage.completion_tokens") == 6, "%s", a.body);
    CHECK(json_number(a.json, "choices.0.token_ids.5") == TEST_EOS);
    answer_free(&a);
    /* A stop token is no part of the text. */
    a = complete(&d, "{\"prompt\":\"x\",\"max_tokens\":9,\"stop_token_ids\":[66],\"logit_bias\":{\"66\":100},"
                     "\"temperature\":0,\"ignore_eos\":true}");
    CHECK_MSG(!strcmp(text_of(&a, 0), "") && !strcmp(json_text(a.json, "choices.0.finish_reason"), "stop"), "%s",
              a.body);
    answer_free(&a);
    /* Ids that the tokenizer does not know have no text. */
    a = complete(&d,
                 "{\"prompt\":\"x\",\"max_tokens\":3,\"logit_bias\":{\"310\":100},\"temperature\":0,\"logprobs\":0}");
    CHECK_MSG(!strcmp(text_of(&a, 0), "") && json_text(a.json, "choices.0.logprobs.tokens.0") &&
                  !strcmp(json_text(a.json, "choices.0.logprobs.tokens.0"), "token_id:310"),
              "%s", a.body);
    answer_free(&a);
    a = complete(&d, "{\"prompt\":\"The\",\"max_tokens\":10,\"n\":2,\"best_of\":6,\"seed\":1,\"ignore_eos\":true}");
    CHECK_MSG(a.status == 200 && cJSON_GetArraySize(json_at(a.json, "choices")) == 2, "%s", a.body);
    CHECK(json_number(a.json, "usage.completion_tokens") == 60);
    answer_free(&a);
    daemon_stop(&d);
}

TEST(completion_deadline) {
    Daemon d;
    REQUIRE(daemon_start(&d, CHECKPOINT_SLOW, NULL));
    double t0 = now_seconds();
    Answer a = complete(&d, "{\"prompt\":\"x\",\"max_tokens\":900,\"ignore_eos\":true,\"deadline_ms\":300}");
    CHECK_MSG(a.status == 200 && now_seconds() - t0 < 2, "%.2f s: %.200s", now_seconds() - t0, a.body);
    CHECK(cJSON_IsTrue(json_at(a.json, "choices.0.deadline")));
    CHECK(!strcmp(json_text(a.json, "choices.0.finish_reason"), "length"));
    CHECK(json_number(a.json, "usage.completion_tokens") > 0);
    answer_free(&a);
    daemon_stop(&d);
}
