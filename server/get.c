#include "server/get.h"

#include "base/json_write.h"
#include "server/api/noise.h"
#include "server/api/schema/describe.h"
#include "server/page/page.h"
#include "server/post.h"
#include "server/scrape.h"
#include "server/streams.h"

#include <string.h>

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

void get_models(Server *s, const HttpRequest *request, HttpReply *reply) {
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

void get_model(Server *s, const HttpRequest *request, HttpReply *reply) {
    const char *name = route_parameter(request->path);
    ApiError e;
    if (api_check_model(name, &s->models, &e)) {
        reply_error(reply, &e);
        return;
    }
    reply->status = 200;
    print_model(s, &reply->body, name);
}

void get_health(Server *s, const HttpRequest *request, HttpReply *reply) {
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
    Serving *serving = versions_pin(&s->versions);
    json_put_text(b, "system_fingerprint", serving->fingerprint);
    json_put_text(b, "chat_fingerprint", serving->chat_fingerprint);
    versions_unpin(&s->versions, serving);
    json_close(b, '}');
}

/* The Buffer at this offset of a Serving, written when the version was opened. */
static void hand_over(Server *s, size_t offset, HttpReply *reply) {
    Serving *serving = versions_pin(&s->versions);
    const Buffer *text = (const void *)((const char *)serving + offset);
    reply->status = 200;
    buffer_append(&reply->body, text->data, text->n);
    versions_unpin(&s->versions, serving);
}

void get_props(Server *s, const HttpRequest *request, HttpReply *reply) {
    (void)request;
    hand_over(s, offsetof(Serving, props), reply);
}

static bool refuse_slots(Server *s, HttpReply *reply) {
    Serving *serving = versions_pin(&s->versions);
    bool refused = serving->api.no_slots;
    versions_unpin(&s->versions, serving);
    ApiError e;
    if (!refused) return false;
    api_fail(&e, 501, NULL, NULL, "this server tells nothing of its slots and streams (--no-slots)");
    reply_error(reply, &e);
    return true;
}

void get_slots(Server *s, const HttpRequest *request, HttpReply *reply) {
    (void)request;
    if (refuse_slots(s, reply)) return;
    Serving *serving = versions_pin(&s->versions);
    reply->status = 200;
    describe_slots(&reply->body, &serving->api, serving->slots, engine_stats(serving->engine).running);
    versions_unpin(&s->versions, serving);
}

void get_streams(Server *s, const HttpRequest *request, HttpReply *reply) {
    (void)request;
    if (refuse_slots(s, reply)) return;
    streams_print(s, &reply->body);
    reply->status = 200;
}

void get_openapi(Server *s, const HttpRequest *request, HttpReply *reply) {
    (void)request;
    hand_over(s, offsetof(Serving, openapi), reply);
}

void get_tokenizer_info(Server *s, const HttpRequest *request, HttpReply *reply) {
    (void)request;
    hand_over(s, offsetof(Serving, tokenizer_info), reply);
}

void get_version(Server *s, const HttpRequest *request, HttpReply *reply) {
    (void)s, (void)request;
    reply->status = 200;
    json_open(&reply->body, NULL, '{');
    json_put_text(&reply->body, "version", NOISED_VERSION);
    json_close(&reply->body, '}');
}

void get_load(Server *s, const HttpRequest *request, HttpReply *reply) {
    (void)request;
    EngineStats stats;
    versions_stats(&s->versions, &stats);
    reply->status = 200;
    json_open(&reply->body, NULL, '{');
    json_put_int(&reply->body, "server_load", stats.running + stats.queued);
    json_close(&reply->body, '}');
}

void get_live(Server *s, const HttpRequest *request, HttpReply *reply) {
    (void)request;
    EngineStats stats;
    versions_stats(&s->versions, &stats);
    bool stuck = server_is_stuck(&stats);
    reply->status = stuck ? 503 : 200;
    json_open(&reply->body, NULL, '{');
    json_put_text(&reply->body, "status", stuck ? "stuck" : "ok");
    json_close(&reply->body, '}');
}

void get_metrics(Server *s, const HttpRequest *request, HttpReply *reply) {
    (void)request;
    scrape(s, reply);
}

void get_noise(Server *s, const HttpRequest *request, HttpReply *reply) {
    (void)request;
    Serving *serving = versions_pin(&s->versions);
    reply->status = 200;
    noise_print(&reply->body, &serving->checkpoint.model);
    versions_unpin(&s->versions, serving);
}

void get_page(Server *s, const HttpRequest *request, HttpReply *reply) {
    (void)s, (void)request;
    reply->status = 200;
    reply->type = "text/html; charset=utf-8";
    reply->policy = page_policy();
    buffer_append(&reply->body, page_html, page_bytes);
}
