/* cut: where a text may be cut so that its parts encode to the ids of the whole, whatever lies behind. So a text of any
 * length is encoded in bounded memory, and by several threads.
 *
 * A cut is in front of a space, or behind a line feed in front of what is no white space, in both cases with what is no
 * white space before. There every expression that published byte-level tokenizers use ends a word, and looks neither
 * back nor ahead; SentencePiece's words and those of word vectors begin at spaces, and a part that begins with one gets
 * none put in front. Behind a line feed is no cut for these, nor where an added token may end of those that put a space
 * in front of every piece (Llama 2's). Tokenizers without words, those with a piece that reaches across a cut, as other
 * expressions allow (DeepSeek Coder's), and those with an added token that holds one have none at all. */
#ifndef NOISED_CUT_H
#define NOISED_CUT_H

#include "tokenizer/tokenizer.h"

/* The first cut of text[0..n) at `from` or behind, 0 < cut < n; n when there is none. */
size_t tokenizer_cut(const Tokenizer *t, const char *text, size_t from, size_t n);

/* tokenizer_encode of what lies behind a cut: it begins no text, so nothing is put in front. */
int tokenizer_encode_rest(const Tokenizer *t, const char *text, size_t n, bool special, TokenList *out, Err *err);

#endif
