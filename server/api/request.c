#include "server/api/request.h"

#include "base/err.h"
#include "base/memory.h"
#include "base/random.h"
#include "server/engine/engine.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>

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
    enum { STOP_IDS = 256 };
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

static int read_stream_options(const FieldReader *r, const cJSON *item) {
    CompletionRequest *request = r->out;
    const cJSON *option;
    if (!cJSON_IsObject(item)) return field_fail(r, item, "an object");
    request->stream_options = true;
    cJSON_ArrayForEach(option, item) {
        char name[96];
        snprintf(name, sizeof name, "stream_options.%.60s", option->string);
        FieldReader inner = {.name = name, .error = r->error};
        bool usage = !strcmp(option->string, "include_usage");
        if (!usage && strcmp(option->string, "include_obfuscation"))
            return api_fail(r->error, 400, NULL, name, "unknown field \"%s\"", name);
        if (cJSON_IsNull(option)) continue;
        if (!cJSON_IsBool(option)) return field_fail(&inner, option, "true or false");
        if (usage)
            request->include_usage = cJSON_IsTrue(option);
        else if (cJSON_IsTrue(option))
            return field_fail(&inner, option, "false: nothing is obfuscated here");
    }
    return 0;
}

#define AT(member) offsetof(CompletionRequest, member)
static const Field fields[] = {
    {"model", FIELD_TEXT, AT(model), 0, 0, NULL},
    {"prompt", FIELD_OTHER, 0, 0, 0, api_prompt_read},
    {"best_of", FIELD_INT, AT(best_of), 1, INT_MAX, NULL},
    {"deadline_ms", FIELD_INT, AT(deadline_ms), 1, INT_MAX, NULL},
    {"echo", FIELD_BOOL, AT(echo), 0, 0, NULL},
    {"frequency_penalty", FIELD_FLOAT, AT(frequency_penalty), -2, 2, NULL},
    {"ignore_eos", FIELD_BOOL, AT(ignore_eos), 0, 0, NULL},
    {"logit_bias", FIELD_OTHER, 0, 0, 0, read_logit_bias},
    {"logprobs", FIELD_INT, AT(logprobs), 0, 20, NULL},
    {"max_tokens", FIELD_INT, AT(max_tokens), 0, INT_MAX, NULL},
    {"min_p", FIELD_FLOAT, AT(min_p), 0, 1, NULL},
    {"min_tokens", FIELD_INT, AT(min_tokens), 0, INT_MAX, NULL},
    {"n", FIELD_INT, AT(n), 1, INT_MAX, NULL},
    {"noise_prompt_seed", FIELD_SEED, AT(noise_prompt_seed), 0, 0, NULL},
    {"noise_scale", FIELD_FLOAT, AT(noise_scale), 0, 8, NULL},
    {"noise_seed", FIELD_OTHER, 0, 0, 0, read_noise_seed},
    {"presence_penalty", FIELD_FLOAT, AT(presence_penalty), -2, 2, NULL},
    {"repetition_penalty", FIELD_FLOAT, AT(repetition_penalty), 0.01, 100, NULL},
    {"return_token_ids", FIELD_BOOL, AT(return_token_ids), 0, 0, NULL},
    {"seed", FIELD_SEED, AT(seed), 0, 0, NULL},
    {"stop", FIELD_OTHER, 0, 0, 0, read_stop},
    {"stop_token_ids", FIELD_OTHER, 0, 0, 0, read_stop_ids},
    {"stream", FIELD_BOOL, AT(stream), 0, 0, NULL},
    {"stream_options", FIELD_OTHER, 0, 0, 0, read_stream_options},
    {"suffix", FIELD_TEXT, AT(suffix), 0, 0, NULL},
    {"temperature", FIELD_FLOAT, AT(temperature), 0, 2, NULL},
    {"top_k", FIELD_INT, AT(top_k), -1, INT_MAX, NULL},
    {"top_p", FIELD_FLOAT, AT(top_p), 0, 1, NULL},
    {"typical_p", FIELD_FLOAT, AT(typical_p), 0.01, 1, NULL},
    {"user", FIELD_TEXT, AT(user), 0, 0, NULL},
};

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
    if (r->model && strcmp(r->model, ctx->model_name))
        return api_fail(e, 404, "model_not_found", "model",
                        "the model \"%.200s\" does not exist, this server has \"%s\"", r->model, ctx->model_name);
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
    bool bad =
        check_counts(r, &ctx->limits, e) || check_lengths(r, ctx->config->max_positions, e) || check_results(r, e);
    return bad ? -1 : 0;
}

int api_request_parse(CompletionRequest *r, const ApiContext *ctx, const char *body, size_t n, ApiError *e) {
    *r = (CompletionRequest){.n = 1,
                             .max_tokens = 16,
                             .logprobs = -1,
                             .temperature = 1,
                             .top_p = 1,
                             .typical_p = 1,
                             .repetition_penalty = 1,
                             .noise_scale = 1};
    cJSON *root = fields_parse_body(body, n, ctx->limits.json_depth, ctx->limits.json_values, e);
    if (!root) return -1;
    FieldReader reader = {.out = r, .context = ctx, .error = e};
    int rc = fields_read(&reader, root, fields, COUNTOF(fields)) || check(r, ctx, e) ? -1 : 0;
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
