/* word_level: texts into the words of a list, what is not in it being one and the same unknown word. Words stand
 * between Unicode's white space. */
#ifndef NOISED_WORD_LEVEL_H
#define NOISED_WORD_LEVEL_H

#include "tokenizer/spelling.h"
#include "tokenizer/tokenizer.h"

/* Of n different words, in lower case; words[0] stands for all others. */
Tokenizer *word_level_new(const TokenText *words, int n);

/* Appends the ids of text; -1 when memory runs out. */
int word_level_encode(const Tokenizer *t, const char *text, size_t n, TokenList *out);

#endif
