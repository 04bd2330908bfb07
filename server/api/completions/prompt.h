/* prompt: what a model is asked with, by any route: text that is tokenised here, token ids, or both. */
#ifndef NOISED_API_PROMPT_H
#define NOISED_API_PROMPT_H

#include "server/api/context.h"

typedef struct Prompt {
    int *ids;
    int n;
    int n_hidden;   /* leading ids that the client did not write (BOS) and that echo does not print: 0 or 1 */
    int n_behind;   /* the last id is what the tokenizer puts behind a text: 0 or 1 */
    int score_from; /* 0, or in front of it nothing is scored or printed */
} Prompt;

/* A text; text, token ids or both mixed, which are one prompt; such a prompt or a list of them. */
extern const Type api_text_type, api_prompt_type, api_prompts_type;

/* The latter. What there is then is the caller's, on failure too.
 * special: a text gets the token in front that starts a document. */
int api_prompts_read(const FieldReader *r, const cJSON *item, bool special, Prompt **prompts, int *n_prompts);
/* The same of the field "prompt"; NULL, an absent one, is the empty text. */
int api_prompt_read(const ApiContext *ctx, const cJSON *prompt, bool special, Prompt **prompts, int *n_prompts,
                    ApiError *e);
/* In place of the only prompt that there is, one for each of these strings or arrays of token ids, each behind it; what
 * the tokenizer puts behind a text does not stand between the two. */
int api_prompt_continue(const ApiContext *ctx, const cJSON *continuations, Prompt **prompts, int *n_prompts,
                        ApiError *e);
/* Makes prompts of a model that fills in: each, then the place, then the suffix, as the model's three tokens mark them.
 * What the prompt begins with stays in front, and what the tokenizer puts behind it goes. An error that names "suffix"
 * where the tokenizer has no such tokens. */
int api_prompt_infill(const ApiContext *ctx, const char *suffix, Prompt *prompts, int n_prompts, ApiError *e);
void api_prompt_keep_last(Prompt *p, int n); /* of a longer one */

/* An array of token ids below the vocabulary's size; *ids is the caller's. */
extern const Type api_id_type, api_ids_type;
int api_ids_read(const FieldReader *r, const cJSON *item, int vocab, int **ids, int *n);

#endif
