/* spelling: how the two families write what is no plain text. */
#ifndef NOISED_SPELLING_H
#define NOISED_SPELLING_H

#include "base/err.h"

typedef struct TokenText {
    const char *data;
    size_t n;
} TokenText;

/* How SentencePiece spells a space: U+2581. */
#define SPACE_MARK "\xE2\x96\x81"
bool space_mark_at(TokenText text, size_t i);

/* A SentencePiece text: every space becomes SPACE_MARK, one more in front when `prepend`. data is malloc'ed, NULL when
 * memory runs out. */
TokenText sentence_spelling(TokenText text, bool prepend);

/* text in NFC, malloc'ed; bytes that are no UTF-8 stay as they are. data is NULL when memory ran out. */
TokenText nfc_spelling(TokenText text);
bool is_ascii(TokenText text); /* which is in NFC as it stands */

/* GPT-2's alphabet: the byte whose single-byte piece comes i-th in every such vocabulary, i in 0..255. */
int byte_level_order(int i);

#endif
