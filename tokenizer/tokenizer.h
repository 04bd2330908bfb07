/* Tokenizer: text <-> token ids. Byte-pair encoding, byte-level as GPT-2's, Llama 3's or Qwen's (pre-tokenised by
 * regular expressions) or with spaces spelled U+2581 and byte fallback as Llama 2's (converted from SentencePiece).
 * Or the words of a list of word vectors, between white space; those tokens are no bytes of the text.
 *
 * Any byte string is legal input (NUL and invalid UTF-8 included) and decode(encode(x)) == x byte for byte, with the
 * exceptions that the format itself brings: a literal U+2581 comes back as a space from a Llama vocabulary, a text
 * that the file wants in NFC comes back composed, a space that the file asks to put in front of a text comes back
 * unless the file asks for its removal too. Encoding is linear in the length of the text up to a log factor, whatever
 * the text is. A Tokenizer is immutable once built; every function but tokenizer_free may be called from several
 * threads at once. Files and JSON are tokenizer_json.h's business. */
#ifndef NOISED_TOKENIZER_H
#define NOISED_TOKENIZER_H

#include "base/buffer.h"
#include "base/err.h"

typedef struct Tokenizer Tokenizer;

typedef struct TokenList {
    int *ids; /* malloc'ed, owned by the list */
    size_t n, capacity;
    bool failed; /* memory ran out: ids are missing at the end */
} TokenList;

void token_list_push(TokenList *list, int id);
void token_list_free(TokenList *list);

/* Appends the ids of text[0..n), n < 2^29. Special tokens written out in the text become their id only when `special`;
 * added tokens that the file does not call special always do. On failure, which may be for lack of memory, the list
 * holds a part. */
int tokenizer_encode(const Tokenizer *t, const char *text, size_t n, bool special, TokenList *out, Err *err);

/* The same of a text that quotes others: a special token of which any byte has a mark other than 0 is text, and so is
 * one of roles, which may be NULL: [vocabulary] what stands for control too, though the file does not call it special.
 */
int tokenizer_encode_marked(const Tokenizer *t, const char *text, const char *marks, const bool *roles, size_t n,
                            bool special, TokenList *out, Err *err);

/* The BOS, if there is one, and the ids of n_words words with single spaces between them, of which word i ends at
 * ends[i]. rows[i]: which of these ids is the last one of the text up to there by itself, which has read the word; -1
 * where that has none, and, of a tokenizer that merges across spaces, perhaps beyond the last id. Behind a word whose
 * row is `most` or more all have that row. In time by the length of the text, and the square of so many tokens. */
int tokenizer_encode_words(const Tokenizer *t, const char *text, const size_t *ends, int n_words, int most,
                           TokenList *out, int *rows, Err *err);

/* The ids that the file wants in front of every text (a Llama file's template) and behind it (that of a model which
 * embeds texts by their last row), or -1. tokenizer_encode leaves them out. */
int tokenizer_bos(const Tokenizer *t);
int tokenizer_tail(const Tokenizer *t);

/* For a model without a vocabulary: every id is a token without text, and encoding any text is an error. */
Tokenizer *tokenizer_ids_only(void);

/* The bytes of one token: borrowed, valid while t lives, *n bytes, not NUL-terminated. NULL when id is no token.
 * They may be a part of a UTF-8 sequence. */
const char *tokenizer_piece(const Tokenizer *t, int id, size_t *n);

bool tokenizer_is_special(const Tokenizer *t, int id);

/* Concatenated pieces (ids that are no tokens have none), less one leading space when tokenizer_strips_space;
 * malloc'ed, NUL-terminated behind *n bytes. NULL when memory runs out. */
char *tokenizer_decode(const Tokenizer *t, const int *ids, size_t n_ids, size_t *n);

/* True for files that put a space in front of a text: the first space of a whole decoded text is not the text's. */
bool tokenizer_strips_space(const Tokenizer *t);

int tokenizer_vocab_size(const Tokenizer *t);                     /* highest id + 1 */
int tokenizer_find_special(const Tokenizer *t, const char *text); /* id of the added token, or -1 */

/* Words between white space, with their places as ids; what is no such word is words[0]. No word twice. NULL on
 * failure. */
Tokenizer *tokenizer_of_words(const char *const *words, int n, Err *err);
/* t with one special token more, behind all ids; text must not be one yet. NULL on failure, as of words alone. */
Tokenizer *tokenizer_with_special(const Tokenizer *t, const char *text, Err *err);
void tokenizer_free(Tokenizer *t);

#endif
