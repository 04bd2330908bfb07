/* carry: the files beside the weights that a folder needs to be served as the one it was made from, and what of that
 * one stays behind. Nobody loses a file without being told. */
#ifndef NOISED_CARRY_H
#define NOISED_CARRY_H

#include "base/err.h"
#include "model/config.h"

#include <stdio.h>

/* The names of the files that are carried over, up to a NULL. */
extern const char *const carried_files[];

/* Copies those that `from` has into `to`: for a network that generates no text only what describes the tokenizer.
 * `said`, which may be NULL, gets lines: what was carried over, which other files stay behind, but for the weights and
 * the tokenizer, which are written anew, and which keys of config.json mean nothing here. */
int carry_over(const char *from, const char *to, const Config *c, FILE *said, Err *err);

/* Removes them again. */
void carry_withdraw(const char *to);

#endif
