/* tokenizer_json_impl: shared by weights/tokenizer_json*.c only. */
#ifndef NOISED_TOKENIZER_JSON_IMPL_H
#define NOISED_TOKENIZER_JSON_IMPL_H

#include "base/err.h"
#include "tokenizer/build.h"
#include "tokenizer/map.h"
#include "tokenizer/tokenizer_json.h"

#include <cjson/cJSON.h>

/* ---- fields with messages ---- */

/* A value as it stands in a message: clipped text of a scalar, else its kind. */
typedef struct Shown {
    char text[96];
} Shown;
Shown show_json(const cJSON *v); /* NULL: "missing" */
Shown show_text(const char *data, size_t n);

/* o[name]; NULL when absent. o may be no object. */
const cJSON *json_field(const cJSON *o, const char *name);
bool json_is_text(const cJSON *v, const char *text);
bool json_is_null(const cJSON *v); /* null or absent */

/* o is an object whose keys are among `known` (separated by spaces). */
int json_check_keys(const cJSON *o, const char *where, const char *known, Err *err);
/* o[name] is a boolean; absent is `absent` (0, 1), or refused when that is -1. */
int json_get_bool(const cJSON *o, const char *where, const char *name, int absent, bool *out, Err *err);

/* ---- reading in three parts ---- */

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
int tokenizer_read_post_processor(Reader *r); /* -> spec.bos */

#endif
