#include "base/memory.h"
#include "base/utf8.h"
#include "tokenizer/spelling.h"

#include <stdlib.h>
#include <uninorm.h>

/* The most that NFC makes of a byte of UTF-8 (Unicode Standard Annex 15). */
enum { GROWTH = 3 };

/* libunistring sorts runs of combining marks in n log n, so that no text takes quadratic time. */
TokenText nfc_spelling(TokenText text) {
    uint8_t *out = try_malloc(GROWTH * text.n);
    size_t n = 0;
    for (size_t at = 0; out && at < text.n;) {
        size_t valid = utf8_valid_prefix(text.data + at, text.n - at), length = GROWTH * valid;
        if (valid == 0) {
            out[n++] = (uint8_t)text.data[at++];
            continue;
        }
        if (!u8_normalize(UNINORM_NFC, (const uint8_t *)text.data + at, valid, out + n, &length)) {
            free(out);
            out = NULL;
        }
        at += valid;
        n += length;
    }
    return (TokenText){.data = (char *)out, .n = n};
}
