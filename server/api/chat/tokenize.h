/* tokenize: POST /tokenize and /detokenize, in the dialects of vLLM (`prompt`, `messages`) and llama-server
 * (`content`). */
#ifndef NOISED_API_TOKENIZE_H
#define NOISED_API_TOKENIZE_H

#include "server/api/context.h"

extern const FieldList tokenize_fields, detokenize_fields;

/* {"prompt", "add_special_tokens": true} -> {"tokens", "count", "max_model_len"}
 * a chat's request, {"messages", ..., "add_special_tokens": false} -> the same of its prompt
 * {"content", "add_special": false, "with_pieces": false, "parse_special": true} -> {"tokens"} */
int api_tokenize(const ApiContext *ctx, const char *body, size_t n, Buffer *out, Buffer *ignored, ApiError *e);

/* {"tokens"} -> {"prompt", "content"}, both the same text. */
int api_detokenize(const ApiContext *ctx, const char *body, size_t n, Buffer *out, Buffer *ignored, ApiError *e);

#endif
