/* guess: which of some names a mistyped word was meant to be. */
#ifndef NOISED_GUESS_H
#define NOISED_GUESS_H

#include <stddef.h>

/* *best = the nearer of *best, *nearest letters from word[0..n), and name; *nearest says from how many on nothing is a
 * guess. A name that shares less than half with the word is none. */
void guess(const char *word, size_t n, const char *name, const char **best, int *nearest);

#endif
