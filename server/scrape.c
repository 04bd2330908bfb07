#include "server/scrape.h"

#include "base/clock.h"
#include "base/log.h"
#include "model/kernels/kernels.h"
#include "server/post.h"

#include <string.h>

static void print(Server *s, Buffer *out) {
    EngineStats stats;
    bool healthy = !strcmp(server_status(s, &stats), "ok");
    Serving *newest = versions_pin(&s->versions);
    EngineStats of_newest = engine_stats(newest->engine);
    Gauges gauges = {.healthy = healthy,
                     .running = stats.running,
                     .most_running = newest->slots,
                     .queued = stats.queued,
                     .queue_wait = of_newest.wait,
                     .kv_blocks = stats.kv_blocks,
                     .kv_blocks_used = stats.kv_blocks_used,
                     .threads = of_newest.threads,
                     .context = newest->api.config->max_positions,
                     .versions = versions_stats(&s->versions, &stats),
                     .started = s->started,
                     .model = s->models.name,
                     .isa = kernels->name,
                     .cache = {of_newest.kv_type, KV_BLOCK, of_newest.kv_blocks}};
    versions_unpin(&s->versions, newest);
    out->n = 0;
    metrics_print(out, &s->metrics, &gauges);
}

/* Costs a fifth of a millisecond to write, so once a second has to do, however often it is asked for. */
void scrape(Server *s, HttpReply *reply) {
    static const double FRESH = 1; /* seconds */
    Scrape *c = &s->scrape;
    double now = now_seconds();
    pthread_mutex_lock(&c->mutex);
    if (!c->text.n || now >= c->printed_at + FRESH) {
        print(s, &c->text);
        c->printed_at = now;
    }
    reply->status = 200;
    reply->type = "text/plain; version=0.0.4; charset=utf-8";
    buffer_append(&reply->body, c->text.data, c->text.n);
    reply->body.failed |= c->text.failed;
    if (c->text.failed) buffer_free(&c->text); /* the next one tries again */
    pthread_mutex_unlock(&c->mutex);
}

/* ---- the port ---- */

static int check(const HttpRequest *request, HttpReply *reply, ApiError *e) {
    if (strcmp(request->path, "/metrics") != 0)
        return api_fail(e, 404, "unknown_route", NULL, "this port has GET /metrics and no other route");
    if (!strcmp(request->method, "GET") || !strcmp(request->method, "HEAD")) return 0;
    reply->allow = "GET, HEAD";
    return api_fail(e, 405, "method_not_allowed", NULL, "/metrics allows GET, HEAD only");
}

static bool admit(void *self, const HttpRequest *request, HttpReply *reply) {
    const Server *s = self;
    ApiError e;
    if (browser_check(&s->browser, request, reply, &e) == 0 && check(request, reply, &e) == 0) return true;
    reply_error(reply, &e);
    return false;
}

static void handle(void *self, const HttpRequest *request, HttpReply *reply) {
    (void)request;
    scrape(self, reply);
}

static void refuse(void *self, int status, const char *message, HttpReply *reply) {
    ApiError e;
    (void)self;
    api_fail(&e, status, NULL, NULL, "%s", message);
    reply_error(reply, &e);
}

/* The answers that are counted are those of the API. */
static void answered(void *self, int status) { (void)self, (void)status; }

int scrape_listen(const HttpOptions *server, int port, Err *err) {
    const HttpOptions o = {.host = server->host, .port = port, .listen_fd = -1};
    return http_listen(&o, &port, err);
}

int scrape_start(Http **out, const HttpOptions *server, const HttpHandler *api, int fd, Err *err) {
    HttpOptions o = *server;
    o.listen_fd = fd;
    o.max_connections = 16;
    o.max_per_address = 0;
    o.max_body = o.max_bodies = 1024; /* nobody has one to send */
    const HttpHandler handler = {.self = api->self,
                                 .admit = admit,
                                 .handle = handle,
                                 .refuse = refuse,
                                 .answered = answered,
                                 .no_memory = api->no_memory,
                                 .no_memory_event = api->no_memory_event};
    if (http_start(out, &o, &handler, err)) return -1;
    log_line("GET /metrics asks for no key on port %d of %s", http_port(*out), o.host);
    return 0;
}

void scrape_stop(Http *http) {
    if (!http) return;
    http_stop(http);
    http_free(http);
}
