#include "server/api/completions/prompt.h"

#include "base/err.h"
#include "base/memory.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

static const char forms[] = "a string, an array of strings, an array of token ids or an array of such arrays";

const Type api_id_type = {.kind = TYPE_INTEGER, .limit = "vocab_size - 1"};
const Type api_ids_type = {.kind = TYPE_ARRAY, .of = {&api_id_type}};

const Type api_text_type = {.kind = TYPE_STRING};
static const Type part_type = {.kind = TYPE_ONE_OF, .of = {&api_text_type, &api_id_type}},
                  parts_type = {.kind = TYPE_ARRAY, .low = 1, .of = {&part_type}};
const Type api_prompt_type = {.kind = TYPE_ONE_OF, .of = {&api_text_type, &parts_type}};
static const Type several_type = {.kind = TYPE_ARRAY, .low = 1, .limit = "--max-prompts", .of = {&api_prompt_type}};
const Type api_prompts_type = {.kind = TYPE_ONE_OF, .of = {&api_text_type, &parts_type, &several_type}};

static int id_fail(const FieldReader *r, const cJSON *item, int vocab) {
    int64_t id;
    char what[80];
    if (json_int64(item, &id))
        return api_fail(r->error, 400, NULL, r->name,
                        "%s has the token %" PRId64 ", out of vocabulary: ids are 0 to %d", r->name, id, vocab - 1);
    snprintf(what, sizeof what, "token ids, integers between 0 and %d", vocab - 1);
    return field_fail(r, item, what);
}

int api_ids_read(const FieldReader *r, const cJSON *item, int vocab, int **ids, int *n) {
    const cJSON *element;
    int64_t id;
    if (!cJSON_IsArray(item)) return field_fail(r, item, "an array of token ids");
    *n = 0;
    *ids = try_malloc(((size_t)cJSON_GetArraySize(item) + 1) * sizeof **ids);
    if (!*ids) return api_no_memory(r->error);
    cJSON_ArrayForEach(element, item) {
        if (!json_integer(element, 0, vocab - 1, &id)) {
            free(*ids);
            *ids = NULL;
            return id_fail(r, element, vocab);
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

static int encode(TokenList *list, const ApiContext *ctx, const char *text, const char *field, ApiError *e) {
    Err err;
    if (tokenizer_encode(ctx->tokenizer, text, strlen(text), true, list, &err) == 0) return 0;
    return api_fail(e, 400, NULL, field, "%s", err.msg);
}

/* Ids and texts in a row are one prompt. *text: the last is one. */
static int read_parts(TokenList *list, const FieldReader *r, const cJSON *part, bool *text) {
    const ApiContext *ctx = r->context;
    int64_t id;
    for (; part; part = part->next) {
        *text = cJSON_IsString(part);
        if (*text) {
            if (encode(list, ctx, part->valuestring, r->name, r->error)) return -1;
        } else {
            if (!json_integer(part, 0, ctx->config->vocab_size - 1, &id))
                return id_fail(r, part, ctx->config->vocab_size);
            token_list_push(list, (int)id);
        }
    }
    return 0;
}

/* A text in front begins the document, one behind ends it where `special`. */
static int read_prompt(Prompt *p, const FieldReader *r, const cJSON *first, bool special) {
    const ApiContext *ctx = r->context;
    TokenList list = {0};
    bool empty = cJSON_IsString(first) && !*first->valuestring, ends = false;
    int bos = empty ? document_start(ctx) : tokenizer_bos(ctx->tokenizer), tail = tokenizer_tail(ctx->tokenizer);
    bool begins = cJSON_IsString(first) && special && bos >= 0;
    if (begins) token_list_push(&list, bos);
    if (read_parts(&list, r, first, &ends)) {
        token_list_free(&list);
        return -1;
    }
    ends = ends && special && tail >= 0;
    if (ends) token_list_push(&list, tail);
    *p = (Prompt){.ids = list.ids, .n = (int)list.n, .n_hidden = begins, .n_behind = ends};
    if (list.failed) return api_no_memory(r->error);
    if (p->n > 0) return 0;
    return api_fail(r->error, 400, NULL, r->name, "the %s is empty and %s", r->name,
                    special ? "the model has no token to start a document with" : "add_special_tokens is false");
}

static bool is_part(const cJSON *item) { return cJSON_IsNumber(item) || cJSON_IsString(item); }

/* One prompt, or one element of a list of them. */
static int read_one(Prompt *p, const FieldReader *r, const cJSON *item, bool special) {
    bool ids = cJSON_IsArray(item);
    if (!ids && !cJSON_IsString(item)) return field_fail(r, item, forms);
    if (ids && !item->child) return api_fail(r->error, 400, NULL, r->name, "%s must have at least one token", r->name);
    if (ids) return read_prompt(p, r, item->child, special);
    cJSON alone = *item;
    alone.next = NULL;
    return read_prompt(p, r, &alone, special);
}

/* [1,2], [1,"text"]: the parts of one prompt; ["a","b"] and [[1],[2]] are several. */
static bool is_list(const cJSON *item) {
    if (!cJSON_IsArray(item)) return false;
    const cJSON *part;
    bool ids = false;
    cJSON_ArrayForEach(part, item) {
        if (!is_part(part)) return !cJSON_IsNumber(item->child);
        ids = ids || cJSON_IsNumber(part);
    }
    return !ids;
}

/* Each is counted before it is read, so that a failure leaves nothing behind. */
int api_prompts_read(const FieldReader *r, const cJSON *item, bool special, Prompt **prompts, int *n_prompts) {
    const ApiContext *ctx = r->context;
    bool list = is_list(item);
    int n = list ? cJSON_GetArraySize(item) : 1;
    if (n == 0) return api_fail(r->error, 400, NULL, r->name, "%s must not be an empty array", r->name);
    if (n > ctx->limits.prompts)
        return api_fail(r->error, 400, NULL, r->name, "%s has %d texts, the limit is %d (--max-prompts)", r->name, n,
                        ctx->limits.prompts);
    *prompts = try_calloc((size_t)n, sizeof **prompts);
    if (!*prompts) return api_no_memory(r->error);
    const cJSON *element = list ? item->child : item;
    for (int i = 0; i < n; i++, element = element->next)
        if (read_one(&(*prompts)[(*n_prompts)++], r, element, special)) return -1;
    return 0;
}

int api_prompt_read(const ApiContext *ctx, const cJSON *prompt, bool special, Prompt **prompts, int *n_prompts,
                    ApiError *e) {
    const FieldReader reader = {.name = "prompt", .context = ctx, .error = e};
    const cJSON nothing = {.type = cJSON_String, .valuestring = ""};
    return api_prompts_read(&reader, prompt ? prompt : &nothing, special, prompts, n_prompts);
}

/* The tokens of one continuation, behind what is in the list. */
static int read_continuation(TokenList *list, const FieldReader *r, const cJSON *item) {
    const ApiContext *ctx = r->context;
    size_t before = list->n;
    int *ids = NULL, n = 0;
    if (cJSON_IsString(item)) {
        if (encode(list, ctx, item->valuestring, r->name, r->error)) return -1;
    } else if (cJSON_IsArray(item)) {
        if (api_ids_read(r, item, ctx->config->vocab_size, &ids, &n)) return -1;
        for (int i = 0; i < n; i++) token_list_push(list, ids[i]);
        free(ids);
    } else {
        return field_fail(r, item, "an array of strings or of arrays of token ids");
    }
    if (list->failed) return api_no_memory(r->error);
    return list->n > before ? 0 : api_fail(r->error, 400, NULL, r->name, "a continuation has no token");
}

int api_prompt_continue(const ApiContext *ctx, const cJSON *continuations, Prompt **prompts, int *n_prompts,
                        ApiError *e) {
    const FieldReader reader = {.name = "continuations", .context = ctx, .error = e};
    int n = cJSON_GetArraySize(continuations), most = MIN(ctx->limits.prompts, ctx->limits.queue), rc = 0;
    if (!cJSON_IsArray(continuations))
        return field_fail(&reader, continuations, "an array of strings or of arrays of token ids");
    if (n < 1 || n > most)
        return api_fail(e, 400, NULL, "continuations", "continuations has %d elements, it must have 1 to %d", n, most);
    Prompt front = **prompts, *continued = try_calloc((size_t)n, sizeof *continued);
    if (!continued) return api_no_memory(e);
    if (front.n > front.n_behind) front.n -= front.n_behind;
    free(*prompts);
    *prompts = continued;
    *n_prompts = 0;
    for (const cJSON *item = continuations->child; item && rc == 0; item = item->next) {
        TokenList list = {0};
        for (int i = 0; i < front.n; i++) token_list_push(&list, front.ids[i]);
        rc = read_continuation(&list, &reader, item);
        continued[(*n_prompts)++] =
            (Prompt){.ids = list.ids, .n = (int)list.n, .n_hidden = front.n_hidden, .score_from = front.n};
    }
    free(front.ids);
    return rc;
}

/* What models that fill in were trained with: before the prefix, the suffix and the text between them. */
static bool find_marks(const Tokenizer *t, int marks[3]) {
    static const char *const spellings[][3] = {{"<|fim_prefix|>", "<|fim_suffix|>", "<|fim_middle|>"},
                                               {"<fim_prefix>", "<fim_suffix>", "<fim_middle>"},
                                               {"<fim-prefix>", "<fim-suffix>", "<fim-middle>"},
                                               {"<|fim▁begin|>", "<|fim▁hole|>", "<|fim▁end|>"},
                                               {"<｜fim▁begin｜>", "<｜fim▁hole｜>", "<｜fim▁end｜>"},
                                               {"▁<PRE>", "▁<SUF>", "▁<MID>"},
                                               {"<PRE>", "<SUF>", "<MID>"}};
    for (size_t i = 0; i < COUNTOF(spellings); i++) {
        int n = 0;
        while (n < 3 && (marks[n] = tokenizer_find_special(t, spellings[i][n])) >= 0) n++;
        if (n == 3) return true;
    }
    return false;
}

static int infill(Prompt *p, const int marks[3], const TokenList *suffix, ApiError *e) {
    TokenList list = {0};
    for (int i = 0; i < p->n_hidden; i++) token_list_push(&list, p->ids[i]);
    token_list_push(&list, marks[0]);
    for (int i = p->n_hidden; i < p->n - p->n_behind; i++) token_list_push(&list, p->ids[i]);
    token_list_push(&list, marks[1]);
    for (size_t i = 0; i < suffix->n; i++) token_list_push(&list, suffix->ids[i]);
    token_list_push(&list, marks[2]);
    free(p->ids);
    p->ids = list.ids;
    p->n = (int)list.n;
    return list.failed ? api_no_memory(e) : 0;
}

int api_prompt_infill(const ApiContext *ctx, const char *suffix, Prompt *prompts, int n_prompts, ApiError *e) {
    int marks[3];
    TokenList list = {0};
    if (!find_marks(ctx->tokenizer, marks))
        return api_fail(
            e, 400, NULL, "suffix",
            "suffix is not supported: the model's tokenizer has no tokens to fill in with, as <|fim_prefix|>");
    int rc = encode(&list, ctx, suffix, "suffix", e);
    for (int i = 0; i < n_prompts && rc == 0; i++) rc = infill(&prompts[i], marks, &list, e);
    token_list_free(&list);
    return rc;
}

void api_prompt_keep_last(Prompt *p, int n) {
    if (p->n <= n) return;
    memmove(p->ids, p->ids + p->n - n, (size_t)n * sizeof *p->ids);
    *p = (Prompt){.ids = p->ids, .n = n};
}
