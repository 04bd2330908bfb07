#include "server/routes.h"

#include "base/json_write.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/memory.h"
#include "server/access.h"
#include "server/api/completions/completion.h"
#include "server/api/schema/describe.h"
#include "server/api/noise.h"
#include "server/api/pooling/embeddings.h"
#include "server/api/chat/chat.h"
#include "server/api/chat/replay.h"
#include "server/api/completions/score.h"
#include "server/api/pooling/tasks.h"
#include "server/api/chat/tokenize.h"
#include "server/api/llama/llama.h"
#include "server/api/responses/responses.h"
#include "server/page/page.h"
#include "server/post.h"
#include "server/scrape.h"
#include "server/streams.h"

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
    const char *name = route_parameter(request->path);
    ApiError e;
    if (api_check_model(name, &s->models, &e)) {
        reply_error(reply, &e);
        return;
    }
    reply->status = 200;
    print_model(s, &reply->body, name);
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

static void props(Server *s, const HttpRequest *request, HttpReply *reply) {
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

static void slots(Server *s, const HttpRequest *request, HttpReply *reply) {
    (void)request;
    if (refuse_slots(s, reply)) return;
    Serving *serving = versions_pin(&s->versions);
    reply->status = 200;
    describe_slots(&reply->body, &serving->api, serving->slots, engine_stats(serving->engine).running);
    versions_unpin(&s->versions, serving);
}

static void list_streams(Server *s, const HttpRequest *request, HttpReply *reply) {
    (void)request;
    if (refuse_slots(s, reply)) return;
    streams_print(s, &reply->body);
    reply->status = 200;
}

static void openapi(Server *s, const HttpRequest *request, HttpReply *reply) {
    (void)request;
    hand_over(s, offsetof(Serving, openapi), reply);
}

static void tokenizer_info(Server *s, const HttpRequest *request, HttpReply *reply) {
    (void)request;
    hand_over(s, offsetof(Serving, tokenizer_info), reply);
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

static void metrics(Server *s, const HttpRequest *request, HttpReply *reply) {
    (void)request;
    scrape(s, reply);
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

/* ---- the table ---- */

const Route routes[] = {
    {.path = "/v1/completions",
     .also = {"/completions"},
     .help = "Continue texts.",
     .schema = "Completion",
     .event = "CompletionEvent",
     .engine = &completion_answer,
     .body = &completion_fields},
    {.path = "/v1/chat/completions",
     .also = {"/chat/completions"},
     .help = "Answer conversations.",
     .schema = "Chat",
     .event = "ChatEvent",
     .engine = &completion_answer,
     .body = &chat_fields},
    {.path = "/v1/responses",
     .also = {"/responses"},
     .help = "Answer conversations, by OpenAI's protocol of responses.",
     .schema = "Response",
     .event = "ResponseEvent",
     .engine = &completion_answer,
     .body = &responses_fields},
    {.path = "/completion",
     .help = "Continue texts, as llama-server answers.",
     .schema = "LlamaCompletion",
     .event = "LlamaEvent",
     .engine = &completion_answer,
     .body = &llama_fields},
    {.path = "/infill",
     .help = "Fill in what is missing between two texts, as llama-server answers.",
     .schema = "LlamaCompletion",
     .event = "LlamaEvent",
     .engine = &completion_answer,
     .body = &infill_fields},
    {.path = "/v1/embeddings",
     .also = {"/embeddings"},
     .help = "Texts to vectors.",
     .schema = "Embeddings",
     .engine = &embeddings_answer,
     .body = &embeddings_fields},
    {.path = "/v1/rerank",
     .also = {"/rerank", "/v2/rerank", "/v1/reranking", "/reranking"},
     .help = "Documents by their likeness to a query.",
     .schema = "Reranked",
     .engine = &rerank_answer,
     .body = &rerank_fields},
    {.path = "/v1/classify",
     .help = "Classes of texts or pictures.",
     .schema = "Classes",
     .engine = &classify_answer,
     .body = &classify_fields},
    {.path = "/v1/tag",
     .help = "Labels of words, and the entities they make.",
     .schema = "Tags",
     .engine = &tag_answer,
     .body = &tag_fields},
    {.path = "/v1/fill-mask",
     .help = "Tokens in the place of masks.",
     .schema = "Masks",
     .engine = &fill_mask_answer,
     .body = &fill_mask_fields},
    {.path = "/v1/score",
     .help = "How probable given continuations are.",
     .schema = "Score",
     .engine = &completion_answer,
     .body = &score_fields},
    {.path = "/v1/replay",
     .help = "Repeat an answer and compare the bytes.",
     .schema = "Replay",
     .engine = &completion_answer,
     .body = &replay_fields},
    {.path = "/apply-template",
     .help = "A conversation as the text that the model would be given, as llama-server tells.",
     .schema = "WrittenPrompt",
     .convert = llama_apply_template,
     .body = &template_fields},
    {.path = "/tokenize",
     .help = "Text to token ids.",
     .schema = "Tokens",
     .convert = api_tokenize,
     .body = &tokenize_fields},
    {.path = "/detokenize",
     .help = "Token ids to text.",
     .schema = "Text",
     .convert = api_detokenize,
     .body = &detokenize_fields},
    {.path = "/v1/models",
     .also = {"/models"},
     .help = "A list of the one model served.",
     .schema = "Models",
     .of_models = true,
     .get = models},
    {.path = "/v1/models/",
     .parameter = "{model}",
     .also = {"/models/"},
     .help = "That model.",
     .schema = "Model",
     .of_models = true,
     .get = model},
    {.path = "/tokenizer_info",
     .help = "The tokenizer and the chat template, as vLLM tells.",
     .schema = "TokenizerInfo",
     .get = tokenizer_info},
    {.path = "/props",
     .help = "What is served and what a request gets that does not say, as llama-server tells.",
     .schema = "Props",
     .get = props},
    {.path = "/slots",
     .help = "Places for choices that are computed at the same time, as llama-server tells. All are alike.",
     .schema = "Slots",
     .get = slots},
    {.path = "/streams",
     .help = "Every answer that waits, is computed or is being sent: age, tokens, tokens/s, longest gap, whose it is.",
     .schema = "Streams",
     .get = list_streams},
    {.path = "/version", .help = "`version`: the program's.", .schema = "Version", .get = version},
    {.path = "/load", .help = "`server_load`: choices that are computed or wait.", .schema = "Load", .get = load},
    {.path = "/health",
     .also = {"/v1/health", "/ping"},
     .open = true,
     .last_left = true,
     .help = "200 when requests are served, else 503 and why not.",
     .schema = "Health",
     .unfit = true,
     .get = health},
    {.path = "/health/live",
     .open = true,
     .last_left = true,
     .help = "200 as long as the process answers.",
     .schema = "Live",
     .get = live},
    {.path = "/metrics", .help = "Figures in Prometheus' text format.", .media = "text/plain", .get = metrics},
    {.path = "/noise",
     .help = "How strong the noise is, layer by layer and head by head.",
     .schema = "Noise",
     .get = noise},
    {.path = "/openapi.json", .help = "All of this as OpenAPI 3.1, with this daemon's limits.", .get = openapi},
    {.path = "/",
     .open = true,
     .help = "The page: everything above, to play with in a browser.",
     .media = "text/html",
     .get = page},
    {0},
};

int routes_fail_unknown(const char *path, ApiError *e) {
    const char *nearest = route_nearest(path);
    return api_fail(e, 404, "unknown_route", NULL, "there is no route %.200s%s%s", path,
                    nearest ? "; the nearest is " : "", nearest ? nearest : "");
}

static int check(const Server *s, const HttpRequest *request, HttpReply *reply, ApiError *e) {
    const Route *r = route_find(request->path);
    if (request->crowded && !(r && r->last_left)) return api_fail(e, 503, NULL, NULL, "too many connections");
    if (!(r && route_is_open(r, &s->models)) && auth_check(s->auth, request->authorization, request->api_key) < 0)
        return api_bad_key(e);
    if (!r) return routes_fail_unknown(request->path, e);
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
    const Route *r = route_find(request->path);
    if (r->get)
        r->get(self, request, reply);
    else
        post(self, r, request, reply);
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
