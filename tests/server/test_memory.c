/* Memory runs out at every single allocation that a request makes, once and from then on, and the server answers 503,
 * or ends the stream with that error, and serves on as if nothing had been. The server runs in this process, so that
 * its allocator can be told when to fail; the client allocates by other means. */
#include "base/clock.h"
#include "base/err.h"
#include "base/memory.h"
#include "server/routes.h"
#include "tests/faults/faults.h"
#include "tests/support/http_client.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

typedef struct Here {
    Options options;
    Auth auth;
    Server server;
    ServingContext ctx;
    Http *http;
    Daemon daemon; /* for the client: its port */
} Here;

/* A template that writes calls, and little else. */
static const char *chat_template(void) {
    static const char source[] =
        "{%- for m in messages %}{{ m.role + ': ' + (m.content or '') }}{% for c in m.tool_calls %}{{ '<tool_call>\\n"
        "{\"name\": \"' + c.function.name + '\", \"arguments\": ' + c.function.arguments | tojson + '}\\n</tool_call>' "
        "}}"
        "{% endfor %}{{ '\\n' }}{% endfor %}{{ tools | length if tools else '' }}assistant:";
    static char path[300];
    if (*path) return path;
    const char *dir = test_dir();
    snprintf(path, sizeof path, "%s/talk.jinja", dir);
    test_write_file(path, source, sizeof source - 1);
    return path;
}

static bool here_start(Here *h, TestCheckpoint kind) {
    Err err = {""};
    const char *dir = test_checkpoint(kind);
    *h = (Here){0};
    h->options = (Options){
        .model = dir,
        .chat_template = kind == CHECKPOINT_SMALL ? chat_template() : NULL,
        .engine = {.threads = 1, .max_batch = 4, .prefill_chunk = 128, .max_queue = 64},
        .http = {.host = "127.0.0.1",
                 .listen_fd = -1,
                 .max_body = 256 << 10,
                 .max_connections = 64,
                 .max_bodies = 1 << 20,
                 .head_seconds = 60,
                 .body_seconds = 60,
                 .idle_seconds = 60,
                 .stall_seconds = 60,
                 .ping_seconds = 60},
        .limits = {.json_depth = 16,
                   .json_values = 8192,
                   .n = 64,
                   .prompts = 128,
                   .messages = 16,
                   .queue = 64,
                   .logit_bias = 300,
                   .stop = 16,
                   .stop_bytes = 256},
    };
    if (!dir) return false;
    h->server.auth = &h->auth;
    h->server.models = options_models(&h->options, "tiny");
    h->server.browser = (BrowserRules){.origins = &h->options.cors_origins, .hosts = &h->options.allowed_hosts};
    h->ctx = (ServingContext){
        .options = &h->options, .model_name = "tiny", .metrics = &h->server.metrics, .cut = &h->server.cut};
    pthread_mutex_init(&h->server.versions.mutex, NULL);
    pthread_mutex_init(&h->server.scrape.mutex, NULL);
    Serving *first;
    HttpHandler handler = routes_handler(&h->server);
    bool ok = serving_open(&first, &h->ctx, &err) == 0;
    if (ok) versions_add(&h->server.versions, first);
    ok = ok && workers_start(&h->server.workers, 2, 16, &err) == 0;
    ok = ok && http_start(&h->http, &h->options.http, &handler, &err) == 0;
    if (!ok) test_fail(__FILE__, __LINE__, "%s", err.msg);
    h->daemon.port = ok ? http_port(h->http) : 0;
    EngineStats stats; /* what its thread takes before the first request is not what is to fail */
    for (double until = now_seconds() + PATIENCE; ok && strcmp(server_status(&h->server, &stats), "ok"); usleep(1000))
        if (now_seconds() > until) return false;
    return ok;
}

static void here_stop(Here *h) {
    http_stop(h->http);
    workers_stop(h->server.workers);
    versions_close(&h->server.versions);
    http_free(h->http);
    buffer_free(&h->server.scrape.text);
    pthread_mutex_destroy(&h->server.versions.mutex);
}

/* Everything that comes for a request, until the server closes; malloc'ed. */
static char *ask(const Here *h, const char *path, const char *body, size_t n_body) {
    char head[256];
    int n = snprintf(head, sizeof head, "%s %s HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: %zu\r\n\r\n",
                     n_body ? "POST" : "GET", path, n_body);
    int fd = raw_connect(&h->daemon);
    char *text = NULL;
    if (fd >= 0 && raw_send(fd, head, (size_t)n) && (n_body == 0 || raw_send(fd, body, n_body)))
        text = raw_read(fd, PATIENCE, NULL);
    if (fd >= 0) close(fd);
    return text ? text : strdup("");
}

static bool is_error(const char *text) {
    return strstr(text, "\"code\":\"out_of_memory\"") && strstr(text, "\"type\":\"unavailable_error\"");
}

/* Equal in what their request determines: not in the id, the time and what the cache had. */
static bool same(const char *a, const char *b) {
    const char *x = strstr(a, "\"choices\":"), *y = strstr(b, "\"choices\":");
    static const char *const starts[] = {"\"data\":", "\"text\":", "\"content\":"};
    for (size_t i = 0; i < COUNTOF(starts) && !x; i++) x = strstr(a, starts[i]);
    for (size_t i = 0; i < COUNTOF(starts) && !y; i++) y = strstr(b, starts[i]);
    if (!x) x = strstr(a, "\r\n\r\n");
    if (!y) y = strstr(b, "\r\n\r\n");
    if (!x || !y) return false;
    const char *end = strstr(x, "\"cached_tokens\""), *other = strstr(y, "\"cached_tokens\"");
    if (!end) end = strstr(x, "\"tokens_cached\"");
    if (!other) other = strstr(y, "\"tokens_cached\"");
    if (!end || !other) return !strcmp(x, y);
    return end - x == other - y && !memcmp(x, y, (size_t)(end - x));
}

static void wait_idle(Here *h) {
    EngineStats stats;
    double until = now_seconds() + PATIENCE;
    do {
        usleep(200);
        versions_stats(&h->server.versions, &stats);
    } while ((stats.running || stats.queued || stats.kv_blocks_used || http_busy(h->http)) && now_seconds() < until);
    CHECK_MSG(!stats.running && !stats.queued && !stats.kv_blocks_used, "%d run, %d wait, %d blocks", stats.running,
              stats.queued, stats.kv_blocks_used);
}

typedef struct Tried {
    int points, refused, cut, served;
} Tried;

/* Fails allocation 0, 1, 2 ... of one request until there is no such allocation. */
static Tried fail_each(Here *h, const char *path, const char *body, size_t n_body, bool for_ever) {
    bool stream = strstr(body, "\"stream\":true") != NULL;
    Tried t = {0};
    char *good = ask(h, path, body, n_body);
    CHECK_MSG(strstr(good, "200 OK") && !is_error(good), "%s", good);
    for (bool reached = true; reached && t.points < 5000; t.points++) {
        wait_idle(h);
        memory_fail(t.points, for_ever);
        char *text = ask(h, path, body, n_body);
        reached = memory_fail(-1, false) > t.points;
        bool refused = strstr(text, " 503 ") && is_error(text), whole = strstr(text, " 200 ") && !is_error(text);
        bool cut = stream && strstr(text, " 200 ") && is_error(text) && text_count(text, "[DONE]") == 1;
        t.refused += refused;
        t.cut += cut;
        t.served += whole;
        CHECK_MSG(refused || cut || whole, "%s, allocation %d%s: \"%s\"", path, t.points, for_ever ? " and on" : "",
                  text);
        CHECK_MSG(!for_ever || !reached || !whole, "%s, allocation %d: %s", path, t.points, text);
        CHECK_MSG(!whole || stream || n_body == 0 || same(good, text), "%s, %s", good, text);
        free(text);
    }
    char *again = ask(h, path, body, n_body);
    CHECK_MSG(stream || n_body == 0 || same(good, again), "%s, %s", good, again);
    free(good);
    free(again);
    return t;
}

typedef struct MemoryCase {
    const char *what, *path, *body;
    size_t padded; /* bytes with spaces behind it; 0: as it is */
} MemoryCase;

static void try_case(Here *h, const MemoryCase *c) {
    for (int for_ever = 0; for_ever < 2; for_ever++) {
        size_t n = strlen(c->body), all = MAX(c->padded, n);
        char *body = malloc(all + 1);
        memcpy(body, c->body, n);
        memset(body + n, ' ', all - n);
        body[all] = 0;
        Tried t = fail_each(h, c->path, body, all, for_ever);
        printf("  %-14s %s: %3d allocations: %3d answers 503, %2d streams cut, %2d served\n", c->what,
               for_ever ? "for ever" : "once    ", t.points, t.refused, t.cut, t.served);
        free(body);
    }
}

static void try_cases(const MemoryCase *cases, size_t n) {
    Here h;
    REQUIRE(here_start(&h, CHECKPOINT_SMALL));
    for (size_t i = 0; i < n; i++) try_case(&h, &cases[i]);
    wait_idle(&h);
    here_stop(&h);
}

#define COMMON "\"seed\":1,\"noise_seed\":2,\"max_tokens\":6"

TEST(memory_runs_out_in_completions) {
    static const MemoryCase cases[] = {
        {"request", "/v1/completions",
         "{\"prompt\":[\"The river \\u00fc runs\",\"The mill\"],\"n\":2,\"best_of\":3,\"stop\":[\"zzz\",\"qqq\"],"
         "\"logit_bias\":{\"1\":-5,\"two\":3},\"stop_token_ids\":[3,4],\"mirostat\":0,\"noise_prompt_seed\":"
         "9007199254740991,"
         "\"logprobs\":3,\"echo\":true," COMMON "}",
         0},
        {"request of ids", "/v1/completions",
         "{\"prompt\":[1,2,3],\"noise_seed\":[5],\"return_token_ids\":true,\"seed\":1,\"max_tokens\":6}", 0},
        {"large request", "/v1/completions", "{\"prompt\":\"The river\"," COMMON "}", 6000},
        {"stream", "/v1/completions",
         "{\"prompt\":\"The river\",\"stream\":true,\"n\":2,\"logprobs\":2,\"stream_options\":{\"include_usage\":true},"
         "\"stop\":\"zzz\"," COMMON "}",
         0},
        {"large stream", "/v1/completions", "{\"prompt\":\"The river\",\"stream\":true," COMMON "}", 6000},
        {"long answer", "/v1/completions",
         "{\"prompt\":\"The river\",\"n\":3,\"logprobs\":9,\"seed\":1,\"noise_seed\":2,\"max_tokens\":36}", 0},
        {"form", "/v1/completions",
         "{\"prompt\":\"The "
         "river\",\"n\":2,\"stop\":[\"qqq\"],\"json_schema\":{\"$defs\":{\"p\":{\"pattern\":\"^[a-c]{1,3}$\"}},"
         "\"type\":\"object\",\"properties\":{\"a\":{\"$ref\":\"#/$defs/"
         "p\"},\"b\":{\"enum\":[1,\"x\",[2]]}},\"required\":[\"a\"],"
         "\"additionalProperties\":{\"type\":\"integer\",\"maximum\":20}}," COMMON "}",
         0},
        {"grammar", "/v1/completions",
         "{\"prompt\":\"The river\",\"grammar\":\"root ::= (\\\"a\\\" | [b-d])+ x\\nx ::= \\\".\\\"\"," COMMON "}", 0},
        {"choice", "/v1/completions",
         "{\"prompt\":\"The river\",\"choice\":[\"yes\",\"no\",\"not\"],\"n\":2,\"seed\":1,\"noise_seed\":2}", 0},
        {"masks", "/v1/completions",
         "{\"prompt\":\"The river\",\"allowed_token_ids\":[65,66,67,68],\"bad_words\":[\"ab\",\"c\"]," COMMON "}", 0},
        {"llama", "/completion", "{\"prompt\":\"The river\",\"n_probs\":2,\"return_tokens\":true," COMMON "}", 0},
        {"diversity", "/v1/completions", "{\"prompt\":[\"The river\",\"The\"],\"n\":2,\"diversity\":true," COMMON "}",
         0},
        {"diverse stream", "/v1/completions",
         "{\"prompt\":\"The river\",\"stream\":true,\"n\":3,\"diversity\":true," COMMON "}", 0},
    };
    try_cases(cases, COUNTOF(cases));
}

TEST(memory_runs_out_in_chats) {
    static const MemoryCase cases[] = {
        {"chat", "/v1/chat/completions",
         "{\"messages\":[{\"role\":\"system\",\"content\":\"The mill\"},{\"role\":\"user\",\"content\":[{\"type\":"
         "\"text\",\"text\":\"The river\"},{\"type\":\"text\",\"text\":\"runs\"}]}],\"stop_token_ids\":[3]," COMMON "}",
         0},
        {"tools", "/v1/chat/completions",
         "{\"messages\":[{\"role\":\"user\",\"content\":\"Rain?\"}],\"tools\":[{\"type\":\"function\",\"function\":{"
         "\"name\":\"f\",\"parameters\":{\"type\":\"object\",\"properties\":{\"a\":{\"enum\":[1,2]}},\"required\":["
         "\"a\"]}}}],\"tool_choice\":\"required\",\"seed\":1,\"noise_seed\":2,\"max_tokens\":90}",
         0},
        {"stream of tools", "/v1/chat/completions",
         "{\"messages\":[{\"role\":\"user\",\"content\":\"Rain?\"}],\"tools\":[{\"type\":\"function\",\"function\":{"
         "\"name\":\"f\"}}],\"tool_choice\":\"required\",\"stream\":true,\"seed\":1,\"noise_seed\":2,"
         "\"max_tokens\":80}",
         0},
        {"responses", "/v1/responses",
         "{\"instructions\":\"Be brief.\",\"input\":[{\"role\":\"user\",\"content\":[{\"type\":\"input_text\","
         "\"text\":\"The\"},{\"type\":\"input_text\",\"text\":\"river\"}]}],\"seed\":1,\"max_output_tokens\":4}",
         0},
        {"written", "/apply-template",
         "{\"messages\":[{\"role\":\"user\",\"content\":\"a\"},{\"role\":\"assistant\",\"content\":\"b\"}],"
         "\"continue_final_message\":true}",
         0},
    };
    try_cases(cases, COUNTOF(cases));
}

TEST(memory_runs_out_in_other_routes) {
    static const MemoryCase cases[] = {
        {"score", "/v1/score",
         "{\"prompt\":\"The river\",\"continuations\":[\" runs\",[1,2]],\"logprobs\":2,\"noise_seed\":2}", 0},
        {"replay", "/v1/replay",
         "{\"request\":{\"prompt\":\"The river\",\"n\":2,\"max_tokens\":6},\"response\":[{\"choices\":[{\"index\":0,"
         "\"text\":\"a\",\"seed\":1,\"noise_seed\":2}]},{\"choices\":[{\"index\":1,\"text\":\"b\",\"seed\":3}]}]}",
         0},
        {"embeddings", "/v1/embeddings", "{\"input\":[\"The river runs\",\"The mill\"],\"seed\":1}", 0},
        {"base64", "/v1/embeddings", "{\"input\":\"The mill\",\"encoding_format\":\"base64\"}", 6000},
        {"tokenize", "/tokenize", "{\"content\":\"The river runs\",\"with_pieces\":true}", 0},
        {"large tokenize", "/tokenize", "{\"prompt\":\"The river runs\"}", 6000},
        {"detokenize", "/detokenize", "{\"tokens\":[1,2,3]}", 0},
        {"models", "/v1/models", "", 0},
        {"noise", "/noise", "", 0},
        {"health", "/health", "", 0},
        {"metrics", "/metrics", "", 0},
    };
    try_cases(cases, COUNTOF(cases));
}

/* An answer to HEAD is a head, whatever comes of it. */
TEST(memory_runs_out_under_head) {
    static const char request[] = "HEAD /health HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n";
    Here h;
    int refused = 0;
    REQUIRE(here_start(&h, CHECKPOINT_SMALL));
    for (int for_ever = 0; for_ever < 2; for_ever++) {
        bool reached = true;
        for (int n = 0; reached && n < 5000; n++) {
            memory_fail(n, for_ever);
            int fd = raw_connect(&h.daemon);
            CHECK(raw_send(fd, request, sizeof request - 1));
            char *text = raw_read(fd, PATIENCE, NULL), *end = strstr(text, "\r\n\r\n");
            reached = memory_fail(-1, false) > n;
            CHECK_MSG(strstr(text, " 200 ") || strstr(text, " 503 "), "allocation %d: \"%s\"", n, text);
            CHECK_MSG(end && strlen(end) == 4, "allocation %d, a body: \"%s\"", n, text);
            refused += strstr(text, " 503 ") != NULL;
            free(text);
            close(fd);
        }
    }
    CHECK_MSG(refused > 0, "memory never ran out");
    here_stop(&h);
}

TEST(memory_runs_out_in_tasks) {
    static const struct {
        TestCheckpoint kind;
        MemoryCase request;
    } cases[] = {
        {CHECKPOINT_CLASSES,
         {"classify", "/v1/classify", "{\"input\":[\"The river\",\"a\"],\"seed\":1,\"noise_samples\":3}", 0}},
        {CHECKPOINT_TAGS, {"tag", "/v1/tag", "{\"input\":[\"The river runs\"],\"seed\":1}", 5000}},
        {CHECKPOINT_MASKS, {"fill-mask", "/v1/fill-mask", "{\"input\":[1,7,7],\"seed\":1,\"top_k\":2}", 0}},
    };
    for (size_t i = 0; i < COUNTOF(cases); i++) {
        Here h;
        REQUIRE(here_start(&h, cases[i].kind));
        try_case(&h, &cases[i].request);
        wait_idle(&h);
        here_stop(&h);
    }
}

/* ---- reload ---- */

#ifdef __SANITIZE_ADDRESS__
/* What only local variables knew when loading ended is lost, as memory_survives says. */
const char *__lsan_default_suppressions(void);
const char *__lsan_default_suppressions(void) {
    return "leak:memory_survives\nleak:libcjson.so\n" /* which has no frame pointers */;
}
#endif

/* Loads the checkpoint with allocations 0, 2, 4 ... (for ever: 1, 3, 5 ...; under a sanitizer every sixteenth; with
 * FAULTS=all each) failing until loading needs no more; how many that are. */
static int fail_each_load(const Here *h, bool for_ever, int *refused) {
    int tried = 0;
    for (bool reached = true; reached && tried < 100000; tried += reached) {
        int n = faults_all() ? tried : (2 * tried + for_ever) * SLOWNESS;
        Serving *made;
        Err err = {""};
        memory_fail(n, for_ever);
        int rc = serving_open_ready(&made, &h->ctx, h->server.versions.newest, &err);
        reached = memory_fail(-1, false) > n;
        /* pcre2 can do without the memory for its compiled form: then the version is loaded, and right. */
        CHECK_MSG(rc == 0 ? !reached || !for_ever : reached, "allocation %d%s: %s", n, for_ever ? " and on" : "",
                  rc ? err.msg : "loaded");
        CHECK_MSG(rc == 0 || *err.msg, "allocation %d: no reason", n);
        *refused += rc != 0;
        if (rc == 0) serving_close(made);
    }
    return tried;
}

/* A reload that memory is missing for is refused, wherever it runs out, and what serves goes on. */
TEST(memory_runs_out_while_reloading) {
    Here h;
    test_takes_long();
    REQUIRE(here_start(&h, CHECKPOINT_SMALL));
    static const char question[] = "{\"prompt\":\"The river\",\"seed\":1,\"noise_seed\":2}";
    char *good = ask(&h, "/v1/completions", question, sizeof question - 1);
    for (int for_ever = 0; for_ever < 2; for_ever++) {
        int refused = 0, n = fail_each_load(&h, for_ever, &refused);
        CHECK_MSG(n > 300 / SLOWNESS && refused > n - 20, "%d allocations, %d refused", n, refused);
        printf("  reload, %s: %d allocations, %d refused\n", for_ever ? "for ever" : "once", n, refused);
    }
    char *again = ask(&h, "/v1/completions", question, sizeof question - 1);
    CHECK_MSG(same(good, again), "%s, %s", good, again);
    free(good);
    free(again);
    here_stop(&h);
}
