/* What requests get that do not say it, where the checkpoint's generation_config.json does. */
#include "base/err.h"
#include "tests/support/checkpoints.h"
#include "tests/support/http_client.h"

#include <stdlib.h>
#include <string.h>

#define SEEDS "\"prompt\":\"The river\",\"max_tokens\":24,\"seed\":3,\"noise_seed\":4,\"ignore_eos\":true"

static bool start(Daemon *d, const char *generation) {
    const char *dir = test_dir();
    bool ok = test_checkpoint_write(dir, CHECKPOINT_SMALL, 1);
    if (generation) test_write_text(dir, "generation_config.json", generation);
    ok = ok && daemon_start_at(d, dir, "--model-name tiny");
    return ok;
}

/* Both say the same, and so does what is replayed. */
TEST(generation_defaults_act_as_if_they_were_said) {
    Daemon plain, d;
    REQUIRE(start(&plain, NULL));
    REQUIRE(start(&d, "{\"temperature\":0.7,\"top_k\":9,\"top_p\":0.9,\"min_p\":0.01,\"typical_p\":0.95,"
                      "\"repetition_penalty\":1.3}"));
    Answer a = http_post(&d, "/v1/completions", "{" SEEDS "}");
    Answer said = http_post(&plain, "/v1/completions",
                            "{" SEEDS ",\"temperature\":0.7,\"top_k\":9,\"top_p\":0.9,\"min_p\":0.01,"
                            "\"typical_p\":0.95,\"repeat_penalty\":1.3}");
    Answer not = http_post(&plain, "/v1/completions", "{" SEEDS "}");
    CHECK_MSG(a.status == 200 && said.status == 200 && !strcmp(answer_text(&a, 0), answer_text(&said, 0)), "%s\n%s",
              a.body, said.body);
    CHECK(strcmp(answer_text(&a, 0), answer_text(&not, 0)));
    CHECK(strcmp(json_text(a.json, "system_fingerprint"), json_text(not .json, "system_fingerprint")));
    /* What a request says counts, under either name. */
    said = http_post(&d, "/v1/completions",
                     "{" SEEDS ",\"temperature\":1,\"top_k\":-1,\"top_p\":1,\"min_p\":0,\"typical_p\":1,"
                     "\"repeat_penalty\":1}");
    not = http_post(&plain, "/v1/completions", "{" SEEDS "}");
    CHECK_MSG(!strcmp(answer_text(&said, 0), answer_text(&not, 0)), "%s\n%s", said.body, not .body);
    char *body = malloc(strlen(a.body) + 512);
    sprintf(body, "{\"request\":{" SEEDS "},\"response\":%s}", a.body);
    said = http_post(&d, "/v1/replay", body);
    CHECK_MSG(cJSON_IsTrue(json_at(said.json, "identical")), "%s", said.body);
    free(body);
    daemon_stop(&plain);
    daemon_stop(&d);
}

TEST(generation_defaults_are_told) {
    Daemon d;
    REQUIRE(start(&d, "{\"temperature\":0.7,\"top_p\":0.9,\"repetition_penalty\":1.25,\"do_sample\":true}"));
    Answer a = http_get(&d, "/props");
    const cJSON *params = json_at(a.json, "default_generation_settings.params");
    CHECK_MSG(json_number(params, "temperature") == 0.7 && json_number(params, "top_p") == 0.9 &&
                  json_number(params, "repetition_penalty") == 1.25 && json_number(params, "repeat_penalty") == 1.25 &&
                  json_number(params, "top_k") == 0,
              "%s", a.body);
    a = http_get(&d, "/openapi.json");
    CHECK_MSG(strstr(a.body, "\"default\":0.7") && strstr(a.body, "\"default\":1.25"), "%.300s", a.body);
    daemon_stop(&d);
}

/* A text ends with any of these tokens; do_sample false is temperature 0. */
TEST(generation_ends_texts) {
    Daemon d;
    REQUIRE(start(&d, "{\"do_sample\":false,\"eos_token_id\":[65,66]}"));
    Answer a = http_post(&d, "/v1/completions", "{\"prompt\":\"The\",\"max_tokens\":9,\"logit_bias\":{\"66\":100}}");
    CHECK_MSG(json_text(a.json, "choices.0.finish_reason") &&
                  !strcmp(json_text(a.json, "choices.0.finish_reason"), "stop") &&
                  json_number(a.json, "usage.completion_tokens") == 1,
              "%s", a.body);
    a = http_post(&d, "/v1/completions", "{\"prompt\":\"The\",\"noise_scale\":0,\"seed\":1}");
    Answer b = http_post(&d, "/v1/completions", "{\"prompt\":\"The\",\"noise_scale\":0,\"seed\":2}");
    CHECK_MSG(!strcmp(answer_text(&a, 0), answer_text(&b, 0)), "%s\n%s", a.body, b.body);
    daemon_stop(&d);
}
