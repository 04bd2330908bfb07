/* Shared by tests/test_tokenizer*.c. */
#ifndef NOISED_TEST_TOKENIZER_H
#define NOISED_TEST_TOKENIZER_H

#include "base/random.h"
#include "tests/support/test.h"
#include "tokenizer/bpe_train.h"
#include "tokenizer/build.h"
#include "tokenizer/tokenizer_json.h"

/* A byte-level tokenizer of 320 ids, trained on the text below. */
extern const char SMALL_TEXT[];
Tokenizer *small_tokenizer(void);

/* Byte-level without an expression: merges of three letters, of which one may be a space, at most 64. */
Tokenizer *random_tokenizer(Draws *d, const char *letters, int n_merges);

/* A small tokenizer.json of each family, malloc'ed. */
char *small_json(void);
char *llama_json(void);

/* text with every `from` replaced by `to`, malloc'ed; NULL when there is none. */
char *text_replace(const char *text, const char *from, const char *to);

/* The definition of BPE: again and again the leftmost pair of the lowest rank, found by looking at all of them. */
size_t reference_merge(const TokenizerSpec *s, int *ids, size_t n);

/* text -> ids, reporting failures to the running test. */
TokenList encode_text(const Tokenizer *t, const char *text, size_t n, bool special);
bool same_ids(const TokenList *list, const int *ids, size_t n);
/* A cut changes no id, wherever in texts of all kinds of characters it is. How many cuts there were. */
int check_cuts(const Tokenizer *t);
void check_round_trip(const Tokenizer *t, const char *text, size_t n);

#endif
