/* api_request: the body of POST /v1/completions or /v1/chat/completions as a checked struct. After api_request_parse
 * nothing is left that a client could have got wrong, but for the length limits of the engine's cache and its queue.
 *
 * Text is tokenised here. Special tokens that a prompt spells out become their ids, as everywhere in the field. */
#ifndef NOISED_API_REQUEST_H
#define NOISED_API_REQUEST_H

#include "model/sampler.h"
#include "server/api/completions/prompt.h"
#include "server/api/previous.h"
#include "server/engine/trie.h"
#include "tokenizer/text_stream.h"

/* The fallback of fields that go by several names, of which one may be given. */
enum { API_ABSENT = -2 };

typedef struct CompletionRequest {
    Prompt *prompts; /* [n_prompts], at least one, each of at least one token */
    int n_prompts;
    int n, best_of; /* best_of >= n */
    int max_tokens, min_tokens, stream_from;
    int logprobs, prompt_logprobs; /* -1: none */
    int top_k, deadline_ms;        /* deadline_ms 0: none */
    float temperature, top_p, min_p, typical_p;
    float repetition_penalty, frequency_penalty, presence_penalty;
    int repetition_window; /* as in Sampling */
    LogitBias *bias;       /* [n_bias], ids distinct */
    int n_bias;
    Trie *trie;         /* of "choice", held; NULL: any text */
    bool choice_spaced; /* its tokens begin with a space that its strings lack */
    StopSet stop;
    int *stop_ids; /* [n_stop_ids] */
    int n_stop_ids;
    OptionalSeed seed, noise_seed, noise_prompt_seed;
    uint64_t *seeds;       /* [n_prompts * n] of an answer that is repeated; else NULL */
    uint64_t *noise_seeds; /* [n_prompts * n], likewise or given as an array; else NULL */
    int n_noise_seeds;
    float noise_scale;
    bool diversity, echo, ignore_eos, return_token_ids;
    bool chat;                       /* the answer is a message */
    const struct ResponseForm *form; /* response.h */
    bool include_stop_str_in_output, skip_special_tokens;
    bool stream, stream_options, include_usage, continuous_usage_stats;
    PreviousAnswer *previous; /* the answer that is repeated, or NULL */
    Buffer ignored;           /* names of fields of other servers that a lenient server leaves aside, "a, b" */
    /* ---- settled by api_request_parse, of no use behind it ---- */
    int max_completion_tokens, n_predict, n_probs, repeat_last_n, repetition_penalty_range, truncate_prompt_tokens;
    float repeat_penalty;
    bool add_special_tokens;
    const char *model, *user, *suffix, *truncation_side, *if_fingerprint;
    const cJSON *prompt, *messages, *continuations, *response;
    const FieldList *replayed; /* whose fields those of the request to repeat are */
    bool chat_logprobs, chat_template_kwargs, enable_thinking;
    const char *date_string;
    int top_logprobs;
} CompletionRequest;

extern const FieldList completion_fields;

/* `fields` are completion_fields, chat_fields, score_fields or replay_fields. On failure nothing is left to free. */
int api_request_parse(CompletionRequest *r, const ApiContext *ctx, const FieldList *fields, const char *body, size_t n,
                      ApiError *e);
void api_request_free(CompletionRequest *r);

/* The values of generation_config.json, in place of absent fields whose fallback is API_ABSENT; and field_put_default
 * with them. (request_defaults.c) */
void api_take_defaults(CompletionRequest *r, const Generation *g);
bool api_put_default(Buffer *b, const char *key, const Generation *g, const FieldList *list, const Field *f);

/* Whether the prompt's log-probabilities are wanted. */
static inline bool api_scores_prompt(const CompletionRequest *r) {
    return (r->echo && r->logprobs >= 0) || r->prompt_logprobs >= 0;
}

/* The field "logit_bias". (request_bias.c) */
extern const Type api_bias_type;
int api_bias_read(const FieldReader *r, const cJSON *item);

/* The field "choice", what does not go with it, and its tokens beside those that end a text. (request_choice.c) */
extern const Type api_choice_type;
int api_choice_read(const FieldReader *r, const cJSON *item);
int api_choice_check(const CompletionRequest *r, ApiError *e);
int api_choice_check_ends(const CompletionRequest *r, const ApiContext *ctx, ApiError *e);

#endif
