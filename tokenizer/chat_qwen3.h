/* chat_qwen3: Qwen3's template. What the assistant thought, up to </think>, is left out of earlier answers; the answer
 * to come may begin with thoughts or, unless words->think, has an empty place for them in front. */
#ifndef NOISED_CHAT_QWEN3_H
#define NOISED_CHAT_QWEN3_H

#include "tokenizer/chat_template.h"

int chat_render_qwen3(const ChatTemplate *t, const ChatMessage *m, int n, const ChatWords *words, Buffer *out,
                      ChatFault *fault);

#endif
