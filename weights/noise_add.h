/* noise_add: a folder whose model has no noise, written anew as one that has: its weights as they are, and sigmas that
 * a text was asked for (noise_fit.h). At noise_scale 0 it is the model that it was. */
#ifndef NOISED_NOISE_ADD_H
#define NOISED_NOISE_ADD_H

#include "base/err.h"

#include <stdio.h>

/* As checkpoint_convert, which writes the files (convert.h); `text` is a file. Refused by name are models that have
 * noise, that generate no text or have int8 weights, and folders without a tokenizer. */
int checkpoint_add_noise(const char *from, const char *to, const char *text, double budget, FILE *said, Err *err);

#endif
