/* Images drawn by completions: tokens are shades, the prompt is a class, positions turn by row and column. */
#include "base/err.h"
#include "tests/support/daemon.h"
#include "tests/support/http_client.h"
#include "tests/support/models.h"
#include "tokenizer/tokenizer_json.h"
#include "weights/checkpoint.h"
#include "weights/presets.h"

#include <stdlib.h>
#include <string.h>

enum { SHADES = 16, CLASSES = 10, PIXELS = 14 * 14 };

/* The preset with noise and random weights, and the tokenizer that `noised-train images` writes. */
static const char *image_folder(void) {
    const char *dir = test_dir();
    char path[512], words[SHADES + CLASSES][8];
    const char *list[SHADES + CLASSES];
    Config c;
    TestModel t;
    Err err = {""};
    for (int i = 0; i < SHADES + CLASSES; i++) {
        snprintf(words[i], sizeof words[i], i < SHADES ? "%d" : "[%d]", i < SHADES ? i : i - SHADES);
        list[i] = words[i];
    }
    snprintf(path, sizeof path, "%s/tokenizer.json", dir);
    Tokenizer *tok = tokenizer_of_words(list, SHADES + CLASSES, &err);
    BUG_ON(!tok || tokenizer_json_save(tok, path, &err) || preset_config(&c, "image-tokens-nano", &err));
    tokenizer_free(tok);
    c.noise.scope = NOISE_HEAD;
    BUG_ON(!test_model_init(&t, &c, 3) || checkpoint_save(dir, &t.model, NULL, DTYPE_F32, 1, &err));
    test_model_free(&t);
    return dir;
}

static Answer draw(const Daemon *d, const char *prompt, int n, int noise_seed) {
    return http_post(
        d, "/v1/completions",
        test_text("{\"prompt\":%s,\"max_tokens\":%d,\"seed\":5,\"noise_seed\":%d,\"return_token_ids\":true}", prompt, n,
                  noise_seed));
}

TEST(image_tokens_are_completed) {
    Daemon d;
    const char *dir = image_folder();
    REQUIRE(daemon_start_at(&d, dir, NULL));
    Answer ids = draw(&d, "[19]", PIXELS, 1), text = draw(&d, "\"[3]\"", PIXELS, 1),
           other = draw(&d, "[19]", PIXELS, 2);
    CHECK_MSG(ids.status == 200, "%d: %s", ids.status, ids.body);
    const cJSON *a = json_at(ids.json, "choices.0.token_ids"), *b = json_at(text.json, "choices.0.token_ids"),
                *c = json_at(other.json, "choices.0.token_ids");
    CHECK(cJSON_GetArraySize(a) == PIXELS && cJSON_Compare(a, b, true));
    CHECK(cJSON_GetArraySize(c) == PIXELS && !cJSON_Compare(a, c, true)); /* another seed, another image */
    ids = draw(&d, "[19]", PIXELS + 2, 1); /* a token behind the last one would have no place */
    CHECK_MSG(ids.status == 400 && strstr(ids.body, "197"), "%d: %s", ids.status, ids.body);
    daemon_stop(&d);
}

/* Twenty alternatives are asked for, of eighteen tokens that there are. */
TEST(image_tokens_have_few_alternatives) {
    enum { VOCAB = 18, TOKENS = 3 };
    Daemon d;
    REQUIRE(daemon_start(&d, CHECKPOINT_PIXELS, NULL));
    Answer a =
        http_post(&d, "/v1/completions",
                  "{\"prompt\":[16,3],\"max_tokens\":3,\"ignore_eos\":true,\"logprobs\":20,\"prompt_logprobs\":20}");
    CHECK_MSG(a.status == 200, "%s", a.body);
    for (int i = 0; i < TOKENS; i++) {
        CHECK_MSG(cJSON_GetArraySize(json_at(a.json, test_text("choices.0.logprobs.top_logprobs.%d", i))) == VOCAB,
                  "%s", a.body);
    }
    CHECK_MSG(cJSON_GetArraySize(json_at(a.json, "choices.0.prompt_logprobs.1")) == VOCAB, "%s", a.body);
    daemon_stop(&d);
}
