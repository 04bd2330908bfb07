/* Tokenizers that nobody has learnt: of a list of words, and with one token more than another. */
#include "base/err.h"
#include "base/memory.h"
#include "tokenizer/build.h"
#include "tokenizer/tokenizer.h"

#include <stdlib.h>
#include <string.h>

Tokenizer *tokenizer_with_special(const Tokenizer *t, const char *text, Err *err) {
    TokenizerSpec spec = *tokenizer_spec(t);
    if (spec.style == TOKEN_WORDS) return err_set(err, "a tokenizer of words alone takes no token like %s", text), NULL;
    TokenText *pieces = xcalloc((size_t)spec.n_pieces + 1, sizeof *pieces);
    AddedToken *added = xcalloc((size_t)spec.n_added + 1, sizeof *added);
    memcpy(pieces, spec.pieces, (size_t)spec.n_pieces * sizeof *pieces);
    if (spec.n_added) memcpy(added, spec.added, (size_t)spec.n_added * sizeof *added);
    added[spec.n_added] = (AddedToken){.id = spec.n_pieces, .text = {.data = text, .n = strlen(text)}, .special = true};
    spec.pieces = pieces;
    spec.n_pieces++;
    spec.added = added;
    spec.n_added++;
    Tokenizer *out = tokenizer_build(&spec, err);
    free(pieces);
    free(added);
    return out;
}

Tokenizer *tokenizer_of_words(const char *const *words, int n, Err *err) {
    TokenText *pieces = xcalloc((size_t)n, sizeof *pieces);
    for (int i = 0; i < n; i++) pieces[i] = (TokenText){.data = words[i], .n = strlen(words[i])};
    Tokenizer *out = tokenizer_build(
        &(TokenizerSpec){.style = TOKEN_WORDS, .pieces = pieces, .n_pieces = n, .bos = -1, .tail = -1}, err);
    free(pieces);
    return out;
}
