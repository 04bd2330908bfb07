#include "tokenizer/word_level.h"

#include "base/err.h"
#include "base/memory.h"
#include "base/utf8.h"
#include "tokenizer/impl.h"

#include <stdlib.h>
#include <string.h>
#include <unicase.h>
#include <unictype.h>
#include <unistr.h>

/* The only character whose lower case is two: U+0130 becomes i and a dot above it. */
enum { CAPITAL_DOTTED_I = 0x130, DOT_ABOVE = 0x307 };
/* Lower case needs at most three bytes for two. */
enum { GROWTH = 2 };

Tokenizer *word_level_new(const TokenText *words, int n) {
    TokenizerSpec spec = {
        .style = TOKEN_WORDS, .pieces = words, .n_pieces = n, .lowercase = true, .bos = -1, .tail = -1};
    return tokenizer_build(&spec, NULL);
}

static size_t put_lower(ucs4_t c, char *out) {
    if (c != CAPITAL_DOTTED_I) return utf8_put(uc_tolower(c), out);
    out[0] = 'i';
    return 1 + utf8_put(DOT_ABOVE, out + 1);
}

static void push_word(const Tokenizer *t, const char *word, size_t n, TokenList *out) {
    int id = n ? text_map_find(&t->ids, word, n) : -1;
    if (n) token_list_push(out, id >= 0 ? id : t->spec.unknown);
}

int word_level_encode(const Tokenizer *t, const char *text, size_t n, TokenList *out) {
    char *word = try_malloc(GROWTH * n + 8);
    size_t used = 0, length;
    if (!word) return -1;
    for (size_t i = 0; i < n; i += MAX(length, 1)) {
        ucs4_t c = 0;
        length = utf8_char_length(text + i, n - i);
        if (!length) {
            word[used++] = text[i];
            continue;
        }
        u8_mbtouc(&c, (const uint8_t *)text + i, length);
        if (uc_is_property_white_space(c)) {
            push_word(t, word, used, out);
            used = 0;
        } else if (t->spec.lowercase) {
            used += put_lower(c, word + used);
        } else {
            memcpy(word + used, text + i, length);
            used += length;
        }
    }
    push_word(t, word, used, out);
    free(word);
    return out->failed ? -1 : 0;
}
