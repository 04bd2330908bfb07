#include "server/api/request.h"

#include "base/err.h"
#include "base/memory.h"
#include "base/random.h"
#include "server/engine/engine.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>

enum { STOP_IDS = 256 };

static int read_stop(const FieldReader *r, const cJSON *item) {
    CompletionRequest *request = r->out;
    const ApiLimits *limits = &((const ApiContext *)r->context)->limits;
    int n = cJSON_IsArray(item) ? cJSON_GetArraySize(item) : 1;
    if (n > limits->stop)
        return api_fail(r->error, 400, NULL, "stop", "stop has %d strings, the limit is %d", n, limits->stop);
    const cJSON *first = cJSON_IsArray(item) ? item->child : item;
    for (const cJSON *s = first; s && n > 0; s = s->next, n--) {
        if (!cJSON_IsString(s)) return field_fail(r, s, "a string or an array of strings");
        size_t length = strlen(s->valuestring);
        if (length == 0 || length > (size_t)limits->stop_bytes)
            return api_fail(r->error, 400, NULL, "stop", "a stop string has %zu bytes, it must have 1 to %d", length,
                            limits->stop_bytes);
        stop_set_add(&request->stop, s->valuestring);
    }
    return 0;
}

static int compare_bias(const void *a, const void *b) {
    return ((const LogitBias *)a)->id - ((const LogitBias *)b)->id;
}

/* Decimal digits without leading zeros, below limit; -1 otherwise. */
static int parse_id(const char *text, int limit) {
    long id = 0;
    if (!*text || (*text == '0' && text[1])) return -1;
    for (; *text; text++) {
        if (*text < '0' || *text > '9') return -1;
        id = id * 10 + (*text - '0');
        if (id >= limit) return -1;
    }
    return (int)id;
}

static int read_logit_bias(const FieldReader *r, const cJSON *item) {
    CompletionRequest *request = r->out;
    const ApiContext *ctx = r->context;
    if (!cJSON_IsObject(item)) return field_fail(r, item, "an object of token ids and numbers");
    int n = cJSON_GetArraySize(item);
    if (n > ctx->limits.logit_bias)
        return api_fail(r->error, 400, NULL, "logit_bias", "logit_bias has %d entries, the limit is %d", n,
                        ctx->limits.logit_bias);
    request->bias = xcalloc((size_t)n + 1, sizeof *request->bias);
    const cJSON *entry;
    cJSON_ArrayForEach(entry, item) {
        int id = parse_id(entry->string, ctx->config->vocab_size);
        if (id < 0)
            return api_fail(r->error, 400, NULL, "logit_bias", "logit_bias names \"%.60s\", token ids are 0 to %d",
                            entry->string, ctx->config->vocab_size - 1);
        if (!cJSON_IsNumber(entry) || !(entry->valuedouble >= -100 && entry->valuedouble <= 100))
            return field_fail(r, entry, "an object of token ids and numbers between -100 and 100");
        request->bias[request->n_bias++] = (LogitBias){.id = id, .bias = (float)entry->valuedouble};
    }
    qsort(request->bias, (size_t)request->n_bias, sizeof *request->bias, compare_bias);
    return 0;
}

static int read_stop_ids(const FieldReader *r, const cJSON *item) {
    CompletionRequest *request = r->out;
    const ApiContext *ctx = r->context;
    if (cJSON_GetArraySize(item) > STOP_IDS)
        return api_fail(r->error, 400, NULL, r->name, "%s has %d ids, the limit is %d", r->name,
                        cJSON_GetArraySize(item), STOP_IDS);
    return api_ids_read(r, item, ctx->config->vocab_size, &request->stop_ids, &request->n_stop_ids);
}

static int read_noise_seed(const FieldReader *r, const cJSON *item) {
    CompletionRequest *request = r->out;
    static const char what[] = "an integer between 0 and 9007199254740991 or an array of such integers";
    int64_t seed;
    if (!cJSON_IsArray(item)) {
        if (!json_integer(item, 0, SEED_MAX, &seed)) return field_fail(r, item, what);
        request->noise_seed = (OptionalSeed){.given = true, .value = (uint64_t)seed};
        return 0;
    }
    request->noise_seeds = xcalloc((size_t)cJSON_GetArraySize(item) + 1, sizeof *request->noise_seeds);
    const cJSON *element;
    cJSON_ArrayForEach(element, item) {
        if (!json_integer(element, 0, SEED_MAX, &seed)) return field_fail(r, element, what);
        request->noise_seeds[request->n_noise_seeds++] = (uint64_t)seed;
    }
    return 0;
}

static int read_obfuscation(const FieldReader *r, const cJSON *item) {
    if (!cJSON_IsBool(item)) return field_fail(r, item, "true or false");
    return cJSON_IsTrue(item) ? field_fail(r, item, "false: nothing is obfuscated here") : 0;
}

/* ---- the table ---- */

static const Type text = {.kind = TYPE_STRING}, boolean = {.kind = TYPE_BOOLEAN},
                  seed = {.kind = TYPE_INTEGER, .high = SEED_MAX},
                  seeds = {.kind = TYPE_ARRAY, .low = 1, .of = {&seed}},
                  bias = {.kind = TYPE_NUMBER, .low = -100, .high = 100},
                  stop = {.kind = TYPE_STRING, .low = 1, .limit = "--max-stop-bytes"},
                  stops = {.kind = TYPE_ARRAY, .limit = "--max-stop", .of = {&stop}};

static const Type ids = {.kind = TYPE_ARRAY, .low = 1, .of = {&api_id_type}};
static const Type prompt = {.kind = TYPE_ONE_OF, .of = {&text, &ids}};
static const Type prompts = {.kind = TYPE_ARRAY, .low = 1, .limit = "--max-prompts", .of = {&prompt}};
static const Type prompt_type = {.kind = TYPE_ONE_OF, .of = {&text, &ids, &prompts}};
static const Type seed_type = {.kind = TYPE_ONE_OF, .of = {&seed, &seeds}};
static const Type stop_type = {.kind = TYPE_ONE_OF, .of = {&stop, &stops}};
static const Type bias_type = {.kind = TYPE_MAP, .limit = "--max-logit-bias", .of = {&bias}};
static const Type stop_ids_type = {.kind = TYPE_ARRAY, .high = STOP_IDS, .of = {&api_id_type}};

#define FIELD(member, k) .name = #member, .kind = k, .offset = offsetof(CompletionRequest, member)
static const Field stream_options[] = {
    {FIELD(include_usage, FIELD_BOOL),
     .help = "One more event before `[DONE]`, with `choices: []` and `usage`; all others then have `usage: null`."},
    {.name = "include_obfuscation",
     .kind = FIELD_OTHER,
     .read = read_obfuscation,
     .type = &boolean,
     .absent = "false",
     .help = "Refused when true: nothing is obfuscated here."},
};

static const Field rows[] = {
    {FIELD(model, FIELD_TEXT), .absent = "the one served", .help = "Must be the served model's name; 404 otherwise."},
    {.name = "prompt",
     .kind = FIELD_OTHER,
     .read = api_prompt_read,
     .type = &prompt_type,
     .absent = "the token that starts a document",
     .help = "One text or several, each as a string or as token ids. Special tokens that a string spells out become "
             "their ids."},
    {FIELD(best_of, FIELD_INT), .low = 1, .high = INT_MAX, .limit = "--max-n", .absent = "`n`",
     .help = "Compute so many choices of each prompt and answer with the `n` of highest mean log-probability. At least "
             "`n`; above `n` neither with `stream` nor with an array of noise seeds."},
    {FIELD(deadline_ms, FIELD_INT), .low = 1, .high = INT_MAX, .absent = "`--stream-seconds` alone",
     .help = "Milliseconds from the request's arrival. A choice that is not complete by then ends with `finish_reason` "
             "`length` and `deadline: true`."},
    {FIELD(echo, FIELD_BOOL), .help = "Put the prompt in front of the text, and its log-probabilities in front of the "
                                      "others."},
    {FIELD(frequency_penalty, FIELD_FLOAT), .low = -2, .high = 2,
     .help = "Subtracted from a token's logit for every time it was generated."},
    {FIELD(ignore_eos, FIELD_BOOL), .help = "The end-of-text token ends nothing."},
    {.name = "logit_bias",
     .kind = FIELD_OTHER,
     .read = read_logit_bias,
     .type = &bias_type,
     .absent = "none",
     .help = "Added to the logits of token ids (decimal strings without leading zeros)."},
    {FIELD(logprobs, FIELD_INT), .high = 20, .fallback = -1, .absent = "none",
     .help = "Log-probabilities of the tokens, and of so many alternatives for each."},
    {FIELD(max_tokens, FIELD_INT), .high = INT_MAX, .fallback = 16,
     .help = "Tokens to generate at most. The prompt and `max_tokens` - 1 must fit the context. With 0, `echo` and "
             "`logprobs` a text is scored."},
    {FIELD(min_p, FIELD_FLOAT), .high = 1,
     .help = "Drop tokens less probable than this share of the most probable one's."},
    {FIELD(min_tokens, FIELD_INT), .high = INT_MAX,
     .help = "Before so many tokens neither the end-of-text token, stop token ids nor stop strings end a choice. At "
             "most `max_tokens`."},
    {FIELD(n, FIELD_INT), .low = 1, .high = INT_MAX, .limit = "--max-n", .fallback = 1,
     .help = "Choices of each prompt. Prompts times `best_of` must fit the queue (`--max-queue`)."},
    {FIELD(noise_prompt_seed, FIELD_SEED), .absent = "the choice's noise seed",
     .help = "Noise seed of the prompt's rows; choices that have it in common share the prompt's cache."},
    {FIELD(noise_scale, FIELD_FLOAT), .high = 8, .fallback = -1, .absent = "`--noise-scale`",
     .help = "Factor on every sigma. 0 turns the noise off."},
    {.name = "noise_seed",
     .kind = FIELD_OTHER,
     .read = read_noise_seed,
     .type = &seed_type,
     .absent = "the choice's `seed`; without that `--noise-seed`",
     .help = "Noise seed of choice 0, from which those of the others are derived; or one for each choice of the "
             "answer."},
    {FIELD(presence_penalty, FIELD_FLOAT), .low = -2, .high = 2,
     .help = "Subtracted once from the logits of tokens that were generated."},
    {FIELD(repetition_penalty, FIELD_FLOAT), .low = 0.01, .high = 100, .fallback = 1,
     .help = "Divides positive and multiplies negative logits of tokens in the prompt or the text so far."},
    {FIELD(return_token_ids, FIELD_BOOL), .help = "Add `token_ids` to every choice."},
    {FIELD(seed, FIELD_FOLDED), .absent = "drawn",
     .help = "Seed of choice 0, from which those of the others are derived: of the sampling, and of the noise unless "
             "`noise_seed` says otherwise. -1 means absent. Above 2^53 - 1 and below 0 it is folded to 53 bits, and "
             "the choice reports what it became."},
    {.name = "stop",
     .kind = FIELD_OTHER,
     .read = read_stop,
     .type = &stop_type,
     .absent = "none",
     .help = "The text ends before the first of these strings."},
    {.name = "stop_token_ids",
     .kind = FIELD_OTHER,
     .read = read_stop_ids,
     .type = &stop_ids_type,
     .absent = "none",
     .help = "Tokens that end the text, as the end-of-text token does."},
    {FIELD(stream, FIELD_BOOL), .help = "Answer with server-sent events."},
    {.name = "stream_options",
     .kind = FIELD_OBJECT,
     .offset = offsetof(CompletionRequest, stream_options),
     .fields = &(const FieldList){stream_options, COUNTOF(stream_options)},
     .absent = "none",
     .help = "Only with `stream: true`."},
    {FIELD(suffix, FIELD_TEXT), .absent = "none", .help = "Refused: the model only continues texts."},
    {FIELD(temperature, FIELD_FLOAT), .high = 2, .fallback = 1,
     .help = "0 takes the most probable token; otherwise at least 0.001."},
    {FIELD(top_k, FIELD_INT), .low = -1, .high = INT_MAX,
     .help = "Keep the `top_k` most probable tokens; 0 or -1: all."},
    {FIELD(top_p, FIELD_FLOAT), .high = 1, .fallback = 1,
     .help = "Keep the most probable tokens up to this share of the probability."},
    {FIELD(typical_p, FIELD_FLOAT), .low = 0.01, .high = 1, .fallback = 1,
     .help = "Locally typical sampling: keep the tokens of nearly average surprise up to this share."},
    {FIELD(user, FIELD_TEXT), .absent = "none", .help = "At most 256 bytes. Looked at by nobody."},
};
#undef FIELD

const FieldList completion_fields = {rows, COUNTOF(rows)};

/* ---- rules between fields ---- */

static int check_counts(const CompletionRequest *r, const ApiLimits *limits, ApiError *e) {
    if (r->n > limits->n) return api_fail(e, 400, NULL, "n", "n is %d, the limit is %d", r->n, limits->n);
    if (r->best_of > limits->n)
        return api_fail(e, 400, NULL, "best_of", "best_of is %d, the limit is %d", r->best_of, limits->n);
    if (r->best_of < r->n)
        return api_fail(e, 400, NULL, "best_of", "best_of is %d, it must be at least n = %d", r->best_of, r->n);
    if (r->best_of > r->n && r->stream)
        return api_fail(e, 400, NULL, "best_of", "best_of cannot be streamed: the best are known at the end only");
    if (r->best_of > r->n && r->noise_seeds)
        return api_fail(e, 400, NULL, "noise_seed", "an array of noise seeds names the choices, best_of picks them");
    if (r->best_of * r->n_prompts > limits->queue)
        return api_fail(e, 400, NULL, r->n_prompts > 1 ? "prompt" : "n",
                        "%d prompts of %d choices are %d, the server's queue holds %d", r->n_prompts, r->best_of,
                        r->best_of * r->n_prompts, limits->queue);
    if (r->noise_seeds && r->n_noise_seeds != r->n * r->n_prompts)
        return api_fail(e, 400, NULL, "noise_seed", "noise_seed has %d seeds, the answer has %d choices",
                        r->n_noise_seeds, r->n * r->n_prompts);
    return 0;
}

/* Room for all results of the request is taken when it comes, before a single token is computed. */
static int check_results(const CompletionRequest *r, ApiError *e) {
    enum { MOST_TOKENS = 1 << 20, MOST_ALTERNATIVES = 1 << 22 };
    int64_t tokens = 0; /* at most queue * 2^31 */
    for (int i = 0; i < r->n_prompts; i++)
        tokens += (int64_t)r->best_of * (r->max_tokens + (r->echo && r->logprobs >= 0 ? r->prompts[i].n : 0));
    if (tokens > MOST_TOKENS)
        return api_fail(e, 400, NULL, "max_tokens", "the request's choices have up to %lld tokens, the limit is %d",
                        (long long)tokens, MOST_TOKENS);
    if (r->logprobs > 0 && tokens * r->logprobs > MOST_ALTERNATIVES)
        return api_fail(
            e, 400, NULL, "logprobs",
            "the request's choices have up to %lld tokens with %d alternatives each, the limit is %d in all",
            (long long)tokens, r->logprobs, MOST_ALTERNATIVES);
    return 0;
}

static int check_lengths(const CompletionRequest *r, int max_positions, ApiError *e) {
    if (r->min_tokens > r->max_tokens)
        return api_fail(e, 400, NULL, "min_tokens", "min_tokens is %d, max_tokens only %d", r->min_tokens,
                        r->max_tokens);
    for (int i = 0; i < r->n_prompts; i++)
        if (job_positions(r->prompts[i].n, r->max_tokens) > max_positions)
            return api_fail(
                e, 400, "context_length_exceeded", r->prompts[i].n > max_positions ? "prompt" : "max_tokens",
                "the request exceeds the available context size: %d tokens of prompt and max_tokens %d need "
                "%lld positions, there are %d",
                r->prompts[i].n, r->max_tokens, (long long)job_positions(r->prompts[i].n, r->max_tokens),
                max_positions);
    return 0;
}

static int check(CompletionRequest *r, const ApiContext *ctx, ApiError *e) {
    enum { USER_BYTES = 256 };
    if (api_check_model(r->model, ctx->model_name, e)) return -1;
    if (r->suffix) return api_fail(e, 400, NULL, "suffix", "suffix is not supported: the model only continues texts");
    if (r->user && strlen(r->user) > USER_BYTES)
        return api_fail(e, 400, NULL, "user", "user has %zu bytes, the limit is %d", strlen(r->user), USER_BYTES);
    if (r->temperature > 0 && r->temperature < 0.001f)
        return api_fail(e, 400, NULL, "temperature", "temperature is %g, it must be 0 or at least 0.001",
                        (double)r->temperature);
    if (r->stream_options && !r->stream)
        return api_fail(e, 400, NULL, "stream_options", "stream_options is only allowed with stream: true");
    if (r->n_prompts == 0 && api_prompt_default(r, ctx, e)) return -1;
    if (r->best_of == 0) r->best_of = r->n;
    if (r->top_k < 0) r->top_k = 0;
    if (r->noise_scale < 0) r->noise_scale = (float)ctx->defaults.noise_scale;
    if (!r->noise_seed.given && !r->seed.given && ctx->defaults.noise_seed >= 0)
        r->noise_seed = (OptionalSeed){.given = true, .value = (uint64_t)ctx->defaults.noise_seed};
    bool bad =
        check_counts(r, &ctx->limits, e) || check_lengths(r, ctx->config->max_positions, e) || check_results(r, e);
    return bad ? -1 : 0;
}

int api_request_parse(CompletionRequest *r, const ApiContext *ctx, const char *body, size_t n, ApiError *e) {
    *r = (CompletionRequest){0};
    cJSON *root = fields_parse_body(body, n, ctx->limits.json_depth, ctx->limits.json_values, e);
    if (!root) return -1;
    FieldReader reader = {.out = r, .context = ctx, .error = e};
    int rc = fields_read(&reader, root, &completion_fields) || check(r, ctx, e) ? -1 : 0;
    r->model = r->user = r->suffix = NULL;
    cJSON_Delete(root);
    if (rc) api_request_free(r);
    return rc;
}

void api_request_free(CompletionRequest *r) {
    for (int i = 0; i < r->n_prompts; i++) free(r->prompts[i].ids);
    free(r->prompts);
    free(r->bias);
    free(r->stop_ids);
    free(r->noise_seeds);
    stop_set_free(&r->stop);
    *r = (CompletionRequest){0};
}
