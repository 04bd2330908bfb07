/* chat_values: a request's conversation as the values of its template.
 *
 * A template is given what transformers gives it: `messages` as they came, `tools` and `documents` (none, unless there
 * are tools), `add_generation_prompt`, `bos_token`, `eos_token`, and whatever the request names besides. Of a message
 * - a key that is null is left out, but for `content`; so are `tool_calls` without a call;
 * - `content` in parts of text is given in parts to a template that writes parts, as lines to others; a text is given
 *   as parts to a template that writes nothing else;
 * - no content, which calls of tools have, is none, or "" for a template that fails at none or writes the word;
 * - the role "developer" is "system" for a template that does not mention it;
 * - a tool call's arguments, which clients write as a text of JSON, are the object that it says. */
#ifndef NOISED_WEIGHTS_CHAT_VALUES_H
#define NOISED_WEIGHTS_CHAT_VALUES_H

#include "base/json/json.h"

/* What a template is told of the checkpoint, and how it takes messages. */
typedef struct ChatManner {
    const char *bos, *eos; /* the texts of the special tokens around a document, "" for none */
    bool takes_texts, takes_parts, takes_none, knows_developer;
} ChatManner;

/* How a conversation's text ends: with the beginning of the next answer; behind the last message; or in the midst of
 * that, which is to be gone on with. */
typedef enum ChatEnd { CHAT_OPENED, CHAT_CLOSED, CHAT_UNFINISHED } ChatEnd;

/* Borrowed, in valid UTF-8. */
typedef struct ChatRequest {
    const cJSON *messages;  /* an array of objects */
    const cJSON *tools;     /* an array, or NULL */
    const cJSON *variables; /* an object, or NULL: what the template is given besides */
    ChatEnd end;
} ChatRequest;

/* Sets the template's variables: a jinja_run's fill. Behind the last content of CHAT_UNFINISHED comes MARK_CUT. */
typedef struct ChatFill {
    const ChatManner *manner;
    const ChatRequest *request;
} ChatFill;
struct JinjaWork;
void chat_fill(struct JinjaWork *w, void *fill);

#endif
