/* input: what a response is asked by, `instructions`, `input`, `tools` and `tool_choice`, as the messages and tools
 * of a chat. Calls that follow each other, or a message of the assistant's, are one message there. */
#ifndef NOISED_API_RESPONSE_INPUT_H
#define NOISED_API_RESPONSE_INPUT_H

#include "server/api/completions/request_draft.h"

typedef struct ResponseInput {
    cJSON *messages, *tools, *choice; /* the last two NULL where there are none */
    int *items;                       /* of a message: the item of `input` that it begins with; -1: the instructions */
    int n;                            /* messages */
    const cJSON *asked_tools;         /* as they were sent, borrowed */
} ResponseInput;

/* Of `most` items at most. -1 with e; response_input_free in any case. */
int response_input_open(ResponseInput *c, const RequestDraft *d, int most, ApiError *e);
void response_input_free(ResponseInput *c);

/* An error about the chat names what the client has sent. */
void response_input_name(const ResponseInput *c, ApiError *e);

#endif
