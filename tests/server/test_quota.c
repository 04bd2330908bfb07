/* What a key may use a minute: the buckets by a clock of our own, and what clients are told of them. */
#include "base/memory.h"
#include "server/quota.h"
#include "tests/support/http_client.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static int take(Quota *q, uint64_t key, double now) {
    ApiError e = {0};
    return quota_request(q, key, now, &e) ? e.status : 200;
}

static double wait_of(Quota *q, uint64_t key, double now) {
    ApiError e = {0};
    return quota_request(q, key, now, &e) ? e.retry_after : 0;
}

TEST(quota_of_requests_fills_all_the_time) {
    Quota q;
    quota_open(&q, (QuotaLimits){.requests = 6});
    for (int i = 0; i < 6; i++) CHECK(take(&q, 1, 1000) == 200);
    CHECK(take(&q, 1, 1000) == 429 && take(&q, 2, 1000) == 200);
    CHECK(fabs(wait_of(&q, 1, 1004) - 6) < 1e-9);
    CHECK(take(&q, 1, 1009.9) == 429 && take(&q, 1, 1010.1) == 200 && take(&q, 1, 1010.2) == 429);
    int n = 0; /* after an hour a minute's worth, not an hour's */
    while (n < 100 && take(&q, 1, 5000) == 200) n++;
    CHECK_MSG(n == 6, "%d", n);
    quota_close(&q);
}

/* Nobody gets more than one request beyond the limit, and that is paid back. */
TEST(quota_of_tokens_is_taken_before_and_given_back) {
    Quota q;
    quota_open(&q, (QuotaLimits){.tokens = 600});
    CHECK(take(&q, 1, 0) == 200);
    quota_tokens(&q, 1, 0, 500);
    CHECK(take(&q, 1, 0) == 200);
    quota_tokens(&q, 1, 0, 500); /* 400 in debt */
    CHECK(fabs(wait_of(&q, 1, 0) - 40.1) < 1e-9);
    quota_tokens(&q, 1, 0, -450); /* the first one ended early */
    CHECK(take(&q, 1, 0) == 200);
    quota_tokens(&q, 1, 100, -450); /* what a whole bucket is given back is nobody's */
    quota_tokens(&q, 1, 100, 600);
    CHECK(take(&q, 1, 100) == 429);
    quota_close(&q);
}

/* Of two that are used up the one that takes longer is told. */
TEST(quota_of_requests_and_tokens) {
    static const struct {
        int requests, tokens; /* used */
        double wait;
        const char *what;
    } cases[] = {{6, 0, 10, "6 requests a minute"}, {6, 630, 10, "6 requests"}, {6, 700, 10.1, "600 tokens a minute"}};
    for (size_t i = 0; i < COUNTOF(cases); i++) {
        Quota q;
        ApiError e = {0};
        quota_open(&q, (QuotaLimits){.requests = 6, .tokens = 600});
        for (int n = 0; n < cases[i].requests; n++) CHECK(take(&q, 1, 0) == 200);
        quota_tokens(&q, 1, 0, cases[i].tokens);
        CHECK(quota_request(&q, 1, 0, &e) == -1);
        CHECK_MSG(fabs(e.retry_after - cases[i].wait) < 1e-9 && strstr(e.message, cases[i].what), "%g s: %s",
                  e.retry_after, e.message);
        quota_close(&q);
    }
}

/* How many are left, and in how many seconds all will be. */
TEST(quota_headers_say_what_is_left) {
    Quota q;
    Buffer b = {0};
    quota_open(&q, (QuotaLimits){.requests = 6, .tokens = 600});
    for (int n = 0; n < 2; n++) CHECK(take(&q, 1, 0) == 200);
    quota_tokens(&q, 1, 0, 700);
    quota_headers(&q, 1, 5, &b);
    buffer_append(&b, "", 1);
    CHECK_MSG(strstr(b.data, "-remaining-requests: 4\r\n") && strstr(b.data, "-reset-requests: 15.000s\r\n"), "%s",
              b.data);
    CHECK_MSG(strstr(b.data, "-remaining-tokens: 0\r\n") && strstr(b.data, "-reset-tokens: 65.000s\r\n"), "%s", b.data);
    buffer_free(&b);
    quota_close(&q);
}

/* What has waited to be read asks again: only the first of a burst finds a token left. */
TEST(quota_of_tokens_after_a_wait) {
    Quota q;
    ApiError e = {0};
    quota_open(&q, (QuotaLimits){.requests = 10, .tokens = 600});
    for (int i = 0; i < 3; i++) CHECK(take(&q, 1, 0) == 200);
    CHECK(quota_still(&q, 1, 0, &e) == 0);
    quota_tokens(&q, 1, 0, 700);
    for (int i = 0; i < 2; i++)
        CHECK(quota_still(&q, 1, 0, &e) == -1 && e.status == 429 && fabs(e.retry_after - 10.1) < 1e-9);
    CHECK(q.uses[0].requests == 9); /* those that were refused are given back */
    quota_close(&q);
}

/* As many keys as there ever were need no more memory than those of the last minute. */
TEST(quota_forgets_whole_buckets) {
    Quota q;
    quota_open(&q, (QuotaLimits){.requests = 60});
    for (int i = 1; i <= 1000; i++) CHECK(take(&q, (uint64_t)i, 2 * i) == 200);
    CHECK_MSG(q.n <= 2, "%d places", q.n);
    quota_close(&q);
    quota_open(&q, (QuotaLimits){.requests = 60, .tokens = 600});
    CHECK(take(&q, 1, 0) == 200);
    quota_tokens(&q, 1, 0, 1200);
    CHECK(take(&q, 2, 30) == 200 && take(&q, 1, 30) == 429); /* which still owes tokens */
    quota_close(&q);
}

static void expect_header(const Answer *a, const char *name, const char *value) {
    char *text = answer_header(a, name);
    CHECK_MSG(text && !strcmp(text, value), "%s: %s, not %s", name, text ? text : "none", value);
    free(text);
}

static int count(const Daemon *d, const char *key, const char *path, const char *body) {
    Answer a = http_request(d, NULL, path, key, body);
    int status = a.status;
    return status;
}

#define KEY_A "X-Api-Key: key-of-a"
#define KEY_B "X-Api-Key: key-of-b"

static bool start_with_keys(Daemon *d, const char *more) {
    const char *dir = test_dir();
    char path[256];
    keys_write(path, dir, "key-of-a\nkey-of-b\n");
    return daemon_start(d, CHECKPOINT_SMALL, test_text("--api-key-file %s %s", path, more));
}

TEST(quota_of_requests_over_http) {
    Daemon d;
    REQUIRE(start_with_keys(&d, "--requests-per-minute 3"));
    Answer a = http_request(&d, NULL, "/v1/completions", KEY_A, "{\"max_tokens\":1}");
    expect_header(&a, "x-ratelimit-limit-requests", "3");
    expect_header(&a, "x-ratelimit-remaining-requests", "2");
    CHECK_MSG(a.status == 200 && !strstr(a.headers, "x-ratelimit-limit-tokens"), "%s", a.headers);
    CHECK(count(&d, KEY_A, "/v1/completions", "{\"max_tokens\":-7}") == 400); /* is one too */
    CHECK(count(&d, KEY_A, "/tokenize", "{\"prompt\":\"a\"}") == 200);
    a = http_request(&d, NULL, "/v1/completions", KEY_A, "{\"max_tokens\":1,\"stream\":true}");
    answer_check_error(&a, 429, "", "the fourth");
    CHECK_MSG(!strcmp(json_text(a.json, "error.code"), "rate_limit_exceeded") &&
                  strstr(json_text(a.json, "error.message"), "3 requests a minute"),
              "%s", a.body);
    char *seconds = answer_header(&a, "Retry-After"), *ms = answer_header(&a, "retry-after-ms");
    CHECK_MSG(seconds && ms && atoi(seconds) >= 1 && atoi(seconds) <= 20 && atoi(ms) <= 20000, "%s", a.headers);
    expect_header(&a, "x-ratelimit-remaining-requests", "0");
    free(seconds);
    free(ms);
    CHECK(count(&d, KEY_A, "/v1/models", NULL) == 200 && count(&d, KEY_A, "/metrics", NULL) == 200);
    CHECK(count(&d, KEY_B, "/v1/completions", "{\"max_tokens\":1}") == 200);
    daemon_stop(&d);
}

/* Tokens left as a client reads them after so many were used. */
static double tokens_left(const Daemon *d, const char *body) {
    Answer a = http_request(d, NULL, "/v1/completions", KEY_A, body);
    char *left = answer_header(&a, "x-ratelimit-remaining-tokens"),
         *reset = answer_header(&a, "x-ratelimit-reset-tokens");
    CHECK_MSG(a.status == 200 && left && reset && reset[strlen(reset) - 1] == 's', "%d %s", a.status, a.headers);
    double n = left ? atof(left) : NAN;
    free(left);
    free(reset);
    return n;
}

TEST(quota_of_tokens_over_http) {
    Daemon d;
    REQUIRE(start_with_keys(&d, "--tokens-per-minute 120"));
    /* It may use 103, and uses 4. */
    static const char brief[] =
        "{\"prompt\":[1,2,3],\"max_tokens\":100,\"logit_bias\":{\"5\":100},\"stop_token_ids\":[5]}";
    double first = tokens_left(&d, brief), second = tokens_left(&d, brief);
    CHECK_MSG(first == 17 && second >= 13 && second <= 17, "%g, then %g", first, second);
    CHECK(count(&d, KEY_A, "/v1/completions", "{\"prompt\":[1,2,3],\"max_tokens\":400,\"n\":2,\"ignore_eos\":true}") ==
          200);
    Answer a = http_request(&d, NULL, "/v1/completions", KEY_A, brief);
    answer_check_error(&a, 429, "", "in debt");
    CHECK_MSG(strstr(a.body, "120 tokens a minute"), "%s", a.body);
    expect_header(&a, "x-ratelimit-remaining-tokens", "0");
    CHECK(count(&d, KEY_B, "/v1/completions", brief) == 200);
    daemon_stop(&d);
}

/* Else two keys would be one tenant's. */
TEST(quota_keys_are_distinct) {
    const char *dir = test_dir();
    char path[256], *errors;
    keys_write(path, dir, "key-of-a alice\n# and again\nkey-of-b\nkey-of-a bob\n");
    CHECK(daemon_run(test_text("--model x --port 0 --api-key-file %s", path), &errors) == 1);
    CHECK_MSG(strstr(errors, "keys:4: this key is on a line before, too") && !strstr(errors, "key-of-a"), "%s", errors);
    free(errors);
}

TEST(quota_needs_keys) {
    static const char *const options[] = {"--requests-per-minute 3", "--tokens-per-minute 3", "--public-models"};
    for (size_t i = 0; i < COUNTOF(options); i++) {
        char *errors;
        int status = daemon_run(test_text("--model x --port 0 %s", options[i]), &errors);
        CHECK_MSG(status == 2 && strstr(errors, "--api-key-file"), "%d %s", status, errors);
        free(errors);
    }
}
