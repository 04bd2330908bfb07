/* responses: POST /v1/responses, OpenAI's other protocol for chats, over the first one: `instructions` and `input`
 * become the messages of a chat (input.h), whose only choice is told as the items of `output`: a message, unless it
 * calls without a word, and a function_call for each call. Text alone, and nothing is kept: a conversation is sent
 * whole, and previous_response_id is refused.
 *
 * A stream has these events, each with a line `event:` and the same name in `type`, numbered in sequence_number:
 *
 *     response.created, response.in_progress,
 *     of the message, at once where nothing can be called: response.output_item.added, response.content_part.added,
 *         response.output_text.delta for each piece, response.output_text.done, response.content_part.done,
 *         response.output_item.done,
 *     of each call: response.output_item.added, response.function_call_arguments.delta for each piece,
 *         response.function_call_arguments.done, response.output_item.done,
 *     response.completed or, where max_output_tokens cut it, response.incomplete */
#ifndef NOISED_API_RESPONSES_H
#define NOISED_API_RESPONSES_H

#include "server/api/completions/response.h"

extern const FieldList responses_fields;
extern const ResponseForm response_responses;

#endif
