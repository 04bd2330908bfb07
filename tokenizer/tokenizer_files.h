/* tokenizer_files: the tokenizer of a checkpoint folder, as whichever files are there.
 *
 *     tokenizer.json               tokenizer_json.h, as tokenizer_config.h changes it
 *     vocab.json and merges.txt    GPT-2's older form: byte level, GPT-2's split, "<|endoftext|>" special if it is
 *                                  in the vocabulary; more tokens in an added_tokens.json are refused
 *
 * *out is NULL when the folder has neither. */
#ifndef NOISED_TOKENIZER_FILES_H
#define NOISED_TOKENIZER_FILES_H

#include "base/err.h"
#include "tokenizer/tokenizer.h"

int tokenizer_files_load(Tokenizer **out, const char *dir, Err *err);

#endif
