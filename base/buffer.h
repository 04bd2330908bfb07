/* buffer: growing bytes, and the pieces of JSON that the server writes. A zeroed Buffer is empty; buffer_free empties
 * it again. Not thread-safe. */
#ifndef NOISED_BUFFER_H
#define NOISED_BUFFER_H

#include "base/err.h"

typedef struct Buffer {
    char *data; /* malloc'ed, not NUL-terminated */
    size_t n, capacity;
} Buffer;

void buffer_append(Buffer *b, const void *data, size_t n);
void buffer_text(Buffer *b, const char *text);
void buffer_print(Buffer *b, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
void buffer_free(Buffer *b);

/* A quoted JSON string. What is not valid UTF-8 becomes U+FFFD. */
void buffer_json(Buffer *b, const char *text, size_t n);

/* The shortest decimal form that reads back as the same float; JSON has no infinities: -inf is written as -9999.0,
 * as vLLM does, NaN as null. */
void buffer_float(Buffer *b, float f);

/* ---- UTF-8 ---- */

#define UTF8_REPLACEMENT "\xEF\xBF\xBD" /* U+FFFD */

typedef enum Utf8 {
    UTF8_VALID,   /* *length bytes are one code point */
    UTF8_INVALID, /* *length bytes can be no part of any: one U+FFFD stands for them */
    UTF8_PARTIAL, /* all n bytes may become one with more behind */
} Utf8;

/* What text[0..n) begins with, n > 0. Ill-formed input is cut as the Unicode standard recommends (maximal subparts). */
Utf8 utf8_next(const char *text, size_t n, size_t *length);

size_t utf8_count(const char *text, size_t n); /* code points of valid UTF-8 */

#endif
