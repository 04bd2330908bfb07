/* POST /v1/score: the numbers of echo with logprobs, for several continuations of one prompt. */
#include "base/buffer.h"
#include "base/err.h"
#include "base/memory.h"
#include "tests/support/checkpoints.h"
#include "tests/support/http_client.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static Answer score(const Daemon *d, const char *json) { return http_post(d, "/v1/score", json); }

/* "1,2,3": the ids of a text. */
static char *ids_of(const Daemon *d, const char *text, int *n) {
    Answer a = http_post(d, "/tokenize", test_text("{\"content\":\"%s\"}", text));
    char *ids = json_raw(a.json, "tokens");
    *n = cJSON_GetArraySize(json_at(a.json, "tokens"));
    memmove(ids, ids + 1, strlen(ids));
    ids[strlen(ids) - 1] = 0;
    return ids;
}

/* Choice i of a against echo with logprobs for the same tokens. */
static void check_echo(const Daemon *d, const Answer *a, int i, const char *prompt, int n_prompt, const char *ids) {
    char path[96];
    Answer b = http_post(
        d, "/v1/completions",
        test_text("{\"prompt\":[%s,%s],\"max_tokens\":0,\"echo\":true,\"logprobs\":3,\"noise_seed\":5}", prompt, ids));
    snprintf(path, sizeof path, "choices.%d.logprobs.tokens", i);
    int n = cJSON_GetArraySize(json_at(a->json, path));
    CHECK_MSG(n > 0 && cJSON_GetArraySize(json_at(b.json, "choices.0.logprobs.tokens")) == n_prompt + n, "%s", b.body);
    static const char *const arrays[] = {"tokens", "token_logprobs", "top_logprobs"};
    for (size_t k = 0; k < COUNTOF(arrays); k++)
        for (int t = 0; t < n; t++) {
            snprintf(path, sizeof path, "choices.%d.logprobs.%s.%d", i, arrays[k], t);
            CHECK(json_same(a->json, path, b.json, test_text("choices.0.logprobs.%s.%d", arrays[k], n_prompt + t)));
        }
    double sum = 0;
    for (int t = 0; t < n; t++) {
        sum += (double)(float)json_number(b.json, test_text("choices.0.logprobs.token_logprobs.%d", n_prompt + t));
    }
    snprintf(path, sizeof path, "choices.%d.logprob", i);
    CHECK_MSG((float)json_number(a->json, path) == (float)sum, "%.9g, not %.9g", json_number(a->json, path), sum);
}

/* A prompt of several blocks of the cache, which is warm the second time, and for the second continuation. */
TEST(score_is_echo_with_logprobs) {
    Daemon d;
    REQUIRE(daemon_start(&d, CHECKPOINT_SMALL, NULL));
    static const char prompt[] =
        "The miller had a river behind his house, and the river had a mill in front of it, and "
        "whoever came along the road could see that neither of them was in a hurry. One day";
    static const char *const texts[] = {" the", " two strangers came", "!"};
    char body[2048], *ids[3];
    int n_prompt, n;
    char *front = ids_of(&d, prompt, &n_prompt);
    CHECK(n_prompt > 64);
    for (int i = 0; i < 3; i++) ids[i] = ids_of(&d, texts[i], &n);
    snprintf(body, sizeof body,
             "{\"prompt\":\"%s\",\"continuations\":[\"%s\",\"%s\",[%s]],\"noise_seed\":5,\"logprobs\":3}", prompt,
             texts[0], texts[1], ids[2]);
    for (int warm = 0; warm < 2; warm++) {
        Answer a = score(&d, body);
        CHECK_MSG(a.status == 200, "%s", a.body);
        CHECK(!strcmp(json_text(a.json, "object"), "score") && cJSON_GetArraySize(json_at(a.json, "choices")) == 3);
        for (int i = 0; i < 3; i++) {
            CHECK(!strcmp(answer_text(&a, i), texts[i]));
            check_echo(&d, &a, i, front, n_prompt, ids[i]);
        }
        CHECK(json_number(a.json, "choices.1.noise_seed") == 5);
        CHECK(json_number(a.json, "choices.1.logprobs.text_offset.0") == 0);
        CHECK(json_number(a.json, "usage.prompt_tokens") > 3 * n_prompt);
        CHECK(json_number(a.json, "usage.completion_tokens") == 0);
        if (warm) CHECK(json_number(a.json, "usage.prompt_tokens_details.cached_tokens") > 3 * (n_prompt - 64));
    }
    for (int i = 0; i < 3; i++) free(ids[i]);
    free(front);
    daemon_stop(&d);
}

/* What is decoded at temperature 0 is greedy, with the log-probabilities that it was decoded with. */
TEST(score_of_what_was_decoded) {
    Daemon d;
    REQUIRE(daemon_start(&d, CHECKPOINT_SMALL, NULL));
    Answer a = http_post(&d, "/v1/completions",
                         "{\"prompt\":\"The river\",\"max_tokens\":12,\"temperature\":0,"
                         "\"ignore_eos\":true,\"noise_seed\":5,\"logprobs\":1,"
                         "\"return_token_ids\":true}");
    char *ids = json_raw(a.json, "choices.0.token_ids");
    REQUIRE(ids);
    Answer b =
        score(&d, test_text("{\"prompt\":\"The river\",\"continuations\":[%s,[7,7,7]],\"noise_seed\":5,\"logprobs\":1}",
                            ids));
    CHECK_MSG(b.status == 200, "%s", b.body);
    CHECK(cJSON_IsTrue(json_at(b.json, "choices.0.is_greedy")) &&
          cJSON_IsFalse(json_at(b.json, "choices.1.is_greedy")));
    CHECK(json_same(a.json, "choices.0.logprobs.token_logprobs", b.json, "choices.0.logprobs.token_logprobs"));
    CHECK(json_same(a.json, "choices.0.logprobs.top_logprobs", b.json, "choices.0.logprobs.top_logprobs"));
    free(ids);
    daemon_stop(&d);
}

/* What a tokenizer puts behind a text is not in front of what continues it. */
TEST(score_behind_a_text_that_goes_on) {
    const char *dir = test_dir();
    Daemon d;
    REQUIRE(test_checkpoint_write(dir, CHECKPOINT_SMALL, 1));
    test_tokens_around(dir, NULL, "<|endoftext|>");
    REQUIRE(daemon_start_at(&d, dir, NULL));
    Answer a = score(&d, "{\"prompt\":\"ab\",\"continuations\":[\"c\"],\"noise_seed\":5}"),
           b = score(&d, "{\"prompt\":[65,66],\"continuations\":[\"c\"],\"noise_seed\":5}");
    CHECK_MSG(a.status == 200 && json_same(a.json, "choices.0.logprob", b.json, "choices.0.logprob"), "%s\n%s", a.body,
              b.body);
    daemon_stop(&d);
}

/* No prompt: behind the token that starts a document. Without alternatives each token stands alone. */
TEST(score_without_a_prompt) {
    Daemon d;
    REQUIRE(daemon_start(&d, CHECKPOINT_SMALL, NULL));
    Answer a = score(&d, "{\"continuations\":[\"The river\"],\"noise_seed\":5}");
    CHECK_MSG(a.status == 200 && json_number(a.json, "choices.0.logprob") < 0, "%s", a.body);
    CHECK(cJSON_GetArraySize(json_at(a.json, "choices.0.logprobs.top_logprobs.0")) == 1);
    a = score(&d, "{\"prompt\":\"The mill\",\"continuations\":[\"!\"],\"noise_seed\":5}");
    CHECK_MSG(cJSON_GetArraySize(json_at(a.json, "choices.0.logprobs.tokens")) == 1 &&
                  json_same(a.json, "choices.0.logprob", a.json, "choices.0.logprobs.token_logprobs.0"),
              "%s", a.body);
    daemon_stop(&d);
}

TEST(score_without_noise) {
    Daemon d;
    REQUIRE(daemon_start(&d, CHECKPOINT_QUIET, NULL));
    Answer a = score(&d, "{\"prompt\":\"x\",\"continuations\":[\"y\"],\"noise_seed\":5}");
    CHECK_MSG(a.status == 200 && cJSON_IsNull(json_at(a.json, "choices.0.noise_seed")), "%s", a.body);
    daemon_stop(&d);
}

/* Under several seeds each choice has the bits that it has alone, and the likeliest is the most probable of them. */
TEST(score_under_several_seeds) {
    static const int seeds[] = {5, 9, 2};
    static const char *const texts[] = {" the miller", "!"};
    Daemon d;
    REQUIRE(daemon_start(&d, CHECKPOINT_SMALL, NULL));
    Answer a = score(&d, "{\"prompt\":\"The river\",\"continuations\":[\" the miller\",\"!\"],"
                         "\"noise_seed\":[5,9,2],\"noise_scale\":3}");
    REQUIRE(a.status == 200 && cJSON_GetArraySize(json_at(a.json, "choices")) == 6 &&
            cJSON_GetArraySize(json_at(a.json, "likeliest")) == 2);
    for (int t = 0; t < 2; t++) {
        double alone[3], total = 0;
        char path[64];
        int best = 0;
        for (int s = 0; s < 3; s++) {
            Answer one = score(
                &d,
                test_text("{\"prompt\":\"The river\",\"continuations\":[\"%s\"],\"noise_seed\":%d,\"noise_scale\":3}",
                          texts[t], seeds[s]));
            CHECK(one.status == 200 && !json_at(one.json, "likeliest"));
            static const char *const same[] = {"text", "logprob", "is_greedy", "logprobs", "noise_seed"};
            for (size_t f = 0; f < COUNTOF(same); f++) {
                snprintf(path, sizeof path, "choices.%d.%s", 3 * t + s, same[f]);
                CHECK_MSG(json_same(a.json, path, one.json, test_text("choices.0.%s", same[f])), "%s: %s\n%s", path,
                          a.body, one.body);
            }
            alone[s] = json_number(one.json, "choices.0.logprob");
            if (alone[s] > alone[best]) best = s;
        }
        for (int s = 0; s < 3; s++) total += exp(alone[s]);
        snprintf(path, sizeof path, "likeliest.%d.index", t);
        CHECK(json_number(a.json, path) == 3 * t + best);
        snprintf(path, sizeof path, "likeliest.%d.noise_seed", t);
        CHECK(json_number(a.json, path) == seeds[best]);
        for (int s = 0; s < 3; s++) {
            snprintf(path, sizeof path, "likeliest.%d.shares.%d", t, s);
            CHECK_MSG(fabs(json_number(a.json, path) - exp(alone[s]) / total) < 1e-5, "%s: %s", path, a.body);
        }
    }
    daemon_stop(&d);
}

static const Bad bad[] = {
    {"{}", 400, "continuations"},
    {"{\"prompt\":\"x\"}", 400, "continuations"},
    {"{\"prompt\":\"x\",\"continuations\":[]}", 400, "continuations"},
    {"{\"prompt\":\"x\",\"continuations\":\"y\"}", 400, "continuations"},
    {"{\"prompt\":\"x\",\"continuations\":{}}", 400, "continuations"},
    {"{\"prompt\":\"x\",\"continuations\":[1]}", 400, "continuations"},
    {"{\"prompt\":\"x\",\"continuations\":[\"\"]}", 400, "continuations"},
    {"{\"prompt\":\"x\",\"continuations\":[[]]}", 400, "continuations"},
    {"{\"prompt\":\"x\",\"continuations\":[[320]]}", 400, "continuations"},
    {"{\"prompt\":\"x\",\"continuations\":[[\"y\"]]}", 400, "continuations"},
    {"{\"prompt\":\"x\",\"continuations\":[\"y\",null]}", 400, "continuations"},
    {"{\"prompt\":[\"x\",\"z\"],\"continuations\":[\"y\"]}", 400, "prompt"},
    {"{\"prompt\":[[1],[2]],\"continuations\":[\"y\"]}", 400, "prompt"},
    {"{\"prompt\":[],\"continuations\":[\"y\"]}", 400, "prompt"},
    {"{\"prompt\":[320],\"continuations\":[\"y\"]}", 400, "prompt"},
    {"{\"prompt\":7,\"continuations\":[\"y\"]}", 400, "prompt"},
    {"{\"prompt\":\"x\",\"continuations\":[\"y\"],\"logprobs\":21}", 400, "logprobs"},
    {"{\"prompt\":\"x\",\"continuations\":[\"y\"],\"logprobs\":-1}", 400, "logprobs"},
    {"{\"prompt\":\"x\",\"continuations\":[\"y\"],\"noise_seed\":[]}", 400, "noise_seed"},
    {"{\"prompt\":\"x\",\"continuations\":[\"y\"],\"noise_seed\":[1,1.5]}", 400, "noise_seed"},
    {"{\"prompt\":\"x\",\"continuations\":[\"y\"],\"noise_seed\":[1,-1]}", 400, "noise_seed"},
    {"{\"prompt\":\"x\",\"continuations\":[\"y\"],\"noise_component\":0}", 400, "noise_component"},
    {"{\"prompt\":\"x\",\"continuations\":[\"y\"],\"noise_scale\":8.1}", 400, "noise_scale"},
    {"{\"prompt\":\"x\",\"continuations\":[\"y\"],\"deadline_ms\":0}", 400, "deadline_ms"},
    {"{\"prompt\":\"x\",\"continuations\":[\"y\"],\"temperature\":1}", 400, "temperature"},
    {"{\"prompt\":\"x\",\"continuations\":[\"y\"],\"stream\":false}", 400, "stream"},
    {"{\"prompt\":\"x\",\"continuations\":[\"y\"],\"model\":\"other\"}", 404, "model"},
};

static int status_of_many(const Daemon *d, int n) {
    Buffer b = {0};
    buffer_text(&b, "{\"prompt\":\"x\",\"continuations\":[");
    for (int i = 0; i < n; i++) buffer_text(&b, i ? ",[1]" : "[1]");
    buffer_text(&b, "]}");
    buffer_append(&b, "", 1);
    Answer a = score(d, b.data);
    int status = a.status;
    if (status != 200) answer_check_error(&a, 400, "continuations", "many");
    buffer_free(&b);
    return status;
}

/* n tokens of prompt and one of a continuation. */
static int status_of_long(const Daemon *d, int n) {
    Buffer b = {0};
    buffer_text(&b, "{\"prompt\":[1");
    for (int i = 1; i < n; i++) buffer_text(&b, ",1");
    buffer_text(&b, "],\"continuations\":[[1]]}");
    buffer_append(&b, "", 1);
    Answer a = score(d, b.data);
    int status = a.status;
    if (status != 200) answer_check_error(&a, 400, "prompt", "long");
    buffer_free(&b);
    return status;
}

static int status_of_seeds(const Daemon *d, const char *continuations, int n, const char *why) {
    Buffer b = {0};
    buffer_print(&b, "{\"continuations\":%s,\"noise_seed\":[0", continuations);
    for (int i = 1; i < n; i++) buffer_print(&b, ",%d", i);
    buffer_append(&b, "]}", 3);
    Answer a = score(d, b.data);
    int status = a.status;
    if (status != 200) answer_check_error(&a, 400, "noise_seed", why);
    CHECK_MSG(status == 200 || strstr(a.body, why), "%s", a.body);
    buffer_free(&b);
    return status;
}

TEST(score_bounds) {
    Daemon d;
    REQUIRE(daemon_start(&d, CHECKPOINT_SMALL, NULL));
    check_bodies(&d, "/v1/score", bad, COUNTOF(bad));
    CHECK(status_of_seeds(&d, "[[1]]", 64, "") == 200);
    CHECK(status_of_seeds(&d, "[[1]]", 65, "65 seeds or components, the limit is 64") == 400);
    CHECK(status_of_seeds(&d, "[[1],[1],[1],[1]]", 64, "") == 200);
    CHECK(status_of_seeds(&d, "[[1],[1],[1],[1],[1]]", 64, "are 320, the server's queue holds 256") == 400);
    CHECK(status_of_many(&d, 128) == 200 && status_of_many(&d, 129) == 400);
    CHECK(status_of_long(&d, 511) == 200 && status_of_long(&d, 512) == 400);
    daemon_stop(&d);
}

/* A deadline that comes first leaves no sum behind. */
TEST(score_cut_by_a_deadline) {
    Daemon d;
    Buffer b = {0};
    REQUIRE(daemon_start(&d, CHECKPOINT_SLOW, NULL));
    buffer_text(&b, "{\"deadline_ms\":1,\"continuations\":[[1,2,3]],\"prompt\":[1");
    for (int i = 1; i < 3000; i++) buffer_text(&b, ",1");
    buffer_print(&b, "]}%c", 0);
    Answer a = score(&d, b.data);
    CHECK_MSG(a.status == 200 && cJSON_IsNull(json_at(a.json, "choices.0.logprob")), "%.300s", a.body);
    CHECK(cJSON_IsNull(json_at(a.json, "choices.0.is_greedy")) && cJSON_IsTrue(json_at(a.json, "choices.0.deadline")));
    CHECK(cJSON_IsNull(json_at(a.json, "choices.0.logprobs.token_logprobs.2")));
    buffer_free(&b);
    daemon_stop(&d);
}
