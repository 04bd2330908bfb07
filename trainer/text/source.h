/* source: a file of texts as a stream of bytes, from front to back: as it lies there, or unpacked where its name ends
 * in .gz (several members too) or .zst (several frames). Memory: some 100 KiB, of .zst its window, 64 MiB at most. */
#ifndef NOISED_SOURCE_H
#define NOISED_SOURCE_H

#include "base/err.h"

typedef struct Source {
    const char *path; /* borrowed */
    int fd;
    bool packed;
    int64_t bytes, modified; /* of the file; nanoseconds */
    int64_t taken;           /* of its bytes, so far */
    struct Unpacker *unpacker;
} Source;

/* Whatever the outcome, source_close takes it. */
int source_open(Source *s, const char *path, Err *err);
/* Up to n bytes, fewer at the end only; -1 on error, which a packed file that is cut short is. */
int64_t source_read(Source *s, char *out, size_t n, Err *err);
/* Passes over n bytes; -1 also when there are fewer. */
int source_skip(Source *s, int64_t n, Err *err);
void source_close(Source *s);
/* -1 unless the file is now as it was when it had these. */
int source_unchanged(const Source *s, int64_t bytes, int64_t modified, Err *err);

/* All bytes that a file unpacks to. */
int source_length(const char *path, int64_t *n, Err *err);

#endif
