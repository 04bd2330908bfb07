#include "base/buffer.h"

#include "base/err.h"
#include "base/memory.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

/* False when there is no room, now or because something is missing before it. */
static bool grow(Buffer *b, size_t capacity) {
    if (b->failed) return false;
    if (capacity <= b->capacity) return true;
    char *data = try_realloc(b->data, capacity);
    b->failed = !data;
    if (!data) return false;
    b->data = data;
    b->capacity = capacity;
    return true;
}

static bool reserve(Buffer *b, size_t more) {
    size_t n = b->n + more;
    return grow(b, n <= b->capacity ? n : MAX(n, MAX(256, 2 * b->capacity)));
}

void buffer_reserve(Buffer *b, size_t n) { grow(b, n); }

void buffer_append(Buffer *b, const void *data, size_t n) {
    if (n == 0 || !reserve(b, n)) return;
    memcpy(b->data + b->n, data, n);
    b->n += n;
    b->comma = false;
}

void buffer_text(Buffer *b, const char *text) { buffer_append(b, text, strlen(text)); }

void buffer_print(Buffer *b, const char *fmt, ...) {
    va_list ap;
    va_start(ap, fmt);
    int n = vsnprintf(NULL, 0, fmt, ap);
    va_end(ap);
    BUG_ON(n < 0);
    if (!reserve(b, (size_t)n + 1)) return;
    va_start(ap, fmt);
    vsnprintf(b->data + b->n, (size_t)n + 1, fmt, ap);
    va_end(ap);
    b->n += (size_t)n;
    b->comma = false;
}

void buffer_free(Buffer *b) {
    free(b->data);
    *b = (Buffer){0};
}
