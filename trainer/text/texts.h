/* texts: the files of --data and --val in memory, each split into a part to train on and a part held out. */
#ifndef NOISED_TEXTS_H
#define NOISED_TEXTS_H

#include "base/err.h"
#include "tokenizer/bpe_train.h"

typedef struct Texts {
    char **files; /* [n_files] owned bytes that the parts point into */
    int n_files;
    BpeText *train, *val; /* one per file each; val is empty with VAL_NONE */
    int n_train, n_val;
    char hash[65]; /* sha256 of all contents and of where they are cut */
} Texts;

#define VAL_NONE "none"
enum { HELD_OUT_PER_CENT = 5 };

/* val: NULL holds out the last 5% of every file, VAL_NONE nothing, else it is a file and all of `paths` is trained on.
 * The 5% begin with the first line that starts in their first half, or, when no line does, with the first whole UTF-8
 * character. Files must be UTF-8, not be empty, hold no zero byte and not be longer than 2^29 - 1 bytes (the
 * tokenizer's limit). */
int texts_load(Texts *t, const char *const *paths, int n_paths, const char *val, Err *err);
void texts_free(Texts *t);

/* A place in a file: the line counts from 1, the byte from 0. */
typedef struct TextPlace {
    int64_t line, byte;
} TextPlace;
#define TEXT_START ((TextPlace){.line = 1})

/* Refuses zero bytes and what is no UTF-8 in data[0..n), which begins `at`. Bytes of another encoding would be learnt,
 * but no request can hold them and no answer show them. */
int text_check(const char *path, TextPlace at, const char *data, size_t n, Err *err);

/* Where the text data[0..n) is cut: bytes 0..cut-1 are trained on. */
size_t texts_cut(const char *data, size_t n);

#endif
