/* A tokenizer with one token more. */
#include "base/err.h"
#include "base/memory.h"
#include "tokenizer/build.h"
#include "tokenizer/tokenizer.h"

#include <stdlib.h>
#include <string.h>

Tokenizer *tokenizer_with_special(const Tokenizer *t, const char *text, Err *err) {
    TokenizerSpec spec = *tokenizer_spec(t);
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
