/* POST /v1/completions against the real daemon: what a client gets to see of one request. */
#include "base/clock.h"
#include "base/err.h"
#include "tests/support/checkpoints.h"
#include "tests/support/http_client.h"
#include "tests/support/models.h"
#include "tests/tokenizer/test_tokenizer.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static Answer complete(const Daemon *d, const char *json) { return http_post(d, "/v1/completions", json); }

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
    CHECK(cJSON_GetArraySize(json_at(a.json, "choices.0.prompt_token_ids")) ==
          json_number(a.json, "usage.prompt_tokens"));
    CHECK(!json_at(a.json, "choices.0.deadline"));
    char *type = answer_header(&a, "Content-Type");
    CHECK(type && !strcmp(type, "application/json"));
    free(type);
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
    CHECK(!strcmp(answer_text(&a, 0), answer_text(&b, 0)));
    snprintf(request, sizeof request, form, 5.0, 7.0, 1.0, 1);
    b = complete(&d, request);
    CHECK(strcmp(answer_text(&a, 0), answer_text(&b, 0)) != 0);
    snprintf(request, sizeof request, form, 6.0, 6.0, 1.0, 1);
    b = complete(&d, request);
    CHECK(strcmp(answer_text(&a, 0), answer_text(&b, 0)) != 0);

    /* Without noise its seed is without effect. */
    snprintf(request, sizeof request, form, 5.0, 6.0, 0.0, 1);
    a = complete(&d, request);
    snprintf(request, sizeof request, form, 5.0, 9007199254740991.0, 0.0, 1);
    b = complete(&d, request);
    CHECK(!strcmp(answer_text(&a, 0), answer_text(&b, 0)));

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
        CHECK_MSG(!strcmp(answer_text(&a, c), answer_text(&b, 0)), "choice %d", c);
        CHECK(c == 0 || strcmp(answer_text(&a, c), answer_text(&a, 0)) != 0);
    }

    /* Seeds that were not given are drawn, reported, and good for a second time. */
    a = complete(&d, "{\"prompt\":\"The mill\",\"max_tokens\":40,\"ignore_eos\":true}");
    b = complete(&d, "{\"prompt\":\"The mill\",\"max_tokens\":40,\"ignore_eos\":true}");
    CHECK(json_number(a.json, "choices.0.seed") != json_number(b.json, "choices.0.seed"));
    CHECK(json_number(a.json, "choices.0.noise_seed") != json_number(b.json, "choices.0.noise_seed"));
    snprintf(request, sizeof request, form, json_number(a.json, "choices.0.seed"),
             json_number(a.json, "choices.0.noise_seed"), 1.0, 1);
    b = complete(&d, request);
    CHECK(!strcmp(answer_text(&a, 0), answer_text(&b, 0)));
    daemon_stop(&d);
}

TEST(completion_noise_seed_list) {
    Daemon d;
    REQUIRE(daemon_start(&d, CHECKPOINT_SMALL, NULL));
    Answer a = complete(&d, "{\"prompt\":[\"The mill\",\"The wheel\"],\"max_tokens\":20,\"seed\":3,\"n\":2,"
                            "\"noise_seed\":[11,12,13,14],\"ignore_eos\":true}");
    CHECK_MSG(a.status == 200, "%s", a.body);
    for (int c = 0; c < 4; c++) {
        CHECK(json_number(a.json, test_text("choices.%d.noise_seed", c)) == 11 + c);
    }
    Answer b =
        complete(&d, "{\"prompt\":\"The wheel\",\"max_tokens\":20,\"seed\":3,\"noise_seed\":13,\"ignore_eos\":true}");
    CHECK(!strcmp(answer_text(&a, 2), answer_text(&b, 0)));
    daemon_stop(&d);

    REQUIRE(daemon_start(&d, CHECKPOINT_QUIET, NULL));
    a = complete(&d, "{\"prompt\":\"The mill\",\"max_tokens\":4,\"noise_seed\":1}");
    CHECK(a.status == 200 && cJSON_IsNull(json_at(a.json, "choices.0.noise_seed")));
    daemon_stop(&d);
}

static Answer of_prompt(const Daemon *d, const char *more) {
    Answer a = complete(d, test_text("{\"prompt\":\"The river runs below the mill, and the miller counts the stones.\","
                                     "\"max_tokens\":1,%s}",
                                     more));
    CHECK_MSG(a.status == 200, "%s: %s", more, a.body);
    return a;
}

static double cached_tokens(const Daemon *d, const char *more) {
    Answer a = of_prompt(d, more);
    return json_number(a.json, "usage.prompt_tokens_details.cached_tokens");
}

/* Its rows are those of that seed, whatever the choice's own, so that they are there for the next one. */
TEST(completion_noise_prompt_seed) {
    Daemon d;
    REQUIRE(daemon_start(&d, CHECKPOINT_SMALL, NULL));
    Answer a = of_prompt(&d, "\"seed\":1,\"noise_prompt_seed\":5,\"prompt_logprobs\":0"),
           b = of_prompt(&d, "\"seed\":5,\"prompt_logprobs\":0");
    CHECK_MSG(json_same(a.json, "choices.0.prompt_logprobs", b.json, "choices.0.prompt_logprobs"), "%s\n%s", a.body,
              b.body);
    CHECK(json_number(a.json, "choices.0.noise_seed") == 1);
    CHECK(cached_tokens(&d, "\"seed\":1,\"noise_prompt_seed\":6") == 0);
    CHECK(cached_tokens(&d, "\"seed\":2,\"noise_prompt_seed\":6") > 0 && cached_tokens(&d, "\"seed\":2") == 0);
    daemon_stop(&d);
}

/* A list of prompts equals separate requests, whatever form they come in. */
TEST(completion_prompt_forms) {
    Daemon d;
    REQUIRE(daemon_start(&d, CHECKPOINT_SMALL, NULL));
    static const char rest[] = "\"max_tokens\":12,\"seed\":4,\"noise_seed\":4,\"ignore_eos\":true,\"temperature\":0.8";
    Answer ids = http_post(&d, "/tokenize", "{\"prompt\":\"The stones\"}");
    char *tokens = json_raw(ids.json, "tokens");
    Answer all = complete(&d, test_text("{\"prompt\":[\"The river\",\"The stones\",%s],\"n\":2,%s}", tokens, rest));
    CHECK_MSG(all.status == 200, "%s", all.body);
    static const char *const prompts[] = {"\"The river\"", "\"The stones\""};
    for (int p = 0; p < 3; p++) {
        Answer one = complete(&d, test_text("{\"prompt\":%s,\"n\":2,%s}", p < 2 ? prompts[p] : tokens, rest));
        CHECK(!strcmp(answer_text(&all, 2 * p), answer_text(&one, 0)) &&
              !strcmp(answer_text(&all, 2 * p + 1), answer_text(&one, 1)));
    }
    CHECK(!strcmp(answer_text(&all, 2), answer_text(&all, 4)));
    double each = json_number(all.json, "usage.prompt_tokens");
    Answer one = complete(&d, test_text("{\"prompt\":\"The river\",%s}", rest));
    CHECK(each == json_number(one.json, "usage.prompt_tokens") + 2 * json_number(ids.json, "count"));

    /* Absent, null and empty prompts start a document. */
    Answer absent = complete(&d, test_text("{%s}", rest));
    Answer bos = complete(&d, test_text("{\"prompt\":[0],%s}", rest));
    Answer empty = complete(&d, test_text("{\"prompt\":\"\",%s}", rest));
    CHECK(absent.status == 200 && json_number(absent.json, "usage.prompt_tokens") == 1);
    CHECK(!strcmp(answer_text(&absent, 0), answer_text(&bos, 0)) &&
          !strcmp(answer_text(&absent, 0), answer_text(&empty, 0)));
    free(tokens);
    daemon_stop(&d);
}

/* The streamed form of a request says the same as the plain one, byte for byte and array for array. */
static void check_stream(const Daemon *d, const char *fields, int n) {
    Answer plain = complete(d, test_text("{%s}", fields));
    Answer streamed =
        complete(d, test_text("{%s,\"stream\":true,\"stream_options\":{\"include_usage\":true}}", fields));
    CHECK_MSG(plain.status == 200 && streamed.status == 200, "%s: %s %s", fields, plain.body, streamed.body);
    Events e = events_parse(streamed.body);
    CHECK_MSG(e.done && !e.malformed && e.n > 1, "%s: %s", fields, streamed.body);
    for (int c = 0; c < n; c++) {
        static const char *const arrays[] = {"logprobs.tokens", "logprobs.token_logprobs", "logprobs.top_logprobs",
                                             "logprobs.text_offset", "token_ids"};
        char path[64];
        char *text = events_text(&e, c);
        CHECK_MSG(!strcmp(text, answer_text(&plain, c)), "%s: choice %d: \"%s\" / \"%s\"", fields, c, text,
                  answer_text(&plain, c));
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
    CHECK(json_same(e.data[e.n - 1], "usage.completion_tokens", plain.json, "usage.completion_tokens"));
    CHECK(json_same(e.data[e.n - 1], "usage.prompt_tokens", plain.json, "usage.prompt_tokens"));
    CHECK(cJSON_IsNull(json_at(e.data[0], "usage")));
    events_free(&e);
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
        check_stream(&d, test_text("%s,%s", seeds, cases[i].fields), cases[i].n);
    }
    daemon_stop(&d);
}

/* The plain answer without stop strings, cut by hand, is the answer with them. */
TEST(completion_stop_strings) {
    Daemon d;
    REQUIRE(daemon_start(&d, CHECKPOINT_SMALL, NULL));
    static const char head[] = "{\"prompt\":\"The river\",\"max_tokens\":100,\"seed\":21,\"noise_seed\":2,"
                               "\"ignore_eos\":true";
    Answer whole = complete(&d, test_text("%s}", head));
    const char *text = answer_text(&whole, 0);
    REQUIRE(strlen(text) > 40);
    for (size_t at = 8; at < 40; at += 4) {
        char stop[4] = {text[at], text[at + 1], text[at + 2], 0};
        if (strpbrk(stop, "\"\\\n\r\t") || (stop[0] & 0x80) || (stop[1] & 0x80) || (stop[2] & 0x80)) continue;
        Answer cut = complete(&d, test_text("%s,\"stop\":[\"never seen\",\"%s\"]}", head, stop));
        size_t want = (size_t)(strstr(text, stop) - text);
        CHECK_MSG(strlen(answer_text(&cut, 0)) == want && !strncmp(text, answer_text(&cut, 0), want), "stop \"%s\": %s",
                  stop, cut.body);
        CHECK(!strcmp(json_text(cut.json, "choices.0.finish_reason"), "stop"));
        CHECK(json_number(cut.json, "usage.completion_tokens") < 100);
    }
    daemon_stop(&d);
}

/* The same request, alone and among others that come, run and hang up: the same bytes. */
TEST(completion_same_among_others) {
    static const char request[] = "{\"prompt\":\"The miller\",\"max_tokens\":80,\"ignore_eos\":true,\"n\":2,\"seed\":5,"
                                  "\"noise_seed\":6,\"logprobs\":5,\"echo\":true}";
    enum { OTHERS = 12, ROUNDS = 8 };
    Daemon d;
    REQUIRE(daemon_start(&d, CHECKPOINT_SMALL, "--max-batch 16 --prefill-chunk 7"));
    Answer alone = complete(&d, request);
    CHECK_MSG(alone.status == 200, "%s", alone.body);
    for (int round = 0; round < ROUNDS; round++) {
        int fds[OTHERS];
        for (int i = 0; i < OTHERS; i++) {
            fds[i] = raw_completion(&d, test_text("{\"prompt\":[%d,%d,%d],\"max_tokens\":%d,\"stream\":true,\"n\":%d}",
                                                  i, round, i + 7, 20 + 30 * i, 1 + i % 3));
        }
        Answer among = complete(&d, request);
        CHECK(json_same(alone.json, "choices", among.json, "choices"));
        for (int i = 0; i < OTHERS; i++) close(fds[i]);
    }
    daemon_stop(&d);
}

TEST(completion_small_rules) {
    Daemon d;
    REQUIRE(daemon_start(&d, CHECKPOINT_SMALL, NULL));
    Answer a = complete(&d, "{\"prompt\":\"x\",\"max_tokens\":30,\"logit_bias\":{\"0\":100},\"temperature\":0}");
    CHECK_MSG(!strcmp(answer_text(&a, 0), "") && json_number(a.json, "usage.completion_tokens") == 1, "%s", a.body);
    CHECK(!strcmp(json_text(a.json, "choices.0.finish_reason"), "stop"));
    a = complete(&d, "{\"prompt\":[\"x\",66],\"max_tokens\":1}"); /* one prompt of two parts */
    CHECK_MSG(a.status == 200 && cJSON_GetArraySize(json_at(a.json, "choices")) == 1, "%s", a.body);
    /* EOS takes its slot. */
    a = complete(&d, "{\"prompt\":\"x\",\"max_tokens\":1,\"echo\":true,\"logprobs\":1,\"logit_bias\":{\"0\":100},"
                     "\"temperature\":0}");
    int slots = cJSON_GetArraySize(json_at(a.json, "choices.0.logprobs.tokens"));
    CHECK(slots == json_number(a.json, "usage.prompt_tokens") + 1 && !strcmp(answer_text(&a, 0), "x"));
    CHECK_MSG(json_number(a.json, "choices.0.logprobs.token_logprobs.1") < 0, "%s", a.body); /* without the bias */
    a = complete(&d, "{\"prompt\":\"x\",\"max_tokens\":9,\"min_tokens\":5,\"logit_bias\":{\"0\":100},\"temperature\":0,"
                     "\"return_token_ids\":true}");
    CHECK_MSG(json_number(a.json, "usage.completion_tokens") == 6, "%s", a.body);
    CHECK(json_number(a.json, "choices.0.token_ids.5") == TEST_EOS);
    /* A stop token is no part of the text. */
    a = complete(&d, "{\"prompt\":\"x\",\"max_tokens\":9,\"stop_token_ids\":[66],\"logit_bias\":{\"66\":100},"
                     "\"temperature\":0,\"ignore_eos\":true}");
    CHECK_MSG(!strcmp(answer_text(&a, 0), "") && !strcmp(json_text(a.json, "choices.0.finish_reason"), "stop"), "%s",
              a.body);
    /* Ids that the tokenizer does not know have no text. */
    a = complete(&d,
                 "{\"prompt\":\"x\",\"max_tokens\":3,\"logit_bias\":{\"310\":100},\"temperature\":0,\"logprobs\":0}");
    CHECK_MSG(!strcmp(answer_text(&a, 0), "") && json_text(a.json, "choices.0.logprobs.tokens.0") &&
                  !strcmp(json_text(a.json, "choices.0.logprobs.tokens.0"), "token_id:310"),
              "%s", a.body);
    a = complete(&d, "{\"prompt\":\"The\",\"max_tokens\":10,\"n\":2,\"best_of\":6,\"seed\":1,\"ignore_eos\":true}");
    CHECK_MSG(a.status == 200 && cJSON_GetArraySize(json_at(a.json, "choices")) == 2, "%s", a.body);
    CHECK(json_number(a.json, "usage.completion_tokens") == 60);
    daemon_stop(&d);
}

TEST(completion_deadline) {
    Daemon d;
    double tokens = 0; /* none, where the machine stalls before the first */
    REQUIRE(daemon_start(&d, CHECKPOINT_SLOW, NULL));
    for (int try = 0; try < TRIES && tokens == 0; try++) {
        double before = daemon_cpu_seconds(&d);
        Answer a = complete(&d, "{\"prompt\":\"x\",\"max_tokens\":60000,\"ignore_eos\":true,\"deadline_ms\":300}");
        double spent = daemon_cpu_seconds(&d) - before;
        CHECK_MSG(a.status == 200 && spent < 2, "%.2f s: %.200s", spent, a.body);
        CHECK(cJSON_IsTrue(json_at(a.json, "choices.0.deadline")));
        CHECK(!strcmp(json_text(a.json, "choices.0.finish_reason"), "length"));
        tokens = json_number(a.json, "usage.completion_tokens");
    }
    CHECK(tokens > 0);
    daemon_stop(&d);
}

/* Where every word's token begins with a space, the text's own first one is none: only where the text begins with the
 * answer. */
TEST(completion_begins_without_the_space_of_its_first_word) {
    enum { THE = 271 }; /* llama_json's " the" */
    static const struct {
        const char *prompt, *text;
    } cases[] = {{"\"lo\"", " the the"},
                 {"\"\"", "the the"},
                 {"\"lo\",\"echo\":true", "lo the the"},
                 {"\"\",\"echo\":true", "the the"},
                 {"[271],\"echo\":true", "the the the"}};
    Config c = test_config(attention_kind_find("symmetric"));
    c.vocab_size = TEST_VOCAB;
    c.eos_token_id = 2;
    c.bos_token_id = 1;
    Daemon d;
    const char *dir = test_dir();
    char *json = llama_json();
    REQUIRE(test_checkpoint_write_as(dir, &c, DTYPE_F32, 1));
    test_write_text(dir, "tokenizer.json", json);
    REQUIRE(daemon_start_at(&d, dir, NULL));
    for (size_t i = 0; i < COUNTOF(cases); i++) {
        const char *body = test_text(
            "{\"prompt\":%s,\"max_tokens\":2,\"temperature\":0,\"ignore_eos\":true,\"logit_bias\":{\"%d\":100}}",
            cases[i].prompt, THE);
        Answer a = complete(&d, body);
        CHECK_MSG(a.status == 200 && !strcmp(answer_text(&a, 0), cases[i].text), "%s: %s", body, a.body);
    }
    daemon_stop(&d);
    free(json);
}
