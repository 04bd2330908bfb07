/* api_response: OpenAI's text_completion object, written piece by piece. A streamed event is the same object with the
 * new part of one choice.
 *
 *     response_open, response_choice (any number), response_close */
#ifndef NOISED_API_RESPONSE_H
#define NOISED_API_RESPONSE_H

#include "server/api/choice.h"

typedef struct ResponseHead {
    char id[40];
    int64_t created;
    const char *model, *fingerprint; /* borrowed */
} ResponseHead;

void response_head_init(ResponseHead *h, const char *model, const char *fingerprint);

typedef struct Usage {
    int prompt_tokens, completion_tokens, cached_tokens;
} Usage;

/* {"id":...,"choices":[ */
void response_open(Buffer *b, const ResponseHead *h);

/* What is new in c since choice_mark_sent, with finish_reason when the choice is complete. `first`: no comma in front.
 * The noise seed is null where there is no noise. */
void response_choice(Buffer *b, const Choice *c, int index, bool has_noise, bool first);

/* ]...}: usage NULL leaves it out, as `null` when usage_null. */
void response_close(Buffer *b, const Usage *usage, bool usage_null);

#endif
