/* api_response: OpenAI's text_completion and chat.completion objects and others of their shape, piece by piece. A
 * streamed event is such an object with the new part of one choice.
 *
 *     response_open, form->choice (any number), json_close of the choices, more members, response_close */
#ifndef NOISED_API_RESPONSE_H
#define NOISED_API_RESPONSE_H

#include "server/api/completions/choice.h"

/* Of a choice: all of it; what is new since choice_mark_sent; or that in the three kinds of event of a framed form. */
typedef enum Part { PART_WHOLE, PART_NEWS, PART_BEGIN, PART_TEXT, PART_END } Part;

/* What differs between them. */
typedef struct ResponseHead ResponseHead;
typedef struct ResponseForm {
    const char *id, *object, *event; /* beginning of the id; `object` of a whole answer and of an event */
    bool framed; /* an event in front of a choice's text says who speaks, one behind it why it ends: clients that read
                    chats take no text from either */
    /* finish_reason is null before the end. The noise seed is null where there is no noise. */
    void (*choice)(Buffer *b, const Choice *c, int index, bool has_noise, Part part);
    /* Members behind the choices of a whole answer; NULL: none. */
    void (*more)(Buffer *b, const ResponseHead *head, const Choice *choices, int n);
} ResponseForm;
extern const ResponseForm response_text, response_chat, response_score, response_replay;

struct ResponseHead {
    char id[40];
    int64_t created;
    const ResponseForm *form;
    const char *model, *fingerprint; /* borrowed */
};

void response_head_init(ResponseHead *h, const ResponseForm *form, const char *model, const char *fingerprint);

typedef struct Usage {
    int prompt_tokens, completion_tokens, cached_tokens;
} Usage;

/* {"id":...,"choices":[ */
void response_open(Buffer *b, const ResponseHead *h, bool event);

/* The text that is new. For the forms. */
void response_choice_text(Buffer *b, const char *key, const Choice *c);

/* "logprobs", the four arrays of the next n slots. For the forms. */
void response_logprobs(Buffer *b, const Choice *c, int n);

/* The end of a choice's object, from finish_reason on; n: its new slots. For the forms. */
void response_choice_end(Buffer *b, const Choice *c, int n, bool has_noise, Part part);

/* The end: usage NULL leaves it out, as `null` when usage_null. */
void response_close(Buffer *b, const Usage *usage, bool usage_null);

#endif
