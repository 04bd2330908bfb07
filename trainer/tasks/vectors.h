/* vectors: word vectors from a text file, "word x1 ... xd" a line, as GloVe's come; word2vec's first line, how many and
 * how wide, may stand before them. They become the tokenizer of a network and its frozen table.
 *
 * Words are looked up in lower case, so only those in lower case are ever found. Of a word that comes again the first
 * vector counts. Word 0 is the unknown one, <unk>, whose vector is 0 unless the file has one. */
#ifndef NOISED_VECTORS_H
#define NOISED_VECTORS_H

#include "tokenizer/tokenizer.h"

typedef struct Vectors {
    int n, size;   /* words, the unknown one among them; floats of each */
    int repeated;  /* lines whose word had come before */
    float *values; /* [n, size] */
    Tokenizer *tokenizer;
} Vectors;

/* On failure nothing needs to be freed; the message names file and line. */
int vectors_load(Vectors *v, const char *path, Err *err);
void vectors_free(Vectors *v);

#endif
