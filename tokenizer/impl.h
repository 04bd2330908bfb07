/* impl: what a Tokenizer is, for tokenizer.c and encode.c only. */
#ifndef NOISED_TOKENIZER_IMPL_H
#define NOISED_TOKENIZER_IMPL_H

#include "tokenizer/added.h"
#include "tokenizer/build.h"
#include "tokenizer/map.h"
#include "tokenizer/pretokenize.h"

struct Tokenizer {
    TokenizerSpec spec; /* its arrays belong to the tokenizer */
    char *bytes;        /* what every TokenText points into */
    TokenText *texts;   /* [n_pieces] what an id decodes to */
    bool *special;      /* [n_pieces] */
    PairMap ranks;      /* pair -> index into spec.merges */
    TextMap ids;        /* vocabulary piece -> id */
    AddedTrie raw, normalized;
    Pretokenizer *pretokenizer; /* NULL where no regex is used */
    bool mark_starts_word;      /* SentencePiece: no merge reaches across a SPACE_MARK from the left */
    bool joins_cuts;            /* byte level: a piece reaches across what other tokenizers are cut at (cut.h) */
};

bool pieces_join_cuts(const Tokenizer *t); /* cut.c's; pieces and merges are there */

#endif
