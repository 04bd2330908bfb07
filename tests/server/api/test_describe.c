/* GET /tokenizer_info and GET /props: what other programs read of a server before they use it. */
#include "base/err.h"
#include "tests/support/checkpoints.h"
#include "tests/support/http_client.h"
#include "tokenizer/build.h"
#include "tokenizer/tokenizer_json.h"

#include <stdlib.h>
#include <string.h>

/* As lm-evaluation-harness does: the texts of the special tokens, whose ids it asks /tokenize for. */
TEST(describe_tokenizer) {
    Daemon d;
    REQUIRE(daemon_start(&d, CHECKPOINT_SMALL, NULL));
    Answer a = http_get(&d, "/tokenizer_info");
    CHECK_MSG(a.status == 200 && json_says(a.json, "eos_token", "<|endoftext|>"), "%s", a.body);
    CHECK(json_number(a.json, "vocab_size") == TEST_VOCAB && json_number(a.json, "model_max_length") == 512);
    CHECK(cJSON_IsNull(json_at(a.json, "pad_token")) && cJSON_IsNull(json_at(a.json, "chat_template")));
    CHECK(cJSON_IsNull(json_at(a.json, "tokenizer_class")) && cJSON_IsFalse(json_at(a.json, "add_bos_token")));
    a = http_post(&d, "/tokenize", "{\"prompt\":\"<|endoftext|>\",\"add_special_tokens\":false}");
    CHECK(json_number(a.json, "tokens.0") == TEST_EOS && json_number(a.json, "count") == 1);
    daemon_stop(&d);
}

/* Around a text, and not around token ids, stand the tokens of the tokenizer's template. */
TEST(describe_template_tokens) {
    static const struct {
        const char *path, *body, *count;
        int tokens;
    } cases[] = {{"/tokenize", "{\"prompt\":\"ab\"}", "count", 4},
                 {"/tokenize", "{\"prompt\":\"ab\",\"add_special_tokens\":false}", "count", 2},
                 {"/v1/embeddings", "{\"input\":\"ab\"}", "usage.prompt_tokens", 4},
                 {"/v1/embeddings", "{\"input\":[\"ab\",\"\"]}", "usage.prompt_tokens", 6},
                 {"/v1/embeddings", "{\"input\":[65,66]}", "usage.prompt_tokens", 2},
                 {"/v1/completions", "{\"prompt\":\"ab\",\"max_tokens\":1}", "usage.prompt_tokens", 4},
                 {"/v1/completions", "{\"prompt\":[65,\"b\"],\"max_tokens\":1}", "usage.prompt_tokens", 3},
                 {"/v1/completions", "{\"prompt\":[\"a\",66],\"max_tokens\":1}", "usage.prompt_tokens", 3},
                 {"/v1/completions", "{\"prompt\":\"ab\",\"max_tokens\":1,\"add_special_tokens\":false}",
                  "usage.prompt_tokens", 2}};
    Daemon d;
    Err err;
    const char *dir = test_dir();
    REQUIRE(test_checkpoint_write(dir, CHECKPOINT_SMALL, 1));
    const char *path = test_text("%s/tokenizer.json", dir);
    Tokenizer *t = NULL;
    REQUIRE(tokenizer_json_load(&t, path, &err) == 0);
    TokenizerSpec spec = *tokenizer_spec(t);
    spec.bos = 7;
    spec.tail = 8;
    Tokenizer *framed = tokenizer_build(&spec, &err);
    CHECK_MSG(tokenizer_json_save(framed, path, &err) == 0, "%s", err.msg);
    tokenizer_free(framed);
    tokenizer_free(t);
    REQUIRE(daemon_start_at(&d, dir, NULL));
    for (size_t i = 0; i < COUNTOF(cases); i++) {
        Answer a = http_post(&d, cases[i].path, cases[i].body);
        CHECK_MSG(a.status == 200 && json_number(a.json, cases[i].count) == cases[i].tokens, "%s: %s", cases[i].body,
                  a.body);
    }
    /* What stands in front is not shown, and of a shortened prompt nothing stands there. */
    Answer all = http_post(&d, "/v1/completions", "{\"prompt\":\"ab\",\"max_tokens\":0,\"echo\":true}");
    Answer end = http_post(&d, "/v1/completions",
                           "{\"prompt\":\"ab\",\"max_tokens\":0,\"echo\":true,\"truncate_prompt_tokens\":2}");
    CHECK_MSG(!strncmp(answer_text(&all, 0), "ab", 2) && !strcmp(answer_text(&end, 0), answer_text(&all, 0) + 1),
              "%s\n%s", all.body, end.body);
    Answer a = http_post(&d, "/tokenize", "{\"content\":\"ab\",\"add_special\":true}");
    CHECK(json_number(a.json, "tokens.0") == 7 && json_number(a.json, "tokens.3") == 8);
    a = http_get(&d, "/tokenizer_info");
    CHECK(cJSON_IsTrue(json_at(a.json, "add_bos_token")) && cJSON_IsTrue(json_at(a.json, "add_eos_token")));
    daemon_stop(&d);
}

/* Of tokenizer_config.json what says something about the tokenizer; and nothing of paths. */
TEST(describe_folder) {
    static const char jinja[] = "{{ '<|im_start|>' + role + '\\n' + \"<|im_end|>\" }}";
    Daemon d;
    const char *dir = test_dir();
    REQUIRE(test_checkpoint_write(dir, CHECKPOINT_SMALL, 1));
    test_write_text(dir, "tokenizer_config.json",
                    "{\"tokenizer_class\":\"GPT2Tokenizer\",\"name_or_path\":\"/home/somebody/secret\","
                    "\"pad_token\":{\"content\":\"<pad>\",\"special\":true},\"model_max_length\":1e30}");
    test_write_text(dir, "chat_template.jinja", jinja);
    REQUIRE(daemon_start_at(&d, dir, "--model-name some/name --max-batch 7"));
    Answer a = http_get(&d, "/tokenizer_info");
    CHECK_MSG(json_says(a.json, "tokenizer_class", "GPT2Tokenizer") && json_says(a.json, "pad_token", "<pad>"), "%s",
              a.body);
    CHECK(json_says(a.json, "chat_template", jinja) && json_number(a.json, "model_max_length") == 512);
    CHECK(!strstr(a.body, "somebody") && !strstr(a.body, dir));
    a = http_get(&d, "/props");
    CHECK_MSG(a.status == 200 && json_number(a.json, "total_slots") == 7, "%s", a.body);
    CHECK(json_says(a.json, "model_path", strrchr(dir, '/') + 1) && json_says(a.json, "chat_template", jinja));
    CHECK(!strstr(a.body, dir));
    daemon_stop(&d);
}

TEST(describe_props) {
    Daemon d;
    REQUIRE(daemon_start(&d, CHECKPOINT_SMALL, "--noise-seed 5 --noise-scale 0.5"));
    Answer a = http_get(&d, "/props");
    const cJSON *settings = json_at(a.json, "default_generation_settings");
    static const struct {
        const char *name;
        double value;
    } numbers[] = {
        {"temperature", 1}, {"top_k", 0},         {"top_p", 1},           {"min_p", 0},           {"typical_p", 1},
        {"n_predict", 16},  {"max_tokens", 16},   {"repeat_penalty", 1},  {"repeat_last_n", -1},  {"seed", -1},
        {"noise_seed", 5},  {"noise_scale", 0.5}, {"xtc_probability", 0}, {"dry_multiplier", 0},  {"n", 1},
        {"best_of", 1},     {"mirostat", 0},      {"top_n_sigma", 0},     {"presence_penalty", 0}};
    REQUIRE(json_number(settings, "n_ctx") == 512);
    for (size_t i = 0; i < COUNTOF(numbers); i++)
        CHECK_MSG(json_number(json_at(settings, "params"), numbers[i].name) == numbers[i].value, "%s: %s",
                  numbers[i].name, a.body);
    CHECK(cJSON_IsFalse(json_at(settings, "params.ignore_eos")) &&
          cJSON_IsTrue(json_at(settings, "params.cache_prompt")));
    CHECK(json_says(a.json, "chat_template", "") && json_says(a.json, "build_info", "noised " NOISED_VERSION));

    /* What it says acts when nothing is said does so when it is said. */
    Answer plain = http_post(&d, "/v1/completions", "{\"prompt\":\"The\",\"temperature\":0}");
    Answer said = http_post(&d, "/v1/completions",
                            "{\"prompt\":\"The\",\"temperature\":0,\"max_tokens\":16,\"noise_seed\":5,"
                            "\"noise_scale\":0.5,\"seed\":-1,\"top_k\":0,\"mirostat\":0,\"repeat_penalty\":1}");
    CHECK_MSG(said.status == 200, "%s", said.body);
    CHECK(!strcmp(answer_text(&plain, 0), answer_text(&said, 0)));
    daemon_stop(&d);
}
