#include "server/api/completions/tokenize.h"

#include "server/api/completions/prompt.h"
#include "base/json_write.h"
#include "base/err.h"
#include "base/utf8.h"

#include <stdlib.h>
#include <string.h>

typedef struct Tokenize {
    const char *model, *prompt, *content; /* borrowed from the JSON */
    bool add_special_tokens, add_special, with_pieces, parse_special;
} Tokenize;

#define FIELD(member, k) .name = #member, .kind = k, .offset = offsetof(Tokenize, member)
static const Field tokenize_rows[] = {
    {FIELD(model, FIELD_TEXT), .absent = "the one served", .help = "Must be the served model's name; 404 otherwise."},
    {FIELD(prompt, FIELD_TEXT), .absent = "none", .help = "The text. Either `prompt` or `content` must be there."},
    {FIELD(add_special_tokens, FIELD_BOOL), .fallback = true,
     .help = "With `prompt`: put the BOS token in front where the tokenizer does."},
    {FIELD(content, FIELD_TEXT), .absent = "none", .help = "The text, with llama-server's answer."},
    {FIELD(add_special, FIELD_BOOL), .help = "With `content`: put the BOS token in front where the tokenizer does."},
    {FIELD(with_pieces, FIELD_BOOL),
     .help = "Every token as an object of `id` and `piece`, a string, or an array of bytes where it is no text by "
             "itself."},
    {FIELD(parse_special, FIELD_BOOL), .fallback = true,
     .help = "Special tokens that the text spells out become their ids."},
};
#undef FIELD

const FieldList tokenize_fields = {.rows = tokenize_rows, .n = COUNTOF(tokenize_rows), .either = {"prompt", "content"}};

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

static int tokenize(const ApiContext *ctx, const Tokenize *t, Buffer *out, ApiError *e) {
    TokenList list = {0};
    Err err;
    const char *text = t->prompt ? t->prompt : t->content;
    bool bos = t->prompt ? t->add_special_tokens : t->add_special;
    if (bos && tokenizer_bos(ctx->tokenizer) >= 0) token_list_push(&list, tokenizer_bos(ctx->tokenizer));
    int rc = tokenizer_encode(ctx->tokenizer, text, strlen(text), t->parse_special, &list, &err);
    if (rc) api_fail(e, 400, NULL, t->prompt ? "prompt" : "content", "%s", err.msg);
    json_open(out, NULL, '{');
    json_open(out, "tokens", '[');
    for (size_t i = 0; i < list.n && !rc; i++)
        if (t->with_pieces)
            print_piece(out, ctx->tokenizer, list.ids[i]);
        else
            json_put_int(out, NULL, list.ids[i]);
    json_close(out, ']');
    if (t->prompt) {
        json_put_uint(out, "count", list.n);
        json_put_int(out, "max_model_len", ctx->config->max_positions);
    }
    json_close(out, '}');
    token_list_free(&list);
    return rc;
}

int api_tokenize(const ApiContext *ctx, const char *body, size_t n, Buffer *out, Buffer *ignored, ApiError *e) {
    Tokenize t = {0};
    cJSON *root = fields_parse_body(body, n, ctx->limits.json_depth, ctx->limits.json_values, e);
    if (!root) return -1;
    FieldReader reader = {.out = &t, .context = ctx, .error = e, .ignored = ctx->lenient ? ignored : NULL};
    int rc = fields_read(&reader, root, &tokenize_fields) || api_check_model(t.model, &ctx->models, e);
    if (rc == 0) rc = tokenize(ctx, &t, out, e);
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
     .help = "Must be the served model's name; 404 otherwise."},
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
