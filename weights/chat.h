/* chat: how conversations with a checkpoint are written, for all who hold one: by a template, a Jinja program that the
 * checkpoint's folder brings or that has a name here.
 *
 * Whatever comes from a request is no control token, however it is spelled, so that nobody forges a turn: neither its
 * bytes nor special tokens that they are a part of, nor tokens that the template writes around it, which some models do
 * not call special. The names of roles alone are the template's. */
#ifndef NOISED_WEIGHTS_CHAT_H
#define NOISED_WEIGHTS_CHAT_H

#include "base/buffer.h"
#include "model/config.h"
#include "tokenizer/tokenizer.h"
#include "weights/chat_values.h"

/* Constant once open. */
typedef struct Chat {
    struct Jinja *program; /* NULL: chats are refused with `why` */
    char why[400];
    char *source;      /* owned: the program's; NULL: none */
    char name[24];     /* of a template of tokenizer/templates/, or made of its digest */
    ChatManner manner; /* its bos and eos owned */
    bool takes_tools, writes_calls;
    /* What ends an answer besides the model's own end of text: what the template writes behind one. A special token, or
     * -1; or a text, "" for none. */
    int end;
    char stop[64];
    bool *roles; /* [vocabulary] owned: added tokens that the template writes between contents; NULL without one */
} Chat;

/* `option`, which may be NULL, names a template or a file that holds one (chat_files.h); -1 when it does neither.
 * Without it the folder says; that it brings none, or one that is none, is no error here. */
int chat_open(Chat *chat, const char *dir, const char *option, const Config *config, const Tokenizer *tokenizer,
              Err *err);
/* What the folder alone says: `program`, `source` and `name`, or `why`. */
void chat_of_folder(Chat *chat, const char *dir);
void chat_close(Chat *chat);

/* A conversation as a text; appends to out. -1: err has the words of the template's own complaint, or says what else
 * went wrong. */
int chat_write(const Chat *chat, const ChatRequest *request, Buffer *out, Err *err);

/* The ids of such a text. With `parse_special` special tokens that a request spells out become their ids. out is the
 * caller's in any case. */
int chat_encode(const Chat *chat, const ChatRequest *request, bool parse_special, const Tokenizer *tokenizer,
                TokenList *out, Err *err);

#endif
