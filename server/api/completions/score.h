/* score: POST /v1/score, how probable given continuations of a prompt are. Each is a completion that generates
 * nothing and whose prompt is scored behind the part that all have in common, so the numbers are those of echo with
 * logprobs, bit for bit; the common part is computed once. */
#ifndef NOISED_API_SCORE_H
#define NOISED_API_SCORE_H

#include "server/api/completions/request.h"

extern const FieldList score_fields;

#endif
