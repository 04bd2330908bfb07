/* chat: POST /v1/chat/completions as a CompletionRequest. Its messages become one prompt by the model's template; all
 * else is as in /v1/completions, whose fields it has.
 *
 * A rendered conversation is tokenised as it stands: the template writes the token that starts a document itself, and
 * special tokens that a message spells out become their ids, as in a prompt. */
#ifndef NOISED_API_CHAT_H
#define NOISED_API_CHAT_H

#include "base/err.h"
#include "tokenizer/chat_templates.h"
#include "server/api/request.h"

/* The template of what is served; constant once open. */
typedef struct Chat {
    const ChatTemplate *form; /* NULL: chats are refused with `why` */
    char why[400];
    char *source;    /* owned: the Jinja program of the folder or of the option's file; NULL: none */
    ChatWords words; /* owned */
} Chat;

/* `option`, which may be NULL, names a template or a file with one (chat_files.h); -1 when it does neither. Without it
 * the folder's chat_template.jinja or tokenizer_config.json says; that it says nothing we know is no error here. */
int chat_open(Chat *chat, const char *dir, const char *option, const Config *config, const Tokenizer *tokenizer,
              Err *err);
void chat_close(Chat *chat);

extern const FieldList chat_fields;

#endif
