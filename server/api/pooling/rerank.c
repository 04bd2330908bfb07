/* POST /v1/rerank: documents in the order of their likeness to a query, by the cosine of their embeddings. The shape is
 * Jina's, which vLLM and llama-server have too; with `texts` it is that of text-embeddings-inference. */
#include "base/json/json_reader.h"
#include "base/json_write.h"
#include "base/err.h"
#include "base/memory.h"
#include "server/api/completions/prompt.h"
#include "server/api/pooling/embeddings.h"

#include <limits.h>
#include <math.h>
#include <stdlib.h>

static const cJSON *text_of(const cJSON *item) {
    bool wrapped = cJSON_IsObject(item) && cJSON_GetArraySize(item) == 1;
    return wrapped ? json_field(item, "text") : item;
}

static int read_list(const FieldReader *r, const cJSON *list, const cJSON **out, bool objects) {
    const ApiContext *ctx = r->context;
    const cJSON *item;
    int n = cJSON_GetArraySize(list);
    char what[96];
    snprintf(what, sizeof what, "an array of 1 to %d strings%s", ctx->limits.prompts,
             objects ? " or objects of a text" : "");
    if (!cJSON_IsArray(list) || n < 1 || n > ctx->limits.prompts) return field_fail(r, list, what);
    cJSON_ArrayForEach(item, list) if (!cJSON_IsString(objects ? text_of(item) : item)) return field_fail(r, item,
                                                                                                          what);
    *out = list;
    return 0;
}

static int read_documents(const FieldReader *r, const cJSON *list) {
    return read_list(r, list, &((PoolingRequest *)r->out)->documents, true);
}

static int read_texts(const FieldReader *r, const cJSON *list) {
    return read_list(r, list, &((PoolingRequest *)r->out)->texts, false);
}

#define FIELD(member, k) .name = #member, .kind = k, .offset = offsetof(PoolingRequest, member)
static const Type document = {.kind = TYPE_MAP,
                              .of = {&api_text_type},
                              .schema =
                                  "{\"anyOf\":[{\"type\":\"string\"},{\"type\":\"object\",\"required\":[\"text\"],"
                                  "\"properties\":{\"text\":{\"type\":\"string\"}},"
                                  "\"additionalProperties\":false}]}"};
static const Type documents = {.kind = TYPE_ARRAY, .low = 1, .limit = "--max-prompts", .of = {&document}};
static const Type texts = {.kind = TYPE_ARRAY, .low = 1, .limit = "--max-prompts", .of = {&api_text_type}};
static const Field rows[] = {
    {FIELD(query, FIELD_TEXT), .absent = "required", .help = "What the documents are held to."},
    {.name = "documents",
     .kind = FIELD_OTHER,
     .read = read_documents,
     .type = &documents,
     .absent = "none",
     .help = "The documents, strings or objects of a `text`. Either `documents` or `texts` must be there."},
    {.name = "texts",
     .kind = FIELD_OTHER,
     .read = read_texts,
     .type = &texts,
     .absent = "none",
     .help = "The documents, with the answer of text-embeddings-inference: an array of `index` and `score`."},
    {FIELD(top_n, FIELD_INT), .high = INT_MAX, .absent = "all", .help = "So many are answered, the likest; 0: all."},
    {FIELD(max_tokens_per_doc, FIELD_INT), .high = INT_MAX, .absent = "any",
     .help = "So many tokens of a longer document count, the first ones, and no more than the context holds."},
    {FIELD(return_documents, FIELD_BOOL), .fallback = true, .help = "With `documents`: every result has its text."},
    {FIELD(truncate, FIELD_BOOL), .help = "Of a text longer than the context its beginning counts."},
    {.name = "truncation_direction",
     .kind = FIELD_NEUTRAL,
     .neutral = "[\"right\",\"Right\"]",
     .absent = "none",
     .help = "text-embeddings-inference, of `truncate`"},
    {.name = "raw_scores",
     .kind = FIELD_NEUTRAL,
     .neutral = "[false]",
     .absent = "none",
     .help = "text-embeddings-inference: a score is a cosine"},
    {.name = "return_text",
     .kind = FIELD_NEUTRAL,
     .neutral = "[false]",
     .absent = "none",
     .help = "text-embeddings-inference: use `documents`"},
    {.name = "dimensions", .kind = FIELD_NONE},
    {.name = "encoding_format", .kind = FIELD_NONE},
    {.name = "input", .kind = FIELD_NONE},
};
#undef FIELD

const FieldList rerank_fields = {
    .rows = rows, .n = COUNTOF(rows), .also = &embeddings_fields, .either = {"documents", "texts"}};

/* ---- the request ---- */

static int settle(PoolingRequest *r, const ApiContext *ctx, ApiError *e) {
    const cJSON *list = r->documents ? r->documents : r->texts, *item;
    const char *field = r->documents ? "documents" : "texts";
    if (embeddings_settle(r, ctx, e)) return -1;
    if (!r->query) return api_fail(e, 400, NULL, "query", "query is missing");
    r->inputs = try_calloc((size_t)cJSON_GetArraySize(list) + 1, sizeof *r->inputs);
    if (!r->inputs) return api_no_memory(e);
    if (pooling_add_text(r, ctx, "query", r->query, e)) return -1;
    r->truncate |= r->max_tokens_per_doc > 0; /* the query is no document */
    cJSON_ArrayForEach(item, list) if (pooling_add_text(r, ctx, field, text_of(item)->valuestring, e)) return -1;
    for (int i = 0; i < r->n_inputs; i++) {
        PoolingInput *input = &r->inputs[i];
        int most = MIN(r->max_tokens_per_doc, ctx->config->max_positions);
        input->n_values = ctx->config->hidden_size;
        if (i == 0 || !most || input->n <= most) continue;
        input->n = most;
        input->truncated = true;
    }
    return 0;
}

/* ---- the answer ---- */

typedef struct Ranked {
    int index;
    float score;
} Ranked;

static int by_score(const void *a, const void *b) {
    const Ranked *x = a, *y = b;
    return x->score != y->score ? (x->score < y->score) - (x->score > y->score) : x->index - y->index;
}

/* In the order of the features, as to_unit_length: the same bits everywhere. */
static float cosine(const float *a, const float *b, int n) {
    double dot = 0, aa = 0, bb = 0;
    for (int i = 0; i < n; i++) {
        dot += (double)a[i] * (double)b[i];
        aa += (double)a[i] * (double)a[i];
        bb += (double)b[i] * (double)b[i];
    }
    double length = sqrt(aa) * sqrt(bb);
    return length > 0 ? (float)(dot / length) : 0;
}

static void put_result(Buffer *out, const PoolingRequest *request, const Ranked *ranked) {
    json_open(out, NULL, '{');
    json_put_int(out, "index", ranked->index);
    if (request->documents && request->return_documents) {
        const cJSON *item = cJSON_GetArrayItem(request->documents, ranked->index);
        json_open(out, "document", '{');
        json_put_text(out, "text", text_of(item)->valuestring);
        json_close(out, '}');
    }
    json_put_float(out, request->documents ? "relevance_score" : "score", ranked->score);
    json_close(out, '}');
}

/* In the order of all scores, and so all at once. */
static int print(Buffer *out, const Pooling *r, int from) {
    const PoolingRequest *request = &r->request;
    int n = r->n_jobs - 1, width = r->ctx->api->config->hidden_size;
    Ranked *ranked = try_calloc((size_t)n, sizeof *ranked);
    char id[ANSWER_ID];
    if (!ranked) {
        out->failed = true;
        return from;
    }
    for (int i = 0; i < n; i++)
        ranked[i] = (Ranked){.index = i, .score = cosine(r->jobs[0]->values, r->jobs[i + 1]->values, width)};
    qsort(ranked, (size_t)n, sizeof *ranked, by_score);
    if (request->documents) {
        answer_draw_id(id, "rerank");
        json_open(out, NULL, '{');
        json_put_text(out, "id", id);
        json_put_text(out, "object", "list");
        json_open(out, "results", '[');
    } else {
        json_open(out, NULL, '[');
    }
    for (int i = 0; i < n && (request->top_n == 0 || i < request->top_n); i++) put_result(out, request, &ranked[i]);
    if (request->documents)
        pooling_print_close(out, r);
    else
        json_close(out, ']');
    free(ranked);
    return request->n_inputs;
}

static const PoolingForm form = {.settle = settle, .print = print};

const AnswerKind rerank_answer = POOLING_ANSWER(form);
