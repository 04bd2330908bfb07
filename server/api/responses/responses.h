/* responses: POST /v1/responses, OpenAI's other protocol for chats, over the first one: `instructions` and `input`
 * become the messages of a chat, whose only choice is told as a message of `output`. Text alone, and nothing is kept: a
 * conversation is sent whole, and previous_response_id is refused.
 *
 * A stream has these events, each with a line `event:` and the same name in `type`, numbered in sequence_number:
 *
 *     response.created, response.in_progress, response.output_item.added, response.content_part.added,
 *     response.output_text.delta for each piece of text,
 *     response.output_text.done, response.content_part.done, response.output_item.done,
 *     response.completed or, where max_output_tokens cut it, response.incomplete */
#ifndef NOISED_API_RESPONSES_H
#define NOISED_API_RESPONSES_H

#include "server/api/completions/response.h"

extern const FieldList responses_fields;
extern const ResponseForm response_responses;

#endif
