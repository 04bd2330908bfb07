/* chat_template: one of the ways to write a conversation as a text. */
#ifndef NOISED_CHAT_TEMPLATE_H
#define NOISED_CHAT_TEMPLATE_H

#include "base/buffer.h"

#include <stdbool.h>
#include <stddef.h>

typedef enum ChatRole { CHAT_SYSTEM, CHAT_USER, CHAT_ASSISTANT } ChatRole;

typedef struct ChatMessage {
    ChatRole role;
    const char *content;
} ChatMessage;

/* How a conversation's text ends: with the beginning of the next answer; behind the last message; or in the midst of
 * that, which is an answer to go on with (chat_encode, chat_write). */
typedef enum ChatEnd { CHAT_OPENED, CHAT_CLOSED, CHAT_UNFINISHED } ChatEnd;

/* What a template is given besides. */
typedef struct ChatWords {
    const char *bos, *eos; /* the texts of the special tokens around a document, "" for none */
    const char *date;      /* as the request writes it; NULL: the template's own, for none asks for today's */
    bool think;            /* the model may think first, if the template knows of that */
    ChatEnd end;
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
    const char *marks[6], *without[4];
    size_t longest;
    bool dated;          /* writes a date */
    const char *ends[3]; /* special tokens that end an answer, besides the model's own end of text */
    const char *stop;    /* a text that ends an answer, for models without such tokens; NULL: none */
    /* Appends the conversation and, unless words->end says otherwise, the beginning of the next answer. -1: see *fault.
     * At least one message. */
    int (*render)(const ChatTemplate *t, const ChatMessage *m, int n, const ChatWords *words, Buffer *out,
                  ChatFault *fault);
    const void *form; /* render's own */
};

#endif
