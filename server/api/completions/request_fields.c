/* The table of POST /v1/completions, and the readers of what is more than a number or a string. */
#include "base/err.h"
#include "base/memory.h"
#include "base/random.h"
#include "model/shape.h"
#include "server/api/foreign.h"
#include "server/api/completions/request_draft.h"
#include "server/api/completions/response.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>

enum { STOP_IDS = 256 };

static int read_stop(const FieldReader *r, const cJSON *item) {
    RequestDraft *draft = r->out;
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
        if (stop_set_add(&draft->request.stop, s->valuestring)) return api_no_memory(r->error);
    }
    return 0;
}

static int read_stop_ids(const FieldReader *r, const cJSON *item) {
    RequestDraft *draft = r->out;
    const ApiContext *ctx = r->context;
    if (cJSON_GetArraySize(item) > STOP_IDS)
        return api_fail(r->error, 400, NULL, r->name, "%s has %d ids, the limit is %d", r->name,
                        cJSON_GetArraySize(item), STOP_IDS);
    return api_ids_read(r, item, ctx->config->vocab_size, &draft->request.stop_ids, &draft->request.n_stop_ids);
}

int api_noise_seed_read(const FieldReader *r, const cJSON *item) {
    RequestDraft *draft = r->out;
    CompletionRequest *request = &draft->request;
    static const char what[] = "an integer between 0 and 9007199254740991 or an array of such integers";
    int64_t seed;
    if (!cJSON_IsArray(item)) {
        if (!json_integer(item, 0, SEED_MAX, &seed)) return field_fail(r, item, what);
        request->noise_seed = (OptionalSeed){.given = true, .value = (uint64_t)seed};
        return 0;
    }
    request->noise_seeds = try_calloc((size_t)cJSON_GetArraySize(item) + 1, sizeof *request->noise_seeds);
    if (!request->noise_seeds) return api_no_memory(r->error);
    const cJSON *element;
    cJSON_ArrayForEach(element, item) {
        if (!json_integer(element, 0, SEED_MAX, &seed)) return field_fail(r, element, what);
        request->noise_seeds[draft->n_noise_seeds++] = (uint64_t)seed;
    }
    return 0;
}

int api_noise_component_read(const FieldReader *r, const cJSON *item) {
    RequestDraft *draft = r->out;
    CompletionRequest *request = &draft->request;
    int most = config_noise_components(((const ApiContext *)r->context)->config), n = MAX(1, cJSON_GetArraySize(item));
    if (most == 0) return api_fail(r->error, 400, NULL, r->name, "%s: the model has no components", r->name);
    char what[80];
    snprintf(what, sizeof what, "an integer between 0 and %d or an array of such integers", most - 1);
    request->noise_components = try_calloc((size_t)n, sizeof *request->noise_components);
    if (!request->noise_components) return api_no_memory(r->error);
    const cJSON *element = cJSON_IsArray(item) ? item->child : item;
    for (int i = 0; i < n; i++, element = element->next) {
        int64_t component;
        if (!json_integer(element, 0, most - 1, &component)) return field_fail(r, element ? element : item, what);
        request->noise_components[i] = (int)component;
    }
    request->n_noise_components = n;
    draft->each_component = cJSON_IsArray(item);
    return 0;
}

/* ---- the table ---- */

static const Type seed = {.kind = TYPE_INTEGER, .high = SEED_MAX},
                  seeds = {.kind = TYPE_ARRAY, .low = 1, .of = {&seed}},
                  stop = {.kind = TYPE_STRING, .low = 1, .limit = "--max-stop-bytes"},
                  stops = {.kind = TYPE_ARRAY, .limit = "--max-stop", .of = {&stop}};

static const Type component = {.kind = TYPE_INTEGER, .high = NOISE_COMPONENTS_MAX - 1},
                  components = {.kind = TYPE_ARRAY, .low = 1, .of = {&component}};
const Type api_seeds_type = {.kind = TYPE_ONE_OF, .of = {&seed, &seeds}},
           api_components_type = {.kind = TYPE_ONE_OF, .of = {&component, &components}};
static const Type stop_type = {.kind = TYPE_ONE_OF, .of = {&stop, &stops}};
static const Type stop_ids_type = {.kind = TYPE_ARRAY, .high = STOP_IDS, .of = {&api_id_type}};

static const Field stream_options[] = {
    {REQUEST_FIELD(include_usage, FIELD_BOOL),
     .help = "One more event before `[DONE]`, with `choices: []` and `usage`; all others then have `usage: null`."},
    {REQUEST_FIELD(continuous_usage_stats, FIELD_BOOL),
     .help = "With `include_usage`: every event has the `usage` up to it. Without, no event has one, as in vLLM."},
    {.name = "include_obfuscation",
     .kind = FIELD_NEUTRAL,
     .neutral = "[false]",
     .absent = "false",
     .help = "Nothing is obfuscated here."},
};

static const Field rows[] = {
    {DRAFT_FIELD(model, FIELD_TEXT), .absent = "the one served",
     .help = "The served model's name or an `--alias` of it; 404 otherwise."},
    {DRAFT_FIELD(prompt, FIELD_OTHER), .type = &api_prompts_type, .absent = "the token that starts a document",
     .help = "One text or several, each as a string or as token ids. Special tokens that a string spells out become "
             "their ids. An array that holds token ids and strings is one prompt, of these parts; one of strings alone "
             "is several."},
    {DRAFT_FIELD(add_special_tokens, FIELD_BOOL), .fallback = true,
     .help = "Put the tokens around a text that the tokenizer does: BOS in front, another behind."},
    {.name = "allowed_token_ids",
     .kind = FIELD_OTHER,
     .read = api_allowed_read,
     .type = &api_allowed_type,
     .absent = "all",
     .help =
         "Only these tokens are drawn, none that ends a text unless it is one of them. Log-probabilities are still the "
         "model's own. Not with `choice` or a form."},
    {.name = "bad_words",
     .kind = FIELD_OTHER,
     .read = api_bad_words_read,
     .type = &api_bad_words_type,
     .absent = "none",
     .help =
         "Texts that no choice writes, neither at once nor behind a space: the token that would complete one is never "
         "drawn."},
    {REQUEST_FIELD(best_of, FIELD_INT), .high = INT_MAX, .limit = "--max-n", .absent = "`n`",
     .help = "Compute so many choices of each prompt and answer with the `n` of highest mean log-probability. At least "
             "`n`; above `n` neither with `stream` nor with an array of noise seeds. 0 means absent."},
    {FORM_FIELD("choice", api_strings_read, &api_choice_type),
     .help = "The answer is one of these strings. Not with what says where a text ends: `stop`, `stop_token_ids`, "
             "`ignore_eos`, `min_tokens`, `include_stop_str_in_output`; `max_tokens`, if given, holds the longest."},
    {REQUEST_FIELD(deadline_ms, FIELD_INT), .low = 1, .high = INT_MAX, .absent = "`--stream-seconds` alone",
     .help = "Milliseconds from the request's arrival. A choice that is not complete by then ends with `finish_reason` "
             "`length` and `deadline: true`."},
    {REQUEST_FIELD(diversity, FIELD_BOOL),
     .help =
         "Add `diversity` to the answer, or to an event of the stream before `[DONE]`: how much the choices differ. "
         "Prompts, `n` and `max_tokens` multiplied are at most 65536."},
    {REQUEST_FIELD(echo, FIELD_BOOL),
     .help = "Put the prompt in front of the text, and its log-probabilities in front of the "
             "others."},
    {SAMPLING_FIELD(frequency_penalty, FIELD_FLOAT), .low = -2, .high = 2,
     .help = "Subtracted from a token's logit for every time it was generated."},
    {FORM_FIELD("grammar", api_grammar_read, &api_pattern_type),
     .help = "The answer is a text of this grammar in GBNF, from its rule `root` on; an empty string means absent."},
    {FORM_FIELD("guided_choice", api_strings_read, &api_choice_type), .help = "The same as `choice`."},
    {FORM_FIELD("guided_grammar", api_grammar_read, &api_pattern_type), .help = "The same as `grammar`."},
    {FORM_FIELD("guided_json", api_schema_read, &api_schema_type), .help = "The same as `json_schema`."},
    {FORM_FIELD("guided_regex", api_regex_read, &api_pattern_type), .help = "The same as `regex`."},
    {DRAFT_FIELD(if_fingerprint, FIELD_TEXT), .absent = "none",
     .help =
         "Answer 409 unless this is the answer's `system_fingerprint`: for clients that go on with a stream of another "
         "server (`stream_from`)."},
    {REQUEST_FIELD(ignore_eos, FIELD_BOOL), .help = "The end-of-text token ends nothing."},
    {REQUEST_FIELD(include_stop_str_in_output, FIELD_BOOL),
     .help = "The text ends behind the stop string, or with the stop token, instead of before it."},
    {FORM_FIELD("json_schema", api_schema_read, &api_schema_type),
     .help = "The answer is an instance of this JSON schema, as an object or as its text."},
    {.name = "logit_bias",
     .kind = FIELD_OTHER,
     .read = api_bias_read,
     .type = &api_bias_type,
     .absent = "none",
     .help =
         "Added to the logits of tokens: an object of token ids (decimal strings) or texts, or an array of pairs. A "
         "text stands for each of its tokens; in an object what looks like a number is an id, in a pair a string is "
         "a text. Biases of one token add up; `false`: it never comes. The limit counts tokens."},
    {REQUEST_FIELD(logprobs, FIELD_INT), .high = 20, .fallback = -1, .absent = "none",
     .help = "Log-probabilities of the tokens, and of so many alternatives for each."},
    {DRAFT_FIELD(max_completion_tokens, FIELD_INT), .low = -1, .high = INT_MAX, .fallback = API_ABSENT,
     .absent = "`max_tokens`", .help = "The same as `max_tokens`."},
    {REQUEST_FIELD(max_tokens, FIELD_INT), .low = -1, .high = INT_MAX, .fallback = API_ABSENT, .absent = "16",
     .help = "Tokens to generate at most. The prompt and `max_tokens` - 1 must fit the context; -1: as many as fit "
             "behind the longest prompt. With 0, `echo` and `logprobs` a text is scored."},
    {SAMPLING_FIELD(min_p, FIELD_FLOAT), .high = 1, .fallback = API_ABSENT, .absent = "0",
     .help = "Drop tokens less probable than this share of the most probable one's."},
    {REQUEST_FIELD(min_tokens, FIELD_INT), .high = INT_MAX,
     .help = "Before so many tokens neither the end-of-text token, stop token ids nor stop strings end a choice. At "
             "most `max_tokens`."},
    {REQUEST_FIELD(n, FIELD_INT), .low = 1, .high = INT_MAX, .limit = "--max-n", .fallback = 1,
     .help = "Choices of each prompt. Prompts times `best_of` must fit the queue (`--max-queue`)."},
    {DRAFT_FIELD(n_predict, FIELD_INT), .low = -1, .high = INT_MAX, .fallback = API_ABSENT, .absent = "`max_tokens`",
     .help = "The same as `max_tokens`."},
    {DRAFT_FIELD(n_probs, FIELD_INT), .high = 20, .absent = "none", .help = "From 1 on the same as `logprobs`."},
    {.name = "noise_component",
     .kind = FIELD_OTHER,
     .read = api_noise_component_read,
     .type = &api_components_type,
     .absent = "drawn by the noise seed",
     .help = "Of a model whose sequences have one: the component of all choices, or one for each choice of the answer. "
             "`GET /noise` says how many there are."},
    {REQUEST_FIELD(noise_prompt_seed, FIELD_SEED), .absent = "the choice's noise seed",
     .help = "Noise seed of the prompt's rows; choices that have it in common share the prompt's cache."},
    {REQUEST_FIELD(noise_scale, FIELD_FLOAT), .high = 8, .fallback = -1, .absent = "`--noise-scale`",
     .help = "Factor on every sigma. 0 turns the noise off."},
    {.name = "noise_seed",
     .kind = FIELD_OTHER,
     .read = api_noise_seed_read,
     .type = &api_seeds_type,
     .absent = "the choice's `seed`; without that `--noise-seed`",
     .help = "Noise seed of choice 0, from which those of the others are derived; or one for each choice of the "
             "answer."},
    {SAMPLING_FIELD(presence_penalty, FIELD_FLOAT), .low = -2, .high = 2,
     .help = "Subtracted once from the logits of tokens that were generated."},
    {REQUEST_FIELD(prompt_logprobs, FIELD_INT), .high = 20, .fallback = -1, .absent = "none",
     .help = "`prompt_logprobs` of every choice: for each token of the prompt its log-probability and so many "
             "alternatives, by token id. Not with `stream`."},
    {FORM_FIELD("regex", api_regex_read, &api_pattern_type),
     .help = "The answer matches this regular expression as a whole."},
    {DRAFT_FIELD(repeat_last_n, FIELD_INT), .low = -1, .high = INT_MAX, .fallback = -1,
     .help = "Of how many of the last tokens `repetition_penalty` takes account: -1 for all, 0 for none."},
    {DRAFT_FIELD(repeat_penalty, FIELD_FLOAT), .low = 0.01, .high = 100, .fallback = 0,
     .absent = "`repetition_penalty`", .help = "The same as `repetition_penalty`."},
    {SAMPLING_FIELD(repetition_penalty, FIELD_FLOAT), .low = 0.01, .high = 100, .fallback = 0, .absent = "1",
     .help = "Divides positive and multiplies negative logits of tokens in the prompt or the text so far."},
    {DRAFT_FIELD(repetition_penalty_range, FIELD_INT), .high = INT_MAX, .help = "As `repeat_last_n`, with 0 for all."},
    {FORM_FIELD("response_format", api_response_format_read, &api_format_type),
     .help = "`{\"type\":\"json_object\"}`: the answer is any JSON object, or one of the `schema` beside it; "
             "`{\"type\":\"json_schema\",\"json_schema\":{\"schema\":...}}`: as `json_schema`; of `json_schema` "
             "`name`, `description` and `strict` say nothing more. `{\"type\":\"text\"}` means absent."},
    {REQUEST_FIELD(return_token_ids, FIELD_BOOL),
     .help = "Add `token_ids` to every choice, and `prompt_token_ids` to the first that is sent of it."},
    {REQUEST_FIELD(return_tokens_as_token_ids, FIELD_BOOL),
     .help = "Log-probabilities call tokens `token_id:7` instead of spelling them."},
    {REQUEST_FIELD(seed, FIELD_FOLDED), .absent = "`--seed`, else drawn",
     .help = "Seed of choice 0, from which those of the others are derived: of the sampling, and of the noise unless "
             "`noise_seed` says otherwise. -1 means absent. Above 2^53 - 1 and below 0 it is folded to 53 bits, and "
             "the choice reports what it became."},
    {REQUEST_FIELD(skip_special_tokens, FIELD_BOOL), .fallback = true,
     .help = "False: special tokens stand in the text as they are spelled."},
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
    {REQUEST_FIELD(stream, FIELD_BOOL), .help = "Answer with server-sent events."},
    {REQUEST_FIELD(stream_from, FIELD_INT), .high = INT_MAX,
     .help =
         "The first so many tokens are computed and not sent: a stream that was cut off behind them goes on byte for "
         "byte. At most `max_tokens`, and with one choice only."},
    {.name = "stream_options",
     .kind = FIELD_OBJECT,
     .offset = offsetof(RequestDraft, stream_options),
     .fields = &(const FieldList){.rows = stream_options, .n = COUNTOF(stream_options)},
     .absent = "none",
     .help = "Only with `stream: true`."},
    {.name = "structured_outputs",
     .kind = FIELD_OBJECT,
     .offset = offsetof(RequestDraft, structured_outputs),
     .fields = &api_structured_fields,
     .absent = "any text",
     .help = "What the answer may be, as vLLM says it."},
    {DRAFT_FIELD(suffix, FIELD_TEXT), .absent = "none",
     .help = "What follows the text, of models whose tokenizer has the three tokens for that; refused by others."},
    {SAMPLING_FIELD(temperature, FIELD_FLOAT), .high = 2, .fallback = API_ABSENT, .absent = "1",
     .help = "Divides the logits; 0 takes the most probable token."},
    {SAMPLING_FIELD(top_k, FIELD_INT), .low = -1, .high = INT_MAX, .fallback = API_ABSENT, .absent = "0",
     .help = "Keep the `top_k` most probable tokens; 0 or -1: all."},
    {SAMPLING_FIELD(top_p, FIELD_FLOAT), .high = 1, .fallback = API_ABSENT, .absent = "1",
     .help = "Keep the most probable tokens up to this share of the probability."},
    {DRAFT_FIELD(truncate_prompt_tokens, FIELD_INT), .low = -1, .high = INT_MAX, .absent = "none",
     .help = "So many tokens of a longer prompt count, the last ones; 0: all; -1: as many as the context holds. Not "
             "with `suffix`."},
    {DRAFT_FIELD(truncation_side, FIELD_TEXT), .absent = "`left`",
     .help = "The side that a longer prompt loses: `left` or `right`."},
    {SAMPLING_FIELD(typical_p, FIELD_FLOAT), .low = 0.01, .high = 1, .fallback = API_ABSENT, .absent = "1",
     .help = "Locally typical sampling: keep the tokens of nearly average surprise up to this share."},
    {DRAFT_FIELD(user, FIELD_TEXT), .absent = "none", .help = "At most 256 bytes. Accepted and ignored."},
};

static int read_prompts(void *out, const void *context, ApiError *e) {
    RequestDraft *d = out;
    d->request.form = &response_text;
    d->default_tokens = 16;
    if (api_prompt_read(context, d->prompt, d->add_special_tokens, &d->request.prompts, &d->request.n_prompts, e))
        return -1;
    if (!d->suffix) return 0;
    if (d->request.echo)
        return api_fail(e, 400, NULL, "echo", "echo does not go with suffix, between which the text is");
    if (d->truncate_prompt_tokens)
        return api_fail(e, 400, NULL, "truncate_prompt_tokens",
                        "truncate_prompt_tokens does not go with suffix: it would cut the tokens that mark the hole");
    return api_prompt_infill(context, d->suffix, d->request.prompts, d->request.n_prompts, e);
}

const FieldList completion_fields = {.rows = rows, .n = COUNTOF(rows), .also = &foreign_fields, .finish = read_prompts};
