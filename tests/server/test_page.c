/* The page as bytes on the wire; what it does in a browser is tested in tests/browser. */
#include "base/err.h"
#include "base/sha256.h"
#include "tests/support/http_client.h"

#include <openssl/evp.h>
#include <stdlib.h>
#include <string.h>

/* The policy must name the text between two tags of the page. */
static void check_hash(const char *policy, const char *page, const char *open, const char *close) {
    unsigned char digest[SHA256_BYTES], base64[64];
    Sha256 s;
    const char *from = strstr(page, open), *to = strstr(page, close);
    REQUIRE(from && to && from < to);
    from += strlen(open);
    sha256_init(&s);
    sha256_add(&s, from, (size_t)(to - from));
    sha256_peek(&s, digest);
    EVP_EncodeBlock(base64, digest, SHA256_BYTES);
    const char *named = test_text("-src 'sha256-%s'", (char *)base64);
    CHECK_MSG(strstr(policy, named), "%s not in %s", named, policy);
}

TEST(page_is_one_file_under_a_strict_policy) {
    Daemon d;
    REQUIRE(daemon_start(&d, CHECKPOINT_SMALL, NULL));
    Answer a = http_get(&d, "/");
    char *policy = answer_header(&a, "Content-Security-Policy"), *type = answer_header(&a, "Content-Type");
    CHECK(a.status == 200 && type && !strcmp(type, "text/html; charset=utf-8"));
    REQUIRE(policy);
    CHECK(strstr(policy, "default-src 'none'") && strstr(policy, "connect-src 'self'") && !strstr(policy, "unsafe"));
    check_hash(policy, a.body, "<script type=\"module\">", "</script>");
    check_hash(policy, a.body, "<style>", "</style>");
    static const char *const strangers[] = {"src=", "@import", "url(", "import {", "export ", "@style", "@script"};
    CHECK_MSG(strlen(a.body) < 90000, "%zu bytes", strlen(a.body));
    for (size_t i = 0; i < COUNTOF(strangers); i++) CHECK_MSG(!strstr(a.body, strangers[i]), "%s", strangers[i]);
    free(policy);
    free(type);
    daemon_stop(&d);
}

TEST(page_needs_no_key_but_what_it_asks_does) {
    const char *dir = test_dir();
    char path[256];
    Daemon d;
    keys_write(path, dir, "secret\n");
    REQUIRE(daemon_start(&d, CHECKPOINT_SMALL, test_text("--api-key-file %s", path)));
    Answer page = http_get(&d, "/"), noise = http_get(&d, "/noise");
    Answer allowed = http_request(&d, NULL, "/noise", "Authorization: Bearer secret", NULL);
    CHECK(page.status == 200 && allowed.status == 200);
    answer_check_error(&noise, 401, "", "/noise");
    daemon_stop(&d);
}

/* The test checkpoint's sigmas are all 2. */
TEST(noise_route_tells_sigma) {
    Daemon d;
    REQUIRE(daemon_start(&d, CHECKPOINT_SMALL, NULL));
    Answer a = http_get(&d, "/noise");
    CHECK_MSG(!strcmp(a.body, "{\"scope\":\"head\",\"density\":\"gaussian\",\"span\":\"pair\",\"conditioned\":false,"
                              "\"sigma\":[[2.0,2.0],[2.0,2.0]]}") ||
                  !strcmp(a.body, "{\"scope\":\"head\",\"density\":\"gaussian\",\"span\":\"pair\",\"conditioned\":"
                                  "false,\"sigma\":[[2,2],[2,2]]}"),
              "%s", a.body);
    daemon_stop(&d);
    REQUIRE(daemon_start(&d, CHECKPOINT_QUIET, NULL));
    a = http_get(&d, "/noise");
    CHECK_MSG(
        !strcmp(a.body,
                "{\"scope\":\"none\",\"density\":\"gaussian\",\"span\":\"pair\",\"conditioned\":false,\"sigma\":[]}"),
        "%s", a.body);
    daemon_stop(&d);
}
