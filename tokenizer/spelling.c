#include "tokenizer/spelling.h"

#include "base/err.h"
#include "base/memory.h"

#include <string.h>

bool space_mark_at(TokenText text, size_t i) { return text.n - i >= 3 && memcmp(text.data + i, SPACE_MARK, 3) == 0; }

bool is_ascii(TokenText text) {
    unsigned char all = 0;
    for (size_t i = 0; i < text.n; i++) all |= (unsigned char)text.data[i];
    return all < 0x80;
}

TokenText sentence_spelling(TokenText text, bool prepend) {
    size_t spaces = prepend;
    for (size_t i = 0; i < text.n; i++) spaces += text.data[i] == ' ';
    char *start = try_malloc(text.n + 3 * spaces), *at = start;
    if (!start) return (TokenText){0};
    if (prepend) at = mempcpy(at, SPACE_MARK, 3);
    for (size_t i = 0; i < text.n; i++)
        if (text.data[i] == ' ')
            at = mempcpy(at, SPACE_MARK, 3);
        else
            *at++ = text.data[i];
    return (TokenText){.data = start, .n = (size_t)(at - start)};
}

int byte_level_order(int i) {
    /* '!'..'~', U+00A1..U+00AC and U+00AE..U+00FF stand for themselves and come first, then the rest. */
    if (i < 94) return '!' + i;
    if (i < 106) return 0xA1 + i - 94;
    if (i < 188) return 0xAE + i - 106;
    if (i < 221) return i - 188;
    return i < 255 ? 0x7F + i - 221 : 0xAD;
}
