/* sample_tokenizer: a tokenizer learnt from the beginnings of files, in bounded memory: 16 MiB of what is not held out,
 * in equal shares; of many files some. The words that are distinct count up to 2 MiB. Where the files are no longer
 * than their shares, it is what bpe_train learns from all. */
#ifndef NOISED_SAMPLE_TOKENIZER_H
#define NOISED_SAMPLE_TOKENIZER_H

#include "tokenizer/tokenizer.h"

int sample_tokenizer(Tokenizer **out, const char *const *files, int n_files, const char *field, bool hold_out,
                     int vocab_size, Err *err);

#endif
