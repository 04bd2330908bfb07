/* chat_templates: what conversations look like to models that were trained on them, by name: Jinja programs of
 * tokenizer/templates/, for checkpoints that bring none. */
#ifndef NOISED_CHAT_TEMPLATES_H
#define NOISED_CHAT_TEMPLATES_H

#include "base/buffer.h"

typedef struct ChatTemplate {
    const char *name, *source;
    const char *stop; /* a text that ends an answer, for a model without tokens that do; NULL: what the template says */
} ChatTemplate;

const ChatTemplate *chat_template_named(const char *name);  /* NULL when there is none */
const ChatTemplate *chat_template_same(const char *source); /* the one with this source, NULL when there is none */
void chat_template_names(Buffer *out);                      /* "alpaca, chatml, ..." */

#endif
