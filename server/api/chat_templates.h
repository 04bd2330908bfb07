/* chat_templates: what a conversation looks like to a model that was trained on conversations. A checkpoint brings its
 * template as a Jinja program; none is run here. The known ones are written out as C, and a Jinja source is recognised
 * as one of them by what it must and must not hold. Whatever is not surely one of them is none.
 *
 * Roles: 0 or more system messages, users and assistants, in the order that the template demands. */
#ifndef NOISED_CHAT_TEMPLATES_H
#define NOISED_CHAT_TEMPLATES_H

#include "base/buffer.h"

#include <stddef.h>

typedef enum ChatRole { CHAT_SYSTEM, CHAT_USER, CHAT_ASSISTANT } ChatRole;

typedef struct ChatMessage {
    ChatRole role;
    const char *content;
} ChatMessage;

/* What a template is given besides: the texts of the special tokens around a document, "" for none. */
typedef struct ChatWords {
    const char *bos, *eos;
} ChatWords;

/* Where a conversation breaks the template's order of roles. */
typedef struct ChatFault {
    int message;
    const char *why;
} ChatFault;

typedef struct ChatTemplate ChatTemplate;
struct ChatTemplate {
    const char *name;
    /* A Jinja source is this template when it holds all of `marks` (none: by name alone) and none of `without`, and is
     * hardly longer than its publisher's, in bytes: more text would do more. */
    const char *marks[4], *without[4];
    size_t longest;
    const char *ends[3]; /* special tokens that end an answer, besides the model's own end of text */
    /* Appends the conversation and the beginning of the next answer. -1: see *fault. At least one message. */
    int (*render)(const ChatTemplate *t, const ChatMessage *m, int n, const ChatWords *words, Buffer *out,
                  ChatFault *fault);
    const void *form; /* render's own */
};

const ChatTemplate *chat_template_named(const char *name);      /* NULL when there is none */
const ChatTemplate *chat_template_recognise(const char *jinja); /* NULL when it is none of them */
void chat_template_names(Buffer *out);                          /* "chatml, qwen2, ..." */

#endif
