/* The checkpoint in weights/demo, which is what a newcomer meets first. */
#include "base/err.h"
#include "tests/support/http_client.h"
#include "tests/support/test.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

static const char demo[] = "weights/demo";

TEST(demo_is_small) {
    static const char *const files[] = {"config.json", "model.safetensors", "tokenizer.json", "log.jsonl", "README.md"};
    double bytes = 0;
    for (size_t i = 0; i < COUNTOF(files); i++) {
        char path[64];
        struct stat st;
        snprintf(path, sizeof path, "%s/%s", demo, files[i]);
        CHECK_MSG(stat(path, &st) == 0, "%s is missing", path);
        bytes += (double)st.st_size;
    }
    CHECK_MSG(bytes <= 16e6, "%s has %.0f bytes, at most 16000000 are meant to be", demo, bytes);
}

/* Mean log-probability of a text's tokens but the first; NaN when the answer is none. */
static double score(const Daemon *d, const char *text) {
    char body[512];
    snprintf(body, sizeof body,
             "{\"prompt\":\"%s\",\"max_tokens\":0,\"echo\":true,\"logprobs\":0,\"noise_seed\":1,\"seed\":1}", text);
    Answer a = http_post(d, "/v1/completions", body);
    const cJSON *values = json_at(a.json, "choices.0.logprobs.token_logprobs");
    int n = cJSON_GetArraySize(values);
    double sum = 0;
    for (int i = 1; i < n; i++) sum += cJSON_GetArrayItem(values, i)->valuedouble;
    answer_free(&a);
    return n > 1 ? sum / (n - 1) : NAN;
}

TEST(demo_knows_english) {
    static const char *const pairs[][2] = {
        {"She had never been in the house before, and she did not know what to say.",
         "She been never had in house the before, and not did she what know say to."},
        {"The people of the United States have a right to expect that the Congress will act.",
         "The of people States United the a have right expect to the that act will Congress."},
        {"He looked at his watch, and then he went out of the room without a word.",
         "He at looked watch his, and he then out went the of room word a without."},
    };
    Daemon d;
    REQUIRE(daemon_start_at(&d, demo, NULL));
    for (size_t i = 0; i < COUNTOF(pairs); i++) {
        double right = score(&d, pairs[i][0]), wrong = score(&d, pairs[i][1]);
        CHECK_MSG(right > wrong + 1, "%.3f for \"%s\", %.3f with its words misplaced", right, pairs[i][0], wrong);
    }
    daemon_stop(&d);
}

static char *sample(const Daemon *d, int noise_seed) {
    char body[256];
    snprintf(body, sizeof body, "{\"prompt\":\"It was\",\"max_tokens\":40,\"seed\":7,\"noise_seed\":%d}", noise_seed);
    Answer a = http_post(d, "/v1/completions", body);
    char *text = strdup(answer_text(&a, 0));
    answer_free(&a);
    return text;
}

TEST(demo_noise_seeds_differ_and_repeat) {
    Daemon d;
    REQUIRE(daemon_start_at(&d, demo, NULL));
    char *one = sample(&d, 1), *two = sample(&d, 2), *again = sample(&d, 1);
    CHECK(strlen(one) > 40 && strcmp(one, two) != 0 && strcmp(one, again) == 0);
    free(one);
    free(two);
    free(again);
    daemon_stop(&d);
}
