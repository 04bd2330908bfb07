#include "base/buffer.h"

#include "base/err.h"
#include "base/memory.h"
#include "base/utf8.h"

#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

static void reserve(Buffer *b, size_t more) {
    if (b->n + more <= b->capacity) return;
    b->capacity = MAX(b->n + more, MAX(256, 2 * b->capacity));
    b->data = xrealloc(b->data, b->capacity);
}

void buffer_append(Buffer *b, const void *data, size_t n) {
    if (n == 0) return;
    reserve(b, n);
    memcpy(b->data + b->n, data, n);
    b->n += n;
}

void buffer_text(Buffer *b, const char *text) { buffer_append(b, text, strlen(text)); }

void buffer_print(Buffer *b, const char *fmt, ...) {
    va_list ap;
    va_start(ap, fmt);
    int n = vsnprintf(NULL, 0, fmt, ap);
    va_end(ap);
    BUG_ON(n < 0);
    reserve(b, (size_t)n + 1);
    va_start(ap, fmt);
    vsnprintf(b->data + b->n, (size_t)n + 1, fmt, ap);
    va_end(ap);
    b->n += (size_t)n;
}

void buffer_free(Buffer *b) {
    free(b->data);
    *b = (Buffer){0};
}

static void append_escaped(Buffer *b, unsigned char c) {
    static const char from[] = "\"\\\b\f\n\r\t", to[] = "\"\\bfnrt";
    const char *at = c ? strchr(from, c) : NULL;
    if (at)
        buffer_print(b, "\\%c", to[at - from]);
    else if (c < 0x20)
        buffer_print(b, "\\u%04x", c);
    else
        buffer_append(b, &c, 1);
}

void buffer_json(Buffer *b, const char *text, size_t n) {
    reserve(b, n + 2);
    buffer_append(b, "\"", 1);
    for (size_t i = 0, length; i < n; i += length) {
        Utf8 kind = utf8_next(text + i, n - i, &length);
        if (kind != UTF8_VALID)
            buffer_text(b, UTF8_REPLACEMENT);
        else if (length == 1)
            append_escaped(b, (unsigned char)text[i]);
        else
            buffer_append(b, text + i, length);
    }
    buffer_append(b, "\"", 1);
}

void buffer_float(Buffer *b, float f) {
    char text[32];
    if (isnan(f)) {
        buffer_text(b, "null");
        return;
    }
    if (isinf(f)) f = f < 0 ? -9999 : 9999;
    int digits = 6; /* %g drops trailing zeros, so six digits give any shorter form too */
    do snprintf(text, sizeof text, "%.*g", digits, (double)f);
    while (strtof(text, NULL) != f && digits++ < 9);
    buffer_text(b, text);
    if (!strpbrk(text, ".e")) buffer_text(b, ".0");
}
