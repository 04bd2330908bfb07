/* buffer: growing bytes. A zeroed Buffer is empty; buffer_free empties it again. When memory runs out it keeps what it
 * has and takes nothing more: check `failed` once, before it is used. Not thread-safe. */
#ifndef NOISED_BUFFER_H
#define NOISED_BUFFER_H

#include "base/err.h"

typedef struct Buffer {
    char *data; /* malloc'ed, not NUL-terminated */
    size_t n, capacity;
    bool failed; /* something is missing at the end */
    bool comma;  /* json_write's: a value was put last, the next one of the same object or array needs a comma */
    int layout;  /* json_write's: a JsonLayout */
} Buffer;

void buffer_append(Buffer *b, const void *data, size_t n);
void buffer_text(Buffer *b, const char *text);
void buffer_print(Buffer *b, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
void buffer_reserve(Buffer *b, size_t n); /* room for n bytes in all, and no more */
void buffer_free(Buffer *b);

#endif
