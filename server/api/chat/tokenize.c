#include "server/api/chat/tokenize.h"

#include "server/api/chat/chat.h"
#include "server/api/chat/messages.h"
#include "server/api/completions/prompt.h"
#include "base/json_write.h"
#include "base/err.h"
#include "base/json/json_reader.h"
#include "base/utf8.h"

#include <stdlib.h>
#include <string.h>

typedef struct Tokenize {
    const char *model, *prompt, *content; /* borrowed from the JSON, as: */
    const cJSON *messages;
    bool add_special_tokens, add_special, with_pieces, parse_special;
} Tokenize;

#define FIELD(member, k) .name = #member, .kind = k, .offset = offsetof(Tokenize, member)
static const Field tokenize_rows[] = {
    {FIELD(model, FIELD_TEXT), .absent = "the one served",
     .help = "The served model's name or an `--alias` of it; 404 otherwise."},
    {FIELD(prompt, FIELD_TEXT), .absent = "none",
     .help = "The text. Either `prompt`, `content` or `messages` must be there."},
    {FIELD(add_special_tokens, FIELD_BOOL), .absent = "true with `prompt`, false with `content`",
     .help = "Put the tokens around the text that the tokenizer does."},
    {FIELD(content, FIELD_TEXT), .absent = "none", .help = "The text, with llama-server's answer."},
    {FIELD(add_special, FIELD_BOOL), .absent = "`add_special_tokens`", .help = "llama-server's name for that."},
    {FIELD(with_pieces, FIELD_BOOL),
     .help = "Every token as an object of `id` and `piece`, a string, or an array of bytes where it is no text by "
             "itself."},
    {FIELD(parse_special, FIELD_BOOL), .fallback = true,
     .help = "Special tokens that the text spells out become their ids."},
    {FIELD(messages, FIELD_OTHER), .type = &chat_messages_type, .absent = "none",
     .help = "A conversation, beside any of the fields of `/v1/chat/completions`: the tokens that a chat of them would "
             "have as its prompt, behind the BOS token with `add_special_tokens: true`."},
};
#undef FIELD

const FieldList tokenize_fields = {
    .rows = tokenize_rows, .n = COUNTOF(tokenize_rows), .either = {"prompt", "content", "messages"}, .more = true};

typedef struct Conversation {
    RequestDraft draft;
    bool add_special, with_pieces;
} Conversation;

#define FIELD(member) .name = #member, .kind = FIELD_BOOL, .offset = offsetof(Conversation, member)
static const Field conversation_rows[] = {
    {FIELD(add_special)},
    {FIELD(with_pieces)},
    {DRAFT_FIELD(add_special_tokens, FIELD_BOOL)},
    {.name = "prompt", .kind = FIELD_NEUTRAL, .neutral = "[]"}, /* null, as: */
    {.name = "content", .kind = FIELD_NEUTRAL, .neutral = "[]"},
};
#undef FIELD
static const FieldList conversation_fields = {
    .rows = conversation_rows, .n = COUNTOF(conversation_rows), .also = &chat_fields};

/* llama-server's: the piece as a string, or as an array of its bytes when it is no text by itself. */
static void print_piece(Buffer *out, const Tokenizer *t, int id) {
    size_t n = 0;
    const char *piece = tokenizer_piece(t, id, &n);
    json_open(out, NULL, '{');
    json_put_int(out, "id", id);
    if (utf8_is_valid(piece, n)) {
        json_put_bytes(out, "piece", piece, n);
    } else {
        json_open(out, "piece", '[');
        for (size_t i = 0; i < n; i++) json_put_int(out, NULL, (unsigned char)piece[i]);
        json_close(out, ']');
    }
    json_close(out, '}');
}

static void print_tokens(const ApiContext *ctx, const int *ids, size_t n, bool pieces, bool vllm, Buffer *out) {
    json_open(out, NULL, '{');
    json_open(out, "tokens", '[');
    for (size_t i = 0; i < n; i++)
        if (pieces)
            print_piece(out, ctx->tokenizer, ids[i]);
        else
            json_put_int(out, NULL, ids[i]);
    json_close(out, ']');
    if (vllm) {
        json_put_uint(out, "count", n);
        json_put_int(out, "max_model_len", ctx->config->max_positions);
    }
    json_close(out, '}');
}

static bool is_there(const cJSON *root, const char *name) { return !json_is_null(json_field(root, name)); }

/* By either name, for either text. */
static bool adds_special(const Tokenize *t, const cJSON *root) {
    bool tokens = is_there(root, "add_special_tokens"), llama = is_there(root, "add_special");
    if (tokens && (t->prompt || !llama)) return t->add_special_tokens;
    return llama ? t->add_special : t->prompt != NULL;
}

static int tokenize_text(const FieldReader *reader, const cJSON *root, Buffer *out) {
    const ApiContext *ctx = reader->context;
    Tokenize t = {0};
    TokenList list = {0};
    Err err;
    FieldReader r = *reader;
    r.out = &t;
    if (fields_read(&r, root, &tokenize_fields) || api_check_model(t.model, &ctx->models, r.error)) return -1;
    const char *text = t.prompt ? t.prompt : t.content;
    bool special = adds_special(&t, root);
    if (special && tokenizer_bos(ctx->tokenizer) >= 0) token_list_push(&list, tokenizer_bos(ctx->tokenizer));
    int rc = tokenizer_encode(ctx->tokenizer, text, strlen(text), t.parse_special, &list, &err);
    if (special && tokenizer_tail(ctx->tokenizer) >= 0) token_list_push(&list, tokenizer_tail(ctx->tokenizer));
    if (rc)
        api_fail(r.error, 400, NULL, t.prompt ? "prompt" : "content", "%s", err.msg);
    else
        print_tokens(ctx, list.ids, list.n, t.with_pieces, t.prompt, out);
    token_list_free(&list);
    return rc;
}

static int tokenize_conversation(const FieldReader *reader, const cJSON *root, Buffer *out) {
    const ApiContext *ctx = reader->context;
    Conversation c = {.draft.ignored = reader->ignored};
    RequestDraft *d = &c.draft;
    FieldReader r = *reader;
    TokenList list = {0};
    r.out = &c;
    bool bad = fields_read(&r, root, &conversation_fields) || api_check_model(d->model, &ctx->models, r.error) ||
               messages_prompt(d, ctx, r.error);
    int bos = c.add_special || d->add_special_tokens ? tokenizer_bos(ctx->tokenizer) : -1;
    if (bos >= 0) token_list_push(&list, bos);
    for (int i = 0; !bad && i < d->request.prompts->n; i++) token_list_push(&list, d->request.prompts->ids[i]);
    int rc = bad ? -1 : list.failed ? api_no_memory(r.error) : 0;
    if (rc == 0) print_tokens(ctx, list.ids, list.n, c.with_pieces, true, out);
    token_list_free(&list);
    api_request_free(&d->request);
    return rc;
}

int api_tokenize(const ApiContext *ctx, const char *body, size_t n, Buffer *out, Buffer *ignored, ApiError *e) {
    cJSON *root = fields_parse_body(body, n, ctx->limits.json_depth, ctx->limits.json_values, e);
    if (!root) return -1;
    const FieldReader reader = {.context = ctx, .error = e, .ignored = ctx->lenient ? ignored : NULL};
    bool text = is_there(root, "prompt") || is_there(root, "content") || !is_there(root, "messages");
    int rc = (text ? tokenize_text : tokenize_conversation)(&reader, root, out);
    cJSON_Delete(root);
    return rc ? -1 : 0;
}

typedef struct Detokenize {
    const char *model;
    int *ids;
    int n_ids;
} Detokenize;

static int read_tokens(const FieldReader *r, const cJSON *item) {
    Detokenize *d = r->out;
    const ApiContext *ctx = r->context;
    return api_ids_read(r, item, ctx->config->vocab_size, &d->ids, &d->n_ids);
}

static const Field detokenize_rows[] = {
    {.name = "model",
     .kind = FIELD_TEXT,
     .offset = offsetof(Detokenize, model),
     .absent = "the one served",
     .help = "The served model's name or an `--alias` of it; 404 otherwise."},
    {.name = "tokens",
     .kind = FIELD_OTHER,
     .read = read_tokens,
     .type = &api_ids_type,
     .absent = "required",
     .help = "The tokens of the text."},
};

const FieldList detokenize_fields = {.rows = detokenize_rows, .n = COUNTOF(detokenize_rows)};

int api_detokenize(const ApiContext *ctx, const char *body, size_t n, Buffer *out, Buffer *ignored, ApiError *e) {
    Detokenize d = {0};
    cJSON *root = fields_parse_body(body, n, ctx->limits.json_depth, ctx->limits.json_values, e);
    if (!root) return -1;
    FieldReader reader = {.out = &d, .context = ctx, .error = e, .ignored = ctx->lenient ? ignored : NULL};
    int rc = fields_read(&reader, root, &detokenize_fields) || api_check_model(d.model, &ctx->models, e);
    if (rc == 0 && !d.ids) rc = api_fail(e, 400, NULL, "tokens", "tokens is missing");
    if (rc == 0) {
        size_t n_text = 0;
        char *text = tokenizer_decode(ctx->tokenizer, d.ids, (size_t)d.n_ids, &n_text);
        if (!text) rc = api_no_memory(e);
        json_open(out, NULL, '{');
        json_put_bytes(out, "prompt", text, n_text);
        json_put_bytes(out, "content", text, n_text);
        json_close(out, '}');
        free(text);
    }
    free(d.ids);
    cJSON_Delete(root);
    return rc ? -1 : 0;
}
