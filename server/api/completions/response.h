/* response: OpenAI's text_completion and chat.completion objects and others of their shape, piece by piece. A
 * streamed event is such an object with the new part of one choice.
 *
 *     response_open, form->choice (any number), json_close of the choices, more members, response_close
 *
 * Of a bare form a choice alone is the answer, and several are an array; its stream has its own events and no other. */
#ifndef NOISED_API_RESPONSE_H
#define NOISED_API_RESPONSE_H

#include "server/api/completions/choice.h"
#include "server/api/answer.h"
#include "server/api/context.h"

/* Of a choice: all of it; what is new since choice_mark_sent; or that in up to three kinds of event. */
typedef enum Part { PART_WHOLE, PART_NEWS, PART_BEGIN, PART_TEXT, PART_END } Part;

/* What differs between them. */
typedef struct ResponseHead ResponseHead;
typedef struct ResponseForm {
    const char *id, *object, *event; /* beginning of the id; `object` of a whole answer and of an event */
    /* An event in front of a choice's text says who speaks; one behind it why it ends: clients that read chats take no
     * text from either. */
    bool begins, ends;
    bool each_token; /* no event has the tokens of two, but where what follows says what a piece of text is */
    /* finish_reason is null before the end. The noise seed is null where there is no noise. */
    void (*choice)(Buffer *b, const ResponseHead *head, const Choice *c, int index, Part part);
    /* Of a bare form, else NULL: the events of a part, whole; returns how many they are. */
    int (*events)(Buffer *b, const ResponseHead *head, const Choice *c, int index, Part part);
    bool names_events; /* in a line of their own */
    /* Members behind the choices of a whole answer, of which `first` is the first; NULL: none. */
    void (*more)(Buffer *b, const ResponseHead *head, const Choice *first, const Choice *choices, int n);
} ResponseForm;
extern const ResponseForm response_text, response_chat, response_score, response_replay;

struct ResponseHead {
    char id[ANSWER_ID];
    int64_t created;
    const struct CompletionRequest *request; /* borrowed, as: */
    const ApiContext *api;
};

void response_head_init(ResponseHead *h, const struct CompletionRequest *request, const ApiContext *api);

typedef struct Usage {
    int prompt_tokens, completion_tokens, cached_tokens;
} Usage;

/* {"id":...,"choices":[ */
void response_open(Buffer *b, const ResponseHead *h, bool event);

/* The text that is new. For the forms. */
void response_choice_text(Buffer *b, const char *key, const Choice *c);

/* "logprobs", the four arrays of the next n slots. For the forms. */
void response_logprobs(Buffer *b, const Choice *c, int n);

/* "token", what is said of it ("logprob") and "bytes" of a chat's log-probabilities. For the forms. */
void response_token(Buffer *b, const ChoiceRules *rules, int id, const char *key, float value);

/* A function of the prompt, the seeds and the call's number: a request that is repeated names its calls as it did. For
 * the forms. */
enum { CALL_ID = 32 };
void response_call_id(char id[CALL_ID], const Choice *c, int number);

/* "prompt_logprobs", vLLM's; null where nobody asked. For the forms. */
void response_prompt_logprobs(Buffer *b, const Choice *c);

/* The end of a choice, from finish_reason on, all but its bracket; n: its new slots. For the forms. */
void response_choice_end(Buffer *b, const ResponseHead *head, const Choice *c, int n, Part part);

/* The end: usage NULL leaves it out, as `null` when usage_null. */
void response_close(Buffer *b, const Usage *usage, bool usage_null);

#endif
