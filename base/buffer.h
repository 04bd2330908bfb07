/* buffer: growing bytes, and the pieces of JSON that the server writes. A zeroed Buffer is empty; buffer_free empties
 * it again. When memory runs out it keeps what it has and takes nothing more: whoever hands it on asks `failed` once.
 * Not thread-safe. */
#ifndef NOISED_BUFFER_H
#define NOISED_BUFFER_H

#include "base/err.h"

typedef struct Buffer {
    char *data; /* malloc'ed, not NUL-terminated */
    size_t n, capacity;
    bool failed; /* something is missing at the end */
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
void buffer_floats(Buffer *b, const float *x, int n); /* as a JSON array */

#endif
