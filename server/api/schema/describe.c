#include "server/api/schema/describe.h"

#include "base/err.h"
#include "base/utf8.h"
#include "model/shape.h"
#include "server/api/foreign.h"

#include <inttypes.h>
#include <string.h>

static void print_key(Buffer *b, const char *key) { buffer_print(b, ",\"%s\":", key); }

/* "" and NULL are null. */
static void print_text(Buffer *b, const char *key, const char *text) {
    print_key(b, key);
    if (text && *text)
        buffer_json(b, text, strlen(text));
    else
        buffer_text(b, "null");
}

/* A token of tokenizer_config.json: a string, or an object with its content. */
static const char *token_text(const cJSON *config, const char *key) {
    const cJSON *token = cJSON_GetObjectItemCaseSensitive(config, key);
    return cJSON_GetStringValue(cJSON_IsObject(token) ? cJSON_GetObjectItemCaseSensitive(token, "content") : token);
}

void describe_tokenizer(Buffer *b, const ApiContext *ctx, const cJSON *config) {
    const Chat *chat = ctx->chat;
    buffer_print(b, "{\"vocab_size\":%d,\"model_max_length\":%d,\"add_bos_token\":%s", ctx->config->vocab_size,
                 ctx->config->max_positions, tokenizer_bos(ctx->tokenizer) >= 0 ? "true" : "false");
    print_text(b, "tokenizer_class", token_text(config, "tokenizer_class"));
    print_text(b, "bos_token", chat->words.bos);
    print_text(b, "eos_token", chat->words.eos);
    print_text(b, "pad_token", token_text(config, "pad_token"));
    print_text(b, "chat_template", chat->source);
    buffer_text(b, "}");
}

/* ---- llama-server's ---- */

static void print_value(Buffer *b, const cJSON *value) {
    char *text = cJSON_PrintUnformatted(value);
    if (text)
        buffer_text(b, text);
    else
        b->failed = true;
    cJSON_free(text);
}

/* The values of the fields that have one when they are absent. */
static void print_defaults(Buffer *b, const Generation *g) {
    for (const Field *f = completion_fields.rows; f < completion_fields.rows + completion_fields.n; f++) {
        Buffer value = {0};
        if (api_print_default(&value, g, &completion_fields, f)) {
            print_key(b, f->name);
            buffer_append(b, value.data, value.n);
        }
        b->failed |= value.failed;
        buffer_free(&value);
    }
}

/* A field that llama-server has and that does nothing here stands at the value that changes nothing. */
static void print_neutral(Buffer *b) {
    for (const Field *f = foreign_fields.rows; f < foreign_fields.rows + foreign_fields.n; f++) {
        if (!f->neutral || strncmp(f->help, "llama-server", 12)) continue;
        cJSON *values = cJSON_Parse(f->neutral);
        if (!values) b->failed = true;
        if (values && values->child) {
            print_key(b, f->name);
            print_value(b, values->child);
        }
        cJSON_Delete(values);
    }
}

static void print_params(Buffer *b, const ApiContext *ctx) {
    buffer_text(b, "{\"seed\":-1,\"noise_seed\":");
    if (ctx->defaults.noise_seed >= 0)
        buffer_print(b, "%" PRId64, ctx->defaults.noise_seed);
    else
        buffer_text(b, "null");
    buffer_text(b, ",\"noise_scale\":");
    buffer_float(b, (float)ctx->defaults.noise_scale);
    buffer_text(b, ",\"stop\":[],\"logit_bias\":{}");
    print_defaults(b, ctx->generation);
    print_neutral(b);
    buffer_text(b, "}");
}

void describe_props(Buffer *b, const ApiContext *ctx, int slots) {
    const Chat *chat = ctx->chat;
    buffer_print(b, "{\"default_generation_settings\":{\"n_ctx\":%d,\"params\":", ctx->config->max_positions);
    print_params(b, ctx);
    buffer_print(b, "},\"total_slots\":%d", slots);
    print_text(b, "model_path", ctx->models.name);
    print_text(b, "model_alias", ctx->models.name);
    print_text(b, "bos_token", chat->words.bos);
    print_text(b, "eos_token", chat->words.eos);
    print_key(b, "chat_template"); /* a string whatever is: pages take its length */
    buffer_json(b, chat->source ? chat->source : "", chat->source ? strlen(chat->source) : 0);
    buffer_print(b, ",\"modalities\":{\"vision\":false,\"audio\":false},\"build_info\":\"noised %s\"", NOISED_VERSION);
    buffer_text(b, ",\"endpoint_slots\":false,\"endpoint_props\":false,\"endpoint_metrics\":true}");
}

void describe_task(Buffer *b, const ApiContext *ctx) {
    const Config *c = ctx->config;
    buffer_print(b, ",\"task\":\"%s\"", task_names[c->task]);
    for (int i = 0; i < c->labels.n; i++) {
        const char *label = config_label(c, i);
        buffer_text(b, i ? "," : ",\"labels\":[");
        buffer_json(b, label, strlen(label));
    }
    if (c->labels.n) buffer_text(b, "]");
    size_t n;
    const char *mask = c->task == TASK_FILL_MASK ? tokenizer_piece(ctx->tokenizer, c->mask_token_id, &n) : NULL;
    if (mask && utf8_is_valid(mask, n)) {
        buffer_text(b, ",\"mask\":");
        buffer_json(b, mask, n);
    }
    if (c->input.height > 0) buffer_print(b, ",\"image_size\":[%d,%d]", c->input.height, c->input.width);
}
