/* agree: what the ranks of a run must agree on before they begin (ranks.h). They share the folder --out, into which
 * rank 0 alone writes; each reads --data for itself.
 *
 * A disagreement fails on all ranks. Its message, which names the first rank that differs, is rank 0's; the others have
 * an empty one. */
#ifndef NOISED_AGREE_H
#define NOISED_AGREE_H

#include "base/options/options.h"
#include "trainer/ranks/ranks.h"

/* -1 when `mine`, below OPTION_TEXT_BYTES, is another on a rank than on rank 0. */
int agree_on(const char *what, const char *mine, Err *err);

int agree_program(Err *err); /* the binary, and the arithmetic of its kernels */
/* Whether --out holds a saved run is what rank 0 has found. */
int agree_folder(const char *out, bool *saved, Err *err);
int agree_options(const CommandLine *line, Err *err); /* all of them, with what follows from others */
/* The contents of the file that an option names. */
int agree_file(const char *option, const char *path, Err *err);
int agree_weights(const void *w, size_t bytes, Err *err);

#endif
