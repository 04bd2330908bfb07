/* Every route, who may use it, and the command line that decides about that. */
#include "base/clock.h"
#include "base/err.h"
#include "server/api/schema/schema.h"
#include "server/auth.h"
#include "tests/support/http_client.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

typedef struct RouteCase {
    const char *method, *path, *header, *body;
    int status;
    const char *allow;
} RouteCase;

TEST(api_routes) {
    Daemon d;
    REQUIRE(daemon_start(&d, CHECKPOINT_SMALL, "--model-name some/name"));
    static const RouteCase cases[] = {
        {"GET", "/", NULL, NULL, 200, NULL},
        {"POST", "/", NULL, "{}", 405, "GET, HEAD"},
        {"GET", "/noise", NULL, NULL, 200, NULL},
        {"GET", "/v1/completion", NULL, NULL, 404, NULL},
        {"GET", "/v1/completions/", NULL, NULL, 404, NULL},
        {"GET", "//v1/models", NULL, NULL, 404, NULL},
        {"GET", "/v1/../v1/models", NULL, NULL, 404, NULL},
        {"GET", "/v1/completions", NULL, NULL, 405, "POST"},
        {"DELETE", "/v1/models/x", NULL, NULL, 405, "GET, HEAD"},
        {"PUT", "/health", NULL, NULL, 405, "GET, HEAD"},
        {"POST", "/v1/models", NULL, "{}", 405, "GET, HEAD"},
        {"OPTIONS", "/v1/completions", NULL, NULL, 405, "POST"},
        {"BREW", "/tokenize", NULL, NULL, 405, "POST"},
        {"GET", "/v1/models/other", NULL, NULL, 404, NULL},
        {"GET", "/v1/models/some/name", NULL, NULL, 200, NULL},
        {"GET", "/v1/models/some%2Fname", NULL, NULL, 200, NULL},
        {"GET", "/v1/models", NULL, NULL, 200, NULL},
        {"HEAD", "/v1/models", NULL, NULL, 200, NULL},
        {"GET", "/health", NULL, NULL, 200, NULL},
        {"GET", "/health/live", NULL, NULL, 200, NULL},
        {"POST", "/completions", NULL, "{\"max_tokens\":1}", 200, NULL},
        {"GET", "/embeddings", NULL, NULL, 405, "POST"},
        {"GET", "/models", NULL, NULL, 200, NULL},
        {"GET", "/models/some/name", NULL, NULL, 200, NULL},
        {"GET", "/models/other", NULL, NULL, 404, NULL},
        {"GET", "/v1/health", NULL, NULL, 200, NULL},
        {"HEAD", "/ping", NULL, NULL, 200, NULL},
        {"GET", "/metrics", NULL, NULL, 200, NULL},
        {"POST", "/metrics", NULL, "{}", 405, "GET, HEAD"},
        {"GET", "/v1/models?x=1&y=%zz", NULL, NULL, 200, NULL},
        {"GET", "/health?verbose=1", NULL, NULL, 200, NULL},
        {"GET", "/health%00", NULL, NULL, 400, NULL},
        {"POST", "/v1/completions", "Sec-Fetch-Site: cross-site", "{\"max_tokens\":1}", 403, NULL},
        {"POST", "/v1/completions", "Content-Type: application/json; charset=utf-8", "{\"max_tokens\":1}", 200, NULL},
        {"POST", "/v1/completions", "Content-Type: application/x-www-form-urlencoded", "{\"max_tokens\":1}", 200, NULL},
    };
    for (size_t i = 0; i < COUNTOF(cases); i++) {
        const RouteCase *c = &cases[i];
        Answer a = http_request(&d, c->method, c->path, c->header, c->body);
        CHECK_MSG(a.status == c->status, "%s %s: %d %s", c->method, c->path, a.status, a.body);
        if (c->status != 200)
            answer_check_error(&a, c->status, json_text(a.json, "error.param") ? "model" : "", c->path);
        char *allow = answer_header(&a, "Allow");
        CHECK_MSG(c->allow ? allow && !strcmp(allow, c->allow) : !allow, "%s %s: Allow %s", c->method, c->path,
                  allow ? allow : "none");
        free(allow);
    }
    Answer a = http_get(&d, "/v1/models");
    CHECK(!strcmp(json_text(a.json, "object"), "list") && !strcmp(json_text(a.json, "data.0.id"), "some/name"));
    CHECK(!strcmp(json_text(a.json, "data.0.object"), "model") && json_number(a.json, "data.0.created") > 1.7e9);
    daemon_stop(&d);
}

TEST(api_unknown_routes_name_the_nearest) {
    static const struct {
        const char *path, *nearest;
    } cases[] = {{"/v1/completion", "/v1/completions"},
                 {"/v1/completions/", "/v1/completions"},
                 {"/v1/v1/chat/completions", "/v1/chat/completions"},
                 {"/chat/completion", "/chat/completions"},
                 {"/healthz", "/health"},
                 {"/tokenise", "/tokenize"},
                 {"/api/generate", NULL},
                 {"/favicon.ico", NULL},
                 {"/x", NULL}};
    char longer[512] = "/v1/completions";
    for (size_t i = 0; i < COUNTOF(cases); i++) {
        const char *nearest = route_nearest(cases[i].path);
        CHECK_MSG(!strcmp(nearest ? nearest : "none", cases[i].nearest ? cases[i].nearest : "none"), "%s: %s",
                  cases[i].path, nearest ? nearest : "none");
    }
    memset(longer + strlen(longer), 's', 300);
    CHECK(!route_nearest(longer) && !route_nearest(""));
    Daemon d;
    REQUIRE(daemon_start(&d, CHECKPOINT_SMALL, NULL));
    Answer a = http_post(&d, "/v1/completion", "{}"), b = http_get(&d, "/nothing/of/ours");
    CHECK_MSG(
        !strcmp(json_text(a.json, "error.message"), "there is no route /v1/completion; the nearest is /v1/completions"),
        "%s", a.body);
    CHECK_MSG(!strcmp(json_text(b.json, "error.message"), "there is no route /nothing/of/ours"), "%s", b.body);
    daemon_stop(&d);
}

TEST(api_tokenize) {
    Daemon d;
    REQUIRE(daemon_start(&d, CHECKPOINT_SMALL, NULL));
    static const char text[] = "The river caf\xC3\xA9 \xF0\x9F\x8C\x8A <|endoftext|>\\n";
    Answer vllm = http_post(&d, "/tokenize", test_text("{\"prompt\":\"%s\",\"add_special_tokens\":false}", text));
    Answer llama = http_post(&d, "/tokenize", test_text("{\"content\":\"%s\",\"add_special\":false}", text));
    CHECK(vllm.status == 200 && json_number(vllm.json, "max_model_len") == 512);
    CHECK(json_number(vllm.json, "count") == cJSON_GetArraySize(json_at(vllm.json, "tokens")));
    CHECK(cJSON_Compare(json_at(vllm.json, "tokens"), json_at(llama.json, "tokens"), true));
    char *tokens = json_raw(vllm.json, "tokens");
    Answer back = http_post(&d, "/detokenize", test_text("{\"tokens\":%s}", tokens));
    CHECK_MSG(json_text(back.json, "prompt") && !strncmp(json_text(back.json, "prompt"), text, sizeof text - 3), "%s",
              back.body);
    CHECK(!strcmp(json_text(back.json, "prompt"), json_text(back.json, "content")));
    free(tokens);

    llama = http_post(&d, "/tokenize", "{\"content\":\"a\xE2\x82\xAC\",\"with_pieces\":true}");
    CHECK_MSG(json_text(llama.json, "tokens.0.piece") && !strcmp(json_text(llama.json, "tokens.0.piece"), "a"), "%s",
              llama.body);
    CHECK_MSG(json_number(llama.json, "tokens.1.piece.0") == 0xE2, "%s", llama.body);

    static const Bad wrong[] = {
        {"{}", 400, "prompt"},
        {"{\"prompt\":\"a\",\"content\":\"b\"}", 400, "content"},
        {"{\"prompt\":1}", 400, "prompt"},
        {"{\"prompt\":\"a\",\"model\":\"b\"}", 404, "model"},
        {"{\"prompt\":\"a\",\"add_special_tokens\":1}", 400, "add_special_tokens"},
        {"{\"text\":\"a\"}", 400, "text"},
    };
    check_bodies(&d, "/tokenize", wrong, COUNTOF(wrong));
    static const Bad wrong_ids[] = {
        {"{}", 400, "tokens"},
        {"{\"tokens\":1}", 400, "tokens"},
        {"{\"tokens\":[320]}", 400, "tokens"},
        {"{\"tokens\":[-1]}", 400, "tokens"},
        {"{\"tokens\":[[1]]}", 400, "tokens"},
        {"{\"ids\":[1]}", 400, "ids"},
    };
    check_bodies(&d, "/detokenize", wrong_ids, COUNTOF(wrong_ids));
    Answer a = http_post(&d, "/detokenize", "{\"tokens\":[]}");
    CHECK(a.status == 200 && !strcmp(json_text(a.json, "prompt"), ""));
    daemon_stop(&d);
}

TEST(api_keys) {
    Daemon d;
    const char *dir = test_dir();
    char path[256];
    keys_write(path, dir, "# comment\nfirst-key\n\nsecond-key\r\n");
    REQUIRE(daemon_start(&d, CHECKPOINT_SMALL, test_text("--api-key-file %s --host 0.0.0.0", path)));
    static const RouteCase cases[] = {
        {"GET", "/v1/models", NULL, NULL, 401, NULL},
        {"GET", "/v1/models", "Authorization: Bearer first-key", NULL, 200, NULL},
        {"GET", "/v1/models", "authorization: bearer second-key", NULL, 200, NULL},
        {"GET", "/v1/models", "X-Api-Key: first-key", NULL, 200, NULL},
        {"GET", "/v1/models", "X-Api-Key: first-ke", NULL, 401, NULL},
        {"GET", "/v1/models", "X-Api-Key: first-key1", NULL, 401, NULL},
        {"GET", "/v1/models", "X-Api-Key: # comment", NULL, 401, NULL},
        {"GET", "/v1/models", "Authorization: Basic first-key", NULL, 401, NULL},
        {"GET", "/v1/models", "Authorization: Bearer ", NULL, 401, NULL},
        {"GET", "/unknown", NULL, NULL, 401, NULL},
        {"GET", "/metrics", NULL, NULL, 401, NULL},
        {"GET", "/metrics", "Authorization: Bearer first-key", NULL, 200, NULL},
        {"POST", "/v1/completions", NULL, "{}", 401, NULL},
        {"POST", "/tokenize", NULL, "{\"prompt\":\"x\"}", 401, NULL},
        {"POST", "/tokenize", "X-Api-Key: second-key", "{\"prompt\":\"x\"}", 200, NULL},
        {"GET", "/health", NULL, NULL, 200, NULL},
        {"GET", "/health/live", NULL, NULL, 200, NULL},
    };
    for (size_t i = 0; i < COUNTOF(cases); i++) {
        Answer a = http_request(&d, cases[i].method, cases[i].path, cases[i].header, cases[i].body);
        CHECK_MSG(a.status == cases[i].status, "%zu: %s %s: %d", i, cases[i].path,
                  cases[i].header ? cases[i].header : "", a.status);
        if (cases[i].status == 401) answer_check_error(&a, 401, "", cases[i].path);
    }
    daemon_stop(&d);
}

TEST(api_public_models) {
    Daemon d;
    const char *dir = test_dir();
    char path[256];
    keys_write(path, dir, "secret\n");
    REQUIRE(daemon_start(&d, CHECKPOINT_SMALL, test_text("--api-key-file %s --public-models --alias other", path)));
    static const struct {
        const char *path;
        int status;
    } cases[] = {{"/v1/models", 200},    {"/models", 200},       {"/v1/models/tiny", 200},
                 {"/models/other", 200}, {"/v1/models/x", 404},  {"/props", 401},
                 {"/noise", 401},        {"/openapi.json", 401}, {"/v1/completions", 401}};
    for (size_t i = 0; i < COUNTOF(cases); i++) {
        Answer a = http_get(&d, cases[i].path);
        CHECK_MSG(a.status == cases[i].status, "%s: %d %s", cases[i].path, a.status, a.body);
    }
    Answer a = http_request(&d, "GET", "/openapi.json", "X-Api-Key: secret", NULL);
    cJSON *paths = cJSON_GetObjectItem(a.json, "paths");
    cJSON *list = cJSON_GetObjectItem(cJSON_GetObjectItem(paths, "/v1/models"), "get"),
          *noise = cJSON_GetObjectItem(cJSON_GetObjectItem(paths, "/noise"), "get");
    CHECK(list && cJSON_GetObjectItem(list, "security") && noise && !cJSON_GetObjectItem(noise, "security"));
    daemon_stop(&d);
}

/* A key that others can read is theirs. */
TEST(api_key_files) {
    static const struct {
        mode_t mode;
        uid_t owner;
        bool fine;
    } cases[] = {{0600, 1, true}, {0400, 1, true}, {0604, 1, false}, {0640, 1, false}, {0644, 0, false},
                 {0640, 0, true}, {0440, 0, true}, {0660, 0, false}, {0601, 0, false}, {0444, 0, false}};
    const char *dir = test_dir();
    const char *path = test_text("%s/keys", dir);
    test_write_file(path, "key\n", 4);
    for (size_t i = 0; i < COUNTOF(cases); i++) {
        Auth auth;
        Err err = {""};
        bool root = getuid() == 0;
        if (!root && cases[i].owner == 0) continue;
        if (root && chown(path, cases[i].owner, 0)) continue;
        chmod(path, cases[i].mode);
        bool fine = auth_load(&auth, path, &err) == 0;
        const char *mode = test_text("%04o", (unsigned)cases[i].mode);
        CHECK_MSG(fine == cases[i].fine, "%s of %d: %s", mode, (int)cases[i].owner, err.msg);
        CHECK_MSG(fine || (strstr(err.msg, path) && strstr(err.msg, mode)), "%s", err.msg);
        if (fine) auth_free(&auth);
    }
    chmod(path, 0600);
    test_write_file(path, "key\0more\n", 9);
    Auth auth;
    Err err;
    CHECK(auth_load(&auth, path, &err) && strstr(err.msg, "NUL"));
}

/* Of the keys a, b and c: a digit for each that is let in. */
static int let_in(const Daemon *d) {
    static const char *const headers[] = {"X-Api-Key: key-a", "X-Api-Key: key-b", "X-Api-Key: key-c"};
    int in = 0;
    for (size_t i = 0; i < COUNTOF(headers); i++) {
        Answer a = http_request(d, NULL, "/v1/models", headers[i], NULL);
        in = in * 10 + (a.status == 200);
    }
    return in;
}

static bool comes_to_let_in(const Daemon *d, int wanted) {
    for (double t0 = now_seconds(); now_seconds() - t0 < PATIENCE; usleep(5000))
        if (let_in(d) == wanted) return true;
    return false;
}

/* SIGHUP reads the keys again; a file that is no good changes nothing. */
TEST(api_keys_are_read_again) {
    Daemon d;
    const char *dir = test_dir();
    char path[256], log[256], options[512];
    snprintf(log, sizeof log, "%s/log", dir);
    keys_write(path, dir, "key-a\nkey-b\n");
    snprintf(options, sizeof options, "--api-key-file %s", path);
    daemon_log_to(log);
    bool up = daemon_start(&d, CHECKPOINT_SMALL, options);
    daemon_log_to(NULL);
    REQUIRE(up);
    CHECK(let_in(&d) == 110);
    /* one whose head was let in and whose body ends when its key is none any more */
    static const char begun[] = "POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nX-Api-Key: key-a\r\n"
                                "Content-Length: 2\r\n\r\n{";
    int fd = raw_connect(&d);
    CHECK(raw_send(fd, begun, sizeof begun - 1));
    usleep(100000);
    keys_write(path, dir, "key-c\nkey-b\n");
    kill(d.pid, SIGHUP);
    CHECK(comes_to_let_in(&d, 11));
    CHECK(raw_send(fd, "}", 1) && raw_expect(fd, "invalid_api_key"));
    close(fd);
    static const char *const bad[] = {"", "three small words\n"};
    for (size_t i = 0; i < COUNTOF(bad); i++) {
        keys_write(path, dir, bad[i]);
        kill(d.pid, SIGHUP);
        const char *told = test_text("the API keys stay what they were: %s", path);
        CHECK(daemon_log_says(log, told, (int)i + 1) == (int)i + 1);
        CHECK(let_in(&d) == 11);
    }
    daemon_stop(&d);
}

/* A key keeps its number, and nobody gets that of another, who may have prompts in the cache. */
TEST(api_keys_keep_their_numbers) {
    Auth auth;
    Err err;
    const char *dir = test_dir();
    char path[256];
    keys_write(path, dir, "key-a\nkey-b\n");
    REQUIRE(auth_load(&auth, path, &err) == 0);
    CHECK(auth_check(&auth, NULL, "key-a") == 1 && auth_check(&auth, NULL, "key-b") == 2);
    keys_write(path, dir, "key-c\nkey-b\n");
    CHECK(auth_reload(&auth, path, &err) == 0);
    CHECK(auth_check(&auth, NULL, "key-a") == -1 && auth_check(&auth, NULL, "key-b") == 2);
    CHECK(auth_check(&auth, "Bearer key-c", NULL) == 3 && auth_check(&auth, NULL, "") == -1);
    keys_write(path, dir, "key-a\n");
    CHECK(auth_reload(&auth, path, &err) == 0);
    CHECK(auth_check(&auth, NULL, "key-a") == 4 && auth_check(&auth, NULL, "key-b") == -1);
    keys_write(path, dir, "");
    CHECK(auth_reload(&auth, path, &err) == -1 && auth_check(&auth, NULL, "key-a") == 4);
    auth_free(&auth);
}

/* What stands behind a NUL belongs to the key that was given: such a header is refused, whatever stands before. */
TEST(api_keys_with_a_nul) {
    static const char *const headers[] = {"Authorization: Bearer a-key", "X-Api-Key: a-key"};
    static const char tails[][3] = {{0, 'y', 0}, {0, 0, 0}};
    Daemon d;
    const char *dir = test_dir();
    char path[256];
    keys_write(path, dir, "a-key\n");
    REQUIRE(daemon_start(&d, CHECKPOINT_SMALL, test_text("--api-key-file %s", path)));
    for (size_t i = 0; i < COUNTOF(headers) * COUNTOF(tails); i++) {
        char head[256];
        size_t n = (size_t)snprintf(head, sizeof head, "GET /v1/models HTTP/1.1\r\nHost: x\r\n%s", headers[i / 2]);
        size_t n_tail = i % 2 ? 1 : 2;
        memcpy(head + n, tails[i % 2], n_tail);
        memcpy(head + n + n_tail, "\r\n\r\n", 4);
        int fd = raw_connect(&d);
        CHECK(raw_send(fd, head, n + n_tail + 4));
        char *text = raw_read_until(fd, "\r\n\r\n");
        CHECK_MSG(!strstr(text, "200 OK"), "%s: %s", headers[i / 2], text);
        free(text);
        close(fd);
    }
    daemon_stop(&d);
}

TEST(noised_command_line) {
    static const struct {
        const char *options;
        int status;
        const char *says;
    } cases[] = {
        {"", 2, "--model"},
        {"--model", 2, "--model needs a value"},
        {"--bogus 1", 2, "unknown option --bogus"},
        {"--\x1b[31m\xC2\x9B", 2, "unknown option --?[31m?"},
        {"--model x --port 65536", 2, "--port is 65536, must be 0 to 65535"},
        {"--model x --port 1.5", 2, "--port"},
        {"--model x --port 80x", 2, "--port"},
        {"--model x --max-batch 0", 2, "--max-batch"},
        {"--model x --kv-dtype f64", 2, "--kv-dtype"},
        {"--model x --header-seconds -1", 2, "--header-seconds"},
        {"--model x --host 0.0.0.0", 2, "--insecure"},
        {"--model x --host ::", 2, "--insecure"},
        {"--port 0 --model /nonexistent", 1, "/nonexistent/config.json"},
        {"--port 0 --model x --api-key-file /nonexistent", 1, "/nonexistent"},
        {"--model x --max-batch 4 --max-batch 4", 2, "--max-batch is given twice"},
        {"--model x --max-bach 4", 2, "did you mean --max-batch?"},
        {"--help", 0, ""},
        {"-h", 0, ""},
        {"--version", 0, ""},
        {"--probe https://127.0.0.1/", 1, "only http://"},
        {"--probe http://127.0.0.1:1/health", 1, "refused"},
    };
    for (size_t i = 0; i < COUNTOF(cases); i++) {
        char *errors;
        int status = daemon_run(cases[i].options, &errors);
        CHECK_MSG(status == cases[i].status && strstr(errors, cases[i].says), "noised %s: %d \"%s\"", cases[i].options,
                  status, errors);
        free(errors);
    }
    Daemon d;
    REQUIRE(daemon_start(&d, CHECKPOINT_SMALL, NULL));
    CHECK(daemon_run(test_text("--probe http://127.0.0.1:%d/health", d.port), NULL) == 0);
    CHECK(daemon_run(test_text("--probe http://localhost:%d/nothing", d.port), NULL) == 1);
    daemon_stop(&d);
}
