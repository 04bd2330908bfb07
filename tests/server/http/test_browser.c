/* What pages of other origins, and of other names, may do; and the headers that every answer has. */
#include "base/buffer.h"
#include "base/err.h"
#include "base/memory.h"
#include "base/text.h"
#include "tests/support/http_client.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* The whole answer to these lines (each with its CRLF, Host among them) and a small completion or, with method GET or
 * OPTIONS, nothing. */
static char *talk(const Daemon *d, const char *method, const char *path, const char *lines) {
    static const char body[] = "{\"max_tokens\":1}";
    bool post = !strcmp(method, "POST");
    char text[2048], *answer = NULL;
    int fd = raw_connect(d);
    BUG_ON(fd < 0);
    int n = snprintf(text, sizeof text, "%s %s HTTP/1.1\r\n%sConnection: close\r\nContent-Length: %zu\r\n\r\n%s",
                     method, path, lines, post ? strlen(body) : 0, post ? body : "");
    if (raw_send(fd, text, (size_t)n)) answer = raw_read(fd, PATIENCE, NULL);
    close(fd);
    return answer ? answer : xstrdup("");
}

typedef struct Case {
    const char *lines;
    int status;
} Case;

static void check_cases(const Daemon *d, const char *method, const char *path, const Case *cases, size_t n) {
    for (size_t i = 0; i < n; i++) {
        char *answer = talk(d, method, path, cases[i].lines);
        CHECK_MSG(!strncmp(answer, "HTTP/1.1", 8) && !strncmp(answer + 8, test_text(" %d ", cases[i].status), 5),
                  "%s%.300s", cases[i].lines, answer);
        free(answer);
    }
}

#define HERE "Host: localhost\r\n"

TEST(browser_pages_of_others) {
    static const Case posts[] = {
        {HERE, 200},
        {HERE "Sec-Fetch-Site: same-origin\r\nOrigin: http://localhost\r\n", 200},
        {HERE "Sec-Fetch-Site: none\r\n", 200},
        {HERE "Sec-Fetch-Site: same-site\r\nOrigin: http://localhost:3000\r\n", 403},
        {HERE "Sec-Fetch-Site: cross-site\r\n", 403},
        {HERE "Sec-Fetch-Site: something\r\n", 403},
        {HERE "Origin: http://localhost\r\n", 200},
        {HERE "Origin: http://evil.example\r\n", 403},
        {HERE "Origin: null\r\n", 403},
        {"Host: 127.0.0.1:8080\r\n", 200},
        {"Host: [::1]:8080\r\n", 200},
        {"Host: 127.1.2.3\r\n", 200},
        {"Host: LOCALHOST:1\r\n", 200},
        {"Host: x\r\n", 200}, /* allowed by tests/support/daemon.c */
        {"Host: evil.example\r\n", 403},
        {"Host: localhost.evil.example\r\n", 403},
        {"Host: 127.0.0.1.evil.example:80\r\n", 403},
        {"Host: 10.0.0.1\r\n", 403},
        {"Host: [::2]\r\n", 403},
        {"Host: [::1].evil.example\r\n", 403},
        {"Host: [::1]evil.example:80\r\n", 403},
        {"Host: [::1\r\n", 403},
        {"Host: [localhost]\r\n", 403},
        {"Host: localhost:80:evil.example\r\n", 403},
        {"Host: localhost:abc\r\n", 403},
    };
    static const Case gets[] = {{"Host: evil.example\r\n", 403}, {HERE "Sec-Fetch-Site: cross-site\r\n", 200}};
    Daemon d;
    REQUIRE(daemon_start(&d, CHECKPOINT_SMALL, NULL));
    check_cases(&d, "POST", "/v1/completions", posts, COUNTOF(posts));
    check_cases(&d, "GET", "/v1/models", gets, COUNTOF(gets));
    char *answer = talk(&d, "OPTIONS", "/v1/completions",
                        HERE "Origin: http://a.example\r\nAccess-Control-Request-Method: POST\r\n");
    CHECK_MSG(!strncmp(answer, "HTTP/1.1 200", 12) && !strstr(answer, "Access-Control-Allow"), "%s", answer);
    free(answer);
    daemon_stop(&d);
    /* Beyond loopback the name is nobody's business. */
    REQUIRE(daemon_start(&d, CHECKPOINT_SMALL, "--host 0.0.0.0 --insecure"));
    static const Case open[] = {{"Host: models.example\r\n", 200}};
    check_cases(&d, "GET", "/v1/models", open, COUNTOF(open));
    daemon_stop(&d);
    /* Unless it is said which names it has. */
    REQUIRE(daemon_start(&d, CHECKPOINT_SMALL, "--host 0.0.0.0 --insecure --allowed-host models.example"));
    static const Case named[] = {{"Host: models.example:8080\r\n", 200},
                                 {"Host: localhost:8080\r\n", 200},
                                 {"Host: evil.example\r\n", 403},
                                 {"Host: models.example:x\r\n", 403}};
    check_cases(&d, "GET", "/v1/models", named, COUNTOF(named));
    daemon_stop(&d);
}

TEST(browser_origins_that_are_named) {
    static const char file[] = "secret-key\n";
    static const char preflight[] = HERE "Origin: https://app.example\r\nAccess-Control-Request-Method: POST\r\n"
                                         "Access-Control-Request-Headers: authorization,x-stainless-os\r\n";
    Daemon d;
    const char *path = test_dir();
    char options[512];
    snprintf(options, sizeof options, "%s/keys", path);
    FILE *f = fopen(options, "w");
    REQUIRE(f && fputs(file, f) >= 0 && fclose(f) == 0 && chmod(options, 0600) == 0);
    snprintf(options, sizeof options, "--cors-origin https://app.example http://localhost:3000 --api-key-file %s/keys",
             path);
    REQUIRE(daemon_start(&d, CHECKPOINT_SMALL, options));
    char *a = talk(&d, "OPTIONS", "/v1/completions", preflight);
    CHECK_MSG(!strncmp(a, "HTTP/1.1 200", 12) && strstr(a, "\r\nContent-Length: 0\r\n"), "%s", a);
    CHECK_MSG(strstr(a, "\r\nAccess-Control-Allow-Origin: https://app.example\r\n"), "%s", a);
    CHECK_MSG(strstr(a, "\r\nAccess-Control-Allow-Headers: authorization,x-stainless-os\r\n"), "%s", a);
    CHECK_MSG(strstr(a, "\r\nAccess-Control-Allow-Credentials: true\r\n"), "%s", a);
    CHECK_MSG(strstr(a, "\r\nAccess-Control-Allow-Methods: GET, POST\r\n") && strstr(a, "\r\nVary: Origin\r\n"), "%s",
              a);
    free(a);
    a = talk(&d, "OPTIONS", "/v1/completions",
             HERE "Origin: https://app.example\r\nAccess-Control-Request-Method: POST\r\n"
                  "Access-Control-Request-Headers:\r\n");
    CHECK_MSG(!strncmp(a, "HTTP/1.1 200", 12) && !strstr(a, "Allow-Headers"), "%s", a);
    free(a);
    a = talk(&d, "OPTIONS", "/v1/completions",
             HERE "Origin: https://other.example\r\nAccess-Control-Request-Method: POST\r\n");
    CHECK_MSG(!strncmp(a, "HTTP/1.1 200", 12) && !strstr(a, "Allow-Origin") && !strstr(a, "Allow-Credentials"), "%s",
              a);
    free(a);
    a = talk(&d, "OPTIONS", "/v1/completions", HERE);
    CHECK_MSG(!strncmp(a, "HTTP/1.1 401", 12), "%s", a);
    free(a);
    /* The page must be able to read errors too. */
    a = talk(&d, "POST", "/v1/completions", HERE "Origin: https://app.example\r\nSec-Fetch-Site: cross-site\r\n");
    CHECK_MSG(!strncmp(a, "HTTP/1.1 401", 12) && strstr(a, "Allow-Origin: https://app.example\r\n"), "%s", a);
    free(a);
    a = talk(&d, "POST", "/v1/completions",
             HERE "Origin: https://app.example\r\nSec-Fetch-Site: cross-site\r\nAuthorization: Bearer secret-key\r\n");
    CHECK_MSG(!strncmp(a, "HTTP/1.1 200", 12) && strstr(a, "Allow-Origin: https://app.example\r\n"), "%s", a);
    free(a);
    daemon_stop(&d);
    /* A cache must tell origins apart where one alone is named, too, and for those that are not. */
    REQUIRE(daemon_start(&d, CHECKPOINT_SMALL, "--cors-origin https://app.example"));
    for (int other = 0; other < 2; other++) {
        a = talk(&d, "GET", "/v1/models",
                 other ? HERE "Origin: https://other.example\r\n" : HERE "Origin: https://app.example\r\n");
        CHECK_MSG(!strncmp(a, "HTTP/1.1 200", 12) && text_count(a, "\r\nVary: Origin\r\n") == 1, "%s", a);
        CHECK_MSG((strstr(a, "Allow-Origin: https://app.example\r\n") == NULL) == other, "%s", a);
        free(a);
    }
    daemon_stop(&d);
    REQUIRE(daemon_start(&d, CHECKPOINT_SMALL, "--cors-origin *"));
    a = talk(&d, "POST", "/v1/completions", HERE "Origin: https://app.example\r\nSec-Fetch-Site: cross-site\r\n");
    CHECK_MSG(!strncmp(a, "HTTP/1.1 200", 12) && strstr(a, "Allow-Origin: *\r\n") && !strstr(a, "\r\nVary:"), "%s", a);
    CHECK_MSG(!strstr(a, "Allow-Credentials"), "%s", a);
    free(a);
    daemon_stop(&d);
}

TEST(headers_request_id) {
    Daemon d;
    REQUIRE(daemon_start(&d, CHECKPOINT_SMALL, NULL));
    static const struct {
        const char *path, *line;
        bool kept;
    } cases[] = {
        {"/health", "x-request-id: abc-1\r\n", true},
        {"/nowhere", "X-Request-Id: abc-1\r\n", true},
        {"/health", "", false},
        {"/health", "x-request-id: abc 1\r\n", false},
        {"/health", "x-request-id:\r\n", false},
    };
    for (size_t i = 0; i < COUNTOF(cases); i++) {
        char *a = talk(&d, "GET", cases[i].path, test_text(HERE "%s", cases[i].line));
        CHECK_MSG(text_count(a, "\r\nx-request-id: ") == 1, "%s", a);
        CHECK_MSG((strstr(a, "\r\nx-request-id: abc-1\r\n") != NULL) == cases[i].kept, "%s", a);
        free(a);
    }
    char *a = talk(&d, "GET", "relative", HERE); /* refused before it is read */
    CHECK_MSG(!strncmp(a, "HTTP/1.1 400", 12) && text_count(a, "\r\nx-request-id: ") == 1, "%s", a);
    free(a);
    daemon_stop(&d);
}

TEST(headers_lenient) {
    Daemon d;
    static const char body[] = "{\"max_tokens\":1,\"mirostat\":2,\"tfs\":1,\"ebnf\":\"x\"%s}";
    REQUIRE(daemon_start(&d, CHECKPOINT_SMALL, "--lenient"));
    for (int stream = 0; stream < 2; stream++) {
        Answer a = http_post(&d, "/v1/completions", test_text(body, stream ? ",\"stream\":true" : ""));
        char *ignored = answer_header(&a, "x-noised-ignored");
        CHECK_MSG(a.status == 200 && ignored && !strcmp(ignored, "mirostat, ebnf"), "%s %s", a.headers, a.body);
        free(ignored);
    }
    daemon_stop(&d);
}

/* On every kind of route. A name is the client's: none becomes a header of its own. */
TEST(headers_lenient_unknown_fields) {
    static const struct {
        const char *path, *body, *ignored;
    } cases[] = {
        {"/v1/completions", "{\"max_tokens\":1,\"promt\":\"x\",\"logitBias\":{}}", "promt, logitBias"},
        {"/v1/completions", "{\"max_tokens\":1,\"stream\":true,\"stream_options\":{\"x\":1}}", "stream_options.x"},
        {"/v1/completions", "{\"max_tokens\":1,\"a\\r\\nX-Evil: b, c\":1}", "a??X-Evil:?b??c"},
        {"/v1/completions", "{\"max_tokens\":1,\"response_format\":{\"type\":\"json_object\",\"x\":1}}",
         "response_format.x"},
        {"/v1/responses", "{\"max_output_tokens\":1,\"input\":[{\"role\":\"user\",\"content\":\"a\",\"x\":1}]}",
         "input[0].x"},
        {"/v1/embeddings", "{\"input\":\"a\",\"x\":1}", "x"},
        {"/v1/score", "{\"continuations\":[\"a\"],\"x\":0}", "x"},
        {"/tokenize", "{\"prompt\":\"a\",\"x\":1}", "x"},
        {"/detokenize", "{\"tokens\":[],\"x\":1}", "x"},
    };
    Daemon strict, lenient;
    REQUIRE(daemon_start(&strict, CHECKPOINT_SMALL, "--chat-template plain"));
    REQUIRE(daemon_start(&lenient, CHECKPOINT_SMALL, "--lenient --chat-template plain"));
    for (size_t i = 0; i < COUNTOF(cases); i++) {
        Answer refused = http_post(&strict, cases[i].path, cases[i].body);
        Answer a = http_post(&lenient, cases[i].path, cases[i].body);
        char *ignored = answer_header(&a, "x-noised-ignored");
        CHECK_MSG(refused.status == 400, "%s: %s", cases[i].body, refused.body);
        CHECK_MSG(a.status == 200 && ignored && !strcmp(ignored, cases[i].ignored), "%s %s", a.headers, a.body);
        CHECK(!answer_header(&a, "X-Evil"));
        free(ignored);
    }
    daemon_stop(&strict);
    Buffer b = {0};
    buffer_text(&b, "{\"max_tokens\":1");
    for (int i = 0; i < 1000; i++) buffer_print(&b, ",\"unknown_%d\":1", i);
    buffer_append(&b, "}", 2);
    Answer a = http_post(&lenient, "/v1/completions", b.data);
    char *ignored = answer_header(&a, "x-noised-ignored");
    CHECK_MSG(a.status == 200 && ignored && strlen(ignored) < 1200 && text_ends(ignored, "_86, ..."), "%s", a.headers);
    free(ignored);
    buffer_free(&b);
    daemon_stop(&lenient);
}

TEST(routes_models_by_other_names) {
    Daemon d;
    REQUIRE(daemon_start(&d, CHECKPOINT_SMALL, "--alias gpt-3.5-turbo-instruct b --alias c"));
    static const char *const names[] = {"tiny", "gpt-3.5-turbo-instruct", "b", "c"};
    char body[128];
    Answer list = http_get(&d, "/v1/models");
    for (int i = 0; i < 4; i++) {
        snprintf(body, sizeof body, "data.%d.id", i);
        CHECK(json_text(list.json, body) && !strcmp(json_text(list.json, body), names[i]));
        snprintf(body, sizeof body, "/v1/models/%s", names[i]);
        Answer a = http_get(&d, body);
        CHECK_MSG(a.status == 200 && !strcmp(json_text(a.json, "root"), "tiny"), "%s", a.body);
        snprintf(body, sizeof body, "{\"model\":\"%s\",\"max_tokens\":1}", names[i]);
        a = http_post(&d, "/v1/completions", body);
        CHECK_MSG(a.status == 200 && !strcmp(json_text(a.json, "model"), "tiny"), "%s", a.body);
    }
    Answer a = http_post(&d, "/v1/completions", "{\"model\":\"d\"}");
    answer_check_error(&a, 404, "model", "d");
    daemon_stop(&d);
    REQUIRE(daemon_start(&d, CHECKPOINT_SMALL, "--any-model"));
    a = http_post(&d, "/v1/completions", "{\"model\":\"d\",\"max_tokens\":1}");
    CHECK(a.status == 200);
    daemon_stop(&d);
}
