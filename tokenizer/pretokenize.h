/* pretokenize: cuts a text into words by regular expressions, as a byte-level tokenizer.json lists them. The only user
 * of pcre2.
 *
 * Each expression cuts every piece that the one before it left: its matches are pieces, and so is what lies between
 * them (Hugging Face's "Isolated"). They are read as Oniguruma reads them; what pcre2 reads otherwise is refused: \h,
 * \w, \b, (?m), {m,n}+, {,n}, classes in classes, matches of no characters. \s is Unicode's White_Space. Words follow
 * each other without gaps. Bytes that are no UTF-8 form words of their own, one for each run of them, so any byte
 * string is cut and nothing is lost. Linear in the length of the text for the expressions that published tokenizers
 * use; others run out of steps, or of the processor time that a text has: a second, and 10 us a byte. */
#ifndef NOISED_PRETOKENIZE_H
#define NOISED_PRETOKENIZE_H

#include "base/err.h"

/* GPT-2's words. */
#define GPT2_WORDS "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+"

enum { WORD_PATTERNS_MAX = 8 };

/* Immutable once made; any number of threads may scan with it, each with its own WordScan. */
typedef struct Pretokenizer Pretokenizer;
/* patterns [n], 1 <= n <= WORD_PATTERNS_MAX; NULL with the pattern and the place of its fault in err. */
Pretokenizer *pretokenizer_new(const char *const *patterns, int n, Err *err);
void pretokenizer_free(Pretokenizer *p);

typedef struct WordScan WordScan;
WordScan *word_scan_open(const Pretokenizer *p); /* NULL when memory runs out */
void word_scan_close(WordScan *s);

/* Starts on a new text, borrowed until the next call of this. */
void word_scan_start(WordScan *s, const char *text, size_t n);

/* 1 and the next word (inside the text), 0 at its end, -1 when the matcher ran out of memory, steps or time. */
int word_scan_next(WordScan *s, const char **word, size_t *n, Err *err);

#endif
