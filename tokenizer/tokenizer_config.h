/* tokenizer_config: what a folder's tokenizer_config.json says of the tokenizer in tokenizer.json, as transformers
 * heeds it. */
#ifndef NOISED_TOKENIZER_CONFIG_H
#define NOISED_TOKENIZER_CONFIG_H

#include "base/err.h"
#include "tokenizer/tokenizer.h"

/* Puts another tokenizer in the place of *t where the file changes it; *t is the caller's in any case. */
int tokenizer_config_apply(Tokenizer **t, const char *dir, Err *err);

#endif
