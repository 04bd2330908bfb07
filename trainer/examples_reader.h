/* examples_reader: what the readers of the formats share (examples.h). */
#ifndef NOISED_EXAMPLES_READER_H
#define NOISED_EXAMPLES_READER_H

#include "trainer/examples.h"

enum { EXAMPLES_FILE_MAX = 1 << 30 };

/* Lines of a file in memory, each made a string in place: NUL for \n; a \r before it and a byte order mark, which
 * joined files have in the middle, gone. */
typedef struct Lines {
    const char *path;
    char *at, *end;
    int number; /* of the current line, from 1 */
} Lines;

/* Reads e->path into e->file; refuses what is no UTF-8 text, by line. */
int lines_open(Lines *l, Examples *e, Err *err);
char *lines_next(Lines *l); /* NULL behind the last one */

/* Fills err with "FILE:LINE: " in front; -1. */
int lines_fail(const Lines *l, Err *err, const char *fmt, ...) __attribute__((format(printf, 3, 4)));

bool text_is_blank(const char *text);

/* Appends a unit; examples_end_example makes all units since the last call an example. Strings are borrowed. */
int examples_add(Examples *e, const Lines *l, const char *text, const char *second, const char *label,
                 const Labels *known, Err *err);
void examples_end_example(Examples *e);

int examples_read_jsonl(Examples *e, const Labels *known, Err *err);
int examples_read_tsv(Examples *e, const Labels *known, Err *err);
int examples_read_cola(Examples *e, const Labels *known, Err *err);
int examples_read_trec(Examples *e, const Labels *known, Err *err);
int examples_read_conll(Examples *e, const Labels *known, Err *err);
int examples_read_idx(Examples *e, const Labels *known, Err *err);
int examples_read_safetensors(Examples *e, const Labels *known, Err *err);

/* Of a whole file of images: n units with labels bytes[0..n), named by their number. */
int examples_label_images(Examples *e, const uint8_t *bytes, const char *path, const Labels *known, Err *err);

#endif
