/* line_reader: a file of lines, of which none has to fit into memory but those that are wanted. */
#ifndef NOISED_BATCH_LINE_READER_H
#define NOISED_BATCH_LINE_READER_H

#include "base/buffer.h"

typedef struct LineReader {
    const char *path; /* borrowed, for messages */
    int fd;           /* borrowed; read from its beginning by pread, so that its position is nobody's business */
    size_t most;      /* bytes of a line that is kept */
    int64_t number;   /* of the line read last, from 1 */
    Buffer text;      /* its bytes, without the newline; empty where they are too many */
    size_t length;    /* their number */
    bool whole;       /* it ends in a newline */
    /* ---- its own ---- */
    char chunk[1 << 16];
    size_t at, n;   /* what of the chunk is not used yet */
    uint64_t place; /* of the next chunk */
} LineReader;

/* 1: a line, 0: the end, -1 with err. Lines of blanks count, and are handed out. */
int line_reader_next(LineReader *l, Err *err);
void line_reader_free(LineReader *l);

/* How many there are, a last one without newline too; -1 with err. */
int64_t line_reader_count(int fd, const char *path, Err *err);

#endif
