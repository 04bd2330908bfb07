#include "server/routes.h"

#include "base/clock.h"
#include "base/err.h"
#include "server/access.h"
#include "server/get.h"
#include "server/api/completions/completion.h"
#include "server/api/pooling/embeddings.h"
#include "server/api/chat/chat.h"
#include "server/api/chat/replay.h"
#include "server/api/completions/score.h"
#include "server/api/pooling/tasks.h"
#include "server/api/chat/tokenize.h"
#include "server/api/llama/llama.h"
#include "server/api/responses/responses.h"
#include "server/post.h"

#include <string.h>

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
     .get = get_models},
    {.path = "/v1/models/",
     .parameter = "{model}",
     .also = {"/models/"},
     .help = "That model.",
     .schema = "Model",
     .of_models = true,
     .get = get_model},
    {.path = "/tokenizer_info",
     .help = "The tokenizer and the chat template, as vLLM tells.",
     .schema = "TokenizerInfo",
     .get = get_tokenizer_info},
    {.path = "/props",
     .help = "What is served and what a request gets that does not say, as llama-server tells.",
     .schema = "Props",
     .get = get_props},
    {.path = "/slots",
     .help = "Places for choices that are computed at the same time, as llama-server tells. All are alike.",
     .schema = "Slots",
     .get = get_slots},
    {.path = "/streams",
     .help = "Every answer that waits, is computed or is being sent: age, tokens, tokens/s, longest gap, whose it is.",
     .schema = "Streams",
     .get = get_streams},
    {.path = "/version", .help = "`version`: the program's.", .schema = "Version", .get = get_version},
    {.path = "/load", .help = "`server_load`: choices that are computed or wait.", .schema = "Load", .get = get_load},
    {.path = "/health",
     .also = {"/v1/health", "/ping"},
     .open = true,
     .last_left = true,
     .help = "200 when requests are served, else 503 and why not.",
     .schema = "Health",
     .unfit = true,
     .get = get_health},
    {.path = "/health/live",
     .open = true,
     .last_left = true,
     .help = "200 as long as the process answers and its engine is not stuck, else 503.",
     .schema = "Live",
     .unfit = true,
     .get = get_live},
    {.path = "/metrics", .help = "Figures in Prometheus' text format.", .media = "text/plain", .get = get_metrics},
    {.path = "/noise",
     .help = "How strong the noise is, layer by layer and head by head.",
     .schema = "Noise",
     .get = get_noise},
    {.path = "/openapi.json", .help = "All of this as OpenAPI 3.1, with this daemon's limits.", .get = get_openapi},
    {.path = "/",
     .open = true,
     .help = "The page: everything above, to play with in a browser.",
     .media = "text/html",
     .get = get_page},
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
