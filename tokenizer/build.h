/* build: what a Tokenizer is made from. Filled in by bpe_train and tokenizer_json, which check it;
 * nobody else needs this header.
 *
 * The pipeline, in the order of Hugging Face's `tokenizers`, whose ids it gives:
 *     1. cut out added tokens with normalized = false;
 *     2. bring it to NFC (nfc), prepend a space when the policy is PREPEND_NORMALIZER, then cut out added tokens with
 *        normalized = true;
 *     3. prepend a space under the other policies, cut into words (words, split), words into symbols;
 *     4. merge neighbours, lowest rank first, leftmost first. */
#ifndef NOISED_TOKENIZER_BUILD_H
#define NOISED_TOKENIZER_BUILD_H

#include "tokenizer/pretokenize.h"
#include "tokenizer/spelling.h"

typedef struct Tokenizer Tokenizer; /* tokenizer.h */

typedef enum TokenStyle {
    TOKEN_BYTE_LEVEL,     /* GPT-2, Llama 3, Qwen: words by regex, a symbol is a byte */
    TOKEN_IDS_ONLY,       /* no text at all */
    TOKEN_SENTENCE_PIECE, /* Llama: spaces are spelled SPACE_MARK, a symbol is a character, or a byte of an unknown one
                           */
    TOKEN_WORDS /* word vectors: a word between white space is a piece or unknown; no steps but word_level.h's */
} TokenStyle;

typedef enum TokenPrepend {
    PREPEND_NEVER,
    PREPEND_FIRST,     /* a piece at the very start of the text, unless it begins with a space */
    PREPEND_ALWAYS,    /* every piece between added tokens, unless it begins with a space */
    PREPEND_NORMALIZER /* every piece between added tokens, whatever it begins with */
} TokenPrepend;

typedef struct TokenMerge {
    int left, right, result;
} TokenMerge;

typedef struct AddedToken {
    int id;
    TokenText text;
    bool special;    /* found in a text only on request */
    bool normalized; /* looked for in step 2 instead of 1 */
} AddedToken;

typedef struct TokenizerSpec {
    TokenStyle style;
    const TokenText *pieces; /* [n_pieces] by id: bytes (byte level) or with SPACE_MARK (SentencePiece);
                              * n = 0 where an added token stands outside the model's vocabulary */
    int n_pieces;
    int byte_ids[256];
    const TokenMerge *merges; /* [n_merges] by rank, no pair twice */
    int n_merges;
    const AddedToken *added; /* [n_added] no id and no text twice */
    int n_added;
    TokenPrepend prepend;
    const char *words[WORD_PATTERNS_MAX]; /* byte level: the expressions of pretokenize.h; none: a piece is one word */
    int n_words;
    bool split;         /* SentencePiece: a word for each SPACE_MARK; else a piece is one word */
    bool nfc;           /* byte level: texts are composed to Unicode's NFC first */
    bool ignore_merges; /* a word that is a piece is that piece, whatever the merges would make of it */
    bool strip_space;   /* decode drops one leading space */
    bool lowercase;     /* words: looked up in lower case, every character by itself */
    int unknown;        /* words: id of those that are no piece */
    int bos, tail;      /* ids that the file wants in front of a text and behind it, -1 for none */
} TokenizerSpec;

/* Copies everything. A spec that breaks the rules above is a bug of the caller; NULL when one of `words` is no
 * expression. */
Tokenizer *tokenizer_build(const TokenizerSpec *spec, Err *err);

/* What t was built from, for writing it; borrowed. */
const TokenizerSpec *tokenizer_spec(const Tokenizer *t);

#endif
