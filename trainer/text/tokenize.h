/* tokenize: texts of any size into a folder of token ids (corpus_index.h), in bounded memory and by the whole team.
 *
 * Pieces (pieces.h) are read and ids written in the order of the files; between, a batch of pieces is encoded by all
 * threads, of which one writes the batch before meanwhile and one reads the next. So the bytes depend on the texts, the
 * tokenizer and the field alone. Whenever a shard is full, and when it is told to stop, the index is written anew with
 * the place in the texts that the rows reach; from there it is gone on with, whatever has ended it. Memory: three times
 * BATCH bytes of text, the ids of two, and one piece, besides the tokenizer. */
#ifndef NOISED_TOKENIZE_H
#define NOISED_TOKENIZE_H

#include "trainer/text/corpus_index.h"

#define SEPARATOR_NONE "none"

typedef struct Tokenize {
    const char *const *files; /* [n_files] */
    int n_files;
    const char *val;       /* as texts_load's */
    const char *field;     /* of .jsonl files */
    const char *tokenizer; /* tokenizer.json; NULL: one is learnt from a sample, or is in the folder already */
    int vocab_size;        /* tokens to learn */
    const char *separator; /* the special token between two texts; SEPARATOR_NONE: none */
    const char *out;
    size_t shard_bytes;   /* 0: SHARD_BYTES */
    int (*stopped)(void); /* asked between batches: 0, or a number that tokenize returns */
} Tokenize;

/* 0 when all is there; what `stopped` has said; -1 on error. Calls after the first, or after a kill, go on. Says on
 * standard output how far it is. */
int tokenize(const Tokenize *t, Err *err);

#endif
