/* The daemon with a draft: the same answers, which drafts it refuses, at the start and at a reload. */
#include "base/err.h"
#include "tests/support/checkpoints.h"
#include "tests/support/http_client.h"
#include "tests/support/models.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char *text_of(const Daemon *d, const char *body) {
    Answer a = http_post(d, "/v1/completions", body);
    CHECK_MSG(a.status == 200, "%s", a.body);
    return answer_text(&a, 0);
}

/* Of four tokens by lot, which the draft guesses as well as anything; from there on as the model goes. */
TEST(draft_serves_the_same_bytes) {
    static const char *const bodies[] = {
        "{\"prompt\":\"The river\",\"seed\":1,\"noise_seed\":2,\"max_tokens\":60,\"ignore_eos\":true}",
        "{\"prompt\":\"The river\",\"temperature\":0,\"noise_seed\":2,\"max_tokens\":60,\"ignore_eos\":true}",
        "{\"prompt\":\"The river\",\"seed\":3,\"noise_seed\":2,\"max_tokens\":300,\"ignore_eos\":true,"
        "\"logit_bias\":{\"40\":40,\"41\":41,\"42\":42,\"43\":44}}"};
    const char *dir = test_dir();
    Daemon plain, d;
    Config c = test_config(attention_kind_find("mha"));
    c.vocab_size = TEST_VOCAB;
    c.n_layers = 1;
    REQUIRE(test_checkpoint_write_as(dir, &c, DTYPE_BF16, 2));
    REQUIRE(daemon_start(&plain, CHECKPOINT_SMALL, NULL) &&
            daemon_start(&d, CHECKPOINT_SMALL, test_text("--draft %s", dir)));
    for (size_t i = 0; i < COUNTOF(bodies); i++)
        CHECK_MSG(!strcmp(text_of(&plain, bodies[i]), text_of(&d, bodies[i])), "%s", bodies[i]);
    Answer a = http_get(&d, "/slots");
    CHECK_MSG(strstr(a.body, "\"speculative\":true"), "%s", a.body);
    a = http_get(&d, "/metrics");
    const char *right = strstr(a.body, "\nnoised_guessed_tokens_right_total ");
    CHECK_MSG(right && atoi(strchr(right + 1, ' ')) > 50, "%.100s", right ? right : "");
    daemon_stop(&d);
    daemon_stop(&plain);
}

static void expect_refused(const char *model, const char *draft, const char *message) {
    char *errors;
    const char *options = test_text("--port 0 --model %s --draft %s", model, draft);
    int status = daemon_run(options, &errors);
    CHECK_MSG(status == 1 && strstr(errors, message), "%s: %d %s", options, status, errors);
    free(errors);
}

TEST(draft_that_does_not_fit_is_refused) {
    const char *small = test_checkpoint(CHECKPOINT_SMALL), *dir = test_dir();
    char other[300], turned[300];
    Config c = test_config(attention_kind_find("mha"));
    snprintf(other, sizeof other, "%s/other", dir);
    snprintf(turned, sizeof turned, "%s/turned", dir);
    c.vocab_size = TEST_VOCAB + 16;
    REQUIRE(test_checkpoint_write_as(other, &c, DTYPE_F32, 1) && test_checkpoint_write(turned, CHECKPOINT_SMALL, 2));
    const char *swap =
        test_text("sed -i 's/\"a\": 65,/\"a\": 66,/;s/\"b\": 66,/\"b\": 65,/' %s/tokenizer.json", turned);
    CHECK(system(swap) == 0);
    expect_refused(small, "/nowhere/draft", "/nowhere/draft");
    expect_refused(small, other, test_text("--draft %s has a vocabulary of 336, that of %s is 320", other, small));
    expect_refused(small, turned, test_text("--draft %s: token 65 is \"b\", that of %s is \"a\"", turned, small));
    expect_refused(small, test_checkpoint(CHECKPOINT_CLASSES), "does not generate text");
    expect_refused(test_checkpoint(CHECKPOINT_CLASSES), small, "does not generate text");
}
