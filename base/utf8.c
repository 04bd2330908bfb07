#include "base/utf8.h"

#include <string.h>

Utf8 utf8_next(const char *text, size_t n, size_t *length) {
    const unsigned char *p = (const unsigned char *)text;
    size_t want = p[0] < 0x80 ? 1 : p[0] < 0xC2 ? 0 : p[0] < 0xE0 ? 2 : p[0] < 0xF0 ? 3 : p[0] < 0xF5 ? 4 : 0;
    *length = 1;
    if (want == 0) return UTF8_INVALID;
    /* The second byte's range excludes overlong forms, surrogates and what lies beyond U+10FFFF. */
    unsigned char low = p[0] == 0xE0 ? 0xA0 : p[0] == 0xF0 ? 0x90 : 0x80;
    unsigned char high = p[0] == 0xED ? 0x9F : p[0] == 0xF4 ? 0x8F : 0xBF;
    for (; *length < want; ++*length) {
        if (*length == n) return UTF8_PARTIAL;
        if (p[*length] < low || p[*length] > high) return UTF8_INVALID;
        low = 0x80;
        high = 0xBF;
    }
    return UTF8_VALID;
}

size_t utf8_char_length(const char *text, size_t n) {
    size_t length;
    return utf8_next(text, n, &length) == UTF8_VALID ? length : 0;
}

size_t utf8_valid_prefix(const char *text, size_t n) {
    size_t i = 0, length;
    while (i < n && utf8_next(text + i, n - i, &length) == UTF8_VALID) i += length;
    return i;
}

bool utf8_is_valid(const char *text, size_t n) { return utf8_valid_prefix(text, n) == n; }

size_t utf8_count(const char *text, size_t n) {
    size_t count = 0;
    for (size_t i = 0; i < n; i++) count += (text[i] & 0xC0) != 0x80;
    return count;
}

size_t utf8_put(uint32_t c, char out[4]) {
    size_t n = c < 0x80 ? 1 : c < 0x800 ? 2 : c < 0x10000 ? 3 : 4;
    static const unsigned char lead[5] = {0, 0, 0xC0, 0xE0, 0xF0};
    for (size_t i = n; i-- > 1; c >>= 6) out[i] = (char)(0x80 | (c & 0x3F));
    out[0] = (char)(lead[n] | c);
    return n;
}

uint32_t utf8_get(const char *text, size_t length) {
    uint32_t c = (unsigned char)text[0] & (length == 1 ? 0x7F : 0xFF >> (length + 1));
    for (size_t i = 1; i < length; i++) c = c << 6 | ((unsigned char)text[i] & 0x3F);
    return c;
}

static bool is_control(const unsigned char *c, size_t length) {
    return length == 1 ? c[0] < ' ' || c[0] == 0x7F : length == 2 && c[0] == 0xC2 && c[1] < 0xA0;
}

void text_make_printable(char *text) {
    char *out = text;
    size_t n = strlen(text), length;
    for (size_t i = 0; i < n; i += length) {
        Utf8 kind = utf8_next(text + i, n - i, &length);
        if (kind != UTF8_VALID || is_control((const unsigned char *)text + i, length)) {
            *out++ = '?';
            continue;
        }
        memmove(out, text + i, length);
        out += length;
    }
    *out = 0;
}
