#include "base/buffer.h"

#include "base/err.h"
#include "base/memory.h"
#include "base/utf8.h"

#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

/* False when there is no room, now or because something is missing before it. */
static bool reserve(Buffer *b, size_t more) {
    if (b->failed) return false;
    if (b->n + more <= b->capacity) return true;
    size_t capacity = MAX(b->n + more, MAX(256, 2 * b->capacity));
    char *data = try_realloc(b->data, capacity);
    b->failed = !data;
    if (!data) return false;
    b->data = data;
    b->capacity = capacity;
    return true;
}

void buffer_append(Buffer *b, const void *data, size_t n) {
    if (n == 0 || !reserve(b, n)) return;
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
    if (!reserve(b, (size_t)n + 1)) return;
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
    if (!reserve(b, n + 2)) return;
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

void buffer_floats(Buffer *b, const float *x, int n) {
    buffer_text(b, "[");
    for (int i = 0; i < n; i++) {
        if (i) buffer_text(b, ",");
        buffer_float(b, x[i]);
    }
    buffer_text(b, "]");
}
