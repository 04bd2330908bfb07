/* pretokenize: cuts a text into the words of GPT-2's byte-level BPE,
 *     's|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+
 * where \s is Unicode's White_Space. The only user of pcre2.
 *
 * Words follow each other without gaps. Bytes that are no UTF-8 form words of their own, one for each run of them, so
 * any byte string is cut and nothing is lost. Linear in the length of the text, whatever it holds. */
#ifndef NOISED_PRETOKENIZE_H
#define NOISED_PRETOKENIZE_H

#include "base/err.h"

/* Immutable once made; any number of threads may scan with it, each with its own WordScan. */
typedef struct Pretokenizer Pretokenizer;
Pretokenizer *pretokenizer_new(void);
void pretokenizer_free(Pretokenizer *p);

typedef struct WordScan WordScan;
WordScan *word_scan_open(const Pretokenizer *p);
void word_scan_close(WordScan *s);

/* Starts on a new text, borrowed until the next call of this. */
void word_scan_start(WordScan *s, const char *text, size_t n);

/* 1 and the next word (inside the text), 0 at its end, -1 when the matcher ran out of memory. */
int word_scan_next(WordScan *s, const char **word, size_t *n, Err *err);

#endif
