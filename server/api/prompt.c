#include "base/err.h"
#include "base/memory.h"
#include "server/api/request.h"

#include <stdlib.h>
#include <string.h>

static const char forms[] = "a string, an array of strings, an array of token ids or an array of such arrays";

const Type api_id_type = {.kind = TYPE_INTEGER, .limit = "vocab_size - 1"};
const Type api_ids_type = {.kind = TYPE_ARRAY, .of = {&api_id_type}};

int api_ids_read(const FieldReader *r, const cJSON *item, int vocab, int **ids, int *n) {
    const cJSON *element;
    int64_t id;
    char what[80];
    snprintf(what, sizeof what, "token ids, integers between 0 and %d,", vocab - 1);
    if (!cJSON_IsArray(item)) return field_fail(r, item, "an array of token ids");
    *n = 0;
    *ids = xmalloc(((size_t)cJSON_GetArraySize(item) + 1) * sizeof **ids);
    cJSON_ArrayForEach(element, item) {
        if (!json_integer(element, 0, vocab - 1, &id)) {
            free(*ids);
            *ids = NULL;
            return field_fail(r, element, what);
        }
        (*ids)[(*n)++] = (int)id;
    }
    return 0;
}

/* The token that starts a document, -1 when the model has none. */
static int document_start(const ApiContext *ctx) {
    int bos = tokenizer_bos(ctx->tokenizer);
    if (bos < 0) bos = ctx->config->bos_token_id;
    return bos >= 0 ? bos : ctx->config->eos_token_id;
}

static int prompt_from_text(Prompt *p, const ApiContext *ctx, const char *text, ApiError *e) {
    TokenList list = {0};
    Err err;
    int bos = *text ? tokenizer_bos(ctx->tokenizer) : document_start(ctx);
    if (bos >= 0) token_list_push(&list, bos);
    if (tokenizer_encode(ctx->tokenizer, text, strlen(text), true, &list, &err)) {
        token_list_free(&list);
        return api_fail(e, 400, NULL, "prompt", "%s", err.msg);
    }
    *p = (Prompt){.ids = list.ids, .n = (int)list.n, .n_hidden = bos >= 0};
    if (p->n > 0) return 0;
    return api_fail(e, 400, NULL, "prompt", "the prompt is empty and the model has no token to start a document with");
}

/* One prompt, or one element of a list of them. It is counted at once, so that a failure leaves nothing behind. */
static int add_prompt(const FieldReader *r, const cJSON *item) {
    CompletionRequest *request = r->out;
    const ApiContext *ctx = r->context;
    Prompt *p = &request->prompts[request->n_prompts++];
    if (cJSON_IsString(item)) return prompt_from_text(p, ctx, item->valuestring, r->error);
    if (!cJSON_IsArray(item)) return field_fail(r, item, forms);
    if (api_ids_read(r, item, ctx->config->vocab_size, &p->ids, &p->n)) return -1;
    if (p->n == 0) return api_fail(r->error, 400, NULL, "prompt", "prompt must have at least one token");
    return 0;
}

int api_prompt_read(const FieldReader *r, const cJSON *item) {
    CompletionRequest *request = r->out;
    const ApiContext *ctx = r->context;
    bool list = cJSON_IsArray(item) && !cJSON_IsNumber(item->child);
    int n = list ? cJSON_GetArraySize(item) : 1;
    if (n == 0) return api_fail(r->error, 400, NULL, "prompt", "prompt must not be an empty array");
    if (n > ctx->limits.prompts)
        return api_fail(r->error, 400, NULL, "prompt", "prompt has %d prompts, the limit is %d", n,
                        ctx->limits.prompts);
    request->prompts = xcalloc((size_t)n, sizeof *request->prompts);
    if (!list) return add_prompt(r, item);
    const cJSON *element;
    cJSON_ArrayForEach(element, item) if (add_prompt(r, element)) return -1;
    return 0;
}

int api_prompt_default(CompletionRequest *r, const ApiContext *ctx, ApiError *e) {
    r->prompts = xcalloc(1, sizeof *r->prompts);
    r->n_prompts = 1;
    return prompt_from_text(&r->prompts[0], ctx, "", e);
}
