/* lines: a text file in memory, line by line. */
#ifndef NOISED_LINES_H
#define NOISED_LINES_H

#include "base/err.h"

enum { LINES_FILE_MAX = 1 << 30 };

typedef struct Lines {
    const char *path;
    char *at, *end;
    int number; /* of the current line, from 1 */
} Lines;

/* Reads path into *file, which is the caller's to free, on failure too. Refuses what is no UTF-8 text, by line. */
int lines_open(Lines *l, const char *path, char **file, Err *err);

/* The next line, made a string in place: NUL for \n; a \r before it and a byte order mark, which joined files have in
 * the middle, gone. NULL behind the last one. */
char *lines_next(Lines *l);
char *lines_next_filled(Lines *l); /* that is not blank */

/* Fills err with "FILE:LINE: " in front; -1. */
int lines_fail(const Lines *l, Err *err, const char *fmt, ...) __attribute__((format(printf, 3, 4)));

bool text_is_blank(const char *text);

#endif
