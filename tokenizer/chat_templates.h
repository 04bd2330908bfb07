/* chat_templates: what a conversation looks like to a model that was trained on conversations. A checkpoint brings its
 * template as a Jinja program; none is run here. The known ones are written out as C, and a Jinja source is recognised
 * as one of them by what it must and must not hold. Whatever is not surely one of them is none.
 *
 * Roles: 0 or more system messages, users and assistants, in the order that the template demands. */
#ifndef NOISED_CHAT_TEMPLATES_H
#define NOISED_CHAT_TEMPLATES_H

#include "tokenizer/chat_template.h"

const ChatTemplate *chat_template_named(const char *name);      /* NULL when there is none */
const ChatTemplate *chat_template_recognise(const char *jinja); /* NULL when it is none of them */
void chat_template_names(Buffer *out);                          /* "chatml, qwen2, ..." */

#endif
