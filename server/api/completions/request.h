/* request: the body of POST /v1/completions or /v1/chat/completions as a checked struct. After api_request_parse
 * nothing is left that a client could have got wrong, but for the length limits of the engine's cache and its queue.
 *
 * Text is tokenised here. Special tokens that a prompt spells out become their ids, as everywhere in the field. */
#ifndef NOISED_API_REQUEST_H
#define NOISED_API_REQUEST_H

#include "model/sampler.h"
#include "server/api/completions/prompt.h"
#include "server/api/previous.h"
#include "server/engine/bad_words.h"
#include "server/engine/trie.h"
#include "server/form/calls.h"
#include "tokenizer/text_stream.h"

typedef struct CompletionRequest {
    Prompt *prompts; /* [n_prompts], at least one, each of at least one token */
    int n_prompts;
    int n, best_of; /* best_of >= n */
    int max_tokens, min_tokens, stream_from;
    int logprobs, prompt_logprobs; /* -1: none */
    int deadline_ms;               /* 0: none */
    Sampling sampling;             /* of all choices, whose seeds differ; its bias is the request's */
    Trie *trie;                    /* of "choice", held; NULL: any text */
    FormWalk *walk;                /* NULL, or the form that the text keeps to, at its beginning */
    const CallStyle *style;        /* in which it may call functions, by its form; NULL: it calls none */
    bool choice_spaced;            /* its tokens begin with a space that its strings lack */
    char *prefix;                  /* in front of every answer; NULL: nothing */
    char *said;                    /* of a response: members of what was asked and is told again; else NULL */
    char *response_fields;         /* the members that llama-server's answer keeps (llama.h); NULL: all */
    StopSet stop;
    int *stop_ids; /* [n_stop_ids] */
    int n_stop_ids;
    int *allowed_ids; /* [n_allowed_ids], at least 1; NULL: any */
    int n_allowed_ids;
    BadWords *bad_words; /* held; NULL: none */
    OptionalSeed seed, noise_seed, noise_prompt_seed;
    uint64_t *seeds;       /* [n_prompts * n] of an answer that is repeated; else NULL */
    uint64_t *noise_seeds; /* [n_prompts * n], likewise or given as an array; else NULL */
    int *noise_components; /* [n_noise_components]: one of all choices, or one for each; NULL: drawn */
    int n_noise_components;
    float noise_scale;
    bool post_sampling_probs; /* the log-probabilities are the filters', and probabilities */
    bool diversity, echo, ignore_eos, return_token_ids, timings_per_token;
    bool return_tokens_as_token_ids;
    bool include_stop_str_in_output, skip_special_tokens;
    bool stream, include_usage, continuous_usage_stats;
    const struct ResponseForm *form; /* response.h */
    const char *fingerprint;         /* of what answers; the ApiContext's */
    PreviousAnswer *previous;        /* the answer that is repeated, or NULL */
} CompletionRequest;

extern const FieldList completion_fields;

/* `fields` are completion_fields, chat_fields, score_fields or replay_fields. *ignored gets the names of fields of
 * other servers that a lenient server leaves aside, "a, b". On failure nothing is left to free. (request_draft.c) */
int api_request_parse(CompletionRequest *r, const ApiContext *ctx, const FieldList *fields, const char *body, size_t n,
                      Buffer *ignored, ApiError *e);
void api_request_free(CompletionRequest *r);

/* field_put_default with the values of generation_config.json. (request_defaults.c) */
bool api_put_default(Buffer *b, const char *key, const Generation *g, const FieldList *list, const Field *f);

/* Whether the prompt's log-probabilities are wanted. */
static inline bool api_scores_prompt(const CompletionRequest *r) {
    return (r->echo && r->logprobs >= 0) || r->prompt_logprobs >= 0;
}

#endif
