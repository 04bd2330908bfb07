/* chat: POST /v1/chat/completions as a CompletionRequest. Its messages become one prompt by the model's template; all
 * else is as in /v1/completions, whose fields it has.
 *
 * A rendered conversation is tokenised as it stands: the template writes the token that starts a document itself. */
#ifndef NOISED_API_CHAT_H
#define NOISED_API_CHAT_H

#include "server/api/completions/request.h"
#include "weights/chat.h"

extern const FieldList chat_fields;
extern const Type chat_messages_type;

#endif
