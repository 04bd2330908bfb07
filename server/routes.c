#include "server/routes.h"

#include "base/json_write.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/memory.h"
#include "model/kernels/kernels.h"
#include "server/access.h"
#include "server/api/completions/completion.h"
#include "server/api/schema/describe.h"
#include "server/api/noise.h"
#include "server/api/pooling/embeddings.h"
#include "server/api/schema/schema.h"
#include "server/api/pooling/tasks.h"
#include "server/api/completions/tokenize.h"
#include "server/page/page.h"
#include "server/post.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- the small ones ---- */

static void print_model(Server *s, Buffer *b, const char *id) {
    Serving *serving = versions_pin(&s->versions);
    json_open(b, NULL, '{');
    json_put_text(b, "id", id);
    json_put_text(b, "object", "model");
    json_put_int(b, "created", (int64_t)s->started);
    json_put_text(b, "owned_by", "noised");
    json_put_text(b, "root", s->models.name);
    json_put_null(b, "parent");
    json_put_int(b, "max_model_len", serving->api.config->max_positions);
    describe_task(b, &serving->api);
    json_close(b, '}');
    versions_unpin(&s->versions, serving);
}

static void models(Server *s, const HttpRequest *request, HttpReply *reply) {
    Buffer *b = &reply->body;
    (void)request;
    reply->status = 200;
    json_open(b, NULL, '{');
    json_put_text(b, "object", "list");
    json_open(b, "data", '[');
    print_model(s, b, s->models.name);
    for (int i = 0; i < s->models.n_aliases; i++) print_model(s, b, s->models.aliases[i]);
    json_close(b, ']');
    json_close(b, '}');
}

static void model(Server *s, const HttpRequest *request, HttpReply *reply) {
    const char *name = request->path + strlen(routes[ROUTE_MODEL].path);
    ApiError e;
    if (api_check_model(name, &s->models, &e)) {
        reply_error(reply, &e);
        return;
    }
    reply->status = 200;
    print_model(s, &reply->body, name);
}

const char *server_status(Server *s, EngineStats *stats) {
    static const double SIGN_OF_LIFE = 5; /* seconds */
    versions_stats(&s->versions, stats);
    return atomic_load(&s->draining)             ? "draining"
           : isinf(stats->heartbeat_age)         ? "loading"
           : stats->damaged                      ? "damaged"
           : stats->broken                       ? "broken"
           : stats->heartbeat_age > SIGN_OF_LIFE ? "stuck"
                                                 : "ok";
}

static void health(Server *s, const HttpRequest *request, HttpReply *reply) {
    Buffer *b = &reply->body;
    (void)request;
    EngineStats stats;
    const char *status = server_status(s, &stats);
    reply->status = strcmp(status, "ok") ? 503 : 200;
    json_open(b, NULL, '{');
    json_put_text(b, "status", status);
    json_put_int(b, "running", stats.running);
    json_put_int(b, "queued", stats.queued);
    json_put_int(b, "kv_blocks", stats.kv_blocks);
    json_put_int(b, "kv_blocks_used", stats.kv_blocks_used);
    json_close(b, '}');
}

/* Written when the version was opened. */
static void ready(Server *s, const HttpRequest *request, HttpReply *reply) {
    Serving *serving = versions_pin(&s->versions);
    RouteId id = route_find(request->path);
    const Buffer *made = id == ROUTE_PROPS     ? &serving->props
                         : id == ROUTE_OPENAPI ? &serving->openapi
                                               : &serving->tokenizer_info;
    reply->status = 200;
    buffer_append(&reply->body, made->data, made->n);
    versions_unpin(&s->versions, serving);
}

static void version(Server *s, const HttpRequest *request, HttpReply *reply) {
    (void)s, (void)request;
    reply->status = 200;
    json_open(&reply->body, NULL, '{');
    json_put_text(&reply->body, "version", NOISED_VERSION);
    json_close(&reply->body, '}');
}

static void load(Server *s, const HttpRequest *request, HttpReply *reply) {
    (void)request;
    EngineStats stats;
    versions_stats(&s->versions, &stats);
    reply->status = 200;
    json_open(&reply->body, NULL, '{');
    json_put_int(&reply->body, "server_load", stats.running + stats.queued);
    json_close(&reply->body, '}');
}

static void live(Server *s, const HttpRequest *request, HttpReply *reply) {
    (void)s, (void)request;
    reply->status = 200;
    json_open(&reply->body, NULL, '{');
    json_put_text(&reply->body, "status", "ok");
    json_close(&reply->body, '}');
}

static void print_metrics(Server *s) {
    EngineStats stats;
    bool healthy = !strcmp(server_status(s, &stats), "ok");
    Serving *newest = versions_pin(&s->versions);
    EngineStats of_newest = engine_stats(newest->engine);
    versions_unpin(&s->versions, newest);
    Gauges gauges = {.healthy = healthy,
                     .running = stats.running,
                     .queued = stats.queued,
                     .kv_blocks = stats.kv_blocks,
                     .kv_blocks_used = stats.kv_blocks_used,
                     .threads = of_newest.threads,
                     .versions = versions_stats(&s->versions, &stats),
                     .started = s->started,
                     .model = s->models.name,
                     .isa = kernels->name,
                     .cache = {of_newest.kv_type, KV_BLOCK, of_newest.kv_blocks}};
    s->metrics_text.n = 0;
    metrics_print(&s->metrics_text, &s->metrics, &gauges);
}

/* Costs a fifth of a millisecond to write, so once a second has to do, however often it is asked for. */
static void metrics(Server *s, const HttpRequest *request, HttpReply *reply) {
    static const double FRESH = 1; /* seconds */
    (void)request;
    double now = now_seconds();
    if (!s->metrics_text.n || now >= s->metrics_at + FRESH) {
        print_metrics(s);
        s->metrics_at = now;
    }
    reply->status = 200;
    reply->type = "text/plain; version=0.0.4; charset=utf-8";
    buffer_append(&reply->body, s->metrics_text.data, s->metrics_text.n);
    reply->body.failed |= s->metrics_text.failed;
    if (s->metrics_text.failed) buffer_free(&s->metrics_text); /* the next one tries again */
}

static void noise(Server *s, const HttpRequest *request, HttpReply *reply) {
    (void)request;
    Serving *serving = versions_pin(&s->versions);
    reply->status = 200;
    noise_print(&reply->body, &serving->checkpoint.model);
    versions_unpin(&s->versions, serving);
}

static void page(Server *s, const HttpRequest *request, HttpReply *reply) {
    (void)s, (void)request;
    reply->status = 200;
    reply->type = "text/html; charset=utf-8";
    reply->policy = page_policy();
    buffer_append(&reply->body, page_html, page_bytes);
}

static void completions(Server *s, const HttpRequest *request, HttpReply *reply) {
    post_answer(s, &completion_answer, request, reply);
}
static void embeddings(Server *s, const HttpRequest *request, HttpReply *reply) {
    post_answer(s, &embeddings_answer, request, reply);
}
static void classify(Server *s, const HttpRequest *request, HttpReply *reply) {
    post_answer(s, &classify_answer, request, reply);
}
static void tag(Server *s, const HttpRequest *request, HttpReply *reply) {
    post_answer(s, &tag_answer, request, reply);
}
static void fill_mask(Server *s, const HttpRequest *request, HttpReply *reply) {
    post_answer(s, &fill_mask_answer, request, reply);
}
static void tokenize(Server *s, const HttpRequest *request, HttpReply *reply) {
    post_convert(s, api_tokenize, request, reply);
}
static void detokenize(Server *s, const HttpRequest *request, HttpReply *reply) {
    post_convert(s, api_detokenize, request, reply);
}

/* ---- the table ---- */

typedef void Answer(Server *s, const HttpRequest *request, HttpReply *reply);

static Answer *const answers[ROUTES] = {
    [ROUTE_COMPLETIONS] = completions,
    [ROUTE_CHAT] = completions,
    [ROUTE_EMBEDDINGS] = embeddings,
    [ROUTE_CLASSIFY] = classify,
    [ROUTE_TAG] = tag,
    [ROUTE_FILL_MASK] = fill_mask,
    [ROUTE_SCORE] = completions,
    [ROUTE_REPLAY] = completions,
    [ROUTE_TOKENIZE] = tokenize,
    [ROUTE_DETOKENIZE] = detokenize,
    [ROUTE_MODELS] = models,
    [ROUTE_MODEL] = model,
    [ROUTE_MODELS_SHORT] = models,
    [ROUTE_TOKENIZER_INFO] = ready,
    [ROUTE_PROPS] = ready,
    [ROUTE_VERSION] = version,
    [ROUTE_LOAD] = load,
    [ROUTE_HEALTH] = health,
    [ROUTE_LIVE] = live,
    [ROUTE_METRICS] = metrics,
    [ROUTE_NOISE] = noise,
    [ROUTE_OPENAPI] = ready,
    [ROUTE_PAGE] = page,
};

static int check(const Server *s, const HttpRequest *request, HttpReply *reply, ApiError *e) {
    RouteId id = route_find(request->path);
    if (request->crowded && id != ROUTE_HEALTH && id != ROUTE_LIVE)
        return api_fail(e, 503, NULL, NULL, "too many connections");
    const Route *r = id == ROUTE_NONE ? NULL : &routes[id];
    if (!(r && r->open) && auth_check(s->auth, request->authorization, request->api_key) < 0)
        return api_fail(e, 401, "invalid_api_key", NULL, "the API key is missing or wrong");
    if (!r) return api_fail(e, 404, "unknown_route", NULL, "there is no route %.200s", request->path);
    bool fits = r->body ? !strcmp(request->method, "POST")
                        : !strcmp(request->method, "GET") || !strcmp(request->method, "HEAD");
    if (!fits) {
        reply->allow = r->body ? "POST" : "GET, HEAD";
        return api_fail(e, 405, "method_not_allowed", NULL, "%.200s allows %s only", request->path, reply->allow);
    }
    return 0;
}

static bool admit(void *self, const HttpRequest *request, HttpReply *reply) {
    const Server *s = self;
    ApiError e;
    bool bad = browser_check(&s->browser, request, reply, &e) != 0;
    if (!bad && browser_preflight(&s->browser, request, reply)) return false;
    if (!bad && check(s, request, reply, &e) == 0) return true;
    reply_error(reply, &e);
    return false;
}

static void handle(void *self, const HttpRequest *request, HttpReply *reply) {
    answers[route_find(request->path)](self, request, reply);
}

static void refuse(void *self, int status, const char *message, HttpReply *reply) {
    ApiError e;
    const Server *s = self;
    if (status == 413)
        api_fail(&e, status, NULL, NULL, "the body is longer than the %d bytes of --max-body", s->max_body);
    else
        api_fail(&e, status, NULL, NULL, "%s", message);
    reply_error(reply, &e);
}

static void answered(void *self, int status) {
    Server *s = self;
    metrics_count(&s->metrics,
                  status < 400   ? COUNT_ANSWERS_2XX
                  : status < 500 ? COUNT_ANSWERS_4XX
                                 : COUNT_ANSWERS_5XX,
                  1);
}

static void visited(void *self, const HttpVisit *v) {
    Server *s = self;
    if (v->hung_up) metrics_count(&s->metrics, COUNT_HUNG_UP, 1);
    if (s->access_log) access_line(s, v);
}

static void turned(void *self, double seconds) {
    Server *s = self;
    metrics_observe(&s->metrics, TIME_TURN, seconds);
    atomic_store(&s->turned, (uint64_t)(now_seconds() * 1e9));
}

#define NO_MEMORY                                                                                                      \
    "{\"error\":{\"message\":\"no memory for the request at the "                                                      \
    "moment\",\"type\":\"unavailable_error\",\"param\":null,"                                                          \
    "\"code\":\"out_of_memory\"}}"

HttpHandler routes_handler(Server *s) {
    return (HttpHandler){.self = s,
                         .admit = admit,
                         .handle = handle,
                         .refuse = refuse,
                         .answered = answered,
                         .visited = visited,
                         .turned = turned,
                         .no_memory = NO_MEMORY,
                         .no_memory_event = "data: " NO_MEMORY "\n\ndata: [DONE]\n\n"};
}
