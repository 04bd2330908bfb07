/* conversation: messages to and fro with a checkpoint. The answers are those of POST /v1/chat/completions to the same
 * messages and seed: one template makes the prompt, the same ends end an answer, and `noise_seed` follows `seed`. */
#ifndef NOISED_CONVERSATION_H
#define NOISED_CONVERSATION_H

#include "trainer/text/draws.h"
#include "trainer/text/sample.h"
#include "weights/chat.h"
#include "weights/checkpoint.h"

typedef struct Conversation {
    const Checkpoint *checkpoint; /* borrowed, with a tokenizer */
    const Chat *chat;             /* borrowed, with a program */
    int max_tokens;               /* of an answer, less than the context */
    StopSet stops;
    cJSON *messages; /* owned: an array; one of the system first, if there is one */
} Conversation;

/* system: what comes before everything, or NULL. conversation_close frees it. */
void conversation_open(Conversation *c, const Checkpoint *checkpoint, const Chat *chat, const char *system,
                       int max_tokens);
void conversation_close(Conversation *c);
void conversation_forget(Conversation *c); /* what was said, not the system's message */

/* Asks, and shows the answer as it comes, until `show` returns false; both are remembered. The first exchanges go when
 * the context has no room for them and an answer; *gone says how many messages. On failure nothing was said. */
int conversation_ask(Conversation *c, const char *text, const DrawOptions *draws, uint64_t seed,
                     bool (*show)(void *self, const char *text, size_t n), int *gone, Err *err);

#endif
