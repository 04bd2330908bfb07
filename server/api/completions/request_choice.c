/* The field "choice": its strings become a trie of tokens, and what does not go with it is refused. */
#include "base/err.h"
#include "base/json/json_reader.h"
#include "base/memory.h"
#include "model/shape.h"
#include "server/api/completions/request_draft.h"

#include <stdlib.h>
#include <string.h>

enum { STRINGS = 256, STRING_BYTES = 256 };

static const Type string = {.kind = TYPE_STRING, .low = 1, .high = STRING_BYTES};
const Type api_choice_type = {.kind = TYPE_ARRAY, .low = 1, .high = STRINGS, .of = {&string}};

typedef struct String {
    const char *text;
    TokenList tokens;
} String;

static int compare_strings(const void *a, const void *b) {
    const String *x = a, *y = b;
    return trie_compare(x->tokens.ids, (int)x->tokens.n, y->tokens.ids, (int)y->tokens.n);
}

static Shown show(const char *text) { return show_text(text, strlen(text)); }

/* Whether the tokens' pieces in a row are the text, behind a space of the tokenizer's own when `spaced`. */
static bool is_spelled(const Tokenizer *t, const String *s, bool spaced) {
    const char *rest = s->text;
    for (size_t i = 0; i < s->tokens.n; i++) {
        size_t n;
        const char *piece = tokenizer_piece(t, s->tokens.ids[i], &n);
        if (i == 0 && spaced) {
            if (!piece || n == 0 || *piece != ' ') return false;
            piece++, n--;
        }
        if (!piece || strncmp(rest, piece, n) != 0) return false;
        rest += n;
    }
    return !*rest;
}

/* Special tokens that a string spells out stay text: the answer is what the client wrote. */
static int encode(String *s, const FieldReader *r, const cJSON *item) {
    const ApiContext *ctx = r->context;
    Err err;
    if (!cJSON_IsString(item)) return field_fail(r, item, "an array of strings");
    size_t n = strlen(item->valuestring);
    s->text = item->valuestring;
    if (n == 0 || n > STRING_BYTES)
        return api_fail(r->error, 400, NULL, r->name, "a choice has %zu bytes, it must have 1 to %d", n, STRING_BYTES);
    if (tokenizer_encode(ctx->tokenizer, s->text, n, false, &s->tokens, &err))
        return api_fail(r->error, 400, NULL, r->name, "%s", err.msg);
    return 0;
}

/* All of them begin with a space of the tokenizer's own, or none. */
static int check_spelling(const FieldReader *r, const String *strings, int n) {
    CompletionRequest *request = &((RequestDraft *)r->out)->request;
    const Tokenizer *t = ((const ApiContext *)r->context)->tokenizer;
    request->choice_spaced = !is_spelled(t, &strings[0], false);
    for (int i = 0; i < n; i++)
        if (!is_spelled(t, &strings[i], request->choice_spaced))
            return api_fail(r->error, 400, NULL, r->name,
                            is_spelled(t, &strings[i], !request->choice_spaced)
                                ? "the tokenizer puts a space in front of some choices, but not of %s: begin all "
                                  "of them with a space, or none"
                                : "the model cannot write %s: the tokenizer changes it",
                            show(strings[i].text).text);
    return 0;
}

static int check_different(const FieldReader *r, const String *strings, int n) {
    for (int i = 1; i < n; i++)
        if (!compare_strings(&strings[i - 1], &strings[i]))
            return api_fail(r->error, 400, NULL, r->name, "%s has %s twice", r->name, show(strings[i].text).text);
    return 0;
}

/* From sorted strings. */
static int make_trie(const FieldReader *r, const String *strings, int n) {
    CompletionRequest *request = &((RequestDraft *)r->out)->request;
    TokenList all = {0};
    int lengths[STRINGS];
    for (int i = 0; i < n; i++) {
        lengths[i] = (int)strings[i].tokens.n;
        for (size_t k = 0; k < strings[i].tokens.n; k++) token_list_push(&all, strings[i].tokens.ids[k]);
    }
    if (!all.failed) request->trie = trie_new(all.ids, lengths, n);
    token_list_free(&all);
    return request->trie ? 0 : api_no_memory(r->error);
}

int api_choice_read(const FieldReader *r, const cJSON *item) {
    if (!cJSON_IsArray(item)) return field_fail(r, item, "an array of strings");
    int all = cJSON_GetArraySize(item), n = 0, rc = 0;
    if (all < 1 || all > STRINGS)
        return api_fail(r->error, 400, NULL, r->name, "%s has %d strings, it must have 1 to %d", r->name, all, STRINGS);
    String *strings = try_calloc((size_t)all, sizeof *strings);
    if (!strings) return api_no_memory(r->error);
    for (const cJSON *s = item->child; s && rc == 0; s = s->next) rc = encode(&strings[n++], r, s);
    if (rc == 0) rc = check_spelling(r, strings, n);
    if (rc == 0) {
        qsort(strings, (size_t)n, sizeof *strings, compare_strings);
        rc = check_different(r, strings, n) || make_trie(r, strings, n) ? -1 : 0;
    }
    for (int i = 0; i < n; i++) token_list_free(&strings[i].tokens);
    free(strings);
    return rc;
}

int api_choice_check(const CompletionRequest *r, ApiError *e) {
    const struct {
        const char *name;
        bool given;
    } others[] = {{"stop", r->stop.n > 0},
                  {"stop_token_ids", r->n_stop_ids > 0},
                  {"ignore_eos", r->ignore_eos},
                  {"min_tokens", r->min_tokens > 0},
                  {"include_stop_str_in_output", r->include_stop_str_in_output}};
    for (size_t i = 0; i < COUNTOF(others) && r->trie; i++)
        if (others[i].given)
            return api_fail(e, 400, NULL, others[i].name,
                            "%s does not go with choice, whose strings alone say where an answer ends", others[i].name);
    return 0;
}

static bool is_end(const CompletionRequest *r, const Config *c, int id) {
    bool end = config_ends(c, id);
    for (int i = 0; i < r->n_stop_ids; i++) end = end || id == r->stop_ids[i];
    return end;
}

int api_choice_check_ends(const CompletionRequest *r, const ApiContext *ctx, ApiError *e) {
    const Config *c = ctx->config;
    const Trie *t = r->trie;
    if (!t) return 0;
    for (int i = 0; i < t->starts[t->n]; i++)
        if (is_end(r, c, t->ids[i]))
            return api_fail(e, 400, NULL, "choice", "a choice has the token %d, which ends every text", t->ids[i]);
    if (c->eos_token_id >= 0 || c->n_more_ends > 0 || r->n_stop_ids > 0) return 0;
    for (int i = 0; i + 1 < t->n; i++) {
        int n = t->starts[i + 1] - t->starts[i], next = t->starts[i + 2] - t->starts[i + 1];
        if (n < next && !memcmp(t->ids + t->starts[i], t->ids + t->starts[i + 1], (size_t)n * sizeof *t->ids))
            return api_fail(e, 400, NULL, "choice",
                            "a choice of %d tokens begins one of %d, and the model has no token that ends a text", n,
                            next);
    }
    return 0;
}
