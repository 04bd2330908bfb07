#include "server/api/schema/describe.h"

#include "base/json_write.h"
#include "base/err.h"
#include "base/utf8.h"
#include "base/json/json_reader.h"
#include "model/shape.h"
#include "server/api/foreign.h"
#include "tokenizer/chat_files.h"

#include <inttypes.h>
#include <string.h>

void describe_tokenizer(Buffer *b, const ApiContext *ctx, const cJSON *config) {
    const Chat *chat = ctx->chat;
    json_open(b, NULL, '{');
    json_put_int(b, "vocab_size", ctx->config->vocab_size);
    json_put_int(b, "model_max_length", ctx->config->max_positions);
    json_put_bool(b, "add_bos_token", tokenizer_bos(ctx->tokenizer) >= 0);
    json_put_bool(b, "add_eos_token", tokenizer_tail(ctx->tokenizer) >= 0);
    json_put_some(b, "tokenizer_class", chat_token_text(config, "tokenizer_class"));
    json_put_some(b, "bos_token", chat->manner.bos);
    json_put_some(b, "eos_token", chat->manner.eos);
    json_put_some(b, "pad_token", chat_token_text(config, "pad_token"));
    json_put_some(b, "chat_template", chat->source);
    json_close(b, '}');
}

/* ---- llama-server's ---- */

/* The values of the fields that have one when they are absent. */
static void put_defaults(Buffer *b, const Generation *g) {
    for (const Field *f = completion_fields.rows; f < completion_fields.rows + completion_fields.n; f++)
        api_put_default(b, f->name, g, &completion_fields, f);
}

/* A field that llama-server has and that does nothing here stands at the value that changes nothing. */
static void put_neutral(Buffer *b) {
    for (const Field *f = foreign_fields.rows; f < foreign_fields.rows + foreign_fields.n; f++) {
        if (!f->neutral || strncmp(f->help, "llama-server", 12)) continue;
        cJSON *values = cJSON_Parse(f->neutral);
        char *text = values && values->child ? cJSON_PrintUnformatted(values->child) : NULL;
        if (!values || (values->child && !text)) b->failed = true;
        if (text) json_put_raw(b, f->name, text, strlen(text));
        cJSON_free(text);
        cJSON_Delete(values);
    }
}

static void put_params(Buffer *b, const ApiContext *ctx) {
    json_open(b, "params", '{');
    json_put_int(b, "seed", ctx->defaults.seed);
    if (ctx->defaults.noise_seed >= 0)
        json_put_int(b, "noise_seed", ctx->defaults.noise_seed);
    else
        json_put_null(b, "noise_seed");
    json_put_float(b, "noise_scale", (float)ctx->defaults.noise_scale);
    json_put_raw(b, "stop", "[]", 2);
    json_put_raw(b, "logit_bias", "{}", 2);
    put_defaults(b, ctx->generation);
    put_neutral(b);
    json_close(b, '}');
}

static void put_last_part(Buffer *b, const char *key, const char *path) {
    size_t n = strlen(path);
    while (n > 1 && path[n - 1] == '/') n--;
    const char *slash = memrchr(path, '/', n), *last = slash ? slash + 1 : path;
    json_put_bytes(b, key, last, (size_t)(path + n - last));
}

void describe_props(Buffer *b, const ApiContext *ctx, const char *folder, int slots) {
    const Chat *chat = ctx->chat;
    json_open(b, NULL, '{');
    json_open(b, "default_generation_settings", '{');
    json_put_int(b, "n_ctx", ctx->config->max_positions);
    put_params(b, ctx);
    json_close(b, '}');
    json_put_int(b, "total_slots", slots);
    put_last_part(b, "model_path", folder);
    json_put_text(b, "model_alias", ctx->models.name);
    json_put_some(b, "bos_token", chat->manner.bos);
    json_put_some(b, "eos_token", chat->manner.eos);
    json_put_text(b, "chat_template", chat->source ? chat->source : ""); /* pages take its length */
    json_open(b, "modalities", '{');
    json_put_bool(b, "vision", false);
    json_put_bool(b, "audio", false);
    json_close(b, '}');
    json_put_text(b, "build_info", "noised " NOISED_VERSION);
    json_put_bool(b, "endpoint_slots", !ctx->no_slots);
    json_put_bool(b, "endpoint_props", false);
    json_put_bool(b, "endpoint_metrics", true);
    json_close(b, '}');
}

void describe_slots(Buffer *b, const ApiContext *ctx, int slots, int running) {
    json_open(b, NULL, '[');
    for (int i = 0; i < slots; i++) {
        json_open(b, NULL, '{');
        json_put_int(b, "id", i);
        json_put_int(b, "n_ctx", ctx->config->max_positions);
        json_put_bool(b, "speculative", ctx->guess);
        json_put_bool(b, "is_processing", i < running);
        put_params(b, ctx);
        json_close(b, '}');
    }
    json_close(b, ']');
}

void describe_task(Buffer *b, const ApiContext *ctx) {
    const Config *c = ctx->config;
    json_put_text(b, "task", task_names[c->task]);
    if (c->n_labels) json_open(b, "labels", '[');
    for (int i = 0; i < c->n_labels; i++) json_put_text(b, NULL, labels_name(ctx->labels, i));
    if (c->n_labels) json_close(b, ']');
    size_t n;
    const char *mask = c->task == TASK_FILL_MASK ? tokenizer_piece(ctx->tokenizer, c->mask_token_id, &n) : NULL;
    if (mask && utf8_is_valid(mask, n)) json_put_bytes(b, "mask", mask, n);
    if (c->input.height > 0) json_put_ints(b, "image_size", (const int[]){c->input.height, c->input.width}, 2);
}
