/* The fields "allowed_token_ids" and "bad_words", which say what may not be drawn. */
#include "base/err.h"
#include "model/shape.h"
#include "server/api/completions/request_draft.h"

#include <string.h>

enum { BAD_WORDS = 64, BAD_WORD_BYTES = 256 };

const Type api_allowed_type = {.kind = TYPE_ARRAY, .low = 1, .of = {&api_id_type}};
static const Type bad_word = {.kind = TYPE_STRING, .low = 1, .high = BAD_WORD_BYTES};
const Type api_bad_words_type = {.kind = TYPE_ARRAY, .high = BAD_WORDS, .of = {&bad_word}};

int api_allowed_read(const FieldReader *r, const cJSON *item) {
    CompletionRequest *request = &((RequestDraft *)r->out)->request;
    const ApiContext *ctx = r->context;
    if (api_ids_read(r, item, ctx->config->vocab_size, &request->allowed_ids, &request->n_allowed_ids)) return -1;
    if (request->n_allowed_ids > 0) return 0;
    return api_fail(r->error, 400, NULL, r->name, "%s must not be an empty array", r->name);
}

/* The tokens of one, at once or behind a space. */
static int add_bad_word(BadWords *words, const FieldReader *r, const char *text) {
    const ApiContext *ctx = r->context;
    TokenList list = {0};
    Err err;
    int rc = 0;
    if (tokenizer_encode(ctx->tokenizer, text, strlen(text), true, &list, &err))
        rc = api_fail(r->error, 400, NULL, r->name, "%s", err.msg);
    else if (list.n == 0)
        rc = api_fail(r->error, 400, NULL, r->name, "a text of %s has no token", r->name);
    else if (list.failed || bad_words_add(words, list.ids, (int)list.n))
        rc = api_no_memory(r->error);
    token_list_free(&list);
    return rc;
}

int api_bad_words_read(const FieldReader *r, const cJSON *item) {
    CompletionRequest *request = &((RequestDraft *)r->out)->request;
    const cJSON *word;
    if (!cJSON_IsArray(item)) return field_fail(r, item, "an array of strings");
    if (cJSON_GetArraySize(item) > BAD_WORDS)
        return api_fail(r->error, 400, NULL, r->name, "%s has %d texts, the limit is %d", r->name,
                        cJSON_GetArraySize(item), BAD_WORDS);
    request->bad_words = bad_words_new();
    if (!request->bad_words) return api_no_memory(r->error);
    cJSON_ArrayForEach(word, item) {
        char spaced[BAD_WORD_BYTES + 2];
        size_t n = cJSON_IsString(word) ? strlen(word->valuestring) : 0;
        if (n == 0 || n > BAD_WORD_BYTES) return field_fail(r, word, "texts of 1 to 256 bytes");
        snprintf(spaced, sizeof spaced, " %s", word->valuestring);
        if (add_bad_word(request->bad_words, r, word->valuestring) || add_bad_word(request->bad_words, r, spaced))
            return -1;
    }
    return 0;
}

static bool ends_text(const CompletionRequest *r, const Config *c, int id) {
    for (int i = 0; i < r->n_stop_ids; i++)
        if (r->stop_ids[i] == id) return true;
    return !r->ignore_eos && config_ends(c, id);
}

/* Something must be left to begin with, where no end may come yet. */
static int check_begins(const CompletionRequest *r, const Config *c, ApiError *e) {
    if (!r->allowed_ids || r->min_tokens == 0) return 0;
    for (int i = 0; i < r->n_allowed_ids; i++)
        if (!ends_text(r, c, r->allowed_ids[i])) return 0;
    return api_fail(e, 400, NULL, "allowed_token_ids",
                    "min_tokens is %d, but every token of allowed_token_ids ends a text", r->min_tokens);
}

int api_masks_check(const RequestDraft *d, const Config *c, ApiError *e) {
    const CompletionRequest *r = &d->request;
    if (check_begins(r, c, e)) return -1;
    const char *mask = r->allowed_ids ? "allowed_token_ids" : r->bad_words ? "bad_words" : NULL;
    if (!mask || !(r->trie || r->walk)) return 0;
    return api_fail(e, 400, NULL, mask, "%s does not go with %s, which says what is drawn", mask,
                    d->form_field[0] ? d->form_field : "choice");
}
