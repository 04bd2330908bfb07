/* tokenizer_json_impl: the parts of a tokenizer.json, for tokenizer_json.c only. */
#ifndef NOISED_TOKENIZER_JSON_IMPL_H
#define NOISED_TOKENIZER_JSON_IMPL_H

#include "base/err.h"
#include "base/json/json_reader.h"
#include "tokenizer/build.h"
#include "tokenizer/map.h"

typedef struct Reader {
    const cJSON *root, *model;
    TokenizerSpec spec;
    TextMap keys;        /* the vocabulary in the file's spelling -> id */
    TokenText *spelling; /* [spec.n_pieces] key by id, borrowed from the tree; n = 0: an added token only */
    int *added_index;    /* [spec.n_pieces] place in added by id; -1: none */
    TokenText *pieces;   /* [spec.n_pieces] decoded keys of a byte-level vocabulary */
    char *bytes;         /* what pieces point into */
    AddedToken *added;
    TokenMerge *merges;
    Err *err;
} Reader;

int tokenizer_read_pipeline(Reader *r);   /* normalizer, pre_tokenizer, decoder -> spec */
int tokenizer_read_vocabulary(Reader *r); /* model.vocab, added_tokens -> pieces, byte ids, added */
int tokenizer_read_merges(Reader *r);
int tokenizer_read_post_processor(Reader *r); /* -> spec.bos, tail */

#endif
