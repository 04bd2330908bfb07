/* chat: how conversations with a checkpoint are written, for all who hold one. */
#ifndef NOISED_WEIGHTS_CHAT_H
#define NOISED_WEIGHTS_CHAT_H

#include "base/err.h"
#include "model/config.h"
#include "tokenizer/chat_templates.h"
#include "tokenizer/tokenizer.h"

/* Constant once open. */
typedef struct Chat {
    const ChatTemplate *form; /* NULL: chats are refused with `why` */
    char why[400];
    char *source;    /* owned: the Jinja program of the folder or of the option's file; NULL: none */
    ChatWords words; /* owned */
} Chat;

/* `option`, which may be NULL, names a template or a file that holds one (chat_files.h); -1 when it does neither.
 * Without it the folder says; that it says nothing we know is no error here. */
int chat_open(Chat *chat, const char *dir, const char *option, const Config *config, const Tokenizer *tokenizer,
              Err *err);
/* What the folder alone says: `form` and `source`, or `why`. */
void chat_of_folder(Chat *chat, const char *dir);
void chat_close(Chat *chat);

/* A conversation in UTF-8 as a text, with these words; appends to out. With CHAT_UNFINISHED it ends with the last
 * message's content. -1: as chat_encode. */
int chat_write(const Chat *chat, const ChatWords *words, const ChatMessage *m, int n, Buffer *out, ChatFault *fault,
               Err *err);

/* The ids of such a text. Special tokens that a content spells out are text, so
 * that nobody forges a turn; with `parse_special` they become their ids. -1: fault->why says what is wrong with a
 * message, or it is NULL and err says why. out is the caller's in any case. */
int chat_encode(const Chat *chat, const ChatWords *words, const ChatMessage *m, int n, bool parse_special,
                const Tokenizer *tokenizer, TokenList *out, ChatFault *fault, Err *err);

/* The special tokens that end an answer besides the model's own, into ids, which has room for CHAT_ENDS; how many. */
enum { CHAT_ENDS = COUNTOF(((const ChatTemplate *)0)->ends) };
int chat_ends(const Chat *chat, const Tokenizer *tokenizer, int ids[CHAT_ENDS]);

#endif
