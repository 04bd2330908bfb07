/* Sequences that have one component of a mixture: which one a choice has, and that it is all that counts of a name. */
#include "base/err.h"
#include "model/kind.h"
#include "tests/support/daemon.h"
#include "tests/support/http_client.h"
#include "tests/support/models.h"
#include "tests/tokenizer/test_tokenizer.h"

#include <stdlib.h>
#include <string.h>

enum { COMPONENTS = 5 };

static bool start(Daemon *d) {
    Config c = test_variant(attention_kind_find("symmetric"), "residual");
    c.vocab_size = TEST_VOCAB;
    c.noise.components = COMPONENTS;
    const char *dir = test_dir();
    return test_checkpoint_write_as(dir, &c, DTYPE_F32, 1) && daemon_start_at(d, dir, NULL);
}

#define ASKED "\"prompt\":\"The river\",\"max_tokens\":12,\"temperature\":0,\"seed\":1,\"ignore_eos\":true"

static int component(const Answer *a, int choice) {
    const char *path = test_text("choices.%d.noise_component", choice);
    return json_at(a->json, path) ? (int)json_number(a->json, path) : -1;
}

static const char *text(const Answer *a, int choice) {
    return json_text(a->json, test_text("choices.%d.text", choice));
}

TEST(component_is_drawn_by_the_seed_or_named) {
    Daemon d;
    char body[512];
    int seen[COMPONENTS] = {0};
    REQUIRE(start(&d));
    Answer drawn = http_post(&d, "/v1/completions", "{" ASKED ",\"n\":32,\"noise_seed\":9}");
    REQUIRE(drawn.status == 200);
    for (int i = 0; i < 32; i++) {
        REQUIRE(component(&drawn, i) >= 0 && component(&drawn, i) < COMPONENTS);
        seen[component(&drawn, i)]++;
    }
    for (int c = 0; c < COMPONENTS; c++) CHECK_MSG(seen[c] > 0, "component %d was never drawn", c);
    /* The one that seed 9 draws, by its name: the same answer; another one: another. Also in a chat's and a stream's
     * form of the request, which read the same field. */
    int own = component(&drawn, 0), other = (own + 1) % COMPONENTS;
    snprintf(body, sizeof body, "{" ASKED ",\"noise_seed\":9,\"noise_component\":%d}", own);
    Answer same = http_post(&d, "/v1/completions", body);
    CHECK(same.status == 200 && component(&same, 0) == own && !strcmp(text(&same, 0), text(&drawn, 0)));
    snprintf(body, sizeof body, "{" ASKED ",\"noise_seed\":9,\"n\":2,\"noise_component\":[%d,%d]}", own, other);
    Answer both = http_post(&d, "/v1/completions", body);
    CHECK(both.status == 200 && component(&both, 0) == own && component(&both, 1) == other);
    CHECK(!strcmp(text(&both, 0), text(&drawn, 0)) && strcmp(text(&both, 1), text(&drawn, 0)));
    Answer four = http_post(&d, "/v1/completions",
                            "{\"prompt\":[\"a\",\"b\"],\"n\":2,\"max_tokens\":1,\"noise_component\":[4,3,2,1]}");
    for (int i = 0; i < 4; i++) CHECK_MSG(component(&four, i) == 4 - i, "%s", four.body);
    snprintf(body, sizeof body,
             "{\"request\":{" ASKED ",\"noise_seed\":9,\"n\":2,\"noise_component\":[%d,%d]},\"response\":", own, other);
    Buffer replay = {0};
    buffer_text(&replay, body);
    buffer_text(&replay, both.body);
    buffer_append(&replay, "}", 2);
    Answer replayed = http_post(&d, "/v1/replay", replay.data);
    CHECK_MSG(replayed.status == 200 && strstr(replayed.body, "\"identical\":true,\"fingerprint"), "%d: %s",
              replayed.status, replayed.body);
    buffer_free(&replay);
    daemon_stop(&d);
}

static int cached(const Daemon *d, int component) {
    Answer a = http_post(
        d, "/v1/completions",
        test_text(
            "{\"prompt\":\"The river runs below the mill, and the miller counts the stones. Every stone was a word.\","
            "\"max_tokens\":1,\"noise_seed\":9,\"noise_component\":%d}",
            component));
    int tokens = a.status == 200 ? (int)json_number(a.json, "usage.prompt_tokens_details.cached_tokens") : -1;
    return tokens;
}

TEST(component_has_prompts_of_its_own_in_the_cache) {
    Daemon d;
    REQUIRE(start(&d));
    CHECK(cached(&d, 0) == 0 && cached(&d, 0) > 0);
    CHECK(cached(&d, 1) == 0 && cached(&d, 1) > 0);
    daemon_stop(&d);
}

/* Which component a text is of: all of them under one seed, each as if it had been asked alone. */
TEST(component_of_a_text_by_its_score) {
    Daemon d;
    REQUIRE(start(&d));
    static const char front[] = "\"prompt\":\"The river\",\"continuations\":[\" and the mill\"],\"noise_scale\":4";
    Answer all = http_post(&d, "/v1/score", test_text("{%s,\"noise_component\":[0,1,2,3,4]}", front));
    REQUIRE(all.status == 200 && cJSON_GetArraySize(json_at(all.json, "choices")) == COMPONENTS);
    double best = -1e9, seed = json_number(all.json, "choices.0.noise_seed");
    int which = -1;
    for (int c = 0; c < COMPONENTS; c++) {
        CHECK(component(&all, c) == c && json_number(all.json, test_text("choices.%d.noise_seed", c)) == seed);
        Answer one =
            http_post(&d, "/v1/score", test_text("{%s,\"noise_component\":%d,\"noise_seed\":%.0f}", front, c, seed));
        CHECK_MSG(one.status == 200 &&
                      json_same(all.json, test_text("choices.%d.logprobs", c), one.json, "choices.0.logprobs"),
                  "%s", one.body);
        double logprob = json_number(one.json, "choices.0.logprob");
        if (logprob > best) best = logprob, which = c;
    }
    CHECK(json_number(all.json, "likeliest.0.index") == which);
    CHECK(json_number(all.json, "likeliest.0.noise_component") == which);
    /* Pairs, each its own; and two arrays that make none. */
    Answer pairs = http_post(&d, "/v1/score", test_text("{%s,\"noise_component\":[3,3],\"noise_seed\":[7,8]}", front));
    CHECK_MSG(pairs.status == 200 && component(&pairs, 1) == 3 && json_number(pairs.json, "choices.1.noise_seed") == 8,
              "%s", pairs.body);
    Answer none = http_post(&d, "/v1/score", test_text("{%s,\"noise_component\":[3,3],\"noise_seed\":[7,8,9]}", front));
    answer_check_error(&none, 400, "noise_component", "pairs");
    daemon_stop(&d);
}

TEST(component_needs_a_model_that_has_them) {
    static const struct {
        const char *field, *says;
    } cases[] = {{"\"noise_component\":5", "noise_component must be an integer between 0 and 4"},
                 {"\"noise_component\":-1", "between 0 and 4"},
                 {"\"noise_component\":1.5", "between 0 and 4"},
                 {"\"noise_component\":[]", "between 0 and 4"},
                 {"\"noise_component\":[1,7]", "between 0 and 4"},
                 {"\"noise_component\":[1,2]", "noise_component has 2 components, the answer has 1 choices"},
                 {"\"noise_component\":[1],\"n\":2", "noise_component has 1 components, the answer has 2 choices"},
                 {"\"noise_component\":[1],\"best_of\":2", "best_of picks them"},
                 {"\"noise_component\":[1,2],\"n\":2,\"best_of\":4", "best_of picks them"}};
    Daemon d;
    REQUIRE(start(&d));
    for (size_t i = 0; i < COUNTOF(cases); i++) {
        Answer a = http_post(&d, "/v1/completions", test_text("{" ASKED ",%s}", cases[i].field));
        CHECK_MSG(a.status == 400 && strstr(a.body, cases[i].says), "%s: %d %s", cases[i].field, a.status, a.body);
    }
    Answer quiet = http_post(&d, "/v1/completions", "{" ASKED ",\"noise_scale\":0}");
    CHECK(quiet.status == 200 && component(&quiet, 0) == -1 &&
          cJSON_IsNull(json_at(quiet.json, "choices.0.noise_seed")));
    Answer noise = http_get(&d, "/noise");
    CHECK(json_number(noise.json, "components") == COMPONENTS && !strcmp(json_text(noise.json, "site"), "residual"));
    daemon_stop(&d);
    REQUIRE(daemon_start(&d, CHECKPOINT_SMALL, NULL));
    Answer none = http_post(&d, "/v1/completions", "{" ASKED ",\"noise_component\":0}");
    CHECK_MSG(none.status == 400 && strstr(none.body, "noise_component: the model has no components"), "%d: %s",
              none.status, none.body);
    daemon_stop(&d);
}
