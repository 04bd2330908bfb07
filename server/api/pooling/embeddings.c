#include "server/api/pooling/embeddings.h"

#include "base/json_write.h"
#include "base/err.h"
#include "base/memory.h"
#include "server/api/completions/prompt.h"
#include "server/api/foreign.h"

#include <limits.h>
#include <math.h>
#include <openssl/evp.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define FIELD(member, k) .name = #member, .kind = k, .offset = offsetof(PoolingRequest, member)
static const Field rows[] = {
    {FIELD(dimensions, FIELD_INT), .low = 1, .high = 1 << 20, .fallback = 0, .absent = "the model's",
     .help = "Nothing but the model's own width: its vectors cannot be shortened."},
    {FIELD(encoding_format, FIELD_TEXT), .absent = "`float`",
     .help = "`float`: an array of numbers; `base64`: their 32-bit floats, little-endian."},
    {.name = "input",
     .kind = FIELD_OTHER,
     .offset = offsetof(PoolingRequest, input),
     .type = &api_prompts_type,
     .absent = "required",
     .help = "The texts, or their token ids."},
    {FIELD(model, FIELD_TEXT), .absent = "the one served",
     .help = "The served model's name or an `--alias` of it; 404 otherwise."},
    {FIELD(noise_scale, FIELD_FLOAT), .high = 8, .fallback = -1, .absent = "1 when a seed is given, else 0",
     .help = "Factor on the noise."},
    {FIELD(noise_seed, FIELD_SEED), .absent = "`seed`; without that `--noise-seed`",
     .help = "Noise seed of every text."},
    {FIELD(pooling, FIELD_TEXT), .absent = "`mean`",
     .help = "What a text's vector is: `mean`, of the rows of all its tokens, or `last`, that of the last."},
    {FIELD(seed, FIELD_FOLDED), .absent = "none", .help = "The same as `noise_seed`: nothing is sampled here."},
    {FIELD(truncate_prompt_tokens, FIELD_INT), .low = -1, .high = INT_MAX, .absent = "none",
     .help = "So many tokens of a longer text count, the last ones; 0: all; -1: as many as the context holds."},
    {FIELD(user, FIELD_TEXT), .absent = "none", .help = "At most 256 bytes. Accepted and ignored."},
};
#undef FIELD

const FieldList embeddings_fields = {.rows = rows, .n = COUNTOF(rows), .also = &foreign_fields};

/* Which of the two words a text field is: 0 or 1, -1 with e filled. */
static int choose(const char *field, const char *value, const char *first, const char *second, ApiError *e) {
    if (!value || !strcmp(value, first)) return 0;
    if (!strcmp(value, second)) return 1;
    return api_fail(e, 400, NULL, field, "%s must be \"%s\" or \"%s\", not \"%.60s\"", field, first, second, value);
}

int embeddings_settle(PoolingRequest *r, const ApiContext *ctx, ApiError *e) {
    const Config *c = ctx->config;
    if (c->network || c->input.kind != INPUT_TOKENS)
        return api_fail(e, 400, "wrong_task", NULL, "the model's task is %s, and it has no embeddings of texts",
                        task_names[c->task]);
    int pooling = choose("pooling", r->pooling, "mean", "last", e);
    if (pooling < 0) return -1;
    if (r->noise_scale < 0) r->noise_scale = r->seed.given || r->noise_seed.given ? 1 : 0;
    api_default_noise(ctx, r->seed, &r->noise_seed, &r->noise_scale);
    /* Scale 0 leaves a mixture's components: those of seed 0. */
    if (r->noise_scale == 0 && !r->seed.given) r->noise_seed.given = true;
    r->kind = pooling ? &job_last_row : &job_mean_row;
    r->noise_samples = 1;
    return 0;
}

static int settle(PoolingRequest *r, const ApiContext *ctx, ApiError *e) {
    int width = ctx->config->hidden_size, format = choose("encoding_format", r->encoding_format, "float", "base64", e);
    if (format < 0 || embeddings_settle(r, ctx, e)) return -1;
    if (r->dimensions && r->dimensions != width)
        return api_fail(e, 400, NULL, "dimensions", "dimensions is %d, the model's vectors have %d", r->dimensions,
                        width);
    r->base64 = format == 1;
    if (pooling_read_texts(r, ctx, e)) return -1;
    for (int i = 0; i < r->n_inputs; i++) r->inputs[i].n_values = width;
    return 0;
}

/* The sum of squares in the order of the features, so that the same vector has the same bits everywhere. */
static void to_unit_length(float *to, const float *from, int n) {
    double squares = 0;
    for (int i = 0; i < n; i++) squares += (double)from[i] * (double)from[i];
    double length = sqrt(squares);
    for (int i = 0; i < n; i++) to[i] = length > 0 ? (float)((double)from[i] / length) : 0;
}

static void put_base64(Buffer *out, const char *key, const float *x, int n) {
    size_t bytes = (size_t)n * sizeof *x;
    unsigned char *text = try_malloc((bytes + 2) / 3 * 4 + 1);
    if (!text) {
        out->failed = true;
        return;
    }
    EVP_EncodeBlock(text, (const unsigned char *)x, (int)bytes);
    json_put_text(out, key, (const char *)text);
    free(text);
}

static void print_beginning(Buffer *out) {
    char id[ANSWER_ID];
    answer_draw_id(id, "embd");
    json_open(out, NULL, '{');
    json_put_text(out, "id", id);
    json_put_int(out, "created", (int64_t)time(NULL));
    pooling_print_open(out);
}

static int print(Buffer *out, const Pooling *r, int from) {
    const PoolingRequest *request = &r->request;
    int width = r->ctx->api->config->hidden_size, i = from;
    float *unit = try_malloc((size_t)width * sizeof *unit);
    if (!unit) {
        out->failed = true;
        return from;
    }
    if (from == 0) print_beginning(out);
    for (; i < request->n_inputs && !pooling_enough(r, out); i++) {
        json_open(out, NULL, '{');
        json_put_text(out, "object", "embedding");
        json_put_int(out, "index", i);
        to_unit_length(unit, r->jobs[i]->values, width);
        (request->base64 ? put_base64 : json_put_floats)(out, "embedding", unit, width);
        json_close(out, '}');
    }
    if (i == request->n_inputs) pooling_print_close(out, r);
    free(unit);
    return i;
}

static const PoolingForm form = {.settle = settle, .print = print};

const AnswerKind embeddings_answer = POOLING_ANSWER(form);
