/* `logit_bias`: every way to write it means the same. */
#include "base/buffer.h"
#include "base/err.h"
#include "tests/support/http_client.h"

#include <stdlib.h>
#include <string.h>

static Answer biased(const Daemon *d, const char *bias) {
    return http_post(
        d, "/v1/completions",
        test_text("{\"prompt\":\"The river\",\"max_tokens\":12,\"n\":4,\"seed\":3,\"noise_seed\":4,\"ignore_eos\":true,"
                  "\"return_token_ids\":true,\"logit_bias\":%s}",
                  bias));
}

static void check_same(const Daemon *d, const Answer *a, const char *bias) {
    Answer b = biased(d, bias);
    CHECK_MSG(b.status == 200 && json_same(a->json, "choices", b.json, "choices"), "%s: %s", bias, b.body);
}

TEST(bias_forms) {
    Daemon d;
    REQUIRE(daemon_start(&d, CHECKPOINT_SMALL, NULL));
    int q = token_of(&d, "Q"), seven = token_of(&d, "7");
    char bias[128];
    snprintf(bias, sizeof bias, "{\"%d\":9}", q);
    Answer a = biased(&d, bias), none = biased(&d, "{}");
    CHECK_MSG(a.status == 200 && strchr(answer_text(&a, 0), 'Q'), "%s", a.body);
    check_same(&d, &a, "{\"Q\":9}");
    check_same(&d, &a, "[[\"Q\",9]]");
    snprintf(bias, sizeof bias, "[[%d,9]]", q);
    check_same(&d, &a, bias);
    snprintf(bias, sizeof bias, "[[%d,30],[\"Q\",-25],[\"Q\",4]]", q); /* they add up */
    check_same(&d, &a, bias);
    snprintf(bias, sizeof bias, "{\"%d\":2,\"QQQ\":2,\"Q\":1}", q); /* once for each time that it is in the text */
    check_same(&d, &a, bias);
    check_same(&d, &none, "[]");
    check_same(&d, &none, "{\"Q\":0}");
    snprintf(bias, sizeof bias, "[[%d,7],[\"Q\",-7]]", q);
    check_same(&d, &none, bias);
    /* A pair's string is a text whatever it looks like. */
    snprintf(bias, sizeof bias, "{\"%d\":9}", seven);
    a = biased(&d, bias);
    check_same(&d, &a, "[[\"7\",9]]");
    CHECK(strchr(answer_text(&a, 0), '7') != NULL);
    daemon_stop(&d);
}

/* " the" is of one token, " QZ" of several: none of them comes, with -100 or with false. */
TEST(bias_bans) {
    Daemon d;
    REQUIRE(daemon_start(&d, CHECKPOINT_SMALL, NULL));
    static const char *const bans[] = {"{\" QZ7x\":-100}", "{\" QZ7x\":false}", "[[\" QZ7x\",false]]"};
    int ids[] = {token_of(&d, "Q"), token_of(&d, "Z"), token_of(&d, "7"), token_of(&d, "x")};
    Answer a = biased(&d, test_text("{\"%d\":50,\"%d\":50,\"%d\":50,\"%d\":50}", ids[0], ids[1], ids[2], ids[3]));
    CHECK(strpbrk(answer_text(&a, 0), "QZ7x") != NULL);
    for (size_t i = 0; i < COUNTOF(bans); i++) {
        a = biased(&d, bans[i]);
        CHECK_MSG(a.status == 200, "%s", a.body);
        for (int k = 0; k < 4; k++) CHECK(!strpbrk(answer_text(&a, k), "QZ7x"));
    }
    /* What is banned is still drawn where nothing else may come. */
    a = http_post(&d, "/v1/completions",
                  "{\"prompt\":\"x\",\"choice\":[\"Q\",\"Z\"],\"logit_bias\":{\"Q\":false,\"Z\":false}}");
    CHECK_MSG(a.status == 200 && strpbrk(answer_text(&a, 0), "QZ"), "%s", a.body);
    daemon_stop(&d);
}

/* Beside a ban the bits of other biases are lost, so that what is left of their sum would tell in which order it was
 * taken. */
TEST(bias_in_any_order) {
    static const char *const orders[] = {"[\"Z\",30],[\"Z\",30],[\"Z\",false]", "[\"Z\",30],[\"Z\",false],[\"Z\",30]",
                                         "[\"Z\",false],[\"Z\",30],[\"Z\",30]"};
    char first[2] = "";
    Daemon d;
    REQUIRE(daemon_start(&d, CHECKPOINT_SMALL, NULL));
    for (size_t i = 0; i < COUNTOF(orders); i++) {
        Answer a = http_post(
            &d, "/v1/completions",
            test_text("{\"prompt\":\"x\",\"choice\":[\"Q\",\"Z\"],\"temperature\":0,\"noise_seed\":1,\"logit_bias\":"
                      "[[\"Q\",false],%s]}",
                      orders[i]));
        if (i == 0) snprintf(first, sizeof first, "%s", answer_text(&a, 0));
        CHECK_MSG(*first && !strcmp(answer_text(&a, 0), first), "%s: %s, not %s", orders[i], a.body, first);
    }
    daemon_stop(&d);
}

/* n pairs, and a text of n tokens. */
static int status_of(const Daemon *d, int n, bool pairs) {
    Buffer b = {0};
    buffer_text(&b, pairs ? "[" : "{\"");
    for (int i = 0; i < n; i++) buffer_text(&b, !pairs ? "Q" : i ? ",[5,0]" : "[5,0]");
    buffer_print(&b, "%s%c", pairs ? "]" : "\":0}", 0);
    Buffer body = {0};
    buffer_print(&body, "{\"prompt\":\"x\",\"max_tokens\":1,\"logit_bias\":%s}%c", b.data, 0);
    Answer a = http_post(d, "/v1/completions", body.data);
    int status = a.status;
    if (status != 200) answer_check_error(&a, 400, "logit_bias", "many");
    buffer_free(&body);
    buffer_free(&b);
    return status;
}

TEST(bias_bounds) {
    Daemon d;
    REQUIRE(daemon_start(&d, CHECKPOINT_SMALL, NULL));
    for (int pairs = 0; pairs < 2; pairs++) CHECK(status_of(&d, 300, pairs) == 200 && status_of(&d, 301, pairs) == 400);
    daemon_stop(&d);
    REQUIRE(daemon_start(&d, CHECKPOINT_SMALL, "--max-logit-bias 2"));
    CHECK(status_of(&d, 2, true) == 200 && status_of(&d, 3, true) == 400);
    daemon_stop(&d);
}
