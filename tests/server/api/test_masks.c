/* What may be drawn, and what is filled in. */
#include "base/err.h"
#include "tests/support/checkpoints.h"
#include "tests/support/http_client.h"

#include <stdlib.h>
#include <string.h>

#define P "{\"prompt\":\"The mill\",\"seed\":1,\"ignore_eos\":true,\"return_token_ids\":true,"

static Answer ask(const Daemon *d, const char *body) {
    Answer a = http_post(d, "/v1/completions", body);
    CHECK_MSG(a.status == 200, "%s: %d %s", body, a.status, a.body);
    return a;
}

static const cJSON *ids(const Answer *a) { return json_at(a->json, "choices.0.token_ids"); }

TEST(allowed_token_ids_are_drawn_alone) {
    Daemon d;
    REQUIRE(daemon_start(&d, CHECKPOINT_SMALL, NULL));
    static const char *const how[] = {"", ",\"temperature\":0", ",\"temperature\":2,\"min_tokens\":40"};
    int seen = 0;
    for (size_t i = 0; i < COUNTOF(how); i++) {
        const cJSON *id;
        Answer a =
            ask(&d, test_text(P "\"max_tokens\":40,\"logprobs\":0,\"allowed_token_ids\":[70,81,92,70]%s}", how[i]));
        CHECK(cJSON_GetArraySize(ids(&a)) == 40);
        cJSON_ArrayForEach(id, ids(&a)) {
            CHECK_MSG(id->valueint == 70 || id->valueint == 81 || id->valueint == 92, "%d", id->valueint);
            seen |= id->valueint == 70 ? 1 : id->valueint == 81 ? 2 : 4;
        }
    }
    CHECK(seen == 7);
    /* Log-probabilities stay the model's own. */
    Answer alone = ask(&d, P "\"max_tokens\":1,\"logprobs\":0,\"allowed_token_ids\":[70]}");
    Answer scored = http_post(&d, "/v1/score", "{\"prompt\":\"The mill\",\"continuations\":[[70]],\"noise_seed\":1}");
    CHECK(json_same(alone.json, "choices.0.logprobs.token_logprobs.0", scored.json, "choices.0.logprob"));
    daemon_stop(&d);
}

/* Of what would have been written: no token that is a bad word, and of several tokens not the last. */
TEST(bad_words_are_not_written) {
    Daemon d;
    REQUIRE(daemon_start(&d, CHECKPOINT_SMALL, NULL));
    Answer a = ask(&d, P "\"max_tokens\":12,\"allowed_token_ids\":[65,66,67]}");
    Answer b = ask(&d, P "\"max_tokens\":60,\"allowed_token_ids\":[65,66,67],\"bad_words\":[\"ab\",\"aca\"]}");
    Answer c = ask(&d, P "\"max_tokens\":60,\"allowed_token_ids\":[65,66,67],\"bad_words\":[\"b\"]}");
    const char *free_text = answer_text(&a, 0), *text = answer_text(&b, 0);
    CHECK_MSG(strspn(free_text, "abc") == 12, "%s", free_text);
    CHECK_MSG(strspn(text, "abc") == 60 && !strstr(text, "ab") && !strstr(text, "aca"), "%s", text);
    CHECK_MSG(strstr(text, "ac") && strstr(text, "b"), "%s", text);
    CHECK_MSG(!strchr(answer_text(&c, 0), 'b'), "%s", answer_text(&c, 0));
    daemon_stop(&d);
}

/* What ends a text is not drawn before min_tokens, whatever else is not drawn. */
TEST(bad_words_beside_min_tokens) {
#define ENDS P "\"max_tokens\":40,\"min_tokens\":12,\"allowed_token_ids\":[65,66,67],\"stop_token_ids\":[66]"
    Daemon d;
    REQUIRE(daemon_start(&d, CHECKPOINT_SMALL, NULL));
    Answer a = ask(&d, ENDS "}"), b = ask(&d, ENDS ",\"bad_words\":[\"zz\"]}");
    Answer c = ask(&d, ENDS ",\"bad_words\":[\"c\"]}");
    CHECK_MSG(cJSON_Compare(ids(&a), ids(&b), true), "%s\n%s", a.body, b.body);
    CHECK_MSG(cJSON_GetArraySize(ids(&a)) >= 12 && !strncmp(answer_text(&c, 0), "aaaaaaaaaaaa", 12), "%s\n%s", a.body,
              c.body);
    daemon_stop(&d);
#undef ENDS
}

TEST(masks_bounds) {
    static const Bad bad[] = {
        {"{\"allowed_token_ids\":[]}", 400, "allowed_token_ids"},
        {"{\"allowed_token_ids\":[320]}", 400, "allowed_token_ids"},
        {"{\"allowed_token_ids\":[0,7],\"stop_token_ids\":[7],\"min_tokens\":1}", 400, "allowed_token_ids"},
        {"{\"allowed_token_ids\":[1],\"choice\":[\"a\"]}", 400, "allowed_token_ids"},
        {"{\"bad_words\":[\"a\"],\"regex\":\"a+\"}", 400, "bad_words"},
        {"{\"bad_words\":\"a\"}", 400, "bad_words"},
        {"{\"bad_words\":[\"\"]}", 400, "bad_words"},
        {"{\"bad_words\":[1]}", 400, "bad_words"},
        {"{\"bad_words\":[\"a\"],\"choice\":[\"a\"]}", 400, "bad_words"},
        /* what leaves nothing at some token */
        {"{\"allowed_token_ids\":[65],\"bad_words\":[\"a\"]}", 400, ""},
        {"{\"allowed_token_ids\":[65,66],\"bad_words\":[\"aa\",\"ab\",\"b\"]}", 400, ""},
        {"{\"return_tokens_as_token_ids\":1}", 400, "return_tokens_as_token_ids"},
        {"{\"suffix\":\"x\"}", 400, "suffix"},
    };
    Daemon d;
    REQUIRE(daemon_start(&d, CHECKPOINT_SMALL, NULL));
    check_bodies(&d, "/v1/completions", bad, COUNTOF(bad));
    Answer a = http_post(&d, "/infill", "{\"input_prefix\":\"a\",\"input_suffix\":\"b\"}");
    answer_check_error(&a, 400, "input_suffix", "no tokens to fill in with");
    daemon_stop(&d);
}

TEST(logprobs_name_token_ids) {
    Daemon d;
    REQUIRE(daemon_start(&d, CHECKPOINT_SMALL, "--chat-template plain"));
    Answer a = ask(&d, P "\"max_tokens\":3,\"logprobs\":1,\"return_tokens_as_token_ids\":true}");
    Answer c = http_post(&d, "/v1/chat/completions",
                         "{\"messages\":[{\"role\":\"user\",\"content\":\"a\"}],\"max_tokens\":2,\"logprobs\":true,"
                         "\"ignore_eos\":true,\"return_token_ids\":true,\"return_tokens_as_token_ids\":true}");
    CHECK_MSG(!strcmp(json_text(a.json, "choices.0.logprobs.tokens.2"),
                      test_text("token_id:%d", (int)json_number(a.json, "choices.0.token_ids.2"))),
              "%s", a.body);
    CHECK_MSG(!strncmp(json_at(a.json, "choices.0.logprobs.top_logprobs.0")->child->string, "token_id:", 9), "%s",
              a.body);
    CHECK_MSG(!strcmp(json_text(c.json, "choices.0.logprobs.content.1.token"),
                      test_text("token_id:%d", (int)json_number(c.json, "choices.0.token_ids.1"))),
              "%s", c.body);
    daemon_stop(&d);
}

/* The first of them may be the first of all tokens. */
TEST(suffix_with_the_token_0) {
    static const char old[] = "<|endoftext|>", prefix[] = "<fim_prefix>";
    const char *dir = test_dir();
    Daemon d;
    Buffer b = {0};
    REQUIRE(test_checkpoint_write(dir, CHECKPOINT_SMALL, 1));
    char *text = test_read_file(test_text("%s/tokenizer.json", dir), NULL), *rest = text;
    for (char *at; (at = strstr(rest, old)) != NULL; rest = at + strlen(old))
        buffer_print(&b, "%.*s%s", (int)(at - rest), rest, prefix);
    buffer_print(&b, "%s%c", rest, 0);
    test_write_text(dir, "tokenizer.json", b.data);
    test_add_token(dir, 300, "<fim_suffix>");
    test_add_token(dir, 301, "<fim_middle>");
    REQUIRE(daemon_start_at(&d, dir, NULL));
    Answer a = http_post(&d, "/v1/completions",
                         "{\"prompt\":\"ab\",\"suffix\":\"c\",\"max_tokens\":1,\"return_token_ids\":true}");
    char *ids = json_raw(a.json, "choices.0.prompt_token_ids");
    CHECK_MSG(ids && !strcmp(ids, "[0,65,66,300,67,301]"), "%s", a.body);
    free(ids);
    daemon_stop(&d);
    /* What the tokenizer puts behind a text is not in front of the hole. */
    test_tokens_around(dir, NULL, "<fim_middle>");
    REQUIRE(daemon_start_at(&d, dir, NULL));
    Answer same = http_post(&d, "/v1/completions",
                            "{\"prompt\":\"ab\",\"suffix\":\"c\",\"max_tokens\":1,\"return_token_ids\":true}");
    CHECK_MSG(json_same(same.json, "choices.0.prompt_token_ids", a.json, "choices.0.prompt_token_ids"), "%s",
              same.body);
    daemon_stop(&d);
    buffer_free(&b);
    free(text);
}

TEST(suffix_where_the_tokenizer_has_the_tokens) {
    static const struct {
        const char *path, *body;
        int ids[16];
        int n;
    } cases[] = {
        {"/v1/completions",
         "{\"prompt\":\"ab\",\"suffix\":\"c\",\"max_tokens\":1,\"return_token_ids\":true}",
         {300, 65, 66, 301, 67, 302},
         6},
        {"/v1/completions",
         "{\"prompt\":[65],\"suffix\":\"\",\"max_tokens\":1,\"return_token_ids\":true}",
         {300, 65, 301, 302},
         4},
    };
    static const char *const tokens[] = {"<|fim_prefix|>", "<|fim_suffix|>", "<|fim_middle|>"};
    const char *dir = test_dir();
    Daemon d;
    REQUIRE(test_checkpoint_write(dir, CHECKPOINT_SMALL, 1));
    for (int i = 0; i < 3; i++) test_add_token(dir, 300 + i, tokens[i]);
    REQUIRE(daemon_start_at(&d, dir, NULL));
    for (size_t i = 0; i < COUNTOF(cases); i++) {
        Answer a = http_post(&d, cases[i].path, cases[i].body);
        const cJSON *prompt = json_at(a.json, "choices.0.prompt_token_ids"), *id;
        int n = 0;
        CHECK_MSG(cJSON_GetArraySize(prompt) == cases[i].n, "%s", a.body);
        cJSON_ArrayForEach(id, prompt) {
            CHECK_MSG(n < cases[i].n && id->valueint == cases[i].ids[n], "%s", a.body);
            n++;
        }
    }
    static const char rest[] = ",\"seed\":1,\"max_tokens\":5,\"ignore_eos\":true}";
    Answer infill = http_post(
        &d, "/infill",
        test_text("{\"input_prefix\":\"a\",\"prompt\":\"b\",\"input_suffix\":\"c\",\"input_extra\":[{\"text\":\"x\","
                  "\"filename\":\"y\"}]%s",
                  rest));
    Answer completion = http_post(&d, "/v1/completions",
                                  test_text("{\"prompt\":\"\\n\\n--- snippet ---\\n\\nxab\",\"suffix\":\"c\"%s", rest));
    CHECK(json_same(infill.json, "content", completion.json, "choices.0.text"));
    static const Bad bad[] = {{"{\"input_extra\":[{}]}", 400, "input_extra"},
                              {"{\"input_extra\":[{\"text\":1}]}", 400, "input_extra"},
                              {"{\"input_extra\":[{\"text\":\"a\",\"filename\":1}]}", 400, "input_extra"},
                              {"{\"prompt\":[1]}", 400, "prompt"},
                              {"{\"truncate_prompt_tokens\":4}", 400, "truncate_prompt_tokens"},
                              {"{\"suffix\":\"a\"}", 400, "suffix"}};
    check_bodies(&d, "/infill", bad, COUNTOF(bad));
    Answer echo = http_post(&d, "/v1/completions", "{\"prompt\":\"a\",\"suffix\":\"b\",\"echo\":true}");
    answer_check_error(&echo, 400, "echo", "echo with suffix");
    daemon_stop(&d);
}
