/* `diversity` of an answer: the figures of tokenizer/diversity.h over the tokens that were generated. */
#include "base/err.h"
#include "tests/support/http_client.h"
#include "tokenizer/diversity.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_TEXTS = 8, MOST_TOKENS = 64 };

static const char *const names[] = {"distinct_1", "distinct_2", "distinct_3", "self_bleu", "edit_distance"};

/* The figures of choices first, first + 1, ... by their token_ids. */
static Diversity measure(const Answer *a, int first, int n) {
    static int ids[MOST_TEXTS][MOST_TOKENS];
    TokenSpan texts[MOST_TEXTS] = {0};
    Diversity d = {{0}, 0, 0};
    const cJSON *id;
    for (int i = 0; i < n; i++) {
        const char *path = test_text("choices.%d.token_ids", first + i);
        texts[i].ids = ids[i];
        cJSON_ArrayForEach(id, json_at(a->json, path)) ids[i][texts[i].n++] = (int)id->valuedouble;
        CHECK(texts[i].n > 0);
    }
    CHECK(diversity_measure(texts, n, &d) == 0);
    return d;
}

static void check_figures(const cJSON *object, const Diversity *d) {
    const double figures[] = {d->distinct[0], d->distinct[1], d->distinct[2], d->self_bleu, d->edit_distance};
    CHECK(cJSON_GetArraySize(object) == COUNTOF(names));
    for (size_t i = 0; i < COUNTOF(names); i++)
        CHECK_MSG(isnan(figures[i]) ? cJSON_IsNull(json_at(object, names[i]))
                                    : (float)json_number(object, names[i]) == (float)figures[i],
                  "%s is %g, not %g", names[i], json_number(object, names[i]), figures[i]);
}

TEST(api_diversity) {
    Daemon d;
    REQUIRE(daemon_start(&d, CHECKPOINT_SMALL, "--chat-template plain"));
#define COMMON "\"max_tokens\":20,\"seed\":1,\"noise_seed\":2,\"return_token_ids\":true,\"diversity\":true"
    Answer a = http_post(&d, "/v1/completions", "{\"prompt\":\"The river\",\"n\":4," COMMON "}");
    CHECK_MSG(a.status == 200 && cJSON_GetArraySize(json_at(a.json, "diversity")) == 1, "%s", a.body);
    Diversity one = measure(&a, 0, 4);
    check_figures(json_at(a.json, "diversity.0"), &one);
    CHECK(one.distinct[0] > 0 && one.distinct[0] < 1 && one.self_bleu < 1 && one.edit_distance > 0);
    Answer b = http_post(&d, "/v1/completions", "{\"prompt\":[\"The mill\",\"The river\"],\"n\":4," COMMON "}");
    CHECK(cJSON_GetArraySize(json_at(b.json, "diversity")) == 2);
    CHECK(json_same(a.json, "diversity.0", b.json, "diversity.1"));
    Diversity first = measure(&b, 0, 4);
    check_figures(json_at(b.json, "diversity.0"), &first);
    /* best_of: of the choices that are answered. */
    b = http_post(&d, "/v1/completions", "{\"prompt\":\"The river\",\"n\":2,\"best_of\":5," COMMON "}");
    Diversity best = measure(&b, 0, 2);
    check_figures(json_at(b.json, "diversity.0"), &best);
    b = http_post(&d, "/v1/chat/completions",
                  "{\"messages\":[{\"role\":\"user\",\"content\":\"The river\"}],\"n\":3," COMMON "}");
    CHECK_MSG(b.status == 200, "%s", b.body);
    Diversity chat = measure(&b, 0, 3);
    check_figures(json_at(b.json, "diversity.0"), &chat);
    daemon_stop(&d);
}

TEST(api_diversity_of_a_stream) {
    Daemon d;
    REQUIRE(daemon_start(&d, CHECKPOINT_SMALL, NULL));
    /* The second is large enough for the workers. */
    static const char *const shapes[] = {"\"n\":4,\"max_tokens\":20", "\"n\":16,\"max_tokens\":300"};
    for (size_t i = 0; i < COUNTOF(shapes); i++)
        for (int usage = 0; usage < 2; usage++) {
            const char *rest =
                usage ? ",\"stream\":true,\"stream_options\":{\"include_usage\":true}" : ",\"stream\":true";
            Answer whole =
                http_post(&d, "/v1/completions",
                          test_text("{\"prompt\":\"The river\",\"diversity\":true,\"seed\":1,%s}", shapes[i]));
            Answer a =
                http_post(&d, "/v1/completions",
                          test_text("{\"prompt\":\"The river\",\"diversity\":true,\"seed\":1,%s%s}", shapes[i], rest));
            Events events = events_parse(a.body);
            REQUIRE(events.n > 1 && events.done && !events.malformed);
            const cJSON *last = events.data[events.n - 1];
            CHECK(cJSON_GetArraySize(json_at(last, "choices")) == 0 && !!json_at(last, "usage") == usage);
            CHECK(json_same(last, "diversity", whole.json, "diversity"));
            for (int k = 0; k < events.n - 1; k++)
                CHECK(!json_at(events.data[k], "diversity") && json_at(events.data[k], "choices.0"));
            char *text = events_text(&events, 3);
            CHECK(!strcmp(text, answer_text(&whole, 3)));
            free(text);
            events_free(&events);
        }
    daemon_stop(&d);
}

TEST(api_diversity_of_little) {
    Daemon d;
    REQUIRE(daemon_start(&d, CHECKPOINT_SMALL, NULL));
    Answer a = http_post(&d, "/v1/completions", "{\"prompt\":\"x\",\"n\":2}");
    CHECK(a.status == 200 && !json_at(a.json, "diversity"));
    a = http_post(&d, "/v1/completions", "{\"prompt\":\"x\"," COMMON "}");
    Diversity alone = measure(&a, 0, 1);
    check_figures(json_at(a.json, "diversity.0"), &alone);
    CHECK(isnan(alone.self_bleu) && isnan(alone.edit_distance) && alone.distinct[0] > 0);
    a = http_post(&d, "/v1/completions", "{\"prompt\":\"x\",\"n\":2,\"max_tokens\":0,\"diversity\":true}");
    CHECK_MSG(a.status == 200 && cJSON_IsNull(json_at(a.json, "diversity.0.distinct_1")) &&
                  cJSON_IsNull(json_at(a.json, "diversity.0.self_bleu")),
              "%s", a.body);
    /* Exactly the limit; every choice ends at once. */
    a = http_post(&d, "/v1/completions",
                  "{\"prompt\":[[1],[2]],\"n\":64,\"max_tokens\":512,\"diversity\":true,"
                  "\"logit_bias\":{\"0\":100},\"temperature\":0}");
    CHECK_MSG(a.status == 200 && json_number(a.json, "diversity.1.self_bleu") > 0, "%s", a.body);
    CHECK(json_number(a.json, "diversity.0.edit_distance") == 0);
    daemon_stop(&d);
}
