/* Requests of every route, each to a live engine of a tiny model, of each kind of task: no HTTP in between. An input is
 * the model, the route (its number, or 255: a line "METHOD /path" follows) and the body. Whatever is asked, there is
 * one answer, no 5xx, in the form that its type says; what has seeds says the same again; and then nothing runs any
 * more. */
#include "base/clock.h"
#include "base/json/json.h"
#include "base/memory.h"
#include "server/api/schema/schema.h"
#include "server/http/connection.h"
#include "server/routes.h"
#include "tests/fuzz/fuzz.h"
#include "tests/support/http_client.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const TestCheckpoint kinds[] = {CHECKPOINT_SMALL, CHECKPOINT_CLASSES, CHECKPOINT_TAGS,
                                       CHECKPOINT_MASKS, CHECKPOINT_IMAGES,  CHECKPOINT_PIXELS};
enum { KINDS = COUNTOF(kinds), MOST_SECONDS = 50 };

static Options options[KINDS];
static Server servers[KINDS];
static Auth everybody;
static struct Http http; /* nobody's loop: nothing sleeps in its library */
static HttpConnection connection = {.http = &http};

/* ---- the servers ---- */

static const Command command = {.size = sizeof(Options), .options = options_table, .n_options = OPTIONS_N};

/* Small limits, so that an answer takes milliseconds. */
static bool open_server(int kind) {
    char *words[] = {"--model",     NULL, "--threads",       "1", "--context",   "48",
                     "--max-n",     "3",  "--max-prompts",   "3", "--max-batch", "4",
                     "--max-queue", "12", "--scrub-seconds", "0", "--alias",     "other"};
    CommandLine line;
    Err err = {""};
    Serving *first;
    Server *s = &servers[kind];
    const char *dir = test_dir();
    words[1] = (char *)dir;
    bool generates = kinds[kind] == CHECKPOINT_SMALL || kinds[kind] == CHECKPOINT_PIXELS;
    if (!generates) words[5] = "0"; /* the whole context */
    bool open = test_checkpoint_write(dir, kinds[kind], 1) &&
                command_line_read(&line, &command, &options[kind], COUNTOF(words), words, &err) == 0;
    if (kinds[kind] == CHECKPOINT_PIXELS) options[kind].context = 0;
    options[kind].limits.queue = options[kind].engine.max_queue;
    options[kind].chat_template = kinds[kind] == CHECKPOINT_SMALL ? "plain" : NULL;
    *s = (Server){.models = options_models(&options[kind], "model"), .max_body = 1 << 18};
    s->auth = &everybody;
    s->browser =
        (BrowserRules){.origins = &options[kind].cors_origins, .hosts = &options[kind].allowed_hosts, .loopback = true};
    const ServingContext ctx = {
        .options = &options[kind], .model_name = "model", .metrics = &s->metrics, .cut = &s->cut};
    open = open && serving_open(&first, &ctx, &err) == 0 && workers_start(&s->workers, 1, 12, &err) == 0;
    CHECK_MSG(open, "%s", err.msg);
    if (!open) return false;
    pthread_mutex_init(&s->versions.mutex, NULL);
    pthread_mutex_init(&s->scrape.mutex, NULL);
    versions_add(&s->versions, first);
    while (isinf(engine_stats(first->engine).heartbeat_age)) usleep(1000);
    return true;
}

static void close_server(Server *s) {
    workers_stop(s->workers);
    versions_close(&s->versions);
    pthread_mutex_destroy(&s->versions.mutex);
    buffer_free(&s->scrape.text);
}

/* ---- one request ---- */

static void wait_for_news(void) {
    double t0 = now_seconds();
    while (atomic_exchange(&connection.sleep, HTTP_AWAKE) != HTTP_WOKEN && now_seconds() - t0 < MOST_SECONDS)
        usleep(50);
    CHECK_MSG(now_seconds() - t0 < MOST_SECONDS, "nothing comes for %d seconds", MOST_SECONDS);
}

static void finish(HttpReply *reply) {
    HttpTask *task = &reply->task;
    while (task->self) {
        bool streamed = reply->stream;
        if (task->poll(task->self, reply) && (streamed || !reply->stream)) break;
        if (streamed == reply->stream) wait_for_news();
    }
    if (task->self) task->close(task->self);
}

static HttpReply ask(Server *s, const char *method, const char *path, const char *body, size_t n_body) {
    HttpHandler h = routes_handler(s);
    const HttpRequest request = {.method = method,
                                 .path = path,
                                 .host = "127.0.0.1",
                                 .client = "127.0.0.1",
                                 .body = body,
                                 .n_body = n_body,
                                 .wake = http_wake,
                                 .waker = &connection};
    HttpReply reply = {0};
    if (h.admit(s, &request, &reply)) {
        h.handle(s, &request, &reply);
        finish(&reply);
    }
    buffer_append(&reply.body, "", 1);
    return reply;
}

static void free_reply(HttpReply *reply) {
    buffer_free(&reply->body);
    buffer_free(&reply->headers);
}

/* ---- what every answer keeps ---- */

static void check_error(const cJSON *root, const char *text) {
    const cJSON *e = cJSON_GetObjectItemCaseSensitive(root, "error");
    const cJSON *param = cJSON_GetObjectItemCaseSensitive(e, "param");
    CHECK_MSG(json_text(root, "error.message") && json_text(root, "error.type") && param, "%s", text);
}

/* A model may write U+0000, which no request may. */
static char *without_nul(const char *text) {
    char *copy = xstrdup(text);
    for (char *at = copy; (at = strstr(at, "\\u0000")); at += 6) at[4] = '2';
    return copy;
}

/* The last events of streams that do not end with [DONE]: llama-server's, and those of responses. */
static bool ends_its_own_way(const char *text) {
    static const char *const ends[] = {"\"stop\":true", "\"type\":\"response.completed\"",
                                       "\"type\":\"response.incomplete\"", "\"error\":{"};
    const char *last = text;
    for (const char *at = text; (at = strstr(at, "data: ")); at++) last = at;
    bool ended = false;
    for (size_t i = 0; i < COUNTOF(ends); i++) ended |= strstr(last, ends[i]) != NULL;
    return ended && !strcmp(text + strlen(text) - 2, "\n\n");
}

static void check_answer(const HttpReply *reply, const char *path) {
    const char *text = reply->body.data;
    Err err = {""};
    CHECK_MSG(reply->status >= 200 && reply->status < 500, "%s: %d %s", path, reply->status, text);
    if (reply->stream && (!strcmp(path, "/completion") || !strcmp(path, "/infill") || !strcmp(path, "/v1/responses"))) {
        CHECK_MSG(ends_its_own_way(text), "%s: %s", path, text);
        return;
    }
    if (reply->stream) {
        Events e = events_parse(text);
        CHECK_MSG(!e.malformed && e.done, "%s: %s", path, text);
        events_free(&e);
        return;
    }
    if (reply->type || reply->body.n == 1) return;
    char *readable = without_nul(text);
    cJSON *root = json_parse(readable, reply->body.n - 1, 64, 1 << 20, &err);
    CHECK_MSG(root, "%s: %s in %s", path, err.msg, text);
    free(readable);
    if (reply->status >= 400) check_error(root, text);
    cJSON_Delete(root);
}

static bool has_seed(const char *body, size_t n) {
    cJSON *root = json_parse(body, n, 16, 8192, NULL);
    const cJSON *seed = cJSON_GetObjectItemCaseSensitive(root, "seed");
    bool has = cJSON_IsNumber(seed) && seed->valuedouble >= 0; /* -1: drawn */
    cJSON_Delete(root);
    return has;
}

/* Where answers have what their seed decides; beside it are times and names of their own. */
static const char *const results[] = {"choices", "data", "content", "0.content", "output.0.content"};

static void check_same(const HttpReply *a, const HttpReply *b, const char *body) {
    if (a->stream || a->status != 200) return;
    cJSON *x = cJSON_Parse(a->body.data), *y = cJSON_Parse(b->body.data);
    const char *result = results[0];
    for (size_t i = 0; i < COUNTOF(results); i++)
        if (json_at(x, results[i])) result = results[i];
    CHECK_MSG(b->status == 200 && json_same(x, result, y, result), "%s\n%s\n%s", body, a->body.data, b->body.data);
    cJSON_Delete(x);
    cJSON_Delete(y);
}

static void check_idle(Server *s) {
    EngineStats stats;
    for (int i = 0; i < 1000 * MOST_SECONDS; i++, usleep(1000)) {
        versions_stats(&s->versions, &stats);
        if (stats.running == 0 && stats.queued == 0 && stats.kv_blocks_used == 0) return;
    }
    CHECK_MSG(false, "%d running, %d queued, %d blocks in use", stats.running, stats.queued, stats.kv_blocks_used);
}

static int count_routes(void) {
    int n = 0;
    while (routes[n].path) n++;
    return n;
}

static void look(const uint8_t *data, size_t n) {
    FuzzInput in = {data, n};
    Server *s = &servers[fuzz_below(&in, KINDS)];
    int route = fuzz_byte(&in);
    size_t n_line = 0, n_body;
    char *line = route == 255 ? fuzz_until(&in, '\n', &n_line) : NULL, *space = line ? strchr(line, ' ') : NULL;
    const Route *r = &routes[route % count_routes()];
    const char *method = r->body ? "POST" : "GET", *path = r->path;
    if (space) {
        *space = 0;
        method = line;
        path = space + 1;
    }
    char *body = fuzz_rest(&in, &n_body);
    HttpReply reply = ask(s, method, path, body, n_body);
    check_answer(&reply, path);
    if (reply.status == 200 && !strcmp(method, "POST") && has_seed(body, n_body)) {
        HttpReply again = ask(s, method, path, body, n_body);
        check_same(&reply, &again, body);
        free_reply(&again);
    }
    check_idle(s);
    free_reply(&reply);
    free(body);
    free(line);
}

TEST(fuzz_routes) {
    bool open = true;
    for (int i = 0; i < KINDS; i++) open &= open_server(i);
    REQUIRE(open);
    fuzz_run("routes", look);
    for (int i = 0; i < KINDS; i++) close_server(&servers[i]);
}
