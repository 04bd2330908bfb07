/* utf8: what is text. Well-formed means as the Unicode standard says: no overlong forms, no surrogates, nothing beyond
 * U+10FFFF. */
#ifndef NOISED_UTF8_H
#define NOISED_UTF8_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define UTF8_REPLACEMENT "\xEF\xBF\xBD" /* U+FFFD */

typedef enum Utf8 {
    UTF8_VALID,   /* *length bytes are one code point */
    UTF8_INVALID, /* *length bytes can be no part of any: one U+FFFD stands for them */
    UTF8_PARTIAL, /* all n bytes may become one with more behind */
} Utf8;

/* What text[0..n) begins with, n > 0. Ill-formed input is cut as the Unicode standard recommends (maximal subparts). */
Utf8 utf8_next(const char *text, size_t n, size_t *length);

/* Bytes of the well-formed character at text, n > 0; 0 when there is none. */
size_t utf8_char_length(const char *text, size_t n);

/* Bytes of the longest well-formed prefix of text[0..n). */
size_t utf8_valid_prefix(const char *text, size_t n);
bool utf8_is_valid(const char *text, size_t n);

size_t utf8_count(const char *text, size_t n);      /* code points of valid UTF-8 */
size_t utf8_put(uint32_t c, char out[4]);           /* the bytes of code point c, and how many */
uint32_t utf8_get(const char *text, size_t length); /* the code point that its bytes are, as utf8_char_length counts */

/* Puts '?' where a terminal might obey or a line of a log might break: control characters (C0, DEL and C1) and bytes
 * that are no UTF-8. What names a file, a tensor or a key may hold anything. */
void text_make_printable(char *text);

#endif
