#include "server/gate/body.h"

#include "server/gate/head.h"

/* What comes next. DATA and LENGTH are many bytes, the others one. */
enum { LENGTH, SIZE, SIZE_MORE, EXTENSION, SIZE_LF, DATA, DATA_CR, DATA_LF, TRAILER, NAME, VALUE, VALUE_LF, LAST_LF };

BodyReader body_begin(bool chunked, size_t length, size_t max) {
    return (BodyReader){.at = chunked ? SIZE : LENGTH, .left = chunked ? 0 : length, .max = max};
}

static int go(BodyReader *r, bool allowed, int next) {
    r->at = next;
    return allowed ? 0 : -400;
}

static int add_digit(BodyReader *r, unsigned char c) {
    unsigned char letter = c | 32;
    size_t digit = letter >= 'a' ? letter - 'a' + 10u : c - (size_t)'0';
    r->left = r->left * 16 + digit;
    return r->taken + r->left > r->max ? -413 : go(r, true, SIZE_MORE);
}

static bool is_hex(unsigned char c) {
    unsigned char letter = c | 32;
    return (c >= '0' && c <= '9') || (letter >= 'a' && letter <= 'f');
}

/* One byte of what is not data. */
static int step(BodyReader *r, unsigned char c) {
    enum { MOST = 4096 };
    if (++r->line > MOST) return -431;
    switch (r->at) {
    case SIZE:
        return is_hex(c) ? add_digit(r, c) : -400;
    case SIZE_MORE:
        if (is_hex(c)) return add_digit(r, c);
        return c == ';' ? go(r, true, EXTENSION) : go(r, c == '\r', SIZE_LF);
    case EXTENSION:
        return head_is_text(c) ? 0 : go(r, c == '\r', SIZE_LF);
    case SIZE_LF:
        r->taken += r->left;
        return go(r, c == '\n', r->left ? DATA : TRAILER);
    case DATA_CR:
        return go(r, c == '\r', DATA_LF);
    case DATA_LF:
        r->line = 0;
        return go(r, c == '\n', SIZE);
    case TRAILER: /* a line that begins with a space would be a folded one: no token */
        return c == '\r' ? go(r, true, LAST_LF) : go(r, head_is_token(c), NAME);
    case NAME:
        return c == ':' ? go(r, true, VALUE) : go(r, head_is_token(c), NAME);
    case VALUE:
        return head_is_text(c) ? 0 : go(r, c == '\r', VALUE_LF);
    case VALUE_LF:
        return go(r, c == '\n', TRAILER);
    default: /* LAST_LF */
        return c == '\n' ? 1 : -400;
    }
}

int body_read(BodyReader *r, const char *text, size_t n, size_t *used, Buffer *body) {
    size_t i = 0;
    int rc = r->at == LENGTH && r->left == 0;
    while (i < n && !rc) {
        if (r->at != LENGTH && r->at != DATA) {
            rc = step(r, (unsigned char)text[i++]);
            continue;
        }
        size_t part = MIN(n - i, r->left);
        buffer_append(body, text + i, part);
        i += part;
        r->left -= part;
        if (r->left == 0 && r->at == LENGTH) rc = 1;
        if (r->left == 0 && r->at == DATA) r->at = DATA_CR;
    }
    *used = i;
    return rc;
}
