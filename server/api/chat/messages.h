/* messages: the messages of a request, read and written as the model's template writes conversations: as the
 * tokens of a prompt, or as a text. */
#ifndef NOISED_API_MESSAGES_H
#define NOISED_API_MESSAGES_H

#include "server/api/completions/request_draft.h"

/* Makes d->request.prompts, and with d->chat_echo its prefix, of d->messages and what else says how they are written.
 * What there is then is the request's, on failure too. */
int messages_prompt(RequestDraft *d, const ApiContext *ctx, ApiError *e);

/* Appends that prompt's text to out. */
int messages_text(const RequestDraft *d, const ApiContext *ctx, Buffer *out, ApiError *e);

#endif
