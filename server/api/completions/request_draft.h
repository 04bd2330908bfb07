/* request_draft: a completion request while it is parsed: the request that comes of it, and what only the way there
 * needs. Strings and items are borrowed from the body's JSON. */
#ifndef NOISED_API_REQUEST_DRAFT_H
#define NOISED_API_REQUEST_DRAFT_H

#include "server/api/completions/request.h"

/* The fallback of fields that go by several names, of which one may be given. */
enum { API_ABSENT = -2 };

typedef struct RequestDraft {
    CompletionRequest request;
    Buffer *ignored; /* of a lenient server: FieldReader's; else NULL */
    const char *model, *user, *input_prefix, *suffix, *if_fingerprint, *instructions, *previous_response_id;
    /* what becomes prompts; messages: the request is a chat */
    const cJSON *prompt, *messages, *continuations, *input_extra, *input;
    const cJSON *chat_template_kwargs, *tools, *tool_choice;
    bool return_tokens; /* another name of return_token_ids */
    bool fits_context;  /* max_tokens is cut to what the context holds, the last token included */
    bool add_special_tokens, parse_special, parallel_tool_calls;
    bool continue_final_message, chat_echo;
    enum { DRAFT_UNSAID, DRAFT_OPENED, DRAFT_CLOSED } opening; /* "add_generation_prompt" */
    int truncate_prompt_tokens, default_tokens; /* max_tokens of a request that does not say; -1: as many as fit */
    const char *truncation_side;
    /* other names of what the request has, and other forms */
    int max_completion_tokens, n_predict, n_probs, repeat_last_n, repetition_penalty_range, top_logprobs;
    float repeat_penalty;
    bool chat_logprobs, stream_options;
    int n_noise_seeds;   /* in request.noise_seeds */
    bool each_component; /* request.noise_components are an array's */
    bool structured_outputs;
    char form_field[64]; /* which says what the answer may be; "" for none */
    /* of a replay: the answer that is repeated, and whose fields those of its request are */
    const cJSON *response;
    const FieldList *replayed;
} RequestDraft;

/* A row of a table of fields, by where its value goes. */
#define DRAFT_FIELD(member, k) .name = #member, .kind = k, .offset = offsetof(RequestDraft, member)
#define REQUEST_FIELD(member, k) .name = #member, .kind = k, .offset = offsetof(RequestDraft, request.member)
#define SAMPLING_FIELD(member, k) .name = #member, .kind = k, .offset = offsetof(RequestDraft, request.sampling.member)

/* The values of generation_config.json, in place of absent fields whose fallback is API_ABSENT. (request_defaults.c) */
void api_take_defaults(RequestDraft *d, const Generation *g);

/* The fields "noise_seed" and "noise_component": one of all choices, or an array. (request_fields.c) */
extern const Type api_seeds_type, api_components_type;
int api_noise_seed_read(const FieldReader *r, const cJSON *item);
int api_noise_component_read(const FieldReader *r, const cJSON *item);

/* The field "logit_bias". (request_bias.c) */
extern const Type api_bias_type;
int api_bias_read(const FieldReader *r, const cJSON *item);

/* The fields that say what an answer may be, and those of "structured_outputs". (request_form.c) */
#define FORM_FIELD(field, reader, t) .name = field, .kind = FIELD_OTHER, .read = reader, .type = t, .absent = "any text"
extern const Type api_pattern_type, api_schema_type, api_format_type, api_text_format_type;
extern const FieldList api_structured_fields;
int api_regex_read(const FieldReader *r, const cJSON *item);
int api_grammar_read(const FieldReader *r, const cJSON *item);
int api_schema_read(const FieldReader *r, const cJSON *item);
int api_json_object_read(const FieldReader *r, const cJSON *item);
int api_response_format_read(const FieldReader *r, const cJSON *item);
int api_text_format_read(const FieldReader *r, const cJSON *item); /* "text" of OpenAI's responses */
int api_strings_read(const FieldReader *r, const cJSON *item);     /* those of "choice" */
/* The answer keeps to f, which is taken over; or it is NULL, and *why tells. */
int api_take_form(RequestDraft *d, const ApiContext *ctx, const char *name, Form *f, const FormError *why, ApiError *e);

/* "allowed_token_ids" and "bad_words", and what does not go with them. (request_masks.c) */
extern const Type api_allowed_type, api_bad_words_type;
int api_allowed_read(const FieldReader *r, const cJSON *item);
int api_bad_words_read(const FieldReader *r, const cJSON *item);
int api_masks_check(const RequestDraft *d, const Config *c, ApiError *e);

/* "choice", what does not go with it, and its tokens beside those that end a text. (request_choice.c) */
extern const Type api_choice_type;
int api_choice_read(const FieldReader *r, const cJSON *item);
int api_choice_check(const CompletionRequest *r, ApiError *e);
int api_choice_check_ends(const CompletionRequest *r, const ApiContext *ctx, ApiError *e);

#endif
