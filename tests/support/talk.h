/* talk: whether a folder, and what noised-weights makes of it, hold the same conversation. */
#ifndef NOISED_TEST_TALK_H
#define NOISED_TEST_TALK_H

#include "weights/chat.h"

/* Gives dir, a checkpoint of at least 19 tokens in float32, words as its tokens, a chat template and a
 * generation_config.json; imports it, makes int8 of it, serves all three and asks them. An import says what the
 * original says, byte for byte, and both conversions tell what they carried over and what they left behind. */
void test_talks(const char *dir, const char *what);

/* The chat of a template by name or in a file, without a checkpoint: with these special tokens. chat_close ends it. */
bool test_chat_open(Chat *chat, const char *template, const char *bos, const char *eos);

#endif
